#pragma once
// The gradients that recurrent layers share.

#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::detail {

// The gradients that follow from those of x and of the hidden gates: of x, weight and bias. The
// states before each row are in the notes from column `before` H on.
inline void recurrent_gradients(const GradientCall& call, const Tensor& dx, const Tensor& dh,
                                const Tensor& notes, std::size_t before) {
  const std::size_t hidden = call.inputs[1].size(1);
  if (call.wanted[0]) call.input_gradients[0].values = dx;
  if (call.wanted[1])
    call.input_gradients[1].values =
        run(call.context, ops::matmul, MatmulSetting{.transpose_a = true, .over_rows = true},
            {dh, notes.slice(1, before * hidden, (before + 1) * hidden)}, call.sequences)[0];
  if (is_wanted(call, 2))
    call.input_gradients[2].values =
        sum_to(call.context, dh, call.inputs[2].shape(), call.sequences);
}

}  // namespace SOMA_NAMESPACE::detail

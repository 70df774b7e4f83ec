#pragma once
// Programs of images are written for fp32. Tensors of other floating types are cast by the Scalar
// engine before and after.

#include <soma/ops/image/widened.hpp>
#include <soma/programs/views/cast.hpp>

namespace SOMA_NAMESPACE::programs {

// The program of an operator whose program for fp32 is `compute`.
template <void (*compute)(Core&, const OperatorCall&)>
void image_program(Core& core, const OperatorCall& call) {
  soma::detail::compute_in_fp32(
      call, [&core](const OperatorCall& wide) { compute(core, wide); },
      [&core](const OperatorCall& one) {
        core.hold(one.inputs[0]);
        core.hold(one.outputs[0]);
        cast(core, one);
      });
}

}  // namespace SOMA_NAMESPACE::programs

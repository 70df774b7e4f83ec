#pragma once
// The interface of the dispatched units. Each unit compiles one family of kernels for every target
// and offers one function, which fills its part of a table for a given target; context.cpp calls
// all of these functions.

#include <soma/kernels/table.hpp>

#include <cstdint>
#include <utility>

namespace SOMA_NAMESPACE::dispatch {

// Targets are Highway's numbers here, so that this header does not include Highway. If a unit is
// not compiled for a target, its function leaves the table unchanged: context.cpp uses only the
// targets that all units have.
void fill_convert(std::int64_t target, Kernels& kernels);
void fill_random(std::int64_t target, Kernels& kernels);
void fill_gemm(std::int64_t target, Kernels& kernels);
void fill_attention(std::int64_t target, Kernels& kernels);
void fill_element(std::int64_t target, Kernels& kernels);
void fill_norm(std::int64_t target, Kernels& kernels);
void fill_loss(std::int64_t target, Kernels& kernels);
void fill_reduce(std::int64_t target, Kernels& kernels);
void fill_embedding(std::int64_t target, Kernels& kernels);
void fill_image(std::int64_t target, Kernels& kernels);
void fill_optimizer(std::int64_t target, Kernels& kernels);
void fill_quantize(std::int64_t target, Kernels& kernels);
void fill_sequence(std::int64_t target, Kernels& kernels);

// Calls Family<target>::fill(part), if `targets` has that bit. Family is specialised in each
// target's pass.
template <std::int64_t targets, template <std::int64_t> class Family, class Part>
void fill_for(std::int64_t target, Part& part) {
  [&]<int... bits>(std::integer_sequence<int, bits...>) {
    const auto try_one = [&]<int bit>(std::integral_constant<int, bit>) {
      if constexpr (((targets >> bit) & 1) != 0)
        if (target == std::int64_t{1} << bit) Family<(std::int64_t{1} << bit)>::fill(part);
    };
    (try_one(std::integral_constant<int, bits>()), ...);
  }
  (std::make_integer_sequence<int, 63>());
}

}  // namespace SOMA_NAMESPACE::dispatch

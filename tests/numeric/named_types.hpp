// A loop over the ready-made minifloat types.
#pragma once

#include <soma/numeric/minifloat.hpp>

namespace soma_test {

// Calls body.template operator()<Number>() for each type.
template <class... Numbers, class Body>
void for_each_type(Body&& body) {
  (body.template operator()<Numbers>(), ...);
}

template <class Body>
void for_each_8_bit_type(Body&& body) {
  using namespace soma;
  for_each_type<fp8_e3m4, fp8_e4m3, fp8_e5m2, fp8_e4m3fn, fp8_e4m3fnuz, fp8_e5m2fnuz, e8m0,
                fp6_e2m3, fp6_e3m2, fp4_e2m1>(body);
}

template <class Body>
void for_each_ready_made_type(Body&& body) {
  for_each_8_bit_type(body);
  for_each_type<soma::bf16, soma::fp16, soma::tf32, soma::minifloat<soma::formats::fp32>>(body);
}

}  // namespace soma_test

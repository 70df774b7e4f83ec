#pragma once
// The element types whose elements are floating-point numbers, for tests that take all of them.

#include <soma/tensor/dtype.hpp>

namespace soma_test {

inline constexpr soma::DType floating_dtypes[] = {
    soma::DType::fp32,         soma::DType::tf32,       soma::DType::fp16,
    soma::DType::bf16,         soma::DType::fp8_e3m4,   soma::DType::fp8_e4m3,
    soma::DType::fp8_e5m2,     soma::DType::fp8_e4m3fn, soma::DType::fp8_e4m3fnuz,
    soma::DType::fp8_e5m2fnuz, soma::DType::e8m0};

}  // namespace soma_test

#pragma once
// Elements of samples, in any type and layout, and comparisons of results.

#include <soma/numeric/codec.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/ops/samples.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

double value_of(const Sample& sample, std::size_t input, std::size_t element);

inline constexpr std::size_t no_input = ~std::size_t{0};

// The layout of a sample's inputs, and the type of floating inputs.
struct Variation {
  bool gaps = false;
  DType dtype = DType::fp32;
  std::size_t poisoned = no_input;  // the input around which other numbers lie
};

DType dtype_in(const SampleInput& input, const Variation& variation);

void store(std::byte* to, DType dtype, double value);

// The value after it was stored in a type.
double stored(DType dtype, double value);

// A tensor in the middle of a longer one whose other elements are all `around`: reading or writing
// beside the tensor is detected, and does no harm.
inline constexpr std::size_t guard_elements = 1024;
Tensor guarded(Context& context, const Shape& shape, DType dtype, double around);

Tensor make_input(Context& context, const Sample& sample, std::size_t input,
                  const Variation& variation);

// The number of a type that is stored at that address.
double number_at(const std::byte* from, DType dtype);

double element_of(const Tensor& contiguous, std::size_t i);

ReferenceTensor to_reference(Context& context, const Tensor& tensor);

double largest(const std::vector<double>& values);

// Half a unit in the last place of a type, relative; where numbers are small, its smallest step.
double rounding_of(DType dtype);

// A message about the largest difference beyond `bound` times the largest magnitude; empty if there
// is none. The wanted value as the type stores it (an overflow, for example) is always correct.
std::string compare(const std::vector<double>& given, const std::vector<double>& wanted,
                    double bound, DType dtype = DType::fp32);

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/values.ipp>
#endif

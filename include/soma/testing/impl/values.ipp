#pragma once
// The functions of values.hpp.

#include <soma/testing/values.hpp>

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

SOMA_INLINE double value_of(const Sample& sample, std::size_t input, std::size_t element) {
  const SampleInput& description = sample.inputs[input];
  if (!description.values.empty()) return description.values[element];
  const std::uint32_t word = random_word({.seed = 2024,
                                          .stream = stream_id(sample.name, "sample"),
                                          .step = static_cast<std::uint32_t>(input),
                                          .index = element});
  const double share = word * 0x1p-32, span = description.high - description.low;
  if (is_floating(description.dtype)) return static_cast<float>(description.low + span * share);
  return description.low + std::floor((span + 1) * share);
}

SOMA_INLINE DType dtype_in(const SampleInput& input, const Variation& variation) {
  return is_floating(input.dtype) && variation.dtype != DType::fp32 ? variation.dtype : input.dtype;
}

SOMA_INLINE void store(std::byte* to, DType dtype, double value) {
  const auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (dtype) {
    case DType::int8:
      return put(static_cast<std::int8_t>(value));
    case DType::uint8:
      return put(static_cast<std::uint8_t>(value));
    case DType::int16:
      return put(static_cast<std::int16_t>(value));
    case DType::uint16:
      return put(static_cast<std::uint16_t>(value));
    case DType::uint32:
      return put(static_cast<std::uint32_t>(value));
    case DType::int32:
      return put(static_cast<std::int32_t>(value));
    case DType::int64:
      return put(static_cast<std::int64_t>(value));
    case DType::boolean:
      return put(value != 0);
    default:
      break;
  }
  const FloatFormat& format = format_of(dtype);
  const std::uint32_t code = encode(format, static_cast<float>(value)) << format.storage_shift();
  std::memcpy(to, &code, size_of(dtype));
}

SOMA_INLINE double stored(DType dtype, double value) {
  if (!is_floating(dtype)) return value;
  const FloatFormat& format = format_of(dtype);
  return static_cast<double>(decode(format, encode(format, static_cast<float>(value))));
}

SOMA_INLINE Tensor guarded(Context& context, const Shape& shape, DType dtype, double around) {
  const std::size_t elements = shape.elements();
  const Tensor whole = Tensor::empty(context, Shape{elements + 2 * guard_elements}, dtype);
  std::byte* data = whole.mutable_raw();
  for (std::size_t i = 0; i < whole.elements(); ++i)
    store(data + i * size_of(dtype), dtype, around);
  return whole.slice(0, guard_elements, guard_elements + elements).reshape(shape);
}

SOMA_INLINE Tensor make_input(Context& context, const Sample& sample, std::size_t input,
                              const Variation& variation) {
  const SampleInput& description = sample.inputs[input];
  if (description.left_out) return {};
  const DType dtype = dtype_in(description, variation);
  Tensor tensor;
  if (variation.gaps && description.shape.rank() > 0) {  // every other element of a longer last row
    const std::size_t last = description.shape.rank() - 1;
    tensor = Tensor::zeros(context, description.shape.with(last, 2 * description.shape[last] + 1),
                           dtype);
    tensor = tensor.slice(last, 1, 1 + 2 * description.shape[last], 2);
  } else {
    // Indices that are read by mistake stay small.
    const double other = is_floating(dtype) ? 3e4 : 1;
    tensor = guarded(context, description.shape, dtype, variation.poisoned == input ? other : 0);
  }
  std::byte* data = tensor.mutable_raw();
  std::size_t element = 0;
  soma::detail::for_each_row(
      tensor.shape(), tensor.strides(), tensor.strides(), [&](std::size_t row, std::size_t) {
        const std::size_t step = tensor.rank() == 0 ? 1 : tensor.strides()[tensor.rank() - 1];
        for (std::size_t i = 0; i < tensor.shape().columns(); ++i)
          store(data + (row + i * step) * size_of(dtype), dtype,
                value_of(sample, input, element++));
      });
  return tensor;
}

SOMA_INLINE double number_at(const std::byte* from, DType dtype) {
  const auto get = [from]<class T>(T number) {
    std::memcpy(&number, from, sizeof number);
    return static_cast<double>(number);
  };
  switch (dtype) {
    case DType::int8:
      return get(std::int8_t{});
    case DType::uint8:
    case DType::boolean:
      return get(std::uint8_t{});
    case DType::int16:
      return get(std::int16_t{});
    case DType::uint16:
      return get(std::uint16_t{});
    case DType::uint32:
      return get(std::uint32_t{});
    case DType::int32:
      return get(std::int32_t{});
    case DType::int64:
      return get(std::int64_t{});
    default:
      break;
  }
  const FloatFormat& format = format_of(dtype);
  std::uint32_t code = 0;
  std::memcpy(&code, from, size_of(dtype));
  return static_cast<double>(decode(format, code >> format.storage_shift()));
}

SOMA_INLINE double element_of(const Tensor& contiguous, std::size_t i) {
  return number_at(contiguous.raw() + i * size_of(contiguous.dtype()), contiguous.dtype());
}

SOMA_INLINE ReferenceTensor to_reference(Context& context, const Tensor& tensor) {
  ReferenceTensor result{tensor.shape(), {}};
  const Tensor plain = contiguous(context, tensor);
  for (std::size_t i = 0; i < plain.elements(); ++i) result.values.push_back(element_of(plain, i));
  return result;
}

SOMA_INLINE double largest(const std::vector<double>& values) {
  double result = 1;
  for (const double value : values) result = (std::max)(result, std::fabs(value));
  return result;
}

SOMA_INLINE double rounding_of(DType dtype) {
  return is_floating(dtype) ? std::ldexp(1.0, -format_of(dtype).mantissa_bits - 1) : 0;
}

SOMA_INLINE std::string compare(const std::vector<double>& given, const std::vector<double>& wanted,
                                double bound, DType dtype) {
  if (given.size() != wanted.size())
    return std::to_string(given.size()) + " elements, wanted " + std::to_string(wanted.size());
  const double limit = bound * largest(wanted);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double best = stored(dtype, wanted[i]);
    const bool right = given[i] == best || (given[i] != given[i] && best != best);
    if (!right && !(std::fabs(given[i] - wanted[i]) <= limit))
      return "element " + std::to_string(i) + " is " + std::to_string(given[i]) + ", wanted " +
             std::to_string(wanted[i]) + " within " + std::to_string(limit) + " (off by " +
             std::to_string(std::fabs(given[i] - wanted[i]) / limit) + " times that)";
  }
  return {};
}

}  // namespace SOMA_NAMESPACE::testing::detail

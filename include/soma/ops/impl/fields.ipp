#pragma once
// The functions of fields.hpp.

#include <soma/ops/fields.hpp>

#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/shape.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

SOMA_INLINE void FieldVisitor::pointer(std::string_view name, const void* address) {
  found_pointer(name, address);
}

SOMA_INLINE void FieldVisitor::visit(std::string_view name, std::optional<DType>& value,
                                     FieldUse use) {
  std::uint8_t number = value ? static_cast<std::uint8_t>(*value) : std::uint8_t{255};
  found({name, use, Field::Kind::unsigned_integer, 1, &number});
  value = number < dtypes.size() ? std::optional<DType>(static_cast<DType>(number)) : std::nullopt;
}

SOMA_INLINE void FieldVisitor::visit(std::string_view name, Shape& value, FieldUse use) {
  std::array<std::size_t, max_rank> sizes{};
  std::size_t rank = value.rank();
  for (std::size_t i = 0; i < rank; ++i) sizes[i] = value[i];
  enter(name);
  found({"rank", use, Field::Kind::unsigned_integer, sizeof rank, &rank});
  for (std::size_t& size : sizes)
    found({"size", use, Field::Kind::unsigned_integer, sizeof size, &size});
  leave();
  if (rank <= sizes.size()) value = Shape(std::span<const std::size_t>(sizes.data(), rank));
}

SOMA_INLINE void fields(FieldVisitor& visitor, Draw& draw) {
  visitor.run_time("seed", draw.seed);
  visitor.key("stream", draw.stream);
  visitor.run_time("step", draw.step);
  visitor.run_time("index", draw.index);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Rounding& rounding) {
  visitor.key("mode", rounding.mode);
  visitor.key("random_bits", rounding.random_bits);
  visitor.key("draws", rounding.draws);
}

SOMA_INLINE void fields(FieldVisitor& visitor, FloatFormat& format) {
  visitor.key("exponent_bits", format.exponent_bits);
  visitor.key("mantissa_bits", format.mantissa_bits);
  visitor.key("bias", format.bias);
  visitor.key("specials", format.specials);
  visitor.key("is_signed", format.is_signed);
  visitor.key("subnormals", format.subnormals);
  visitor.key("overflow", format.overflow);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Scaling& scaling) {
  visitor.key("policy", scaling.policy);
  visitor.key("granularity", scaling.granularity);
  visitor.key("format", scaling.format);
  visitor.key("history", scaling.history);
  visitor.key("margin", scaling.margin);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Quantizer& quantizer) {
  visitor.key("format", quantizer.format);
  visitor.key("rounding", quantizer.rounding);
  visitor.key("scaling", quantizer.scaling);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Accumulation& accumulation) {
  visitor.key("format", accumulation.format);
  visitor.key("chunk", accumulation.chunk);
  visitor.key("promote", accumulation.promote);
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The functions of fields.hpp.

#include <soma/ops/fields.hpp>

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/ops/number_range.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/shape.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

SOMA_INLINE void FieldVisitor::pointer(std::string_view name, const void* address) {
  found_pointer(name, address);
}

SOMA_INLINE void FieldVisitor::visit(std::string_view name, std::optional<DType>& value,
                                     FieldUse use, const NumberRange&) {
  std::uint8_t number = value ? static_cast<std::uint8_t>(*value) : std::uint8_t{255};
  found({name, use, Field::Kind::unsigned_integer, 1, &number});
  value = number < dtypes.size() ? std::optional<DType>(static_cast<DType>(number)) : std::nullopt;
}

SOMA_INLINE void FieldVisitor::visit(std::string_view name, Shape& value, FieldUse use,
                                     const NumberRange&) {
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

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

// Refuses the first number that is outside of its range.
class RangeCheck final : public FieldVisitor {
 public:
  RangeCheck(std::string_view operation, ErrorId id) : operation_(operation), id_(id) {}

  template <class Number>
  void check(std::string_view name, Number number, const NumberRange& range) const {
    if (range.contains(static_cast<double>(number))) return;
    std::string path;
    for (std::size_t i = 0; i < depth_ && i < places_.size(); ++i)
      path.append(places_[i]).append(".");
    fail(range.id == ErrorId{} ? id_ : range.id, operation_, path.append(name), digits_of(number),
         range.describe(std::is_integral_v<Number>));
  }

 private:
  template <class Number>
  static std::string digits_of(Number number) {
    if constexpr (std::is_integral_v<Number>) {
      return std::to_string(number);
    } else if (std::isfinite(number)) {
      std::array<char, 32> digits;
      return {digits.data(),
              std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
    } else {
      return std::isnan(number) ? "NaN" : number > 0 ? "infinity" : "-infinity";
    }
  }
  template <class Number>
  void check_field(const Field& field) const {
    check(field.name, *static_cast<const Number*>(field.value), field.range);
  }

  SOMA_INLINE void found(const Field& field) override;
  void found_pointer(std::string_view, const void*) override {}
  void enter(std::string_view name) override {
    if (depth_ < places_.size()) places_[depth_] = name;
    ++depth_;
  }
  void leave() override { --depth_; }

  // The host's modes must not decide if 1e-45f is above 0.
  FloatEnvironment environment_;
  std::string_view operation_;
  ErrorId id_;
  std::array<std::string_view, 8>
      places_{};  // of structs in structs; names of deeper ones are left out
  std::size_t depth_ = 0;
};

SOMA_INLINE void RangeCheck::found(const Field& field) {
  switch (field.kind) {
    case Field::Kind::boolean:
      return;
    case Field::Kind::floating:
      return field.bytes == sizeof(float) ? check_field<float>(field) : check_field<double>(field);
    case Field::Kind::unsigned_integer:
      if (field.bytes == 1) return check_field<std::uint8_t>(field);
      if (field.bytes == 2) return check_field<std::uint16_t>(field);
      if (field.bytes == 4) return check_field<std::uint32_t>(field);
      return check_field<std::uint64_t>(field);
    case Field::Kind::signed_integer:
      if (field.bytes == 1) return check_field<std::int8_t>(field);
      if (field.bytes == 2) return check_field<std::int16_t>(field);
      if (field.bytes == 4) return check_field<std::int32_t>(field);
      return check_field<std::int64_t>(field);
  }
}

SOMA_INLINE void check_fields(std::string_view operation, void (*list)(FieldVisitor&, void*),
                              void* value, ErrorId id) {
  RangeCheck check(operation, id);
  list(check, value);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void check_range(std::string_view operation, std::string_view name, double value,
                             const NumberRange& range, ErrorId id) {
  detail::RangeCheck(operation, id).check(name, value, range);
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
  visitor.key("rule", scaling.rule);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Quantizer& quantizer) {
  visitor.key("format", quantizer.format);
  visitor.key("rounding", quantizer.rounding);
  visitor.key("scaling", quantizer.scaling);
  visitor.key("rotation", quantizer.rotation.size);
  visitor.key("signs", quantizer.rotation.signs);
  visitor.pointer("own", reinterpret_cast<const void*>(quantizer.own.function));
}

SOMA_INLINE void fields(FieldVisitor& visitor, Accumulation& accumulation) {
  visitor.key("format", accumulation.format);
  visitor.key("chunk", accumulation.chunk);
  visitor.key("promote", accumulation.promote);
}

}  // namespace SOMA_NAMESPACE

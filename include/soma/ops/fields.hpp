#pragma once
// Lists the fields of operators' settings: one function fields(visitor, settings) beside each
// struct of settings. Graphs of calls are compared, written and read field by field, never as
// bytes, because structs have gaps between members and contain pointers.

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

namespace soma {

enum class FieldUse : std::uint8_t {
  key,       // another value is another instruction stream
  run_time,  // may differ from step to step of one graph: steps of draws, rates, corrections
  factor,    // the same, but a program leaves its multiplication out where it is 1
};

// A number in a field: `value` points at it.
struct Field {
  enum class Kind : std::uint8_t { boolean, unsigned_integer, signed_integer, floating };

  std::string_view name;
  FieldUse use = FieldUse::key;
  Kind kind = Kind::boolean;
  std::size_t bytes = 0;  // 1, 2, 4 or 8
  void* value = nullptr;
};

class FieldVisitor;

// A struct with such a function.
template <class T>
concept HasFields = requires(FieldVisitor& visitor, T& value) {
  fields(visitor, value);
};

class FieldVisitor {
 public:
  template <class T>
  void key(std::string_view name, T& value) {
    visit(name, value, FieldUse::key);
  }
  template <class T>
  void run_time(std::string_view name, T& value) {
    visit(name, value, FieldUse::run_time);
  }
  // A floating-point factor: a key holds only if the factor is 1, not its value.
  template <std::floating_point T>
  void factor(std::string_view name, T& value) {
    visit(name, value, FieldUse::factor);
  }
  // The address of an object of the caller's, which is valid during the call only.
  void pointer(std::string_view name, const void* address) { found_pointer(name, address); }

 protected:
  ~FieldVisitor() = default;
  virtual void found(const Field& field) = 0;
  virtual void found_pointer(std::string_view name, const void* address) = 0;
  // Fields between enter() and leave() belong to a member of that name.
  virtual void enter(std::string_view /*name*/) {}
  virtual void leave() {}

 private:
  template <class T>
  void visit(std::string_view name, T& value, FieldUse use) {
    using Kind = Field::Kind;
    if constexpr (std::same_as<T, bool>)
      found({name, use, Kind::boolean, sizeof value, &value});
    else if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>)
      found({name, use, Kind::unsigned_integer, sizeof value, &value});
    else if constexpr (std::floating_point<T>)
      found({name, use, Kind::floating, sizeof value, &value});
    else if constexpr (std::signed_integral<T>)
      found({name, use, Kind::signed_integer, sizeof value, &value});
    else {
      static_assert(HasFields<T>, "a member needs a function fields(visitor, member) of its own");
      enter(name);
      fields(*this, value);
      leave();
    }
  }
  // A result type that may be left to the operator: not set is 255.
  void visit(std::string_view name, std::optional<DType>& value, FieldUse use) {
    std::uint8_t number = value ? static_cast<std::uint8_t>(*value) : std::uint8_t{255};
    found({name, use, Field::Kind::unsigned_integer, 1, &number});
    value =
        number < dtypes.size() ? std::optional<DType>(static_cast<DType>(number)) : std::nullopt;
  }
  void visit(std::string_view name, Shape& value, FieldUse use) {
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
};

// ---- parts of settings

inline void fields(FieldVisitor& visitor, Draw& draw) {
  visitor.run_time("seed", draw.seed);
  visitor.key("stream", draw.stream);
  visitor.run_time("step", draw.step);
  visitor.run_time("index", draw.index);
}
inline void fields(FieldVisitor& visitor, Rounding& rounding) {
  visitor.key("mode", rounding.mode);
  visitor.key("random_bits", rounding.random_bits);
  visitor.key("draws", rounding.draws);
}
inline void fields(FieldVisitor& visitor, FloatFormat& format) {
  visitor.key("exponent_bits", format.exponent_bits);
  visitor.key("mantissa_bits", format.mantissa_bits);
  visitor.key("bias", format.bias);
  visitor.key("specials", format.specials);
  visitor.key("is_signed", format.is_signed);
  visitor.key("subnormals", format.subnormals);
  visitor.key("overflow", format.overflow);
}
inline void fields(FieldVisitor& visitor, Scaling& scaling) {
  visitor.key("policy", scaling.policy);
  visitor.key("granularity", scaling.granularity);
  visitor.key("format", scaling.format);
  visitor.key("history", scaling.history);
  visitor.key("margin", scaling.margin);
}
inline void fields(FieldVisitor& visitor, Quantizer& quantizer) {
  visitor.key("format", quantizer.format);
  visitor.key("rounding", quantizer.rounding);
  visitor.key("scaling", quantizer.scaling);
}
inline void fields(FieldVisitor& visitor, Accumulation& accumulation) {
  visitor.key("format", accumulation.format);
  visitor.key("chunk", accumulation.chunk);
  visitor.key("promote", accumulation.promote);
}

}  // namespace soma

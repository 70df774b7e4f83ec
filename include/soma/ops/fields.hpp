#pragma once
// Lists the fields of operators' settings and of options: one function fields(visitor, struct)
// beside each struct. Graphs of calls are compared, written and read field by field, never as
// bytes, because structs have gaps between members and contain pointers.
//
// The list is also the table of the values that each number may have. run() checks settings;
// whoever takes options checks them with check_ranges().

#include <soma/base/error_ids.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/ops/number_range.hpp>
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
  NumberRange range = any_number;
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
  void key(std::string_view name, T& value, const NumberRange& range = any_number) {
    visit(name, value, FieldUse::key, range);
  }
  template <class T>
  void run_time(std::string_view name, T& value, const NumberRange& range = any_number) {
    visit(name, value, FieldUse::run_time, range);
  }
  // A floating-point factor of any value: a key holds only if the factor is 1, not its value.
  template <std::floating_point T>
  void factor(std::string_view name, T& value) {
    visit(name, value, FieldUse::factor, any_number);
  }
  // A number of a struct that is no operator's setting; an optional number that is not set is left
  // out.
  template <class T>
  void option(std::string_view name, T& value, const NumberRange& range = any_number) {
    visit(name, value, FieldUse::key, range);
  }
  template <class T>
  void option(std::string_view name, std::optional<T>& value, const NumberRange& range) {
    if (value) visit(name, *value, FieldUse::key, range);
  }
  // The address of an object of the caller's, which is valid during the call only.
  void pointer(std::string_view name, const void* address);

 protected:
  ~FieldVisitor() = default;
  virtual void found(const Field& field) = 0;
  virtual void found_pointer(std::string_view name, const void* address) = 0;
  // Fields between enter() and leave() belong to a member of that name.
  virtual void enter(std::string_view /*name*/) {}
  virtual void leave() {}

 private:
  template <class T>
  void visit(std::string_view name, T& value, FieldUse use, const NumberRange& range) {
    using Kind = Field::Kind;
    if constexpr (std::same_as<T, bool>)
      found({name, use, Kind::boolean, sizeof value, &value});
    else if constexpr (std::is_enum_v<T> || std::unsigned_integral<T>)
      found({name, use, Kind::unsigned_integer, sizeof value, &value, range});
    else if constexpr (std::floating_point<T>)
      found({name, use, Kind::floating, sizeof value, &value, range});
    else if constexpr (std::signed_integral<T>)
      found({name, use, Kind::signed_integer, sizeof value, &value, range});
    else {
      static_assert(HasFields<T>, "a member needs a function fields(visitor, member) of its own");
      enter(name);
      fields(*this, value);
      leave();
    }
  }
  // A result type that may be left to the operator: not set is 255.
  void visit(std::string_view name, std::optional<DType>& value, FieldUse use, const NumberRange&);
  void visit(std::string_view name, Shape& value, FieldUse use, const NumberRange&);
};

namespace detail {

// As check_ranges(), for the struct at `value`, which list(visitor, value) lists.
void check_fields(std::string_view operation, void (*list)(FieldVisitor&, void*), void* value,
                  ErrorId id);

}  // namespace detail

// The error `id` for the first number that is outside of its range; the message names the field,
// the number and the range. A few nanoseconds a field.
template <HasFields T>
void check_ranges(std::string_view operation, T values, ErrorId id = error_id::operator_value) {
  detail::check_fields(
      operation,
      [](FieldVisitor& visitor, void* listed) { fields(visitor, *static_cast<T*>(listed)); },
      &values, id);
}
// The same for one number.
void check_range(std::string_view operation, std::string_view name, double value,
                 const NumberRange& range, ErrorId id = error_id::operator_value);

// ---- parts of settings

void fields(FieldVisitor& visitor, Draw& draw);
void fields(FieldVisitor& visitor, Rounding& rounding);
void fields(FieldVisitor& visitor, FloatFormat& format);
void fields(FieldVisitor& visitor, Scaling& scaling);
void fields(FieldVisitor& visitor, Quantizer& quantizer);
void fields(FieldVisitor& visitor, Accumulation& accumulation);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/fields.ipp>
#endif

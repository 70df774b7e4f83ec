#pragma once
// Later: initial values that are not made yet. Modules that are built from a Scope with one have
// parameters with a shape and without elements; make() fills those that are wanted, with the bits
// that they would have had at once. So a process may hold some pieces of a model only.

#include <soma/nn/init.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace soma::nn {

// How some rows of a parameter begin.
struct Initial {
  enum class Kind : std::uint8_t { constant, normal, uniform };

  Kind kind = Kind::constant;
  float number = 0;  // the constant, the deviation, the bound
  Draw draw{};
  std::size_t rows = to_end;  // to_end: all

  static Initial full(float value) { return {.number = value}; }
  static Initial normal(float deviation, const Draw& draw, std::size_t rows = to_end) {
    return {Kind::normal, deviation, draw, rows};
  }
  static Initial uniform(float bound, const Draw& draw) { return {Kind::uniform, bound, draw}; }
};

namespace detail {

inline Tensor make_rows(Context& context, const Shape& shape, const Initial& initial) {
  switch (initial.kind) {
    case Initial::Kind::normal:
      return normal(context, shape, initial.number, initial.draw);
    case Initial::Kind::uniform:
      return uniform(context, shape, initial.number, initial.draw);
    case Initial::Kind::constant:
      break;
  }
  return Tensor::full(context, shape, initial.number);
}

inline Tensor make_initial(Context& context, const Shape& shape, const Initial* begin,
                           const Initial* end) {
  if (end - begin == 1 && begin->rows == to_end) return make_rows(context, shape, *begin);
  const Tensor all = Tensor::empty(context, shape);
  std::size_t row = 0;
  for (; begin != end; ++begin) {
    copy(make_rows(context, shape.with(0, begin->rows), *begin),
         all.slice(0, row, row + begin->rows));
    row += begin->rows;
  }
  return all;
}

}  // namespace detail

class Later {
 public:
  // Of parameters without elements: makes them, in the type that each has.
  void make(Context& context, const Parameters& parameters) const {
    for (const Parameter& parameter : parameters) {
      const Var& var = parameter.var;
      if (var.value().defined()) continue;
      const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                      [&](const Waiting& each) { return each.var.is(var); });
      if (found == waiting_.end())
        fail(error_id::tensor_undefined, "Later::make", soma::quoted(parameter.name),
             "without elements, and without what they begin as", "one made with this object");
      const DType dtype = var.value().dtype();
      const Initial* first = found->initial.data();
      Tensor made =
          detail::make_initial(context, var.shape(), first, first + found->initial.size());
      if (made.dtype() != dtype)
        made = run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {made})[0];
      var.set_value(made);
    }
  }

 private:
  friend Var initial_parameter(const Scope& scope, const Shape& shape,
                               std::initializer_list<Initial> initial);
  struct Waiting {
    Var var;
    std::vector<Initial> initial;
  };
  std::vector<Waiting> waiting_;
};

// A parameter that begins as said: now, or with Scope::later when that is asked.
inline Var initial_parameter(const Scope& scope, const Shape& shape,
                             std::initializer_list<Initial> initial) {
  if (scope.later == nullptr)
    return Var::parameter(
        scope.context, detail::make_initial(scope.context, shape, initial.begin(), initial.end()));
  const Var var = Var::parameter(scope.context, Tensor::outline_of(shape, DType::fp32));
  scope.later->waiting_.push_back({var, {initial.begin(), initial.end()}});
  return var;
}

}  // namespace soma::nn

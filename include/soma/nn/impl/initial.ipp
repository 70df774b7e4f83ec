#pragma once
// The functions of initial.hpp.

#include <soma/nn/initial.hpp>

#include <soma/nn/init.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Initial Initial::full(float value) { return {.number = value}; }

SOMA_INLINE Initial Initial::normal(float standard_deviation, const Draw& draw, std::size_t rows) {
  return {Kind::normal, standard_deviation, draw, rows};
}

SOMA_INLINE Initial Initial::uniform(float bound, const Draw& draw) {
  return {Kind::uniform, bound, draw};
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE Tensor make_rows(Context& context, const Shape& shape, const Initial& initial) {
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

SOMA_INLINE Tensor make_initial(Context& context, const Shape& shape, const Initial* begin,
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

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var initial_parameter(const Scope& scope, const Shape& shape,
                                  std::initializer_list<Initial> initial) {
  if (scope.later == nullptr)
    return Var::parameter(
        scope.context, detail::make_initial(scope.context, shape, initial.begin(), initial.end()));
  const Var var = Var::parameter(scope.context, Tensor::outline_of(shape, DType::fp32));
  scope.later->add(var, initial.begin(), initial.end());
  return var;
}

}  // namespace SOMA_NAMESPACE::nn

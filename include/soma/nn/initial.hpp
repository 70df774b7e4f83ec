#pragma once
// Initial values of parameters. They are made at once, or noted in a store (Scope::later) that
// makes them on demand, with the same bits.

#include <soma/nn/init.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// The initial values of some rows of a parameter.
struct Initial {
  enum class Kind : std::uint8_t { constant, normal, uniform };

  Kind kind = Kind::constant;
  float number = 0;  // the constant, the standard deviation, the bound
  Draw draw{};
  std::size_t rows = to_end;  // to_end: all rows

  static Initial full(float value);
  static Initial normal(float standard_deviation, const Draw& draw, std::size_t rows = to_end);
  static Initial uniform(float bound, const Draw& draw);
};

namespace detail {

Tensor make_rows(Context& context, const Shape& shape, const Initial& initial);

Tensor make_initial(Context& context, const Shape& shape, const Initial* begin, const Initial* end);

}  // namespace detail

// Notes parameters that are made later. Later (nn/later.hpp) implements it.
class InitialStore {
 public:
  virtual ~InitialStore() = default;
  virtual void add(const Var& parameter, const Initial* begin, const Initial* end) = 0;
  // Replaces the initial values of a noted parameter, or of some of its rows: when the parameter is
  // made, fill(context, from, to) writes these rows in fp32. Until then `from` is held and not
  // read, so that it may lie in a file.
  using Fill = void (*)(Context& context, const Tensor& from, const Tensor& to);
  virtual void replace(const Parameter& rows, const Tensor& from, Fill fill) = 0;
  // After that, row i of a whole parameter becomes its former row indices[i].
  virtual void order_rows(const Parameter& parameter, const std::vector<std::size_t>& indices) = 0;

 protected:
  InitialStore() = default;
  InitialStore(const InitialStore&) = default;
  InitialStore& operator=(const InitialStore&) = default;
};

// A parameter with these initial values: made now, or noted in Scope::later if that is set.
Var initial_parameter(const Scope& scope, const Shape& shape,
                      std::initializer_list<Initial> initial);

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/initial.ipp>
#endif

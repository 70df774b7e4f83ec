#pragma once
// The functions of init.hpp.

#include <soma/nn/init.hpp>

#include <soma/kernels/random/random.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/ops/fields.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Tensor normal(Context& context, const Shape& shape, float standard_deviation,
                          const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_normal(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value *= standard_deviation;
  return tensor;
}

SOMA_INLINE Tensor uniform(Context& context, const Shape& shape, float bound, const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_uniform(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value = fused_multiply_add(2 * bound, value, -bound);
  return tensor;
}

SOMA_INLINE Fans fans(const Shape& weight) {
  std::size_t field = 1;
  for (std::size_t i = 2; i < weight.rank(); ++i) field *= weight[i];
  return {weight[1] * field, weight[0] * field};
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE float root_of_ratio(double numerator, std::size_t denominator) {
  return static_cast<float>(
      std::sqrt(numerator / static_cast<double>(denominator == 0 ? 1 : denominator)));
}

// A matrix in double, column by column, with at least as many rows as columns.
struct TallMatrix {
  std::size_t rows, columns;
  std::vector<double> values;

  TallMatrix(std::size_t m, std::size_t n) : rows(m), columns(n), values(m * n) {}
  double& at(std::size_t i, std::size_t j) { return values[j * rows + i]; }

  // The mirror image of a column, where v . v = 2 and v begins at row `first`.
  void reflect(const std::vector<double>& v, std::size_t first, std::size_t column) {
    double product = 0;
    for (std::size_t i = first; i < rows; ++i)
      product = fused_multiply_add(v[i], at(i, column), product);
    for (std::size_t i = first; i < rows; ++i)
      at(i, column) = fused_multiply_add(-product, v[i], at(i, column));
  }

  // Replaces the matrix by Q of its decomposition Q R in which the diagonal of R is positive.
  void make_orthonormal() {
    std::vector<std::vector<double>> mirrors;
    std::vector<double> signs;
    for (std::size_t k = 0; k < columns; ++k) {
      std::vector<double> v(rows, 0.0);
      double squares = 0;
      for (std::size_t i = k; i < rows; ++i) {
        v[i] = at(i, k);
        squares = fused_multiply_add(v[i], v[i], squares);
      }
      // The mirror image of the column is -sign |column| times the unit vector k.
      const double sign = v[k] < 0 ? -1 : 1, length = std::sqrt(squares);
      v[k] += sign * length;
      const double scale = squares + std::fabs(at(k, k)) * length;  // half of v . v
      for (std::size_t i = k; i < rows && scale != 0; ++i) v[i] /= std::sqrt(scale);
      for (std::size_t j = k; j < columns; ++j) reflect(v, k, j);
      signs.push_back(-sign);
      mirrors.push_back(std::move(v));
    }
    // Q is the product of the mirrors, of which each column is built from a unit vector.
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t i = 0; i < rows; ++i) at(i, j) = i == j ? signs[j] : 0;
      for (std::size_t k = columns; k-- > 0;) reflect(mirrors[k], k, j);
    }
  }
};

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Tensor glorot_uniform(Context& context, const Shape& weight, const Draw& draw) {
  const auto [in, out] = fans(weight);
  return uniform(context, weight, detail::root_of_ratio(6, in + out), draw);
}

SOMA_INLINE Tensor glorot_normal(Context& context, const Shape& weight, const Draw& draw) {
  const auto [in, out] = fans(weight);
  return normal(context, weight, detail::root_of_ratio(2, in + out), draw);
}

SOMA_INLINE Tensor truncated_normal(Context& context, const Shape& shape, float standard_deviation,
                                    const Draw& draw, float bound) {
  check_range("truncated_normal", "bound", static_cast<double>(bound), NumberRange::at_least(0.1));
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_normal(context, values, draw);
  // Later rounds draw for all elements, at steps that no training reaches, so that an element's
  // number depends on its own index alone.
  Draw again = draw;
  const Tensor more = Tensor::empty(context, shape);
  const std::span<float> drawn = more.mutable_span<float>();
  const auto beyond = [&](float value) { return !(std::fabs(value) <= bound); };
  while (std::any_of(values.begin(), values.end(), beyond)) {
    --again.step;
    fill_normal(context, drawn, again);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (beyond(values[i])) values[i] = drawn[i];
  }
  const FloatEnvironment environment;
  for (float& value : values) value *= standard_deviation;
  return tensor;
}

SOMA_INLINE Tensor orthogonal(Context& context, const Shape& weight, const Draw& draw, float gain) {
  if (weight.rank() < 2)
    fail(error_id::tensor_rank, "orthogonal", "weight", to_string(weight), "[rows, ...]");
  const std::size_t rows = weight[0], columns = rows == 0 ? 0 : weight.elements() / rows;
  const Tensor drawn = normal(context, weight, 1, draw);
  const FloatEnvironment environment;
  const bool wide = columns > rows;  // orthonormal rows: the transposed matrix has such columns
  detail::TallMatrix matrix(wide ? columns : rows, wide ? rows : columns);
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.columns; ++j)
      matrix.at(i, j) =
          static_cast<double>(drawn.data<float>()[wide ? j * columns + i : i * columns + j]);
  matrix.make_orthonormal();
  Tensor result = Tensor::empty(context, weight);
  float* to = result.mutable_data<float>();
  for (std::size_t i = 0; i < matrix.rows; ++i)
    for (std::size_t j = 0; j < matrix.columns; ++j)
      to[wide ? j * columns + i : i * columns + j] =
          static_cast<float>(static_cast<double>(gain) * matrix.at(i, j));
  return result;
}

SOMA_INLINE Tensor he_normal(Context& context, const Shape& weight, const Draw& draw) {
  return normal(context, weight, detail::root_of_ratio(2, fans(weight).in), draw);
}

SOMA_INLINE Tensor he_uniform(Context& context, const Shape& weight, const Draw& draw) {
  return uniform(context, weight, detail::root_of_ratio(6, fans(weight).in), draw);
}

SOMA_INLINE Tensor lecun_uniform(Context& context, const Shape& shape, std::size_t in,
                                 const Draw& draw) {
  return uniform(context, shape, detail::root_of_ratio(1, in), draw);
}

}  // namespace SOMA_NAMESPACE::nn

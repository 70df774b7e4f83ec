// Small tensors for tests above the kernels, and their elements as plain vectors.
#pragma once

#include <soma/api.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace soma_test {

// fp32 elements drawn evenly between -range and range, the same for the same name.
inline soma::Tensor random_tensor(soma::Context& context, const soma::Shape& shape,
                                  std::string_view name, float range = 1) {
  return soma::nn::uniform(context, shape, range,
                           {.seed = 77, .stream = soma::stream_id(name, "test")});
}
inline soma::Var random_parameter(soma::Context& context, const soma::Shape& shape,
                                  std::string_view name, float range = 1) {
  return soma::Var::parameter(context, random_tensor(context, shape, name, range));
}

inline soma::Tensor floats(soma::Context& context, std::initializer_list<float> values) {
  return soma::Tensor::from(context, values, soma::Shape{values.size()});
}
inline soma::Tensor ints(soma::Context& context, std::initializer_list<std::int32_t> values) {
  return soma::Tensor::from(context, values, soma::Shape{values.size()});
}

// The elements of any tensor, row by row.
inline std::vector<std::byte> bits(soma::Context& context, const soma::Tensor& tensor) {
  const soma::Tensor plain = soma::contiguous(context, tensor);
  return {plain.raw(), plain.raw() + plain.bytes()};
}
inline std::vector<float> values(soma::Context& context, const soma::Tensor& tensor) {
  const soma::Tensor plain = soma::contiguous(context, tensor);
  const std::span<const float> all = plain.span<float>();
  return {all.begin(), all.end()};
}

// |a - b| / |b| of fp32 tensors of one shape, by the Euclidean norm; infinity for other shapes.
inline double distance(soma::Context& context, const soma::Tensor& a, const soma::Tensor& b) {
  if (a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  const std::vector<float> x = values(context, a), y = values(context, b);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from = static_cast<double>(x[i]), to = static_cast<double>(y[i]);
    difference += (from - to) * (from - to);
    norm += to * to;
  }
  return std::sqrt(difference / norm);
}

// The gradient of a parameter as a dense tensor; zeros where none came.
inline soma::Tensor dense_gradient(soma::Context& context, const soma::Var& var) {
  if (!var.gradient().defined()) return soma::Tensor::zeros(context, var.shape());
  return context.built_in().to_dense(context, var.gradient(), var.shape());
}
inline std::vector<float> gradient_values(soma::Context& context, const soma::Var& var) {
  return values(context, dense_gradient(context, var));
}
// All gradients, one after the other.
inline std::vector<std::byte> gradient_bits(soma::Context& context,
                                            const soma::Parameters& parameters) {
  std::vector<std::byte> all;
  for (const soma::Parameter& parameter : parameters) {
    const std::vector<std::byte> own = bits(context, dense_gradient(context, parameter.var));
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace soma_test

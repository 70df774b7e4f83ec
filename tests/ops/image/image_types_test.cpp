// Convolution and max pooling of narrow types: the fp32 result of the widened inputs, rounded once,
// forward and backward.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/stored_run.hpp"

#include <cstring>
#include <string>
#include <vector>

using namespace soma;

namespace {

Tensor numbers(Context& context, const Shape& shape, std::uint64_t seed, DType dtype) {
  std::vector<float> values = soma_test::small_floats(DType::fp32, shape.elements(), seed);
  for (float& value : values) value *= 0.125f;
  Tape tape(context);
  return cast(tape, tape.constant(Tensor::from<float>(context, values, shape)), dtype).value();
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.raw() + tensor.elements() * size_of(tensor.dtype())};
}

struct Results {
  Tensor y;
  std::vector<Tensor> gradients;
};

// The layer and its gradients, for dy = y: with tensors of `dtype`, or their numbers in fp32.
template <class Layer>
Results results(Context& context, const std::vector<Tensor>& tensors, const Layer& layer,
                bool widened) {
  Tape tape(context);
  std::vector<Var> variables;
  for (const Tensor& tensor : tensors) {
    const Tensor wide = cast(tape, tape.constant(tensor), DType::fp32).value();
    variables.push_back(Var::parameter(context, widened ? wide : tensor));
  }
  const Var y = layer(tape, variables);
  // dy is the same in both cases: the rounded y.
  const DType dtype = tensors[0].dtype();
  Tensor dy = widened ? cast(tape, tape.constant(y.value()), dtype).value() : y.value();
  if (widened) dy = cast(tape, tape.constant(dy), DType::fp32).value();
  tape.backward(y, dy);
  Results found{y.value(), {}};
  for (const Var& variable : variables) found.gradients.push_back(variable.gradient().values);
  return found;
}

template <class Layer>
void check(const std::vector<Shape>& shapes, const Layer& layer) {
  auto context = make_context({.threads = 2});
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2,
                            DType::fp8_e4m3fn}) {
    INFO(std::string(to_string(dtype)));
    std::vector<Tensor> tensors;
    for (const Shape& shape : shapes)
      tensors.push_back(numbers(context, shape, tensors.size() + 1, dtype));
    const Results narrow = results(context, tensors, layer, false);
    const Results wide = results(context, tensors, layer, true);
    const auto rounded = [&](const Tensor& tensor, DType type) {
      Tape tape(context);
      return bytes_of(cast(tape, tape.constant(tensor), type).value());
    };
    REQUIRE(narrow.y.dtype() == dtype);
    CHECK(bytes_of(narrow.y) == rounded(wide.y, dtype));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const DType type = narrow.gradients[i].dtype();
      CHECK(type == DType::fp32);  // of parameters
      CHECK(bytes_of(narrow.gradients[i]) == rounded(wide.gradients[i], type));
    }
  }
}

}  // namespace

TEST_CASE("convolutions take every floating type", "[unit][image]") {
  const std::vector<Shape> shapes = {{3, 2, 9, 8}, {5, 2, 3, 3}, {5}};
  check(shapes, [](Tape& tape, const std::vector<Var>& v) {
    return conv2d(tape, v[0], v[1], v[2], {.stride_width = 2, .pad_height = 1, .pad_width = 1});
  });
}

TEST_CASE("max pooling takes every floating type", "[unit][image]") {
  const std::vector<Shape> shapes = {{2, 3, 9, 8}};
  check(shapes, [](Tape& tape, const std::vector<Var>& v) {
    return max_pool2d(tape, v[0], {3, 3, {2, 2, 1, 1}});
  });
}

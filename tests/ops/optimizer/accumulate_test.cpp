// The accumulator of linear and matmul: it reaches every product, forward and backward, and what
// cannot be is refused. How it adds up is in kernels/gemm/rounded_sums_test.cpp.

#include "programs/device_run.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <string>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

// Sums of as many ones stop at 256 in bf16, and do not where they are promoted in time.
constexpr std::size_t size = 300;
constexpr Accumulation stalls{.format = formats::bf16};
constexpr Accumulation promoted{.format = formats::bf16, .promote = 100};

Tensor ones(Context& context, const Shape& shape) {
  const Tensor tensor = Tensor::zeros(context, shape);
  const auto elements = tensor.mutable_span<float>();
  std::fill(elements.begin(), elements.end(), 1.0f);
  return tensor;
}

bool all_are(Context& context, const Tensor& tensor, float value) {
  const std::vector<float> values = soma_test::values(context, tensor);
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == value; });
}

// y and the gradient of x are made of `value` alone, and that of z of as many as segments.
void check(Context& context, const Operator& op, const Attributes& attributes, const Shape& x_shape,
           const Shape& z_shape, float value) {
  const Var x = Var::parameter(context, ones(context, x_shape));
  const Var z = Var::parameter(context, ones(context, z_shape));
  const auto segments = static_cast<float>(x_shape.elements() / z_shape.elements());
  Tape tape(context);
  const Var y = tape.apply(op, attributes, {x, z});
  CHECK(all_are(context, y.value(), value));
  tape.backward(y, ones(context, y.shape()));
  CHECK(all_are(context, soma_test::dense_gradient(context, x), value));
  CHECK(all_are(context, soma_test::dense_gradient(context, z), segments * value));
}

template <class Setting>
Setting with(const Accumulation& accumulation) {
  Setting setting;
  setting.accumulation = accumulation;
  return setting;
}

}  // namespace

TEST_CASE("linear's products, forward and backward, have its accumulator", "[unit][ops]") {
  auto context = make_context({.threads = 2});
  const Shape x{default_shards * size, size}, weight{size, size};
  check(context, ops::linear, LinearSetting{}, x, weight, size);
  check(context, ops::linear, with<LinearSetting>(stalls), x, weight, 256);
  check(context, ops::linear, with<LinearSetting>(promoted), x, weight, size);
}

TEST_CASE("matmul's products, forward and backward, have its accumulator", "[unit][ops]") {
  auto context = make_context({.threads = 2});
  for (const Shape& z : {Shape{size, size}, Shape{2, size, size}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        INFO(to_string(z) << ta << tb);
        // Sums over the rows of x come in segments, one for each shard.
        const Shape x = z.rank() == 2 && !ta ? Shape{default_shards * size, size} : z;
        MatmulSetting setting{.transpose_a = ta, .transpose_b = tb, .accumulation = stalls};
        check(context, ops::matmul, setting, x, z, 256);
        setting.accumulation = promoted;
        check(context, ops::matmul, setting, x, z, size);
      }
}

TEST_CASE("accumulators that cannot be are refused", "[unit][ops]") {
  auto context = make_context({.threads = 1});
  const Tensor x = ones(context, Shape{4, 4});
  const auto refused = [&](const Accumulation& accumulation, const std::string& given) {
    CHECK(message_of([&] {
            run(context, ops::linear, with<LinearSetting>(accumulation), {x, x});
          }) == "linear: accumulation is " + given + " [operator.value]");
    CHECK(message_of([&] {
            run(context, ops::matmul, with<MatmulSetting>(accumulation), {x, x});
          }) == "matmul: accumulation is " + given + " [operator.value]");
  };
  constexpr std::size_t most = Accumulation::most_products;
  const std::string range = "to 4294967296 products";
  refused({.chunk = 0}, "a chunk of 0, wanted 1 " + range);
  refused({.format = formats::bf16, .chunk = 0}, "a chunk of 0, wanted 1 " + range);
  refused({.chunk = most + 1}, "a chunk of 4294967297, wanted 1 " + range);
  refused({.format = formats::bf16, .promote = most + 1},
          "promoted after 4294967297, wanted at most 4294967296 products");
  refused({.format = formats::e8m0}, "e8m0, wanted a format with a sign and a zero");
  refused({.format = {.exponent_bits = 5, .mantissa_bits = 3, .bias = 15, .is_signed = false}},
          "0-5-3 bias 15 ieee, wanted a format with a sign and a zero");
  refused({.format = {.exponent_bits = 9}},
          "1-9-23 bias 127 ieee, wanted exponent_bits from 1 to 8");
  run(context, ops::matmul, with<MatmulSetting>({formats::bf16, most, most}), {x, x});
}

TEST_CASE("a core adds in fp32 only", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  const Tensor x = ones(context, Shape{size, size});
  const soma_test::OnDevice on(context);
  CHECK(message_of([&] {
          run(context, ops::linear, with<LinearSetting>(stalls), {x, x});
        }) ==
        "linear: accumulation is bf16, wanted fp32, which PSUM adds in [neuroncore.rule_broken]");
  CHECK(message_of([&] {
          run(context, ops::matmul, with<MatmulSetting>(stalls), {x, x});
        }) ==
        "matmul: accumulation is bf16, wanted fp32, which PSUM adds in [neuroncore.rule_broken]");
  CHECK(id_of([&] {
          run(context, ops::matmul, with<MatmulSetting>({.chunk = 0}), {x, x});
        }) == "operator.value");
  // fp32 however products are grouped, and the core is as good as before.
  const Accumulation grouped{.chunk = 8, .promote = 64};
  CHECK(all_are(context, run(context, ops::linear, with<LinearSetting>(grouped), {x, x})[0], size));
  CHECK(all_are(context, run(context, ops::matmul, with<MatmulSetting>(grouped), {x, x})[0], size));
}

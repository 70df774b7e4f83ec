// Weights that are packed once: the bits of products without, also after a weight has changed; and
// which panels are kept.

#include <soma/ops/built_in.hpp>
#include <soma/ops/product/packed_weights.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>

using namespace soma;
using namespace soma_test;

namespace {

Tensor product(Context& context, const Tensor& x, const Tensor& weight, PackedWeights* packed) {
  const Tensor bias = random_tensor(context, Shape{weight.size(0)}, "bias");
  return run(context, *context.built_in().linear,
             LinearSetting{.activation = Activation::gelu, .packed = packed}, {x, weight, bias})[0];
}

Tensor as(Context& context, const Tensor& tensor, DType dtype) {
  return run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {tensor})[0];
}

}  // namespace

TEST_CASE("packed weights change no bit, whatever rows, threads and types", "[unit][invariance]") {
  for (const int threads : {1, 2, 3, 7})
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      auto context = make_context({.threads = threads});
      PackedWeights packed(context);
      // More than one block of k, columns that are 4 KiB apart, and a head of two classes.
      const Shape shapes[] = {{70, 64}, {100, 1024}, {40, 1500}, {2, 24}};
      std::vector<Tensor> weights;
      for (const Shape& shape : shapes)
        weights.push_back(as(context, random_tensor(context, shape, "weight"), dtype));
      for (const Tensor& weight : weights)
        for (const std::size_t rows : {1, 4, 5, 7, 8, 15, 16, 23, 34, 55, 65, 130, 300}) {
          const Tensor x =
              as(context, random_tensor(context, Shape{rows, weight.size(1)}, "x"), dtype);
          INFO(threads << " threads, " << to_string(dtype) << ", " << rows << " rows, "
                       << weight.describe());
          CHECK(bits(context, product(context, x, weight, &packed)) ==
                bits(context, product(context, x, weight, nullptr)));
        }
      CHECK(packed.weights() == weights.size());
      CHECK(packed.bytes() >= (70 * 64 + 100 * 1024 + 40 * 1500 + 2 * 24) * size_of(dtype));
    }
}

TEST_CASE("the matrices among parameters are packed at once", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var weight = Var::parameter(context, random_tensor(context, Shape{70, 64}, "weight"));
  const Var bias = Var::parameter(context, random_tensor(context, Shape{70}, "bias"));
  PackedWeights packed(context);
  // A variable under two names is packed once.
  packed.pack_all(Parameters{{.name = "weight", .var = weight},
                             {.name = "bias", .var = bias},
                             {.name = "tied", .var = weight}});
  CHECK(packed.holds(weight.value()));
  CHECK(packed.weights() == 1);
}

TEST_CASE("a weight that has changed is packed anew", "[unit]") {
  auto context = make_context({.threads = 1});
  PackedWeights packed(context);
  const Tensor held = random_tensor(context, Shape{70, 64}, "held");
  packed.pack(held);
  CHECK(packed.holds(held));
  held.mutable_data<float>()[0] = 1;
  CHECK_FALSE(packed.holds(held));
  packed.clear();
  const Tensor x = random_tensor(context, Shape{20, 64}, "x");
  Tensor weight = random_tensor(context, Shape{70, 64}, "weight");
  const auto check = [&] {
    CHECK(bits(context, product(context, x, weight, &packed)) ==
          bits(context, product(context, x, weight, nullptr)));
    CHECK(packed.weights() == 1);
  };
  check();
  weight.mutable_data<float>()[17] = 3;  // in its place
  check();
  // Another storage at the same address with the same number of writes.
  for (int i = 0; i < 3; ++i) {
    weight = Tensor();
    weight = random_tensor(context, Shape{70, 64}, i % 2 == 0 ? "second" : "third");
    check();
  }
  packed.clear();
  CHECK(packed.bytes() == 0);
  packed.pack(weight);
  CHECK(packed.weights() == 1);
  check();
  // Activations of another type read the same panels of an fp32 weight as they read the weight.
  const Tensor narrow = as(context, x, DType::bf16);
  CHECK(bits(context, product(context, narrow, weight, &packed)) ==
        bits(context, product(context, narrow, weight, nullptr)));
}

TEST_CASE("what packed weights refuse", "[unit]") {
  auto context = make_context({.threads = 1});
  PackedWeights packed(context);
  CHECK(id_of([&] { packed.pack(random_tensor(context, Shape{3}, "x")); }) == "tensor.rank");
  const Tensor whole = Tensor::zeros(context, Shape{8, 8}, DType::int8);
  CHECK(id_of([&] { packed.pack(whole); }) == "tensor.dtype");
  const Tensor eights = random_tensor(context, Shape{8, 8}, "x");
  CHECK(id_of([&] { packed.pack(eights, DType::int32); }) == "tensor.dtype");
  CHECK_FALSE(packed.holds(eights));
  CHECK(packed.weights() == 0);
  CHECK(id_of([&] { Tape(context, {.packed = &packed}); }) == "autograd.options");
  // An accumulator of another format reads no panels.
  const Tensor x = random_tensor(context, Shape{20, 64}, "x");
  const Tensor weight = random_tensor(context, Shape{70, 64}, "weight");
  const LinearSetting how{.accumulation = {.format = formats::bf16}, .packed = &packed};
  LinearSetting plain = how;
  plain.packed = nullptr;
  const Operator& linear = *context.built_in().linear;
  CHECK(bits(context, run(context, linear, how, {x, weight})[0]) ==
        bits(context, run(context, linear, plain, {x, weight})[0]));
  CHECK(packed.weights() == 0);
}

// The types of gradients: an operator gets the gradient of a result in the result's type, whatever
// the operators behind it return; gradients of parameters are summed in fp32 and rounded once.

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/losses.hpp>
#include <soma/autograd/recompute.hpp>
#include <soma/autograd/sequence_functions.hpp>
#include <soma/ops/product_formats.hpp>

#include "autograd/custom_operators.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

Tensor in_type(Context& context, const Tensor& tensor, DType type) {
  return run(context, *context.built_in().cast, CastSetting{.dtype = type}, {tensor})[0];
}

std::vector<float> floats_of(Context& context, const Tensor& tensor) {
  const Tensor plain = contiguous(context, in_type(context, tensor, DType::fp32));
  const std::span<const float> all = plain.span<float>();
  return {all.begin(), all.end()};
}

// y = 2 x. Notes the types that its gradient is given, and returns its own in another.
struct Noting {
  DType given = DType::int8, returned = DType::fp32;
};

const Operator& noting_operator(Noting& noting) {
  static Operator record{.name = "test::noting",
                         .shape =
                             [](const ShapeCall& call) {
                               call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                             },
                         .host =
                             [](const OperatorCall& call) {
                               const Tensor& x = call.inputs[0];
                               const Operator& add = call.context.built_in().of(Binary::add);
                               copy(run(call.context, add, {}, {x, x})[0], call.outputs[0]);
                             },
                         .gradient =
                             [](const GradientCall& call) {
                               auto& note = *static_cast<Noting*>(const_cast<void*>(call.state));
                               const Tensor& dy = call.output_gradients[0];
                               note.given = dy.dtype();
                               const Operator& add = call.context.built_in().of(Binary::add);
                               const Tensor dx = run(call.context, add, {}, {dy, dy})[0];
                               call.input_gradients[0].values =
                                   in_type(call.context, dx, note.returned);
                             }};
  record.state = &noting;
  return record;
}

// What a receiver gets.
struct Received final : GradientReceiver {
  void receive(const Var&, Gradient addend) override { addends.push_back(std::move(addend)); }
  void complete(const Var&, DType type) override { completed.push_back(type); }
  std::vector<Gradient> addends;
  std::vector<DType> completed;
};

// Stores gradients of matrices in bf16.
struct NarrowMatrices final : ProductFormats {
  LinearFormats* formats(const ProductPlace&) override { return nullptr; }
  DType gradient_type(const Shape& shape) const override {
    return shape.rank() < 2 ? DType::fp32 : DType::bf16;
  }
};

// A use of a parameter beside hidden states x of type bf16.
struct Use {
  std::string name;
  Shape x, parameter;
  std::function<Var(Tape&, const Var& x, const Var& parameter)> function;
};

std::vector<Use> uses() {
  const auto rows = [](Tape& tape, const Var& x) {
    return tape.with_sequences(
        x, Sequences::from_lengths(tape.context(), std::vector<std::size_t>{x.shape()[0]}, {}));
  };
  return {
      {"add", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return add(t, x, p); }},
      {"add, shapes equal", {1, 3}, {1, 3}, [](auto& t, auto& x, auto& p) { return add(t, x, p); }},
      {"sub", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return sub(t, x, p); }},
      {"mul", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return mul(t, x, p); }},
      {"mul, shapes equal", {1, 3}, {1, 3}, [](auto& t, auto& x, auto& p) { return mul(t, x, p); }},
      {"div", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return div(t, x, p); }},
      {"maximum", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return maximum(t, x, p); }},
      {"linear", {4, 3}, {2, 3}, [](auto& t, auto& x, auto& p) { return linear(t, x, p); }},
      {"bias",
       {4, 3},
       {2},
       [](auto& t, auto& x, auto& p) {
         return linear(t, x, t.constant(Tensor::full(t.context(), {2, 3}, 1.0f)), p);
       }},
      {"residual",
       {4, 3},
       {4, 2},
       [](auto& t, auto& x, auto& p) {
         return linear(t, x, t.constant(Tensor::full(t.context(), {2, 3}, 1.0f)), {}, {}, p);
       }},
      {"matmul", {4, 3}, {3, 2}, [](auto& t, auto& x, auto& p) { return matmul(t, x, p); }},
      {"matmul of stacks",
       {2, 4, 3},
       {2, 3, 2},
       [](auto& t, auto& x, auto& p) { return matmul(t, x, p); }},
      {"transpose",
       {4, 3},
       {2, 3},
       [](auto& t, auto& x, auto& p) { return matmul(t, x, transpose(t, p, 0, 1)); }},
      {"reshape",
       {4, 3},
       {6},
       [](auto& t, auto& x, auto& p) {
         return matmul(t, x, reshape(t, p, Shape{3, 2}));
       }},
      {"slice",
       {4, 3},
       {5, 2},
       [](auto& t, auto& x, auto& p) { return matmul(t, x, slice(t, p, 0, 1, 4)); }},
      {"cast",
       {4, 3},
       {3, 2},
       [](auto& t, auto& x, auto& p) { return matmul(t, x, cast(t, p, DType::bf16)); }},
      {"concatenate",
       {4, 3},
       {2, 2},
       [](auto& t, auto& x, auto& p) {
         return matmul(t, x, concatenate(t, {p, slice(t, p, 0, 0, 1)}, 0));
       }},
      {"tanh", {4, 3}, {3, 2}, [](auto& t, auto& x, auto& p) { return matmul(t, x, tanh(t, p)); }},
      {"conv2d",
       {2, 1, 4, 4},
       {2, 1, 3, 3},
       [](auto& t, auto& x, auto& p) { return conv2d(t, x, p); }},
      {"conv_transpose2d",
       {2, 1, 3, 3},
       {1, 2, 2, 2},
       [](auto& t, auto& x, auto& p) { return conv_transpose2d(t, x, p); }},
      {"layer_norm", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return layer_norm(t, x, p, p); }},
      {"rms_norm", {4, 3}, {3}, [](auto& t, auto& x, auto& p) { return rms_norm(t, x, p); }},
      {"embedding",
       {4, 3},
       {5, 3},
       [](auto& t, auto& x, auto& p) {
         const Tensor ids = Tensor::from<std::int32_t>(t.context(), {0, 3, 3, 1}, {4});
         return mul(t, x, embedding(t, p, t.constant(ids)));
       }},
      {"gru",
       {4, 6},
       {6, 2},
       [rows](auto& t, auto& x, auto& p) { return gru(t, rows(t, x), p).rows; }},
      {"lstm",
       {4, 8},
       {8, 2},
       [rows](auto& t, auto& x, auto& p) { return lstm(t, rows(t, x), p).rows; }},
  };
}

// The addends for a parameter of type `stored`, beside x of type `hidden`.
std::vector<Gradient> addends_of(Context& context, const Use& use, DType hidden, DType stored) {
  Received received;
  Tape tape(context, {.receiver = &received});
  const auto values = [&](const Shape& shape, const char* name, DType type) {
    return in_type(context, in_type(context, random_tensor(context, shape, name), DType::bf16),
                   type);
  };
  const Var x = tape.input(values(use.x, "x", hidden));
  const Var parameter = Var::parameter(context, values(use.parameter, "p", stored));
  const Var y = use.function(tape, x, parameter);
  tape.backward(y, in_type(context, values(y.shape(), "dy", DType::fp32), DType::bf16));
  return std::move(received.addends);
}

}  // namespace

TEST_CASE("an operator gets gradients in the type of its result", "[unit]") {
  auto context = make_context();
  const Tensor numbers = Tensor::from<float>(context, {1, -2, 3, 4, 5, 6}, {2, 3});
  using Function = std::function<Var(Tape&, const Var&)>;
  const std::pair<const char*, Function> readers[] = {
      {"mean", [](Tape& t, const Var& x) { return mean(t, x, 2); }},
      {"cast", [](Tape& t, const Var& x) { return cast(t, x, DType::fp32); }},
      {"maximum", [](Tape& t, const Var& x) { return maximum(t, x, x); }},
      {"first rows", [](Tape& t, const Var& x) { return slice(t, x, 0, 0, 1); }},
      {"softmax", [](Tape& t, const Var& x) { return softmax(t, x); }},
      {"mse", [](Tape& t, const Var& x) { return mse_loss(t, x, t.constant(x.value())); }},
  };
  for (const auto& [name, reader] : readers)
    for (const DType type : {DType::fp32, DType::bf16, DType::fp16})
      for (const DType returned : {DType::fp32, DType::bf16, DType::fp16}) {
        INFO(name << " " << to_string(type) << " " << to_string(returned));
        Noting noting{.returned = returned};
        Tape tape(context);
        const Var x = Var::parameter(context, numbers);
        const Var hidden = tape.apply(noting_operator(noting), {}, {cast(tape, x, type)});
        const Var y = reader(tape, hidden);
        tape.backward(y, in_type(context, Tensor::full(context, y.shape(), 1.0f), DType::bf16));
        CHECK(noting.given == type);
        CHECK(x.gradient().values.dtype() == DType::fp32);
      }
}

TEST_CASE("losses and means take gradients of any type", "[unit][grad]") {
  auto context = make_context();
  const auto labels = [](Tape& t) {
    return t.constant(Tensor::from<std::int64_t>(t.context(), {0, 2}, {2}));
  };
  using Function = std::function<Var(Tape&, const Var&)>;
  const std::pair<const char*, Function> cases[] = {
      {"mean", [](Tape& t, const Var& x) { return mean(t, x); }},
      {"sum of columns", [](Tape& t, const Var& x) { return sum(t, x, 2); }},
      {"mse",
       [](Tape& t, const Var& x) {
         return mse_loss(t, x, t.constant(Tensor::zeros(t.context(), {2, 3})));
       }},
      {"l1 none",
       [](Tape& t, const Var& x) {
         return l1_loss(t, x, t.constant(Tensor::zeros(t.context(), {2, 3})), LossReduction::none);
       }},
      {"cross entropy", [&](Tape& t, const Var& x) { return cross_entropy(t, x, labels(t)); }},
      {"nll", [&](Tape& t, const Var& x) { return nll_loss(t, log_softmax(t, x), labels(t)); }},
      {"cosine",
       [](Tape& t, const Var& x) {
         return cosine_embedding_loss(t, x, t.constant(Tensor::full(t.context(), {2, 3}, 1.0f)),
                                      t.constant(Tensor::full(t.context(), {2}, 1.0f)));
       }},
  };
  for (const auto& [name, function] : cases) {
    INFO(name);
    std::vector<float> found[2];
    for (const bool narrow : {false, true}) {
      Tape tape(context);
      const Var x =
          Var::parameter(context, Tensor::from<float>(context, {1, 2, 3, 4, 5, 6}, {2, 3}));
      Var factor = tape.constant(Tensor::full(context, {}, 2.0f));
      if (narrow) factor = cast(tape, factor, DType::bf16);
      const Var y = mul(tape, factor, function(tape, x));
      CHECK(y.value().dtype() == (narrow ? DType::bf16 : DType::fp32));
      tape.backward(y, Tensor::full(context, y.shape(), 1.0f));
      found[narrow] = floats_of(context, x.gradient().values);
    }
    // 1 and 2 are the same in both types.
    CHECK(found[0] == found[1]);
  }
}

TEST_CASE("gradients of parameters arrive in fp32, whatever their neighbours are", "[unit]") {
  auto context = make_context();
  for (const Use& use : uses())
    for (const DType stored : {DType::fp32, DType::bf16, DType::fp16}) {
      INFO(use.name << ", parameter " << to_string(stored));
      const std::vector<Gradient> narrow = addends_of(context, use, DType::bf16, stored),
                                  wide = addends_of(context, use, DType::fp32, DType::fp32);
      REQUIRE(!narrow.empty());
      REQUIRE(narrow.size() == wide.size());
      for (std::size_t i = 0; i < narrow.size(); ++i) {
        CHECK(narrow[i].values.dtype() == DType::fp32);
        CHECK(!narrow[i].rounded);
        // All operands are numbers of bf16, and sums of fp32 have errors of at most their length
        // times 2^-24. Rounding to bf16 or fp16 on the way would have errors of 2^-9 or 2^-12.
        const std::vector<float> got = floats_of(context, narrow[i].values),
                                 wanted = floats_of(context, wide[i].values);
        REQUIRE(got.size() == wanted.size());
        float worst = 0, largest = 0;
        for (std::size_t k = 0; k < got.size(); ++k) {
          worst = std::max(worst, std::fabs(got[k] - wanted[k]));
          largest = std::max(largest, std::fabs(wanted[k]));
        }
        CHECK(largest > 0);
        CHECK(worst <= 0x1p-17f * largest);
      }
    }
}

TEST_CASE("a sum of batches keeps every addend", "[unit]") {
  auto context = make_context();
  for (const Use& use : uses())
    for (const DType stored : {DType::fp32, DType::bf16}) {
      if (use.name == "tanh" || use.name == "layer_norm" || use.name == "rms_norm" ||
          use.name == "gru" || use.name == "lstm" || use.name == "div" || use.name == "maximum")
        continue;  // gradients that are no whole numbers
      INFO(use.name << ", parameter " << to_string(stored));
      const Var parameter = Var::parameter(
          context, in_type(context, Tensor::full(context, use.parameter, 1.0f), stored));
      std::vector<float> once;
      for (int i = 0; i < 300; ++i) {
        Tape tape(context);
        const Var x =
            tape.constant(in_type(context, Tensor::full(context, use.x, 1.0f), DType::bf16));
        const Var y = use.function(tape, x, parameter);
        tape.backward(y, Tensor::full(context, y.shape(), 1.0f));
        if (i == 0)
          once = floats_of(
              context, context.built_in().to_dense(context, parameter.gradient(), use.parameter));
      }
      for (float& value : once) value *= 300;
      CHECK(floats_of(context, context.built_in().to_dense(context, parameter.gradient(),
                                                           use.parameter)) == once);
    }
}

TEST_CASE("a gradient is rounded once, when all uses have been added", "[unit]") {
  auto context = make_context();
  NarrowMatrices narrow;
  // In bf16 1 + 2^-8 is 1, and 1 + 2^-7 is a number: three uses keep it, if nothing is rounded
  // before the end.
  const auto term = [&](Tape& tape, const Var& w, float factor) {
    const Tensor x = Tensor::full(context, {1, 1}, factor);
    return matmul(tape, tape.constant(in_type(context, x, DType::bf16)), w);
  };
  using Function = std::function<Var(Tape&, const Var&)>;
  const auto all = [&](Tape& tape, const Var& w) {
    return add(tape, add(tape, term(tape, w, 0x1p-8f), term(tape, w, 0x1p-8f)), term(tape, w, 1));
  };
  const std::pair<const char*, Function> cases[] = {
      {"three uses", all},
      {"recomputed",
       [&](Tape& tape, const Var& w) {
         return recompute(tape, std::span(&w, 1),
                          [&](Tape& t, std::span<const Var> in) { return all(t, in[0]); });
       }},
      {"recomputed in part",
       [&](Tape& tape, const Var& w) {
         // The function's own sum is no number of bf16.
         const Var outside = term(tape, w, 0x1p-8f);
         return recompute(tape, std::span(&outside, 1), [&](Tape& t, std::span<const Var> in) {
           return add(t, add(t, term(t, w, 1), term(t, w, 0x1p-8f)), in[0]);
         });
       }},
      {"a first use without a gradient",
       [&](Tape& tape, const Var& w) {
         term(tape, w, 5);
         return all(tape, w);
       }},
      {"through a view",
       [&](Tape& tape, const Var& w) { return all(tape, transpose(tape, w, 0, 1)); }},
  };
  for (const auto& [name, function] : cases) {
    INFO(name);
    const Var w =
        Var::parameter(context, in_type(context, Tensor::full(context, {1, 1}, 1.0f), DType::bf16));
    Tape tape(context, {.precision = &narrow});
    const Var y = function(tape, w);
    tape.backward(y);
    CHECK(w.gradient().values.dtype() == DType::bf16);
    CHECK(floats_of(context, w.gradient().values) == std::vector<float>{1 + 0x1p-7f});
  }
  // A single use is rounded by the product itself, from its fp32 sum; vectors stay fp32.
  const Var w = Var::parameter(context, Tensor::full(context, {3, 1}, 1.0f));
  const Var b = Var::parameter(context, Tensor::zeros(context, {1}));
  Tape tape(context, {.precision = &narrow});
  const Var x = tape.constant(
      in_type(context, Tensor::from<float>(context, {1, 2, 3, 4, 5, 6}, {2, 3}), DType::bf16));
  tape.backward(sum(tape, add(tape, matmul(tape, x, w), b)));
  CHECK(w.gradient().values.dtype() == DType::bf16);
  CHECK(floats_of(context, w.gradient().values) == std::vector<float>{5, 7, 9});
  CHECK(b.gradient().values.dtype() == DType::fp32);
  CHECK(floats_of(context, b.gradient().values) == std::vector<float>{2});
}

TEST_CASE("a receiver learns when a parameter has all its terms, and what was rounded", "[unit]") {
  auto context = make_context();
  NarrowMatrices narrow;
  Received received;
  Tape tape(context, {.precision = &narrow, .receiver = &received});
  const Var w = Var::parameter(context, Tensor::full(context, {2, 2}, 1.0f));
  const Var x = tape.constant(in_type(context, Tensor::full(context, {3, 2}, 1.0f), DType::bf16));
  tape.backward(sum(tape, add(tape, matmul(tape, x, w), linear(tape, x, w))));
  CHECK(received.addends.size() == 2);
  for (const Gradient& addend : received.addends) CHECK(addend.values.dtype() == DType::fp32);
  CHECK(received.completed == std::vector<DType>{DType::bf16});

  // An operator that wants its own types between a product and the parameter.
  Noting noting{.returned = DType::bf16};
  received.addends.clear();
  const Var bf16 =
      Var::parameter(context, in_type(context, Tensor::full(context, {2, 2}, 1.0f), DType::bf16));
  const Var y = matmul(tape, x, tape.apply(noting_operator(noting), {}, {bf16}));
  tape.backward(sum(tape, y));
  REQUIRE(received.addends.size() == 1);
  CHECK(noting.given == DType::bf16);
  CHECK(received.addends[0].values.dtype() == DType::fp32);
  CHECK(received.addends[0].rounded);
}

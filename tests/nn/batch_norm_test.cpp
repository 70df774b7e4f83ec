// Batch norm: its running statistics, recomputation, what it refuses; Sequential and its pieces.
// (Its numbers are PyTorch's: tests/oracle/pytorch_cases_test.cpp. Ranks: tests/train.)

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::id_of;
using soma_test::random_tensor;
using soma_test::values;

namespace {

struct Running {
  std::vector<std::byte> mean, variance;
  bool operator==(const Running&) const = default;
};
Running running_of(Context& context, const nn::BatchNorm& norm) {
  return {bits(context, norm.running_mean.value()), bits(context, norm.running_var.value())};
}

}  // namespace

TEST_CASE("running statistics advance once a batch, in the order of the batches",
          "[unit][layers]") {
  auto context = make_context();
  const nn::BatchNorm2d norm(nn::Scope{context}, 3, {.momentum = 0.25f});
  std::vector<double> mean(3, 0.0), variance(3, 1.0);
  Tape tape(context);
  for (int step = 0; step < 3; ++step) {
    const Tensor x = random_tensor(context, Shape{4, 3, 2, 5}, "x" + std::to_string(step), 3);
    const auto in = values(context, x);
    for (std::size_t c = 0; c < 3; ++c) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < in.size(); ++i)
        if (i / 10 % 3 == c) sum += static_cast<double>(in[i]);
      for (std::size_t i = 0; i < in.size(); ++i)
        if (i / 10 % 3 == c) squares += std::pow(static_cast<double>(in[i]) - sum / 40, 2);
      mean[c] += 0.25 * (sum / 40 - mean[c]);
      variance[c] += 0.25 * (squares / 39 - variance[c]);
    }
    const Var y = norm(tape, tape.constant(x));
    tape.backward(y, random_tensor(context, y.shape(), "dy"));
    // 40 terms of magnitude up to 3, squares up to 9.
    for (std::size_t c = 0; c < 3; ++c) {
      CHECK(std::fabs(static_cast<double>(values(context, norm.running_mean.value())[c]) -
                      mean[c]) < 64 * 3 * 0x1p-24);
      CHECK(std::fabs(static_cast<double>(values(context, norm.running_var.value())[c]) -
                      variance[c]) < 64 * 9 * 0x1p-24);
    }
  }
  // An evaluation reads them, and leaves them as they are.
  const Running before = running_of(context, norm);
  const Tensor x = random_tensor(context, Shape{1, 3, 1, 1}, "one", 3);
  Tape evaluation(context, {.record = false, .training = false});
  const auto y = values(context, norm(evaluation, evaluation.constant(x)).value());
  for (std::size_t c = 0; c < 3; ++c)
    CHECK(std::fabs(static_cast<double>(y[c]) -
                    (static_cast<double>(values(context, x)[c]) - mean[c]) /
                        std::sqrt(variance[c] + 1e-5)) < 64 * 4 * 0x1p-24);
  CHECK(running_of(context, norm) == before);
}

TEST_CASE("a part that is recomputed advances running statistics once", "[unit][layers]") {
  auto context = make_context();
  const Tensor x = random_tensor(context, Shape{6, 2}, "x"),
               dy = random_tensor(context, {6, 2}, "dy");
  std::vector<Running> ends;
  std::vector<std::vector<std::byte>> gradients;
  for (const bool again : {false, true}) {
    const nn::BatchNorm1d norm(nn::Scope{context}, 2);
    Tape tape(context);
    for (int step = 0; step < 2; ++step) {
      clear_gradients(nn::parameters(norm));
      const Var in[] = {tape.constant(x)};
      const auto layer = [&](Tape& inner, std::span<const Var> inputs) {
        return relu(inner, norm(inner, inputs[0]));
      };
      const Var y = again ? recompute(tape, in, layer) : layer(tape, in);
      tape.backward(y, dy);
    }
    ends.push_back(running_of(context, norm));
    gradients.push_back(soma_test::gradient_bits(context, nn::parameters(norm)));
  }
  CHECK(ends[0] == ends[1]);
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("what batch norm refuses", "[unit][layers]") {
  auto context = make_context();
  const nn::Scope scope{context};
  Tape tape(context);
  const auto x = [&](const Shape& shape) {
    return tape.constant(random_tensor(context, shape, "x"));
  };
  const nn::BatchNorm1d one(scope / "1", 3);
  const nn::BatchNorm2d two(scope / "2", 3);
  CHECK(id_of([&] { one(tape, x({1, 3})); }) == "operator.value");
  CHECK(id_of([&] { one(tape, x({4, 2})); }) == "tensor.shape");
  CHECK(id_of([&] { one(tape, x({2, 3, 2, 2})); }) == "tensor.rank");
  CHECK(id_of([&] { two(tape, x({2, 3, 2})); }) == "tensor.rank");
  CHECK(id_of([&] { two(tape, x({1, 3, 1, 2})); }) == "no error");
  CHECK(id_of([&] { nn::GroupNorm(scope / "3", 2, 3); }) == "operator.value");
  // No optimizer steps the statistics: they never have a gradient.
  tape.backward(two(tape, x({2, 3, 2, 2})), random_tensor(context, {2, 3, 2, 2}, "dy"));
  CHECK(two.weight.gradient().defined());
  CHECK_FALSE(two.running_mean.gradient().defined());
}

TEST_CASE("statistics of another type end a training step before it, with the layer's name",
          "[unit][layers]") {
  auto context = make_context();
  const nn::BatchNorm1d norm(nn::Scope{context} / "norm", 2);
  const auto narrow = [&](const Var& var) {
    Tape tape(context, {.record = false});
    var.set_value(clone(context, cast(tape, tape.constant(var.value()), DType::bf16).value()));
  };
  narrow(norm.running_var);
  const Running before = running_of(context, norm);
  const Tensor x = random_tensor(context, Shape{6, 2}, "x");
  Tape tape(context);
  CHECK_THROWS_WITH(norm(tape, tape.constant(x)),
                    "BatchNorm of layer \"norm\": running_var is [2] bf16, wanted fp32 in "
                    "training [tensor.dtype]");
  CHECK(running_of(context, norm) == before);
  // Evaluation: the mean 0 and the variance 1, in any type.
  const auto evaluated = [&] {
    Tape still(context, {.training = false});
    return bits(context, norm(still, still.constant(x)).value());
  };
  const auto wide = [&](const Var& var) {
    Tape still(context, {.record = false});
    var.set_value(clone(context, cast(still, still.constant(var.value()), DType::fp32).value()));
  };
  narrow(norm.running_mean);
  const auto of_narrow = evaluated();
  wide(norm.running_mean);
  wide(norm.running_var);
  CHECK(of_narrow == evaluated());
}

TEST_CASE("Sequential is its modules one after the other, and its pieces are these modules",
          "[unit][layers]") {
  auto context = make_context();
  const nn::Scope root{context, 3};
  nn::Sequential model;
  model.add("first", nn::Linear(root / "first", 5, 4))
      .add("bend", [](Tape& tape, const Var& x) { return relu(tape, x); })
      .add("norm", nn::BatchNorm1d(root / "norm", 4))
      .add("last", nn::Linear(root / "last", 4, 2, {.bias = false}));
  CHECK(id_of([&] { model.add("bend", nn::Flatten()); }) == "state.duplicate_name");
  std::vector<std::string> names;
  for (const Parameter& parameter : nn::parameters(model)) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"first.weight", "first.bias", "norm.weight", "norm.bias",
                                          "norm.running_mean", "norm.running_var", "last.weight"});

  const Tensor x = random_tensor(context, Shape{6, 5}, "x");
  data::Batch batch;
  batch.inputs = {x, Sequences::uniform(context, 6)};
  Tape whole(context), cut(context);
  const Var wanted = model(whole, whole.constant(x));
  Var y;
  std::vector<std::string> of_pieces;
  const nn::Pieces pieces = nn::pieces_of(model);
  REQUIRE(pieces.size() == 4);
  for (const nn::Piece& piece : pieces) {
    y = piece.run(cut, y, batch);
    for (const Parameter& parameter : piece.parameters) of_pieces.push_back(parameter.name);
    CHECK(piece.mixes_sequences == (piece.name == "norm"));
  }
  CHECK(bits(context, y.value()) == bits(context, wanted.value()));
  CHECK(of_pieces == names);
  nn::Sequential outer;
  outer.add("inner", model).add("pool", nn::AdaptiveAveragePool2d(3, 1));
  CHECK(outer.mixes_sequences());
  // A task's identity has the settings of all that have some.
  Record settings;
  outer.describe(settings);
  CHECK(settings.number("inner.norm.momentum") == static_cast<double>(0.1f));
  CHECK(settings.number("inner.norm.epsilon") == static_cast<double>(1e-5f));
  CHECK(settings.count("pool.height") == 3);
  CHECK(settings.entries().size() == 4);
}

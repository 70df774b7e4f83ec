// Modules without parameters, functions that order and count elements, and draws of categories.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

std::vector<std::int64_t> whole_numbers(const Var& x) {
  const std::span<const std::int64_t> all = x.value().span<std::int64_t>();
  return {all.begin(), all.end()};
}

}  // namespace

TEST_CASE("functions, pools and sizes are modules of a Sequential", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Scope root{context, 1};
  nn::Sequential model;
  model.add("conv", nn::Conv2d(root / "conv", 1, 4, 3))
      .add("prelu", nn::Prelu(root / "prelu", 4))
      .add("pool", nn::MaxPool2d())
      .add("up", nn::Upsample({.factor = 2, .bilinear = true}))
      .add("shuffle", nn::PixelShuffle(2))
      .add("drop", nn::Dropout2d(root / "drop", 0.5f))
      .add("same", nn::Identity())
      .add("flat", nn::Flatten())
      .add("relu", nn::Relu())
      .add("out", nn::Linear(root / "out", 256, 6))
      .add("glu", nn::Glu(1))
      .add("leaky", nn::LeakyRelu(0.1f))
      .add("softmax", nn::Softmax());
  const Parameters parameters = nn::parameters(model);
  CHECK(parameters.size() == 5);
  Tape tape(context, {.seed = 3});
  const Var y = model(tape, tape.constant(random_tensor(context, {2, 1, 10, 10}, "x")));
  REQUIRE(y.shape() == Shape{2, 3});
  tape.backward(sum(tape, square(tape, y)));
  for (const Parameter& parameter : parameters) CHECK(parameter.gradient().defined());
  Record described("model");
  model.describe(described);
  CHECK(described.contains("up.align_corners"));
  CHECK(described.contains("leaky.slope"));
}

TEST_CASE("dropout of channels keeps or leaves out whole channels, by the row of the batch",
          "[unit]") {
  auto context = make_context({.threads = 2});
  const nn::Dropout2d drop(nn::Scope{context, 1, "drop"}, 0.25f);
  const auto run = [&](std::size_t first, std::size_t count) {
    Tape tape(context, {.seed = 5});
    const Tensor ones = Tensor::full(context, Shape{count, 8, 3, 2}, 1.0f);
    const std::vector<std::size_t> lengths(count, 1);
    return values(context,
                  drop(tape, tape.constant(ones, Sequences::from_lengths(context, lengths,
                                                                         {.first_ordinal = first})))
                      .value());
  };
  const std::vector<float> all = run(0, 64);
  std::size_t kept = 0;
  for (std::size_t channel = 0; channel < all.size(); channel += 6) {
    for (std::size_t i = 0; i < 6; ++i) REQUIRE(all[channel + i] == all[channel]);
    CHECK((all[channel] == 0 || all[channel] == 4.0f / 3));
    kept += all[channel] != 0 ? 1 : 0;
  }
  CHECK(kept > 340);  // 384 of 512 and 4.5 standard deviations of 9.8
  CHECK(kept < 428);
  const std::vector<float> part = run(16, 16);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 16 * 8 * 6));
  Tape still(context, {.training = false});
  const Tensor x = random_tensor(context, {2, 3, 4}, "x");
  CHECK(values(context, drop(still, still.constant(x)).value()) == values(context, x));
}

TEST_CASE("sort puts NaN first and keeps equal elements in order", "[unit]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var x = tape.constant(floats(context, {2, 1, NAN, 2, -1}));
  CHECK(whole_numbers(argsort(tape, x, 0)) == std::vector<std::int64_t>{2, 4, 1, 0, 3});
  CHECK(whole_numbers(argsort(tape, x, 0, true)) == std::vector<std::int64_t>{2, 0, 3, 1, 4});
  CHECK(id_of([&] { soma::sort(tape, x, 1); }) == "tensor.index");
  const Var none = tape.constant(Tensor::zeros(context, {0, 3}));
  CHECK(soma::sort(tape, none, 0).values.shape() == Shape{0, 3});
}

TEST_CASE("one_hot marks the class of each id, and refuses others", "[unit]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var marks = one_hot(tape, tape.constant(ints(context, {2, 0})), 3);
  CHECK(marks.shape() == Shape{2, 3});
  CHECK(values(context, marks.value()) == std::vector<float>{0, 0, 1, 1, 0, 0});
  CHECK(id_of([&] { one_hot(tape, tape.constant(ints(context, {3})), 3); }) == "operator.value");
  CHECK(id_of([&] { one_hot(tape, tape.constant(ints(context, {-1})), 3); }) == "operator.value");
}

TEST_CASE("multinomial draws in proportion, by the row of the batch", "[unit]") {
  auto context = make_context({.threads = 1});
  constexpr std::size_t rows = 4000;
  const std::array<float, 4> weights{1, 0, 3, 6};
  std::vector<float> all;
  for (std::size_t i = 0; i < rows; ++i) all.insert(all.end(), weights.begin(), weights.end());
  const Tensor table = Tensor::from(context, all, Shape{rows, 4});
  const std::vector<std::size_t> lengths(rows, 1);
  const auto draw = [&](std::size_t count, bool replacement, std::size_t first, std::size_t size) {
    Tape tape(context, {.seed = 9, .step = 2});
    const Sequences batch =
        Sequences::from_lengths(context, std::span(lengths).first(size), {.first_ordinal = first});
    return whole_numbers(multinomial(
        tape, tape.constant(table.slice(0, first, first + size), batch), count, 7, replacement));
  };
  // Frequencies of 8,000 draws: 5 standard deviations are at most 224.
  std::array<int, 4> counts{};
  for (const std::int64_t choice : draw(2, true, 0, rows))
    ++counts[static_cast<std::size_t>(choice)];
  CHECK(counts[1] == 0);
  CHECK(std::abs(counts[0] - 800) < 135);
  CHECK(std::abs(counts[2] - 2400) < 205);
  CHECK(std::abs(counts[3] - 4800) < 220);
  // Without replacement the first is drawn alike, and all three are there in the end.
  const std::vector<std::int64_t> once = draw(3, false, 0, rows);
  int first_is_3 = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    std::array<bool, 4> seen{};
    for (std::size_t i = 0; i < 3; ++i) seen[static_cast<std::size_t>(once[row * 3 + i])] = true;
    REQUIRE((seen[0] && !seen[1] && seen[2] && seen[3]));
    first_is_3 += once[row * 3] == 3 ? 1 : 0;
  }
  CHECK(std::abs(first_is_3 - 2400) < 155);
  // A part of the batch draws what the batch draws.
  for (const bool replacement : {false, true}) {
    const std::vector<std::int64_t> whole = draw(2, replacement, 0, 64),
                                    part = draw(2, replacement, 16, 16);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + 32));
  }
  Tape tape(context);
  const auto refused = [&](std::initializer_list<float> given, std::size_t count,
                           bool replacement) {
    return id_of(
        [&] { multinomial(tape, tape.constant(floats(context, given)), count, 1, replacement); });
  };
  CHECK(refused({1, 0}, 2, false) == "operator.value");
  CHECK(refused({1, 0}, 2, true) == "no error");
  CHECK(refused({0, 0}, 1, true) == "operator.value");
  CHECK(refused({1, -1}, 1, true) == "operator.value");
  CHECK(refused({1, NAN}, 1, true) == "operator.value");
  CHECK(refused({1, INFINITY}, 1, true) == "operator.value");
}

TEST_CASE("normalise has a gradient at zero, and a limit that is a setting", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var x = Var::parameter(context, Tensor::from<float>(context, {0, 0, 3, 4}, {2, 2}));
  Tape tape(context);
  const Var y = normalise(tape, x, 1);
  CHECK(values(context, y.value()) == std::vector<float>{0, 0, 0.6f, 0.8f});
  tape.backward(sum(tape, y));
  for (const float slope : gradient_values(context, x)) CHECK(std::isfinite(slope));
  CHECK(values(context, normalise(tape, x, 1, 10).value()) == std::vector<float>{0, 0, 0.3f, 0.4f});
}

TEST_CASE("a sequence's mean and largest elements leave out padding", "[unit]") {
  auto context = make_context({.threads = 2});
  const std::size_t lengths[] = {3, 2}, used[] = {2, 1};
  const Sequences batch = Sequences::from_lengths(context, lengths, {.used = used});
  const Var x = Var::parameter(
      context, Tensor::from<float>(context, {1, -2, 3, -4, 99, 99, 5, 6, 99, 99}, {5, 2}));
  for (const bool largest : {false, true}) {
    Tape tape(context);
    const Var rows = tape.with_sequences(mul(tape, x, x), batch);
    const Var y = largest ? sequence_max(tape, rows) : sequence_mean(tape, rows);
    CHECK(values(context, y.value()) ==
          (largest ? std::vector<float>{9, 16, 25, 36} : std::vector<float>{5, 10, 25, 36}));
    x.clear_gradient();
    tape.backward(sum(tape, y));
    const std::vector<float> slopes = gradient_values(context, x);
    CHECK(slopes == (largest ? std::vector<float>{0, 0, 6, -8, 0, 0, 10, 12, 0, 0}
                             : std::vector<float>{1, -2, 3, -4, 0, 0, 10, 12, 0, 0}));
  }
  Tape tape(context);
  const std::size_t with_empty[] = {3, 0};
  const Var rows =
      tape.constant(Tensor::zeros(context, {3, 2}), Sequences::from_lengths(context, with_empty));
  CHECK(id_of([&] { sequence_mean(tape, rows); }) == "ragged.empty_sequence");
}

TEST_CASE("binary cross entropy of probabilities is finite at 0 and 1", "[unit]") {
  auto context = make_context({.threads = 1});
  const Var p = Var::parameter(context, floats(context, {0, 1, 0, 1}));
  Tape tape(context);
  const Var loss = binary_cross_entropy(tape, p, tape.constant(floats(context, {0, 1, 1, 0})),
                                        LossReduction::none);
  const std::vector<float> given = values(context, loss.value());
  CHECK(given[0] == 0);
  CHECK(given[1] == 0);
  CHECK(std::fabs(given[2] - 87.3365f) < 1e-3f);
  CHECK(std::fabs(given[3] - 87.3365f) < 1e-3f);
  tape.backward(sum(tape, loss));
  for (const float slope : gradient_values(context, p)) CHECK(std::isfinite(slope));
}

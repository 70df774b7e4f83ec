// Dropout: which elements are dropped is a function of seed, step, site and logical place.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::values;

namespace {

constexpr std::size_t width = 33;

// Sequences with these ordinals and lengths, of ones.
std::vector<std::vector<float>> dropped(Context& context, const nn::Dropout& dropout,
                                        const TapeOptions& options,
                                        const std::vector<std::uint64_t>& ordinals,
                                        const std::vector<std::size_t>& lengths) {
  const Sequences sequences = Sequences::from_lengths(context, lengths, {.ordinals = ordinals});
  Tape tape(context, options);
  const Var y = dropout(
      tape, tape.constant(Tensor::full(context, Shape{sequences.rows(), width}, 1.0f), sequences));
  std::vector<std::vector<float>> result;
  for (std::size_t i = 0; i < sequences.count(); ++i)
    result.push_back(values(context, y.value().slice(0, sequences.begin(i), sequences.end(i))));
  return result;
}

}  // namespace

TEST_CASE("dropout drops that share and scales what is left", "[unit][dropout]") {
  auto context = make_context();
  for (const float probability : {0.1f, 0.5f, 0.9f}) {
    const nn::Dropout dropout(nn::Scope{context} / "site", probability);
    const auto all = dropped(context, dropout, {}, {0}, {1000})[0];
    const auto zeros = static_cast<double>(std::count(all.begin(), all.end(), 0.0f));
    const double p = static_cast<double>(probability), n = static_cast<double>(all.size());
    CHECK(std::fabs(zeros / n - p) < 5 * std::sqrt(p * (1 - p) / n));
    const auto kept = static_cast<float>(1 / (1 - p));
    CHECK(std::all_of(all.begin(), all.end(), [&](float x) { return x == 0 || x == kept; }));
  }
}

TEST_CASE("a sequence is dropped alike wherever it stands in a batch", "[unit][dropout]") {
  const std::vector<std::uint64_t> ordinals{7, 3, 12, 5};
  const std::vector<std::size_t> lengths{4, 9, 0, 6};
  auto first = make_context({.threads = 1});
  const nn::Dropout dropout(nn::Scope{first} / "site", 0.5f);
  const TapeOptions options{.seed = 2, .step = 3};
  const auto wanted = dropped(first, dropout, options, ordinals, lengths);
  for (const int threads : {1, 2, 3, 7}) {
    auto context = make_context({.threads = threads});
    CHECK(dropped(context, dropout, options, ordinals, lengths) == wanted);
    const auto reversed = dropped(context, dropout, options, {5, 12, 3, 7}, {6, 0, 9, 4});
    for (std::size_t i = 0; i < 4; ++i) CHECK(reversed[i] == wanted[3 - i]);
    CHECK(dropped(context, dropout, options, {3}, {9})[0] == wanted[1]);
    // The first rows of a longer sequence are those of the shorter.
    const auto longer = dropped(context, dropout, options, {3}, {20})[0];
    CHECK(std::equal(wanted[1].begin(), wanted[1].end(), longer.begin()));
  }
  for (const Target& target : first.targets().targets) {
    auto context = make_context({.target = target.name});
    CHECK(dropped(context, dropout, options, ordinals, lengths) == wanted);
  }
}

TEST_CASE("sites, steps and seeds drop differently", "[unit][dropout]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context};
  const auto of = [&](const char* site, const TapeOptions& options) {
    return dropped(context, nn::Dropout(scope / site, 0.5f), options, {0}, {8});
  };
  const auto first = of("a", {});
  CHECK(of("a", {}) == first);
  CHECK(of("b", {}) != first);
  CHECK(of("a", {.seed = 1}) != first);
  CHECK(of("a", {.step = 1}) != first);
}

TEST_CASE("nothing is dropped unless training", "[unit][dropout]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context};
  const nn::Dropout dropout(scope / "a", 0.5f), never(scope / "a", 0);
  Tape tape(context, {.training = false});
  const Var w = soma_test::random_parameter(context, Shape{3, 4}, "w");
  CHECK(bits(context, dropout(tape, w).value()) == bits(context, w.value()));
  CHECK(tape.size() == 0);  // not even an operator
  CHECK(dropout.setting(tape).probability == 0);
  Tape training(context);
  CHECK(dropout.setting(training).probability == 0.5f);
  CHECK(bits(context, never(training, w).value()) == bits(context, w.value()));
  Parameters none;
  nn::Collector collector(none);
  dropout.collect(collector);
  CHECK(none.empty());
}

TEST_CASE("gradients are dropped where values were", "[unit][dropout]") {
  auto context = make_context({.threads = 1});
  const nn::Dropout dropout(nn::Scope{context} / "a", 0.25f);
  const Var w = Var::parameter(context, Tensor::full(context, Shape{9, 20}, 1.0f));
  Tape tape(context);
  const Var y = dropout(tape, w);
  tape.backward(sum(tape, y));
  CHECK(soma_test::gradient_values(context, w) == values(context, y.value()));
}

TEST_CASE("fused dropout drops what the operator drops", "[unit][dropout]") {
  // Linear applies it on the way out: the same site, the same places.
  auto context = make_context();
  const nn::Scope scope{context, 3};
  const nn::Linear linear(scope / "l", 16, width);
  const nn::Dropout dropout(scope / "l", 0.5f);
  const Sequences sequences =
      Sequences::from_lengths(context, std::vector<std::size_t>{5, 1, 11}, {.first_ordinal = 9});
  Tape tape(context, {.seed = 8, .step = 2});
  const Var x = tape.constant(soma_test::random_tensor(context, Shape{17, 16}, "x"), sequences);
  const Var apart = dropout(tape, linear(tape, x));
  const Var fused = linear(tape, x, {.dropout = dropout.setting(tape)});
  CHECK(bits(context, fused.value()) == bits(context, apart.value()));
}

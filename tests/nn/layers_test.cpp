// The small modules against plain loops in double, their parameters, and dropout.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;
using soma_test::values;

namespace {

using Names = std::vector<std::pair<std::string, Shape>>;

Names names_of(const Parameters& parameters) {
  Names names;
  for (const Parameter& parameter : parameters)
    names.emplace_back(parameter.name, parameter.value().shape());
  return names;
}

// |given - wanted| <= terms 2^-24 times the largest magnitude in the sum: each of `terms` roundings
// is relative to a partial sum, which is at most that.
void check_near(const std::vector<float>& given, const std::vector<double>& wanted, double terms,
                double largest) {
  REQUIRE(given.size() == wanted.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    INFO(i);
    CHECK(std::fabs(static_cast<double>(given[i]) - wanted[i]) <= terms * largest * 0x1p-24);
  }
}

}  // namespace

TEST_CASE("Linear is x times the transposed weight, plus the bias", "[unit][layers]") {
  auto context = make_context();
  const nn::Scope scope{context, 1};
  for (const bool has_bias : {true, false}) {
    const nn::Linear linear(scope / "linear", 13, 6, {.bias = has_bias});
    const Parameters parameters = nn::parameters(linear, "a.b");
    Names wanted{{"a.b.weight", Shape{6, 13}}};
    if (has_bias) wanted.emplace_back("a.b.bias", Shape{6});
    CHECK(names_of(parameters) == wanted);

    const Tensor x = random_tensor(context, Shape{2, 5, 13}, "x");
    Tape tape(context);
    const Var y = linear(tape, tape.constant(x));
    CHECK(y.shape() == Shape{2, 5, 6});
    const auto in = values(context, x), w = values(context, linear.weight.value());
    std::vector<double> out;
    for (std::size_t r = 0; r < 10; ++r)
      for (std::size_t o = 0; o < 6; ++o) {
        double sum = has_bias ? static_cast<double>(linear.bias.value().span<float>()[o]) : 0;
        for (std::size_t i = 0; i < 13; ++i)
          sum += static_cast<double>(in[r * 13 + i]) * static_cast<double>(w[o * 13 + i]);
        out.push_back(sum);
      }
    check_near(values(context, y.value()), out, 14, 13 * 0.28 + 0.28);
  }
}

TEST_CASE("Linear's options", "[unit][layers]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 1};
  const nn::Linear normal(scope / "l", 40, 50, {.standard_deviation = 0.02f});
  CHECK(values(context, normal.bias.value()) == std::vector<float>(50, 0));
  CHECK(bits(context, normal.weight.value()) ==
        bits(context, nn::normal(context, Shape{50, 40}, 0.02f, (scope / "l").draw("weight"))));
  const nn::Linear even(scope / "l", 40, 50);
  const auto bias = values(context, even.bias.value());
  CHECK(std::all_of(bias.begin(), bias.end(), [](float b) { return std::fabs(b) < 0.1582f; }));
  CHECK(std::any_of(bias.begin(), bias.end(), [](float b) { return std::fabs(b) > 0.1f; }));
}

TEST_CASE("Embedding gives rows of its table", "[unit][layers]") {
  auto context = make_context({.threads = 1});
  const nn::Embedding table(nn::Scope{context, 1}, 9, 4, 0.5f);
  CHECK(names_of(nn::parameters(table)) == Names{{"weight", Shape{9, 4}}});
  Tape tape(context);
  const Var y = table(tape, tape.constant(soma_test::ints(context, {8, 0, 8})));
  CHECK(y.shape() == Shape{3, 4});
  for (const auto& [row, id] : {std::pair{0, 8}, {1, 0}, {2, 8}})
    CHECK(bits(context, y.value().select(0, static_cast<std::size_t>(row))) ==
          bits(context, table.weight.value().select(0, static_cast<std::size_t>(id))));
}

TEST_CASE("LayerNorm has rows of mean 0 and variance 1, scaled and shifted", "[unit][layers]") {
  auto context = make_context({.threads = 1});
  const nn::LayerNorm norm(nn::Scope{context, 1}, 11, 1e-3f);
  CHECK(names_of(nn::parameters(norm, "norm")) ==
        Names{{"norm.weight", Shape{11}}, {"norm.bias", Shape{11}}});
  CHECK(values(context, norm.weight.value()) == std::vector<float>(11, 1));
  CHECK(values(context, norm.bias.value()) == std::vector<float>(11, 0));
  copy(random_tensor(context, Shape{11}, "gamma"), norm.weight.value());
  copy(random_tensor(context, Shape{11}, "beta"), norm.bias.value());
  const Tensor x = random_tensor(context, Shape{6, 11}, "x");
  Tape tape(context);
  const auto in = values(context, x), gamma = values(context, norm.weight.value()),
             beta = values(context, norm.bias.value());
  std::vector<double> out;
  for (std::size_t r = 0; r < 6; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < 11; ++i) mean += static_cast<double>(in[r * 11 + i]) / 11;
    for (std::size_t i = 0; i < 11; ++i)
      variance += std::pow(static_cast<double>(in[r * 11 + i]) - mean, 2) / 11;
    for (std::size_t i = 0; i < 11; ++i)
      out.push_back((static_cast<double>(in[r * 11 + i]) - mean) /
                        std::sqrt(variance + static_cast<double>(1e-3f)) *
                        static_cast<double>(gamma[i]) +
                    static_cast<double>(beta[i]));
  }
  // Sums of 11 and a division by a deviation of about a half: errors grow fourfold at most.
  check_near(values(context, norm(tape, tape.constant(x)).value()), out, 4 * 16, 3);
}

TEST_CASE("Conv2d is the sum over its window", "[unit][layers]") {
  auto context = make_context();
  const nn::Conv2d convolution(
      nn::Scope{context, 1}, 3, 4, 3,
      {.setting = {.stride_height = 2, .stride_width = 1, .pad_height = 1, .pad_width = 0}});
  CHECK(names_of(nn::parameters(convolution)) ==
        Names{{"weight", Shape{4, 3, 3, 3}}, {"bias", Shape{4}}});
  const Tensor x = random_tensor(context, Shape{2, 3, 7, 6}, "x");
  Tape tape(context);
  const Var y = convolution(tape, tape.constant(x));
  REQUIRE(y.shape() == Shape{2, 4, 4, 4});
  const auto in = values(context, x), w = values(context, convolution.weight.value()),
             b = values(context, convolution.bias.value());
  std::vector<double> out;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t o = 0; o < 4; ++o)
      for (std::size_t row = 0; row < 4; ++row)
        for (std::size_t column = 0; column < 4; ++column) {
          auto sum = static_cast<double>(b[o]);
          for (std::size_t c = 0; c < 3; ++c)
            for (std::size_t i = 0; i < 3; ++i)
              for (std::size_t j = 0; j < 3; ++j) {
                const std::size_t r = row * 2 + i;  // one more than the image's row
                if (r == 0 || r > 7) continue;
                sum += static_cast<double>(in[((n * 3 + c) * 7 + r - 1) * 6 + column + j]) *
                       static_cast<double>(w[((o * 3 + c) * 3 + i) * 3 + j]);
              }
          out.push_back(sum);
        }
  check_near(values(context, y.value()), out, 28, 28 * 0.2);
}

TEST_CASE("Conv2d without bias", "[unit][layers]") {
  auto context = make_context({.threads = 1});
  const nn::Conv2d convolution(nn::Scope{context, 1}, 1, 2, 1, {.bias = false});
  CHECK(names_of(nn::parameters(convolution)) == Names{{"weight", Shape{2, 1, 1, 1}}});
  Tape tape(context);
  const Var y = convolution(tape, tape.constant(Tensor::zeros(context, Shape{1, 1, 2, 2})));
  CHECK(values(context, y.value()) == std::vector<float>(8, 0));
}

TEST_CASE("a state goes out and comes back", "[unit][layers]") {
  auto context = make_context({.threads = 1});
  const nn::Linear from(nn::Scope{context, 1}, 3, 2), to(nn::Scope{context, 2}, 3, 2);
  const Parameters target = nn::parameters(to, "l");
  StateDict state = nn::state_dict(nn::parameters(from, "l"));
  CHECK(state.size() == 2);
  // Views: nothing was copied.
  CHECK(state.at("l.weight").storage() == from.weight.value().storage());
  CHECK(nn::load(target, state).empty());
  CHECK(bits(context, to.weight.value()) == bits(context, from.weight.value()));
  CHECK(to.weight.value().storage() != from.weight.value().storage());

  state.set("l.more", Tensor::zeros(context, Shape{1}));
  CHECK(nn::load(target, state) == std::vector<std::string>{"l.more"});
  CHECK(soma_test::id_of([&] { nn::load(target, state, {.extra_names_are_errors = true}); }) ==
        "state.extra_name");
  state.erase("l.bias");
  CHECK(soma_test::id_of([&] { nn::load(target, state); }) == "state.missing_name");
  state.set("l.bias", Tensor::zeros(context, Shape{3}));
  to.weight.value().mutable_span<float>()[0] = 77;
  CHECK(soma_test::id_of([&] { nn::load(target, state); }) == "state.shape");
  state.erase("l.bias");
  state.set("l.bias", Tensor::zeros(context, Shape{2}, DType::bf16));
  CHECK(soma_test::id_of([&] { nn::load(target, state); }) == "state.dtype");
  CHECK(to.weight.value().span<float>()[0] == 77);  // nothing was written
  Parameters twice = target;
  twice.push_back(twice[0]);
  CHECK(soma_test::id_of([&] { nn::state_dict(twice); }) == "state.duplicate_name");
}

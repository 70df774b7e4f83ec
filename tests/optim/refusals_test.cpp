// Optimizers and gradients that cannot be are refused before they reach a kernel.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();

struct Fixture {
  Context context{{.threads = 1}, make_context().targets()};
  Var w = Var::parameter(context, Tensor::zeros(context, Shape{6, 4}));
  Parameters parameters{{"w", w}};

  std::string refused(const optim::AdamWOptions& options) {
    return id_of([&] { optim::AdamW(context, parameters, 0.0f, options); });
  }
  std::string refused(const optim::LambOptions& options) {
    return id_of([&] { optim::Lamb(context, {{.parameters = parameters}}, options); });
  }
  std::string refused(const optim::SgdOptions& options) {
    return id_of([&] { optim::Sgd(context, parameters, options); });
  }
  std::string refused_groups(const std::vector<optim::Group>& groups) {
    return id_of([&] { optim::Sgd(context, groups); });
  }
  std::string refused(Gradient gradient) {
    return id_of([&] { w.set_gradient(std::move(gradient)); });
  }
  Tensor ones(const Shape& shape) { return Tensor::full(context, shape, 1.0f); }
  Tensor rows(std::size_t count) { return Tensor::full(context, Shape{count}, std::int64_t{1}); }
};

template <class Options>
void check_adam(Fixture& f) {
  const double nan = std::nan("");
  CHECK(f.refused(Options{.beta1 = 0, .beta2 = 0, .epsilon = 0}) == "no error");
  for (const double beta : {-0.5, 1.0, 1.5, nan}) {
    CHECK(f.refused(Options{.beta1 = beta}) == "operator.value");
    CHECK(f.refused(Options{.beta2 = beta}) == "operator.value");
  }
  for (const double epsilon : {-1.0, nan, HUGE_VAL})
    CHECK(f.refused(Options{.epsilon = epsilon}) == "operator.value");
}

}  // namespace

TEST_CASE("settings that would make weights NaN are refused", "[unit][optim]") {
  Fixture f;
  check_adam<optim::AdamWOptions>(f);
  check_adam<optim::LambOptions>(f);
  CHECK(f.refused(optim::SgdOptions{.momentum = 1.5f, .dampening = -1}) == "no error");
  for (const float momentum : {-0.5f, infinite})
    CHECK(f.refused(optim::SgdOptions{.momentum = momentum}) == "operator.value");
  CHECK(f.refused(optim::SgdOptions{.dampening = infinite}) == "operator.value");
  for (const float decay : {-0.5f, infinite, std::nanf("")})
    CHECK(f.refused_groups({{.parameters = f.parameters, .weight_decay = decay}}) ==
          "operator.value");
  CHECK(f.refused_groups({{.parameters = f.parameters, .rate_factor = infinite}}) ==
        "operator.value");
  CHECK(message_of([&] { optim::AdamW(f.context, f.parameters, 0.0f, {.beta1 = 1.5}); }) ==
        "Optimizer: beta1 is 1.500000, wanted 0 to below 1 [operator.value]");
}

TEST_CASE("rounding of states and weights has at most a word's random bits", "[unit][optim]") {
  Fixture f;
  const Rounding rounding{.mode = RoundingMode::stochastic, .random_bits = 33};
  CHECK(f.refused(optim::SgdOptions{.storage = {.state_rounding = rounding}}) ==
        "rounding.random_bits");
  CHECK(f.refused(optim::AdamWOptions{.storage = {.weight_rounding = rounding}}) ==
        "rounding.random_bits");
  // The records by themselves.
  const BuiltInOperators& operators = f.context.built_in();
  const Tensor w = f.w.value(), g = f.ones(Shape{6, 4}), none;
  const auto step = [&](const Operator& op, const Attributes& setting) {
    return id_of([&] { run(f.context, op, setting, {w, g, none, g, g}); });
  };
  CHECK(id_of([&] {
          run(f.context, *operators.sgd_step, SgdSetting{.weight = rounding}, {w, g});
        }) == "rounding.random_bits");
  CHECK(step(*operators.adam_step, AdamSetting{.state = rounding}) == "rounding.random_bits");
  CHECK(step(*operators.lamb_step, LambSetting{.state = rounding}) == "rounding.random_bits");
}

TEST_CASE("an optimizer has each variable once, and all of them are there", "[unit][optim]") {
  Fixture f;
  const Var w = f.w;
  CHECK(message_of([&] {
          optim::AdamW(f.context, Parameters{{"none", Var()}});
        }) ==
        "Optimizer: \"none\" is a variable that is not defined, wanted a parameter "
        "[tensor.undefined]");
  CHECK(message_of([&] {
          optim::Sgd(f.context, {{.parameters = {{"a", w}}}, {.parameters = {{"b", w}}}});
        }) ==
        "Optimizer: \"b\" is of the variable of \"a\", wanted each variable once "
        "[operator.value]");
  CHECK(f.refused_groups({{.parameters = {{"a", w, 0, 3}, {"b", w, 2, 6}}}}) == "operator.value");
  CHECK(f.refused_groups({{.parameters = {{"a", w, 4, to_end}, {"b", w}}}}) == "operator.value");
  CHECK(f.refused_groups({{.parameters = {{"a", w, 3, to_end}, {"b", w, 0, 3}}}}) == "no error");
}

TEST_CASE("a gradient that is none of its variable is refused", "[unit][optim]") {
  Fixture f;
  CHECK(f.refused(Gradient{f.ones(Shape{5, 4}), f.rows(1)}) == "tensor.shape");
  CHECK(f.refused(Gradient{f.ones(Shape{2, 3}), f.rows(2)}) == "tensor.shape");
  CHECK(f.refused(Gradient{f.ones(Shape{1, 4}), f.ones(Shape{1})}) == "tensor.dtype");
  CHECK(f.refused(Gradient{f.ones(Shape{4, 6}), {}}) == "tensor.shape");
  CHECK(f.refused(Gradient{f.ones(Shape{24}), {}}) == "tensor.shape");
  CHECK(f.refused(Gradient{f.ones(Shape{}), {}}) == "tensor.shape");
  CHECK(f.refused(Gradient{Tensor::full(f.context, Shape{6, 4}, std::int32_t{1}), {}}) ==
        "tensor.dtype");
  CHECK_FALSE(f.w.gradient().defined());
  CHECK(optim::gradient_norm(f.context, f.parameters) == 0);
  CHECK(f.refused(Gradient{f.ones(Shape{1, 4}), f.rows(1)}) == "no error");
  CHECK(optim::gradient_norm(f.context, f.parameters) == 2);
  CHECK(f.refused(Gradient{f.ones(Shape{6, 4}).slice(1, 0, 4), {}}) == "no error");
  CHECK(f.refused(Gradient{}) == "no error");
}

TEST_CASE("a gradient of adjacent rows lies inside its variable", "[unit][optim]") {
  Fixture f;
  Gradient part{f.ones(Shape{2, 4}), {}};
  for (const std::size_t first : {0u, 3u, 4u}) {
    part.first_row = first;
    CHECK(f.refused(part) == "no error");
  }
  for (const std::size_t first : {std::size_t{5}, std::size_t{7}, ~std::size_t{0}}) {
    part.first_row = first;
    CHECK(f.refused(part) == "tensor.shape");
  }
  const Var number = Var::parameter(f.context, Tensor::scalar(f.context, 1.0f));
  for (const std::size_t count : {0u, 1u})
    CHECK(id_of([&] { number.set_gradient({f.ones(Shape{count}), {}}); }) == "no error");
  CHECK(id_of([&] { number.set_gradient({f.ones(Shape{2}), {}}); }) == "tensor.shape");
  CHECK(id_of([&] { number.set_gradient({f.ones(Shape{1, 1}), {}}); }) == "tensor.shape");
}

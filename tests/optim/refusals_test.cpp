// Optimizers and gradients that cannot be are refused before they reach a kernel.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
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
  std::string refused(const optim::RmsPropOptions& options) {
    return id_of([&] { optim::RmsProp(context, parameters, options); });
  }
  std::string refused(const optim::AdagradOptions& options) {
    return id_of([&] { optim::Adagrad(context, parameters, options); });
  }
  std::string refused(const optim::AdafactorOptions& options) {
    return id_of([&] { optim::Adafactor(context, parameters, options); });
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

// `Adam` is an optimizer whose options have two betas and an epsilon.
template <class Adam, class Options>
void check_adam(Fixture& f) {
  const double nan = std::nan("");
  const auto refused = [&](const Options& options) {
    return id_of([&] { Adam(f.context, {{.parameters = f.parameters}}, options); });
  };
  CHECK(refused(Options{.beta1 = 0, .beta2 = 0}) == "no error");
  for (const double beta : {-0.5, 1.0, 1.5, nan}) {
    CHECK(refused(Options{.beta1 = beta}) == "operator.value");
    CHECK(refused(Options{.beta2 = beta}) == "operator.value");
  }
  for (const double epsilon : {-1.0, 0.0, 1e-60, nan, HUGE_VAL})
    CHECK(refused(Options{.epsilon = epsilon}) == "operator.value");
}

}  // namespace

TEST_CASE("settings that would make weights NaN are refused", "[unit][optim]") {
  Fixture f;
  check_adam<optim::AdamW, optim::AdamWOptions>(f);
  check_adam<optim::Lamb, optim::LambOptions>(f);
  check_adam<optim::Adam, optim::AdamWOptions>(f);
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
        "Optimizer: beta1 is 1.5, wanted 0 to below 1 [operator.value]");
  CHECK(message_of([&] { optim::AdamW(f.context, f.parameters, 0.0f, {.epsilon = 1e-60}); }) ==
        "Optimizer: epsilon is 1e-60, wanted a finite number above 0 in fp32 [operator.value]");
}

TEST_CASE("weights and states draw by one mapping", "[unit][optim]") {
  Fixture f;
  const auto draws = [](DrawMapping mapping) {
    return Rounding{.mode = RoundingMode::stochastic, .draws = mapping};
  };
  const auto refused = [&](DrawMapping weight, DrawMapping state) {
    return f.refused(optim::SgdOptions{
        .storage = {.state_rounding = draws(state), .weight_rounding = draws(weight)}});
  };
  CHECK(refused(DrawMapping::ars, DrawMapping::ars) == "no error");
  CHECK(refused(DrawMapping::automatic, DrawMapping::philox) == "no error");
  CHECK(refused(DrawMapping::ars, DrawMapping::philox) == "operator.value");
  CHECK(message_of([&] {
          run(f.context, *f.context.built_in().sgd_step,
              SgdSetting{.weight = draws(DrawMapping::ars), .state = draws(DrawMapping::philox)},
              {f.w.value(), f.ones(Shape{6, 4})});
        }) ==
        "optimizer step: state.draws is philox, wanted ars, as the weight has [operator.value]");
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

TEST_CASE("an optimizer without parameters, and a step without gradients or rate, are refused",
          "[unit][optim]") {
  Fixture f;
  CHECK(message_of([&] { optim::AdamW(f.context, Parameters{}); }) ==
        "Optimizer: parameters is none, wanted at least one [operator.value]");
  const auto each = [&](optim::Optimizer& optimizer) {
    clear_gradients(f.parameters);
    CHECK(message_of([&] { optimizer.step({.rate = 0.1}); }) ==
          "Optimizer::step: gradients is none in 1 parameters, wanted at least one: backward comes "
          "before a step, clear_gradients after it [operator.value]");
    f.w.set_gradient({f.ones(Shape{6, 4}), {}});
    const std::vector<float> before = soma_test::values(f.context, f.w.value());
    for (const double rate : {-0.1, std::nan(""), HUGE_VAL})
      CHECK(id_of([&] { optimizer.step({.rate = rate}); }) == "operator.value");
    CHECK(soma_test::values(f.context, f.w.value()) == before);
    optimizer.step({.rate = 0.1});
    CHECK(soma_test::values(f.context, f.w.value()) != before);
  };
  optim::AdamW adamw(f.context, f.parameters);
  optim::Lamb lamb(f.context, {{.parameters = f.parameters}});
  optim::Sgd sgd(f.context, f.parameters);
  each(adamw), each(lamb), each(sgd);
}

namespace {

// An optimizer's states with one entry changed, added or left out.
struct States {
  Fixture f;
  std::unique_ptr<optim::Optimizer> optimizer;
  StateDict whole;

  template <class Made>
  explicit States(const Made& make) {
    optimizer = make(f);
    f.w.set_gradient({f.ones(Shape{6, 4}), {}});
    optimizer->step({.rate = 0.1});
    whole = optimizer->state();
  }
  StateDict with(const std::string& name, const Tensor& tensor) const {
    StateDict changed;
    bool found = false;
    for (const auto& [each, value] : whole) {
      found |= each == name;
      if (each != name)
        changed.set(each, value);
      else if (tensor.defined())
        changed.set(each, tensor);
    }
    if (!found) changed.set(name, tensor);
    return changed;
  }
  // The error's message, if nothing was taken.
  std::string refused(const std::string& name, const Tensor& tensor) {
    const std::string message = message_of([&] { optimizer->load_state(with(name, tensor)); });
    const StateDict after = optimizer->state();
    for (const auto& [each, value] : whole)
      if (soma_test::bits(f.context, *after.find(each)) != soma_test::bits(f.context, value))
        return "taken in part";
    return message;
  }
};

template <class Made>
void check_states(const Made& make, const std::vector<std::string>& names) {
  States s(make);
  REQUIRE(s.whole.size() == names.size());
  for (const std::string& name : names) {
    INFO(name);
    const bool steps = name.ends_with(".steps");
    if (names.size() > 1) {
      const std::string missing = s.refused(name, Tensor());
      CHECK(missing.find('"' + name + '"') != std::string::npos);
      CHECK(missing.find("[state.missing_name]") != std::string::npos);
    }
    const Tensor wrong_shape = steps ? Tensor::full(s.f.context, Shape{2}, std::int64_t{1})
                                     : Tensor::zeros(s.f.context, Shape{4, 6});
    const Tensor wrong_type = steps ? Tensor::full(s.f.context, Shape{}, 1.5f)
                                    : Tensor::zeros(s.f.context, Shape{6, 4}, DType::bf16);
    const std::string shape = s.refused(name, wrong_shape), type = s.refused(name, wrong_type);
    CHECK(shape.find('"' + name + '"') != std::string::npos);
    CHECK(shape.find("[state.shape]") != std::string::npos);
    CHECK(type.find('"' + name + '"') != std::string::npos);
    CHECK(type.find("[state.dtype]") != std::string::npos);
  }
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()})
    CHECK(s.refused("w.steps", Tensor::full(s.f.context, Shape{}, number))
              .find("\"w.steps\" is " + std::to_string(number)) != std::string::npos);
  for (const std::string extra : {"v.steps", "w.third_moment", "w"}) {
    const std::string message = s.refused(extra, s.f.ones(Shape{6, 4}));
    CHECK(message.find('"' + extra + '"') != std::string::npos);
    CHECK(message.find("[state.extra_name]") != std::string::npos);
  }
  s.optimizer->load_state(s.whole);
  s.optimizer->load_state({});  // begins anew
  CHECK(s.optimizer->state().size() == 0);
}

}  // namespace

TEST_CASE("damaged and half states of optimizers are refused by name", "[unit][optim]") {
  const std::vector<std::string> both{"w.steps", "w.first_moment", "w.second_moment"};
  check_states([](Fixture& f) { return std::make_unique<optim::AdamW>(f.context, f.parameters); },
               both);
  check_states(
      [](Fixture& f) {
        return std::make_unique<optim::Lamb>(
            f.context, std::vector<optim::Group>{{.parameters = f.parameters}});
      },
      both);
  check_states(
      [](Fixture& f) {
        return std::make_unique<optim::Sgd>(f.context, f.parameters,
                                            optim::SgdOptions{.momentum = 0.9f});
      },
      {"w.steps", "w.first_moment"});
  check_states([](Fixture& f) { return std::make_unique<optim::Adam>(f.context, f.parameters); },
               both);
  check_states(
      [](Fixture& f) {
        return std::make_unique<optim::RmsProp>(f.context, f.parameters,
                                                optim::RmsPropOptions{.momentum = 0.9f});
      },
      both);
  check_states([](Fixture& f) { return std::make_unique<optim::Adagrad>(f.context, f.parameters); },
               {"w.steps", "w.first_moment"});
  // Without momentum there is no moment: one that is given is not this optimizer's.
  check_states([](Fixture& f) { return std::make_unique<optim::Sgd>(f.context, f.parameters); },
               {"w.steps"});
  States plain([](Fixture& f) { return std::make_unique<optim::Sgd>(f.context, f.parameters); });
  CHECK(plain.refused("w.first_moment", plain.f.ones(Shape{6, 4})).find("state.extra_name") !=
        std::string::npos);
}

TEST_CASE("Adafactor's states are means of rows and columns, and are checked", "[unit][optim]") {
  const auto make = [](Fixture& f) {
    return std::make_unique<optim::Adafactor>(f.context, f.parameters);
  };
  States s(make);
  CHECK(s.whole.find("w.first_moment")->shape() == Shape{1, 6});
  CHECK(s.whole.find("w.second_moment")->shape() == Shape{1, 4});
  for (const std::string name : {"w.first_moment", "w.second_moment"}) {
    CHECK(s.refused(name, s.f.ones(Shape{6, 4})).find("[state.shape]") != std::string::npos);
    CHECK(s.refused(name, Tensor()).find("[state.missing_name]") != std::string::npos);
  }
  // Loaded states continue as if nothing had happened.
  States other(make);
  other.optimizer->load_state(s.whole);
  for (States* each : {&s, &other}) each->optimizer->step({.rate = 0.1});
  CHECK(soma_test::bits(s.f.context, s.f.w.value()) ==
        soma_test::bits(other.f.context, other.f.w.value()));
  Fixture f;
  CHECK(f.refused(optim::AdafactorOptions{.clip = 0}) == "operator.value");
  CHECK(f.refused(optim::AdafactorOptions{.beta2_decay = 0.5}) == "operator.value");
  CHECK(f.refused(optim::AdagradOptions{.rate_decay = -1}) == "operator.value");
  CHECK(f.refused(optim::RmsPropOptions{.alpha = 1}) == "operator.value");
}

TEST_CASE("Adafactor steps a sparse gradient as the dense one, over any threads", "[unit][optim]") {
  std::vector<std::byte> first;
  for (const bool sparse : {false, true})
    for (const int threads : {1, 3}) {
      auto context = make_context({.threads = threads});
      const Var w = Var::parameter(context, soma_test::random_tensor(context, Shape{300, 40}, "w"));
      optim::Adafactor optimizer(context, {{.parameters = {{"w", w}}, .weight_decay = 0.01f}});
      for (int i = 0; i < 3; ++i) {
        const Gradient gradient{
            soma_test::random_tensor(context, Shape{2, 40}, "g" + std::to_string(i)),
            Tensor::from<std::int64_t>(context, {i, 200 + i}, Shape{2})};
        w.set_gradient(
            sparse ? gradient
                   : Gradient{context.built_in().to_dense(context, gradient, w.shape()), {}});
        optimizer.step({.rate = 0.01, .gradient_factor = 0.5f});
      }
      const auto now = soma_test::bits(context, w.value());
      if (first.empty()) first = now;
      CHECK(now == first);
    }
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

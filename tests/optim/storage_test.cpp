// How optimizers store numbers: sparse gradients mean what dense ones do, narrow states and weights
// are rounded the same way whatever the threads and the target, and without bias.

#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/state/join_parts.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;

namespace {

constexpr std::size_t rows = 211, columns = 37;

using Stepper = std::function<void(const optim::Step&)>;
// Makes an optimizer of some parameters.
using Make = std::function<Stepper(Context&, const Parameters&, const optim::StepStorage&)>;

struct Kind {
  const char* name;
  Make make;
};

template <class Optimizer>
Stepper stepper(std::shared_ptr<Optimizer> optimizer) {
  return [optimizer](const optim::Step& step) { optimizer->step(step); };
}

const Kind kinds[] = {
    {"sgd",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::Sgd>(
           context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}},
           optim::SgdOptions{.momentum = 0.9f, .storage = storage}));
     }},
    {"adamw",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::AdamW>(context, parameters, 0.01f,
                                                     optim::AdamWOptions{.storage = storage}));
     }},
    {"lamb",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::Lamb>(
           context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}},
           optim::LambOptions{.storage = storage}));
     }},
    {"adam",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::Adam>(context, parameters, 0.01f,
                                                    optim::AdamWOptions{.storage = storage}));
     }},
    {"rmsprop",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::RmsProp>(
           context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}},
           optim::RmsPropOptions{.momentum = 0.9f, .storage = storage}));
     }},
    {"adagrad",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::Adagrad>(
           context, parameters,
           optim::AdagradOptions{.initial_square = 0.125f, .storage = storage}));
     }},
    {"adadelta",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::Adadelta>(
           context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}},
           optim::AdadeltaOptions{.storage = storage}));
     }},
    {"radam",
     [](Context& context, const Parameters& parameters, const optim::StepStorage& storage) {
       return stepper(std::make_shared<optim::RAdam>(
           context, std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.01f}},
           optim::RAdamOptions{.beta2 = 0.9, .storage = storage}));
     }},
};

// Some rows of a table, others in each step.
Gradient sparse_gradient(Context& context, int step) {
  std::vector<std::int64_t> touched;
  for (std::size_t row = 0; row < rows; ++row)
    if (random_word({.seed = 9, .stream = static_cast<std::uint32_t>(step), .index = row}) % 3 == 0)
      touched.push_back(static_cast<std::int64_t>(row));
  const std::size_t count = touched.size();
  return {random_tensor(context, Shape{count, columns}, "g" + std::to_string(step)),
          Tensor::from(context, std::span<const std::int64_t>(touched), Shape{count})};
}

Tensor weight(Context& context, DType dtype) {
  Tape tape(context);
  const Var fp32 = tape.constant(random_tensor(context, Shape{rows, columns}, "w"));
  return dtype == DType::fp32 ? fp32.value() : cast(tape, fp32, dtype).value();
}

struct Run {
  DType weight = DType::fp32;
  optim::StepStorage storage{};
  bool sparse = false;
};

// The weight after some steps.
std::vector<std::byte> train_model(Context& context, const Kind& kind, const Run& how) {
  const Var w = Var::parameter(context, weight(context, how.weight));
  const Stepper step = kind.make(context, Parameters{{"table", w}}, how.storage);
  for (int i = 0; i < 6; ++i) {
    const Gradient gradient = sparse_gradient(context, i);
    const Tensor dense = context.built_in().to_dense(context, gradient, w.shape());
    w.set_gradient(how.sparse ? gradient : Gradient{dense, {}});
    step({.rate = 0.01, .gradient_factor = 0.5f});
  }
  return bits(context, w.value());
}

const optim::StepStorage narrow{.state = DType::bf16,
                                .state_rounding = Rounding::stochastic,
                                .weight_rounding = Rounding::stochastic,
                                .seed = 12};

// The part of a gradient on a rank that keeps these rows.
Gradient rows_of(Context& context, const Gradient& all, std::size_t begin, std::size_t end) {
  Gradient own;
  own.first_row = begin;
  if (!all.sparse()) {
    own.values = all.values.slice(0, begin, end);
    return own;
  }
  std::vector<std::int64_t> numbers;
  std::size_t first = 0;
  for (const std::int64_t row : all.rows.span<std::int64_t>()) {
    if (static_cast<std::size_t>(row) < begin) ++first;
    if (static_cast<std::size_t>(row) >= begin && static_cast<std::size_t>(row) < end)
      numbers.push_back(row - static_cast<std::int64_t>(begin));
  }
  own.values = all.values.slice(0, first, first + numbers.size());
  own.rows = Tensor::from(context, std::span<const std::int64_t>(numbers), Shape{numbers.size()});
  return own;
}

}  // namespace

TEST_CASE("a sparse gradient steps like the dense one, bit by bit", "[unit][optim]") {
  auto context = make_context();
  for (const Kind& kind : kinds)
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (const optim::StepStorage& storage : {optim::StepStorage{}, narrow}) {
        INFO(kind.name << ' ' << to_string(dtype) << ' ' << to_string(storage.state));
        Run how{.weight = dtype, .storage = storage};
        const auto dense = train_model(context, kind, how);
        how.sparse = true;
        CHECK(train_model(context, kind, how) == dense);
      }
}

TEST_CASE("states that are loaded take part in sparse steps", "[unit][optim]") {
  auto context = make_context();
  for (const optim::StepStorage& storage : {optim::StepStorage{}, narrow}) {
    const auto train = [&](bool interrupted) {
      const Var w = Var::parameter(context, weight(context, DType::fp32));
      const Parameters parameters{{"table", w}};
      const optim::AdamWOptions options{.storage = storage};
      auto optimizer = std::make_unique<optim::AdamW>(context, parameters, 0.01f, options);
      for (int i = 0; i < 6; ++i) {
        if (interrupted && i == 3) {  // taken by an optimizer that has marked other rows
          const StateDict state = optimizer->state();
          optimizer = std::make_unique<optim::AdamW>(context, parameters, 0.01f, options);
          w.set_gradient(sparse_gradient(context, 99));
          optimizer->step({.rate = 0});  // leaves the weight as it is
          optimizer->load_state(state);
        }
        w.set_gradient(sparse_gradient(context, i));
        optimizer->step({.rate = 0.01});
      }
      return bits(context, w.value());
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("a factor that is not finite reaches rows without a gradient", "[unit][optim]") {
  auto context = make_context();
  const auto train = [&](bool sparse) {
    const Var w = Var::parameter(context, weight(context, DType::fp32));
    optim::AdamW optimizer(context, Parameters{{"table", w}}, 0.01f);
    const Gradient gradient = sparse_gradient(context, 0);
    const Tensor dense = context.built_in().to_dense(context, gradient, w.shape());
    w.set_gradient(sparse ? gradient : Gradient{dense, {}});
    optimizer.step({.rate = 0.01, .gradient_factor = std::numeric_limits<float>::infinity()});
    std::vector<bool> nan;
    for (const float value : w.value().span<float>()) nan.push_back(std::isnan(value));
    return nan;
  };
  CHECK(train(true) == train(false));
  CHECK(train(true) == std::vector<bool>(rows * columns, true));
}

TEST_CASE("a sparse gradient of a vector or a stack of matrices", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  for (const Shape& shape : {Shape{9}, Shape{9, 2, 3}}) {
    std::vector<std::byte> results[2];
    for (const bool sparse : {false, true}) {
      const Var w = Var::parameter(context, random_tensor(context, shape, "w"));
      const Gradient gradient{random_tensor(context, shape.with(0, 2), "g"),
                              Tensor::from<std::int64_t>(context, {3, 8}, Shape{2})};
      w.set_gradient(sparse ? gradient
                            : Gradient{context.built_in().to_dense(context, gradient, shape), {}});
      optim::AdamW(context, Parameters{{"w", w}}).step({.rate = 0.1});
      results[sparse ? 1 : 0] = bits(context, w.value());
    }
    CHECK(results[0] == results[1]);
  }
}

TEST_CASE("steps have the same bits for any threads and target", "[unit][optim]") {
  auto first = make_context({.threads = 1});
  for (const Kind& kind : kinds)
    for (const Run& how : {Run{}, Run{.weight = DType::bf16, .storage = narrow},
                           Run{.storage = narrow, .sparse = true}}) {
      INFO(kind.name << ' ' << to_string(how.weight) << ' ' << to_string(how.storage.state));
      const auto wanted = train_model(first, kind, how);
      for (const int threads : {2, 3, 7}) {
        auto context = make_context({.threads = threads});
        CHECK(train_model(context, kind, how) == wanted);
      }
      for (const Target& target : first.targets().targets) {
        if (!target.fused_multiply_add || !first.target().fused_multiply_add) continue;
        INFO(std::string(target.name));
        auto context = make_context({.threads = 1, .target = target.name});
        CHECK(train_model(context, kind, how) == wanted);
      }
      if (how.storage.state == DType::fp32) continue;
      Run other = how;
      other.storage.seed += 1;
      CHECK(train_model(first, kind, other) != wanted);
    }
}

TEST_CASE("stochastic rounding keeps small steps on average", "[unit][optim]") {
  // A weight of 1 in bf16 has neighbours 2^-8 below and 2^-7 above; steps of 2^-13 vanish with
  // rounding to nearest. 64 of them are 2^-7 together.
  auto context = make_context();
  constexpr std::size_t count = 4096;
  for (const bool stochastic : {false, true}) {
    Tape tape(context);
    const Var w = Var::parameter(
        context,
        cast(tape, tape.constant(Tensor::full(context, Shape{64, count / 64}, 1.0f)), DType::bf16)
            .value());
    w.set_gradient({Tensor::full(context, Shape{64, count / 64}, -0x1p-13f), {}});
    optim::Sgd sgd(context, Parameters{{"w", w}},
                   {.storage = {.weight_rounding =
                                    stochastic ? Rounding::stochastic : Rounding::nearest_even}});
    for (int i = 0; i < 64; ++i) sgd.step({.rate = 1});
    const Var wide = cast(tape, tape.constant(w.value()), DType::fp32);
    double mean = 0;
    for (const float x : soma_test::values(context, wide.value()))
      mean += static_cast<double>(x) / static_cast<double>(count);
    if (!stochastic) {
      CHECK(mean == 1);
      continue;
    }
    // Each element is a random walk of at most 64 jumps of 2^-7 with probability 2^-6: a deviation
    // of about 2^-7.
    CHECK(std::fabs(mean - (1 + 0x1p-7)) < 5 * 0x1p-7 / std::sqrt(static_cast<double>(count)));
  }
}

TEST_CASE("parameters, and a weight and its states, draw apart", "[unit][optim]") {
  auto context = make_context({.threads = 1});
  const auto step = [&](const char* name) {
    Tape tape(context);
    const Var w = Var::parameter(
        context,
        cast(tape, tape.constant(Tensor::full(context, Shape{8, 64}, 1.0f)), DType::bf16).value());
    w.set_gradient({Tensor::full(context, Shape{8, 64}, -0x1p-8f), {}});
    optim::Sgd(context, Parameters{{name, w}}, {.storage = narrow}).step({.rate = 1});
    return bits(context, w.value());
  };
  CHECK(step("a") == step("a"));
  CHECK(step("a") != step("b"));
}

TEST_CASE("optimizers that keep some rows step together like one that keeps all", "[unit][optim]") {
  auto context = make_context();
  const auto step_of = [](int i) { return optim::Step{.rate = 0.01 + 0.001 * i}; };
  for (const bool sparse : {false, true})
    for (const optim::StepStorage& storage : {optim::StepStorage{}, narrow}) {
      INFO((sparse ? "sparse" : "dense") << ' ' << to_string(storage.state));
      const Tensor start = weight(context, DType::bf16);
      // The whole, two that share one weight, and two that take over in the middle.
      const Var all = Var::parameter(context, clone(context, start));
      const Var shared = Var::parameter(context, clone(context, start));
      const Parameters of_all{{"table", all}}, of_shared{{"table", shared}};
      struct Part {
        std::size_t begin, end;
        std::unique_ptr<optim::AdamW> optimizer;
      };
      const optim::AdamWOptions options{.storage = storage};
      optim::AdamW one(context, of_all, 0.01f, options);
      const auto part = [&](std::size_t begin, std::size_t end) {
        auto made = std::make_unique<optim::AdamW>(context, of_shared, 0.01f, options);
        made->keep_rows([=](const Parameter& parameter) {
          REQUIRE(parameter.value().size(0) == rows);
          return std::pair(begin, end);
        });
        return Part{begin, end, std::move(made)};
      };
      std::vector<Part> parts;
      parts.push_back(part(0, 100));
      parts.push_back(part(100, 100));  // none
      parts.push_back(part(100, rows));
      for (int i = 0; i < 6; ++i) {
        Gradient gradient = sparse_gradient(context, i);
        if (!sparse) gradient = {context.built_in().to_dense(context, gradient, start.shape()), {}};
        all.set_gradient(gradient);
        if (i == 3) {  // from a whole state, other rows
          parts.clear();
          parts.push_back(part(0, 7));
          parts.push_back(part(7, rows));
          for (Part& each : parts) each.optimizer->load_state(one.state());
        }
        one.step(step_of(i));
        for (Part& each : parts) {
          shared.set_gradient(rows_of(context, gradient, each.begin, each.end));
          each.optimizer->step(step_of(i));
        }
        CHECK(bits(context, shared.value()) == bits(context, all.value()));
      }
      CHECK(parts[0].optimizer->state().at("table.first_moment").shape() == Shape{7, columns});
      CHECK(parts[1].optimizer->state().at("table.second_moment").shape() ==
            Shape{rows - 7, columns});
    }
}

TEST_CASE("a number without rows is one rank's, and its parts are a state again", "[unit][optim]") {
  auto context = make_context();
  const auto number = [&] { return Var::parameter(context, Tensor::scalar(context, 2.0f)); };
  const Var all = number(), shared = number();
  optim::AdamW one(context, Parameters{{"number", all}});
  optim::AdamW own(context, Parameters{{"number", shared}});
  optim::AdamW none(context, Parameters{{"number", shared}});
  own.keep_rows([](const Parameter&) { return std::pair(std::size_t{0}, std::size_t{1}); });
  none.keep_rows([](const Parameter&) { return std::pair(std::size_t{1}, std::size_t{1}); });
  const Tensor gradient = Tensor::scalar(context, 0.25f);
  all.set_gradient({gradient, {}});
  one.step({.rate = 0.1});
  shared.set_gradient({gradient.reshape(Shape{1}), {}});
  own.step({.rate = 0.1});
  shared.set_gradient({Tensor::empty(context, Shape{0}), {}});
  none.step({.rate = 0.1});
  CHECK(shared.value().item<float>() == all.value().item<float>());

  const std::vector<StateDict> parts{own.state(), none.state()};
  const Var later = number();
  later.set_value(clone(context, all.value()));
  optim::AdamW resumed(context, Parameters{{"number", later}});
  resumed.load_state(join_parts(context, parts));
  later.set_gradient({gradient, {}});
  all.set_gradient({gradient, {}});
  one.step({.rate = 0.1});
  resumed.step({.rate = 0.1});
  CHECK(later.value().item<float>() == all.value().item<float>());
}

// Gradients that are views: every optimizer steps as with a row-major copy, bit by bit.

#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;
using soma_test::values;

namespace {

using Made = std::unique_ptr<optim::Optimizer>;

struct Kind {
  const char* name;
  std::function<Made(Context&, const std::vector<optim::Group>&, const optim::StepStorage&)> make;
  bool of_rows = false;  // fp32 only, without weight decay
};

const Kind kinds[] = {
    {"sgd",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::Sgd>(context, groups,
                                           optim::SgdOptions{.momentum = 0.9f, .storage = storage});
     }},
    {"adam",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::Adam>(context, groups,
                                            optim::AdamWOptions{.storage = storage});
     }},
    {"adamw",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::AdamW>(context, groups,
                                             optim::AdamWOptions{.storage = storage});
     }},
    {"lamb",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::Lamb>(context, groups,
                                            optim::LambOptions{.storage = storage});
     }},
    {"rmsprop",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::RmsProp>(
           context, groups, optim::RmsPropOptions{.momentum = 0.9f, .storage = storage});
     }},
    {"adagrad",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::Adagrad>(context, groups,
                                               optim::AdagradOptions{.storage = storage});
     }},
    {"adafactor",
     [](Context& context, const auto& groups, const auto& storage) -> Made {
       return std::make_unique<optim::Adafactor>(
           context, groups, optim::AdafactorOptions{.weight_rounding = storage.weight_rounding});
     }},
    {"lazy adamw",
     [](Context& context, const auto& groups, const auto&) -> Made {
       return std::make_unique<optim::LazyAdamW>(context, groups);
     },
     true},
    {"row adagrad",
     [](Context& context, const auto& groups, const auto&) -> Made {
       return std::make_unique<optim::RowAdagrad>(context, groups);
     },
     true},
    {"row adam",
     [](Context& context, const auto& groups, const auto&) -> Made {
       return std::make_unique<optim::RowAdam>(context, groups);
     },
     true},
};

// Views of one shape. The numbers around their elements are large, so that a step that reads one
// of them shows.
struct GradientView {
  const char* name;
  std::function<Tensor(Context&, const Shape&, DType, int step)> make;
};

Tensor numbers(Context& context, const Shape& shape, DType dtype, int step) {
  Tape tape(context);
  return cast(tape,
              tape.constant(random_tensor(context, shape, "gradient " + std::to_string(step), 8)),
              dtype)
      .value();
}

const GradientView views[] = {
    {"transposed",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       const std::size_t last = shape.rank() - 1;
       return numbers(context, shape.exchanged(0, last), dtype, step).transpose(0, last);
     }},
    {"every other column",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       const std::size_t last = shape.rank() - 1;
       return numbers(context, shape.with(last, 2 * shape[last]), dtype, step)
           .slice(last, 1, to_end, 2);
     }},
    {"every third row",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       return numbers(context, shape.with(0, 3 * shape[0]), dtype, step).slice(0, 2, to_end, 3);
     }},
    {"one row for all",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       return numbers(context, shape.with(0, 1), dtype, step).broadcast_to(shape);
     }},
    {"one number for each row",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       return numbers(context, shape.with(shape.rank() - 1, 1), dtype, step).broadcast_to(shape);
     }},
    {"one number for all",
     [](Context& context, const Shape& shape, DType dtype, int step) {
       return numbers(context, Shape{}, dtype, step).broadcast_to(shape);
     }},
};

// The weight and the states after three steps.
std::vector<std::byte> train(Context& context, const Kind& kind, const GradientView& view,
                             const Shape& shape, DType weight, DType gradient,
                             const optim::StepStorage& storage, bool copied) {
  const Var w = Var::parameter(context, numbers(context, shape, weight, -1));
  const Made optimizer = kind.make(
      context, {{.parameters = {{"w", w}}, .weight_decay = kind.of_rows ? 0.0f : 0.01f}}, storage);
  for (int step = 0; step < 3; ++step) {
    const Tensor values = view.make(context, shape, gradient, step);
    w.set_gradient({copied ? clone(context, values) : values, {}});
    optimizer->step({.rate = 0.01, .gradient_factor = 0.5f});
  }
  std::vector<std::byte> all = bits(context, w.value());
  for (const auto& [name, tensor] : optimizer->state()) {
    const std::vector<std::byte> own = bits(context, tensor);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a gradient that is a view steps like its copy, in every optimizer", "[unit][optim]") {
  auto context = make_context({.threads = 2});
  add_sparse(context);
  const optim::StepStorage narrow{.state = DType::bf16,
                                  .state_rounding = Rounding::stochastic,
                                  .weight_rounding = Rounding::stochastic,
                                  .seed = 12};
  // The last has more elements than a block of LAMB's norms, and its blocks do not end at rows.
  for (const Shape& shape :
       {Shape{5, 7}, Shape{9}, Shape{2, 3, 4}, Shape{6, 1, 3}, Shape{4, 1}, Shape{71, 67}})
    for (const GradientView& view : views)
      for (const Kind& kind : kinds)
        for (const DType gradient : {DType::fp32, DType::bf16})
          for (const bool rounded : {false, true}) {
            if (kind.of_rows && (rounded || gradient != DType::fp32)) continue;
            INFO(kind.name << ", " << view.name << ' ' << to_string(shape) << ' '
                           << to_string(gradient) << (rounded ? " rounded" : ""));
            const DType weight = rounded ? DType::bf16 : DType::fp32;
            const optim::StepStorage storage = rounded ? narrow : optim::StepStorage{};
            CHECK(train(context, kind, view, shape, weight, gradient, storage, false) ==
                  train(context, kind, view, shape, weight, gradient, storage, true));
          }
}

TEST_CASE("a first step goes along the gradient of each weight of a view", "[unit][optim]") {
  // A transposed parameter has a transposed gradient. Decay is off and the states are new, so LAMB,
  // Adam and RMSprop step along signs, and SGD along the gradient.
  auto context = make_context();
  const float factors[] = {1, -2, 4, -8, 16, -32};  // of the transposed weight, [3, 2]
  for (const Kind& kind : kinds) {
    const std::string name = kind.name;
    if (kind.of_rows || name == "adafactor") continue;
    INFO(name);
    const Var w = Var::parameter(context, Tensor::full(context, Shape{2, 3}, 1.0f));
    {
      Tape tape(context);
      const Var all = tape.constant(Tensor::from(context, factors, Shape{3, 2}));
      tape.backward(sum(tape, mul(tape, transpose(tape, w, 0, 1), all)));
    }
    CHECK_FALSE(w.gradient().values.contiguous());
    kind.make(context, {{.parameters = {{"w", w}}}}, {})->step({.rate = 0.125});
    const std::vector<float> after = values(context, w.value());
    double shortest = 0;  // the length of a step along a sign
    for (std::size_t i = 0; i < 6; ++i) {
      const float factor = factors[i % 3 * 2 + i / 3];
      const double moved = 1 - static_cast<double>(after[i]);
      if (name == "sgd") {
        CHECK(moved == 0.125 * static_cast<double>(factor));
        continue;
      }
      if (i == 0) shortest = moved;
      CHECK(shortest > 0);
      CHECK(std::abs(moved - (factor < 0 ? -shortest : shortest)) < 1e-5);
    }
  }
}

TEST_CASE("the norm that LAMB divides by is that of the view", "[unit][optim]") {
  // Weights of 1 and one direction of 1 for each: the trust ratio is 1, so that a step is the rate.
  // A step that read the large numbers between the elements would have another ratio.
  auto context = make_context();
  const Var w = Var::parameter(context, Tensor::full(context, Shape{64, 65}, 1.0f));
  const Tensor wide = Tensor::full(context, Shape{64, 130}, 1e6f);
  const Tensor view = wide.slice(1, 0, to_end, 2);
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 65; ++j) wide.mutable_span<float>()[i * 130 + 2 * j] = 0.5f;
  w.set_gradient({view, {}});
  optim::Lamb(context, {{.parameters = {{"w", w}}}}).step({.rate = 0.125});
  for (const float value : values(context, w.value())) CHECK(std::abs(value - 0.875f) < 1e-5f);
}

// Delayed scales whose histories say nothing: what has been 0 or NaN so far may have any magnitude
// next, and keeps the scale of its own amax until an amax is known.

#include <soma/nn/precision_state.hpp>
#include <soma/ops/product/packed_weights.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

using namespace soma;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Three layers; the loss is the sum of squares times a factor.
struct Run {
  Context& context;
  PrecisionState state;
  models::Mlp model;
  Parameters parameters;

  explicit Run(Context& c, const Precision& precision = Precision::fp8_delayed())
      : context(c),
        state(c, precision, 1),
        model({c}, std::vector<std::size_t>{16, 16, 16, 16}, Activation::tanh),
        parameters(nn::parameters(model)) {}

  // The norm of the gradient of the layer in the middle, the only one that converts.
  double step(float factor, float input = 1) {
    const Tensor x = Tensor::empty(context, Shape{8, 16});
    for (std::size_t i = 0; i < x.elements(); ++i)
      x.mutable_span<float>()[i] = input * std::sin(static_cast<float>(i));
    Tape tape(context, {.precision = &state});
    const Var y = model(tape, tape.constant(x));
    const Var scale = tape.constant(Tensor::full(context, Shape{}, factor));
    tape.backward(mul(tape, sum(tape, square(tape, y)), scale));
    const double norm = optim::gradient_norm(context, Parameters{{"", model.layers[1].weight}});
    clear_gradients(parameters);
    state.end_step();
    return norm;
  }
};

double norm_of_first_step(Context& context, float factor) { return Run(context).step(factor); }

struct Calls {
  int count = 0;
  float other = 0;  // the value of the other ranks
  static void run(void* self, std::span<float> values) {
    auto& calls = *static_cast<Calls*>(self);
    ++calls.count;
    for (float& value : values) value = (std::max)(value, calls.other);
  }
};

}  // namespace

TEST_CASE("after gradients of 0 the first real one has the scale of its own amax", "[unit]") {
  auto context = make_context({.threads = 1});
  for (const float factor : {1.0f, 1e-9f, 1e-20f, 1e9f}) {
    const double wanted = norm_of_first_step(context, factor);
    CHECK(wanted > 0);
    for (const int zeros : {1, 2, 16, 20}) {
      Run run(context);
      for (int i = 0; i < zeros; ++i) CHECK(run.step(0) == 0);
      INFO(zeros << " steps of 0, then " << factor);
      CHECK(run.step(factor) == wanted);
      // Now its amax is known, and gives the same scale.
      CHECK(run.step(factor) == wanted);
    }
  }
}

TEST_CASE("an amax that has left the history is unknown again", "[unit]") {
  auto context = make_context({.threads = 1});
  Precision precision = Precision::fp8_delayed();
  precision.gemm_gradients.scaling.history = 3;
  Run run(context, precision);
  CHECK(run.step(1) > 0);
  for (int i = 0; i < 2; ++i) run.step(0);
  CHECK(run.step(1e-12f) == 0);  // the scale of 1, three steps ago
  Run forgetful(context, precision);
  forgetful.step(1);
  for (int i = 0; i < 3; ++i) forgetful.step(0);
  CHECK(forgetful.step(1e-12f) == norm_of_first_step(context, 1e-12f));
}

TEST_CASE("steps of NaN alone say nothing of a scale", "[unit]") {
  auto context = make_context({.threads = 1});
  const double wanted = norm_of_first_step(context, 1e-9f);
  Run run(context);
  for (int i = 0; i < 2; ++i) CHECK(std::isnan(run.step(not_a_number)));
  CHECK(run.step(1e-9f) == wanted);
  Run poisoned(context);  // forward as well
  CHECK(std::isnan(poisoned.step(1, not_a_number)));
  CHECK(poisoned.step(1e-9f) == wanted);
}

TEST_CASE("a resumed history of zeros or NaN is as unknown as it was", "[unit]") {
  auto context = make_context({.threads = 1});
  const double wanted = norm_of_first_step(context, 1e-9f);
  Run run(context);
  for (int i = 0; i < 2; ++i) run.step(0);
  Run resumed(context);
  resumed.state.load_state(run.state.state());
  CHECK(resumed.step(1e-9f) == wanted);
  CHECK(run.step(1e-9f) == wanted);
  CHECK(run.step(1e-9f) == resumed.step(1e-9f));

  StateDict bad;
  for (const auto& [name, tensor] : run.state.state()) {
    const Tensor values = Tensor::full(context, tensor.shape(), not_a_number);
    values.mutable_span<float>()[0] = std::numeric_limits<float>::infinity();
    bad.set(name, values);
  }
  Run other(context);
  other.state.load_state(bad);
  CHECK(other.step(1e-9f) == wanted);
}

TEST_CASE("over ranks a scale is known as soon as one rank has seen a number", "[unit]") {
  auto context = make_context({.threads = 1});
  // The others see zeros, too: all have to ask for the maximum of x and dy, in each step.
  Calls zeros;
  Run run(context);
  run.state.set_maximum({&zeros, &Calls::run});
  run.step(0);
  CHECK(zeros.count == 2 + 1);
  run.step(0);
  CHECK(zeros.count == 2 + 1 + 1 + 1);  // x is known now, dy is not
  CHECK(run.step(1e-9f) == norm_of_first_step(context, 1e-9f));
  CHECK(zeros.count == 4 * 2 - 1);
  run.step(1e-9f);
  CHECK(zeros.count == 4 * 2);  // all is known
  // Another rank has seen more: its amax ends what is unknown, here as there.
  Calls more{.other = 1};
  Run beside(context);
  beside.state.set_maximum({&more, &Calls::run});
  beside.step(0);
  const int before = more.count;
  beside.step(0);
  CHECK(more.count == before + 1);
}

TEST_CASE("operands of a run draw by the second mapping, or by that of its checkpoint", "[unit]") {
  auto context = make_context({.threads = 1});
  Precision precision = Precision::fp8_current();
  precision.gemm_activations.rounding = Rounding::stochastic;
  precision.gemm_weights.rounding = {
      .mode = RoundingMode::stochastic, .random_bits = 9, .draws = DrawMapping::philox};
  const auto formats_of = [](PrecisionState& state) {
    const LinearFormats* formats = state.formats({.layer = "layer"});
    REQUIRE(formats != nullptr);
    return *formats;
  };
  PrecisionState state(context, precision, 1);
  Record described("state");
  state.describe(described);
  CHECK(described.text("precision.draws") == "ars");
  CHECK(state.mapping() == DrawMapping::ars);
  const LinearFormats formats = formats_of(state);
  CHECK(formats.x.quantizer.rounding == Rounding{RoundingMode::stochastic, 0, DrawMapping::ars});
  CHECK(formats.weight.quantizer.rounding == precision.gemm_weights.rounding);  // asked for
  CHECK(formats.gradient.quantizer.rounding == Rounding::nearest_even);

  for (const bool second : {false, true}) {
    PrecisionState resumed(context, precision, 1);
    resumed.keep_mapping(second ? described : Record("of when there was one mapping"));
    const DrawMapping wanted = second ? DrawMapping::ars : DrawMapping::philox;
    CHECK(resumed.mapping() == wanted);
    CHECK(formats_of(resumed).x.quantizer.rounding.draws == wanted);
    Record again("again");
    resumed.describe(again);
    CHECK(again.contains("precision.draws") == second);
  }
  // Nothing is said where nothing is drawn, or every mapping is asked for.
  precision.gemm_activations.rounding.draws = DrawMapping::ars;
  for (const Precision& other : {precision, Precision::fp8_delayed(), Precision::bf16_sr()}) {
    Record silent("silent");
    PrecisionState(context, other, 1).describe(silent);
    CHECK_FALSE(silent.contains("precision.draws"));
  }
  // Sums of gradients in transit are drawn, too.
  Precision reduced;
  reduced.reduction = {.format = formats::bf16, .rounding = Rounding::stochastic};
  Record record("reduced");
  PrecisionState(context, reduced, 1).describe(record);
  CHECK(record.text("precision.draws") == "ars");
}

TEST_CASE("packed weights are refused where products read converted operands", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto answered = [&](const Precision& precision) {
    PrecisionState state(context, precision, 1);
    PackedWeights packed(context);
    const models::Mlp model({context}, std::vector<std::size_t>{16, 16, 16, 16}, Activation::tanh);
    Tape tape(context,
              {.record = false, .training = false, .precision = &state, .packed = &packed});
    static_cast<void>(model(tape, tape.constant(Tensor::zeros(context, Shape{8, 16}))));
  };
  CHECK(soma_test::id_of([&] { answered(Precision::fp8_current()); }) == "autograd.options");
  CHECK(soma_test::id_of([&] { answered(Precision::bf16_nearest()); }) == "no error");
}

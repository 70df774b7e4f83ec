// Operands that a function in plain code rounds: against the definition, for views and narrow
// types, with and without a scale.

#include <soma/neuroncore.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/numeric/precision_text.hpp>
#include <soma/ops/all.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::message_of;

namespace {

// The nearest power of two in logarithms, up to 2^12 and down to 2^-6; 0 below.
float power(float value) {
  if (std::isnan(value) || value == 0) return value;
  const float exponent = std::round(std::log2(std::abs(value)));
  if (exponent < -6) return std::copysign(0.0f, value);
  return std::copysign(std::exp2(std::min(exponent, 12.0f)), value);
}
constexpr OwnRounding powers{"powers", [](std::span<float> values) {
                               for (float& value : values) value = power(value);
                             }};
constexpr OwnRounding e4m3{"e4m3", [](std::span<float> values) {
                             for (float& value : values)
                               value =
                                   decode(formats::fp8_e4m3fn, encode(formats::fp8_e4m3fn, value));
                           }};

Tensor numbers(Context& context, const Shape& shape) {
  Tensor tensor = Tensor::empty(context, shape);
  float* values = tensor.mutable_data<float>();
  for (std::size_t i = 0; i < tensor.elements(); ++i) {
    const std::uint32_t word = random_word({.seed = 8, .stream = 1}, i);
    values[i] = std::ldexp(static_cast<float>(word) * 0x1p-31f - 1, static_cast<int>(i % 9) - 4);
  }
  if (tensor.elements() > 9) {
    values[3] = std::numeric_limits<float>::quiet_NaN();
    values[5] = std::numeric_limits<float>::infinity();
    values[7] = -0.0f;
  }
  return tensor;
}

std::vector<std::uint32_t> bits(const Tensor& tensor) {
  std::vector<std::uint32_t> words(tensor.elements());
  if (!words.empty()) std::memcpy(words.data(), tensor.raw(), 4 * words.size());
  return words;
}

// Precision::bf16 or cfp8, with functions that do what its formats do.
Precision by_functions(Precision precision, const OwnRounding& forward,
                       const OwnRounding& gradients) {
  precision.gemm_activations.own = precision.gemm_weights.own = forward;
  precision.gemm_gradients.own = gradients;
  return precision;
}

}  // namespace

TEST_CASE("a rounding of one's own rounds each number under the scale", "[unit]") {
  for (const int threads : {1, 4}) {
    auto context = make_context({.threads = threads});
    const Tensor whole = numbers(context, Shape{37, 2500});
    const Tensor narrow =
        run(context, ops::cast, CastSetting{.dtype = DType::bf16}, {numbers(context, {9, 33})})[0];
    for (const Tensor& x :
         {whole, numbers(context, {1}), numbers(context, {3, 5, 7}), Tensor::zeros(context, {0, 4}),
          narrow, run(context, ops::transpose, TransposeSetting{0, 1}, {whole})[0]})
      for (const ScalePolicy policy :
           {ScalePolicy::none, ScalePolicy::current, ScalePolicy::delayed}) {
        const Quantizer quantizer{
            .format = formats::fp8_e4m3fn, .scaling = {.policy = policy}, .own = powers};
        INFO(x.describe() << ", " << to_string(policy) << ", " << threads << " threads");
        const Outputs made = run(context, ops::quantize,
                                 QuantizeSetting{.quantizer = quantizer, .scale = 0.01f}, {x});
        REQUIRE(made[0].dtype() == DType::fp32);
        const Tensor plain =
            run(context, ops::cast, CastSetting{.dtype = DType::fp32}, {contiguous(context, x)})[0];
        float amax = 0;
        for (const float value : plain.span<float>())
          if (std::isfinite(value)) amax = std::max(amax, std::abs(value));
        const float scale = policy == ScalePolicy::none ? 1
                            : policy == ScalePolicy::delayed
                                ? 0.01f
                                : scale_for(quantizer.scaling, quantizer.format, amax);
        std::vector<float> wanted;
        for (const float value : plain.span<float>()) {
          float scaled = value * (1 / scale);
          if (policy != ScalePolicy::none && std::isfinite(value))
            scaled = std::clamp(scaled, -448.0f, 448.0f);
          wanted.push_back(power(scaled) * scale);
        }
        const Tensor expected =
            Tensor::from(context, std::span<const float>(wanted), plain.shape());
        CHECK(bits(made[0]) == bits(expected));
        CHECK(made[1].data<float>()[0] == scale);
        CHECK(made[2].data<float>()[0] == amax);
      }
  }
}

TEST_CASE("a function that does what a format does gives the format's bits", "[unit]") {
  auto context = make_context({.math = Math::portable});
  // Scales that are powers of two: a product that is multiplied by them is exact.
  Precision built_in = Precision::cfp8();
  for (Quantizer* q :
       {&built_in.gemm_activations, &built_in.gemm_weights, &built_in.gemm_gradients})
    q->format = formats::fp8_e4m3fn;
  const auto train = [&](const Precision& precision) {
    PrecisionState state(context, precision, 1);
    const std::size_t sizes[] = {16, 24, 24, 8};
    const models::Mlp model({context}, sizes);
    Tape tape(context, {.precision = &state});
    Tensor x = Tensor::empty(context, {12, 16});
    for (std::size_t i = 0; i < x.elements(); ++i)
      x.mutable_data<float>()[i] = std::sin(static_cast<float>(i));
    const Var y = model(tape, tape.constant(x));
    const std::vector<std::uint32_t> forward = bits(y.value());
    tape.backward(y, Tensor::full(context, y.shape(), 0.37f));
    return std::pair(forward, bits(model.layers[1].weight.gradient().values));
  };
  CHECK(train(by_functions(built_in, e4m3, e4m3)) == train(built_in));
  CHECK(train(by_functions(built_in, powers, e4m3)) != train(built_in));
  CHECK(train(by_functions(built_in, e4m3, powers)) != train(built_in));
}

TEST_CASE("where a rounding of one's own is refused", "[unit]") {
  const auto refusal = [](const Precision& precision) {
    return message_of([&] { validate(precision, "test"); });
  };
  Precision p = by_functions(Precision::fp8_current(), powers, powers);
  CHECK_NOTHROW(validate(p, "test"));
  CHECK(to_string(p).find("gemm_weights fp8_e4m3fn by \"powers\", current tensor") !=
        std::string::npos);
  Precision stored = p;
  stored.weights.own = powers;
  CHECK(refusal(stored) ==
        "test: weights.own is \"powers\", wanted none: a rounding of one's own is for operands of "
        "products (the gemm_ roles) [train.precision]");
  Precision grouped = p;
  grouped.gemm_weights.scaling.granularity = Granularity::row;
  CHECK(refusal(grouped) ==
        "test: gemm_weights.scaling.granularity is row, wanted tensor, where "
        "the rounding is one's own [train.precision]");
  Precision drawn = p;
  drawn.gemm_weights.rounding = Rounding::stochastic;
  CHECK(refusal(drawn) ==
        "test: gemm_weights.rounding is stochastic, wanted nearest_even, where "
        "the rounding is one's own [train.precision]");
  Precision half = p;
  half.gemm_weights.own.name = {};
  CHECK(refusal(half) ==
        "test: gemm_weights.own is a function without a name, wanted both "
        "[train.precision]");
  half.gemm_weights.own = {.name = "powers"};
  CHECK(refusal(half) ==
        "test: gemm_weights.own is a name without a function, wanted both "
        "[train.precision]");

  auto context = make_context();
  CHECK(message_of([&] {
          run(context, ops::quantize,
              QuantizeSetting{.quantizer = {.scaling = {.policy = ScalePolicy::current,
                                                        .granularity = Granularity::row},
                                            .own = powers}},
              {numbers(context, {4, 4})});
        }) ==
        "quantize: scaling.granularity is row, wanted tensor, where the rounding is one's own "
        "[scaling.invalid]");

  // A core could not run it. A device that only watches lets the host compute.
  const auto once = [&] {
    return run(context, ops::quantize,
               QuantizeSetting{.quantizer = {.format = formats::bf16, .own = powers}},
               {numbers(context, {4, 4})})[0];
  };
  const std::vector<std::uint32_t> wanted = bits(once());
  {
    const Profiler profiler(context);
    CHECK(bits(once()) == wanted);
  }
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  auto device = neuroncore::make_device(core);
  context.set_device(&device);
  const std::string refused = message_of([&] { once(); });
  context.set_device(nullptr);
  CHECK(refused.find("quantize: own is \"powers\", wanted a rounding that the device has (") == 0);
}

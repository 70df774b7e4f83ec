// Precisions: presets, words, and what is refused.

#include <soma/numeric/precision_text.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <set>

using namespace soma;
using soma_test::message_of;

TEST_CASE("presets are valid, differ in words, and are found by name", "[unit]") {
  std::set<std::string> texts;
  for (const Precision& preset : precision_presets()) {
    INFO(preset.name);
    CHECK(&validate(preset, "test") == &preset);
    CHECK(Precision::named(preset.name) == preset);
    texts.insert(to_string(preset));
  }
  CHECK(texts.size() == precision_presets().size());
  CHECK(Precision() == Precision::fp32());
  CHECK(message_of([] { Precision::named("fp12"); }) ==
        "Precision: name is \"fp12\", wanted one of fp32, tf32, bf16, bf16_sr, bf16_nearest, fp16, "
        "fp8_delayed, fp8_current, fp8_rowwise, fp8_block, mxfp8, mxfp8_up, mxfp8_trn3, mxfp6, "
        "mxfp4, nvfp4, cfp8 [train.precision]");
}

TEST_CASE("presets are what their recipes say", "[unit]") {
  const Precision sr = Precision::bf16_sr();
  CHECK(sr.weights == Quantizer{.format = formats::bf16, .rounding = Rounding::stochastic});
  CHECK(sr.moments == sr.weights);
  CHECK(sr.weight_gradients == Quantizer{.format = formats::bf16});
  const Precision delayed = Precision::fp8_delayed();
  CHECK(delayed.weights == Quantizer{});
  CHECK(delayed.gemm_weights.format == formats::fp8_e4m3fn);
  CHECK(delayed.gemm_gradients.format == formats::fp8_e5m2);
  CHECK(delayed.gemm_gradients.scaling == Scaling{.policy = ScalePolicy::delayed});
  const Precision mx = Precision::mxfp8();
  for (const Quantizer& role : {mx.gemm_activations, mx.gemm_weights, mx.gemm_gradients})
    CHECK(role == Quantizer{.format = formats::fp8_e4m3fn,
                            .scaling = {.policy = ScalePolicy::current,
                                        .granularity = Granularity::group_32,
                                        .format = ScaleFormat::mx}});
  CHECK(Precision::mxfp8_up().gemm_weights.scaling.rule == ScaleRule::up);
  CHECK(Precision::mxfp8_trn3().gemm_gradients.scaling.rule == ScaleRule::trn3);
  CHECK(Precision::mxfp6().gemm_weights.format == formats::fp6_e3m2);
  CHECK(Precision::mxfp4().gemm_activations.format == formats::fp4_e2m1);
  CHECK(Precision::mxfp4().gemm_activations.scaling == mx.gemm_weights.scaling);
  CHECK(Precision::nvfp4().gemm_weights.scaling == Scaling{.policy = ScalePolicy::current,
                                                           .granularity = Granularity::group_16,
                                                           .format = ScaleFormat::e4m3});
  const Precision block = Precision::fp8_block();
  CHECK(block.gemm_weights.scaling.granularity == Granularity::block_128x128);
  CHECK(block.gemm_gradients.scaling.granularity == Granularity::block_1x128);
  const Precision biased = Precision::cfp8(9, 11, 20);
  CHECK(biased.gemm_weights.format.bias == 11);
  CHECK(biased.gemm_gradients.format.exponent_bits == 5);
  CHECK(biased.gemm_activations.scaling == Scaling{});
  CHECK(Precision::fp16().loss_scaling);
}

TEST_CASE("one line has all that computes otherwise", "[unit]") {
  CHECK(to_string(Precision::fp32()) == "fp32");
  Precision p = Precision::mxfp8();
  p.gemm_gradients.rounding = {RoundingMode::stochastic, 8, DrawMapping::ars};
  p.gemm_gradients.scaling.margin = 2;
  p.accumulation = {.format = formats::bf16, .chunk = 4, .promote = 128};
  p.narrow_edges = true;
  CHECK(to_string(p) ==
        "mxfp8: activations bf16; activation_gradients bf16; gemm_activations fp8_e4m3fn, current "
        "32 e8m0 scale; gemm_weights fp8_e4m3fn, current 32 e8m0 scale; gemm_gradients fp8_e4m3fn "
        "stochastic 8 bits ars, current 32 e8m0 scale margin 2; accumulation bf16 after each 4, to "
        "fp32 after 128; edges narrow");
}

TEST_CASE("what a role cannot have is refused by its name", "[unit]") {
  const auto problem = [](auto change) {
    Precision p;
    change(p);
    return message_of([&] { validate(p, "test"); });
  };
  CHECK(problem([](Precision& p) { p.weights.format = formats::fp6_e2m3; }) ==
        "test: weights.format is fp6_e2m3, wanted a format that tensors support: fp32, tf32, fp16, "
        "bf16 or "
        "an 8-bit format (others are for the gemm_ roles) [train.precision]");
  CHECK(problem([](Precision& p) { p.moments.format = formats::e8m0; }) ==
        "test: moments.format is e8m0, wanted a format with a sign and a zero [train.precision]");
  CHECK(problem([](Precision& p) { p.activations.scaling.policy = ScalePolicy::current; }) ==
        "test: activations.scaling.policy is current, wanted none: only the operands of products "
        "have scales (the gemm_ roles) [train.precision]");
  CHECK(problem([](Precision& p) { p.activation_gradients.rounding = Rounding::stochastic; }) ==
        "test: activation_gradients.rounding is stochastic, wanted nearest_even (others are for "
        "weights, moments, reduction and the gemm_ roles) [train.precision]");
  CHECK(problem([](Precision& p) {
          p.gemm_weights.scaling = {.policy = ScalePolicy::delayed,
                                    .granularity = Granularity::row};
        }) ==
        "test: gemm_weights.scaling.granularity is row, wanted tensor, where the scale is a "
        "delayed one [train.precision]");
  CHECK(problem([](Precision& p) { p.gemm_gradients.scaling.history = 0; }) ==
        "test: gemm_gradients.scaling.history is 0, wanted 1 to 4096 [train.precision]");
  CHECK(problem([](Precision& p) { p.gemm_gradients.scaling.margin = 65; }) ==
        "test: gemm_gradients.scaling.margin is 65, wanted 0 to 64 [train.precision]");
  CHECK(problem([](Precision& p) { p.gemm_activations.rounding.random_bits = 33; }) ==
        "test: gemm_activations.rounding.random_bits is 33, wanted 0 (automatic) to 32 "
        "[train.precision]");
  CHECK(problem([](Precision& p) {
          p.gemm_activations.format.exponent_bits = 9;
        }).starts_with("test: gemm_activations.format is "));
  CHECK(problem([](Precision& p) { p.accumulation.chunk = 0; }) ==
        "test: accumulation.chunk is 0, wanted 1 to 2^32 [train.precision]");
  CHECK(problem([](Precision& p) { p.gemm_weights.format = formats::fp4_e2m1; }) == "no error");
}

// Precisions as JSON.

#include <soma/io/precision_json.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <span>
#include <string>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

TEST_CASE("every preset, and one of one's own, reads back from its JSON", "[unit]") {
  for (const Precision& preset : precision_presets())
    CHECK(precision_from_json(to_json(preset)) == preset);
  Precision p = Precision::cfp8(9, 11, 20);
  p.name = "mine \"\xC3\xA9\"";
  p.weights = {.format = formats::fp16,
               .rounding = {RoundingMode::stochastic, 12, DrawMapping::philox}};
  p.gemm_gradients.scaling = {.policy = ScalePolicy::delayed,
                              .format = ScaleFormat::power_of_two,
                              .history = 7,
                              .margin = 3};
  p.accumulation = {.format = {.exponent_bits = 8, .mantissa_bits = 13, .bias = 127},
                    .chunk = 32,
                    .promote = 128};
  p.narrow_edges = p.loss_scaling = true;
  p.stored = {"head", "encoder.*.output"};
  CHECK(precision_from_json(to_json(p)) == p);
}

TEST_CASE("what a file leaves out is the preset's", "[unit]") {
  CHECK(precision_from_json("{}") == Precision::fp32());
  CHECK(precision_from_json(R"({"preset": "mxfp8"})") == Precision::mxfp8());
  Precision wanted = Precision::fp8_current();
  wanted.name = "changed fp8_current";
  wanted.weights = {.format = formats::bf16, .rounding = Rounding::stochastic};
  wanted.gemm_weights = {.format = formats::fp6_e3m2};
  CHECK(precision_from_json(R"({"preset": "fp8_current", "gemm_weights": "fp6_e3m2",
                                "weights": {"format": "bf16", "rounding": "stochastic"}})") ==
        wanted);
  const Precision own = precision_from_json(
      R"({"name": "own", "gemm_weights": {"format": {"exponent_bits": 4, "mantissa_bits": 3},
          "scaling": {"granularity": "32", "format": "e8m0"}}})");
  CHECK(own.name == "own");
  CHECK(own.gemm_weights.format == formats::fp8_e4m3);  // bias 7 by itself
  CHECK(own.gemm_weights.scaling == Scaling{.policy = ScalePolicy::current,
                                            .granularity = Granularity::group_32,
                                            .format = ScaleFormat::mx});
}

TEST_CASE("rules, rotations and what each product reads", "[unit]") {
  const Precision p = precision_from_json(R"({"preset": "mxfp4", "name": "mine",
      "gemm_weights": {"format": "fp4_e2m1", "rotation": {"size": 32, "signs": "drawn"},
                       "scaling": {"granularity": "16", "format": "e4m3"}},
      "gemm_activations": {"format": "fp4_e2m1", "rotation": {"size": 32, "signs": "drawn"},
                           "scaling": {"granularity": "32", "format": "e8m0", "rule": "up"}},
      "gemm_gradients": {"format": "fp6_e3m2", "rounding": "stochastic",
                         "rotation": {"size": 32, "signs": "drawn"},
                         "scaling": {"granularity": "32x32", "format": "e8m0", "rule": "even"}},
      "weight_gradient": {"gemm_activations": "bf16", "gemm_gradients": "bf16"}})");
  const Rotation rotation{32, Rotation::Signs::drawn};
  CHECK(p.gemm_weights == Quantizer{.format = formats::fp4_e2m1,
                                    .scaling = {.policy = ScalePolicy::current,
                                                .granularity = Granularity::group_16,
                                                .format = ScaleFormat::e4m3},
                                    .rotation = rotation});
  CHECK(p.gemm_activations.scaling.rule == ScaleRule::up);
  CHECK(p.gemm_gradients.scaling.rule == ScaleRule::even);
  CHECK(p.gemm_gradients.scaling.granularity == Granularity::block_32x32);
  CHECK(p.weight_gradient.activations == Quantizer{.format = formats::bf16});
  CHECK(p.weight_gradient.gradients == Quantizer{.format = formats::bf16});
  CHECK_FALSE(p.forward.weights.has_value());
  CHECK(precision_from_json(to_json(p)) == p);
  CHECK(to_string(p).find("gemm_weights fp4_e2m1 rotated by 32 with drawn signs, current 16 e4m3 "
                          "scale") != std::string::npos);
  CHECK(to_string(p).find("weight_gradient.gemm_activations bf16") != std::string::npos);
}

TEST_CASE("what is wrong in a file is named", "[unit]") {
  const auto problem = [](const char* text) {
    return message_of([&] { precision_from_json(text); });
  };
  CHECK(problem(R"({"gemm_weights": {"format": "fp4_e2m1", "rotation": {"size": 16}}})") ==
        "precision_from_json: gemm_weights.rotation.size is 16, wanted 0, and the same signs: both "
        "operands of a product are rotated alike [train.precision]");
  CHECK(problem(R"({"preset": "mxfp4", "forward": {"gemm_weights": {"format": "fp4_e2m1",
                    "rotation": {"size": 16}}}})") ==
        "precision_from_json: forward.gemm_weights.rotation.size is 16, wanted 0, and the same "
        "signs: both operands of a product are rotated alike [train.precision]");
  CHECK(problem(R"({"gemm_weights": {"scaling": {"granularity": "32", "rule": "up"}}})") ==
        "precision_from_json: gemm_weights.scaling.rule is up, wanted none: rules are for scales "
        "of the format e8m0 [train.precision]");
  CHECK(problem(R"({"gemm_weights": {"scaling": {"format": "e4m3"}}})") ==
        "precision_from_json: gemm_weights.scaling.granularity is tensor, wanted parts of a "
        "tensor, for scales in e4m3 [train.precision]");
  CHECK(problem(R"({"forward": {"gemm_gradients": "bf16"}})") ==
        "precision_from_json: forward.gemm_gradients is \"bf16\", wanted a name that "
        "docs/precision.md lists [train.precision]");
  CHECK(problem(R"({"preset": "fp8_delayed", "weight_gradient": {"gemm_gradients": "bf16"}})") ==
        "precision_from_json: weight_gradient.gemm_gradients.scaling.policy is delayed, wanted "
        "none or current, in gemm_gradients too: what one product reads has no history of its own "
        "[train.precision]");
  for (const char* text :
       {R"({"gemm_weights": {"rotation": {"size": 48}}})",
        R"({"weights": {"rotation": {"size": 16}}})",
        R"({"gemm_weights": {"rotation": {"size": 16, "signs": "some"}}})",
        R"({"forward": "bf16"})", R"({"gemm_weights": {"scaling": {"rule": "down"}}})"})
    CHECK(id_of([&] { precision_from_json(text); }) == "train.precision");
  CHECK(problem(R"({"stored": "head"})") ==
        "precision_from_json: stored is \"head\", wanted a list of texts [train.precision]");
  CHECK(problem("[1]") ==
        "precision_from_json: text is [1], wanted a JSON object [train.precision]");
  CHECK(problem("{\"weights\":") ==
        "precision_from_json: text is 11 bytes that are no JSON, wanted a JSON object "
        "[train.precision]");
  CHECK(problem(R"({"wights": "bf16"})") ==
        "precision_from_json: wights is \"bf16\", wanted a name that docs/precision.md lists "
        "[train.precision]");
  CHECK(problem(R"({"gemm_weights": {"scaling": {"policy": "late"}}})") ==
        "precision_from_json: gemm_weights.scaling.policy is \"late\", wanted one of none current "
        "delayed [train.precision]");
  CHECK(problem(R"({"accumulation": {"chunk": 1.5}})") ==
        "precision_from_json: accumulation.chunk is 1.5, wanted an integer from 1 to 4294967296 "
        "[train.precision]");
  CHECK(problem(R"({"moments": {"format": {"exponent_bits": 9}}})") ==
        "precision_from_json: moments.format.exponent_bits is 9, wanted an integer from 1 to 8 "
        "[train.precision]");
  for (const char* text :
       {R"({"weights": 3})", R"({"weights": null})", R"({"name": 1})", R"({"preset": "x"})",
        R"({"narrow_edges": "yes"})", R"({"weights": {"format": "fp9"}})",
        R"({"weights": {"format": "bf16", "mode": 1}})", R"({"accumulation": []})",
        R"({"accumulation": {"chunk": 18446744073709551615}})",
        R"({"accumulation": {"promote": -1}})", R"({"weights": {"random_bits": 300}})",
        R"({"weights": {"draws": "aes"}})",
        R"({"gemm_weights": {"format": {"exponent_bits": 4, "mantissa_bits": 3, "bias": 900}}})",
        R"({"weights": {"format": "fp4_e2m1"}})"})
    CHECK(id_of([&] { precision_from_json(text); }) == "train.precision");
  CHECK(id_of([] { precision_from_json(std::string_view("{}\0", 3)); }) == "train.precision");
  const std::string deep(1'000'000, '[');
  CHECK(id_of([&] {
          precision_from_json("{\"weights\": " + deep + std::string(deep.size(), ']') + "}");
        }) == "train.precision");
  CHECK(id_of([] { find_precision("/nowhere/mine.json"); }) == "file.read");
  CHECK(find_precision("bf16_sr") == Precision::bf16_sr());
}

TEST_CASE("a rounding of one's own is shown, and a file has none", "[unit]") {
  Precision precision = Precision::fp8_current();
  precision.gemm_weights.own = {"table 7", [](std::span<float>) {}};
  const std::string text = to_json(precision);
  CHECK(text.find(R"("own": "table 7")") != std::string::npos);
  CHECK(message_of([&] { precision_from_json(text); }) ==
        "precision_from_json: gemm_weights.own is \"table 7\", wanted none: a file has no "
        "functions; a program sets an OwnRounding [train.precision]");
}

// Choosing tokens beside the processors of transformers, draws, and generation_config.json.

#include <soma/base/model_keys.hpp>
#include <soma/decoders.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using namespace soma;
using models::GenerationConfig;
using models::SamplingOptions;
using models::TokenChance;
using soma_test::id_of;
using soma_test::message_of;

// 40 scores with equal ones among them, the likeliest ones too.
std::vector<float> tied_scores() {
  const nlohmann::json all = nlohmann::json::parse(
      soma_test::read_text(std::string(SOMA_TEST_DECODERS) + "/sampling.json"));
  return all["rows"][0].get<std::vector<float>>();
}

std::vector<std::int32_t> ids_of(const std::vector<TokenChance>& chances) {
  std::vector<std::int32_t> ids;
  for (const TokenChance& chance : chances) ids.push_back(chance.id);
  return ids;
}

GenerationConfig config_of(const std::string& text) {
  return models::generation_config_from_json(text);
}

}  // namespace

TEST_CASE("tokens are kept as by the usual library, with its ties", "[unit][models]") {
  const nlohmann::json all = nlohmann::json::parse(
      soma_test::read_text(std::string(SOMA_TEST_DECODERS) + "/sampling.json"));
  const auto seen = all["seen"].get<std::vector<std::int32_t>>();
  std::size_t several = 0, cut = 0;
  for (const nlohmann::json& each : all["cases"]) {
    const auto scores = all["rows"][each["row"].get<std::size_t>()].get<std::vector<float>>();
    const SamplingOptions options{.temperature = each["temperature"],
                                  .top_k = each["top_k"],
                                  .top_p = each["top_p"],
                                  .min_p = each["min_p"],
                                  .repetition_penalty = each["repetition_penalty"]};
    INFO(each.dump());
    auto chances = models::token_chances(scores, options, seen);
    const auto kept = each["ids"].get<std::vector<std::int32_t>>();
    auto wanted = each["probabilities"].get<std::vector<double>>();
    REQUIRE(chances.size() == kept.size());
    if (ids_of(chances) != kept) {
      // Where top_p cuts between equal scores the usual library's sort decides which stay.
      CHECK(options.top_p < 1);
      ++cut;
      std::sort(chances.begin(), chances.end(), [](const TokenChance& a, const TokenChance& b) {
        return a.probability < b.probability;
      });
      std::sort(wanted.begin(), wanted.end());
    }
    // Scores are fp32 there and here: three roundings, 3 * 2^-24 of scores up to 12.
    for (std::size_t i = 0; i < chances.size(); ++i)
      CHECK(std::abs(chances[i].probability - wanted[i]) < 1e-6);
    several += chances.size() > 1;
  }
  CHECK(several > 100);
  CHECK(cut < 40);
}

TEST_CASE("greedy takes the lowest of equal ids, behind the penalty", "[unit][models]") {
  const std::vector<float> scores{1, 4, 4, -2, 3.5f};
  const auto best = [&](const SamplingOptions& options, std::vector<std::int32_t> seen = {},
                        std::vector<std::uint8_t> drawable = {}) {
    const auto chances = models::token_chances(scores, options, seen, drawable);
    REQUIRE(chances.size() == 1);
    CHECK(chances[0].probability == 1);
    return chances[0].id;
  };
  CHECK(best({}) == 1);
  CHECK(best({.repetition_penalty = 1.5f}, {1}) == 2);
  CHECK(best({.repetition_penalty = 1.5f}, {1, 2, 1}) == 4);
  CHECK(best({.top_k = 1, .top_p = 0, .min_p = 1}) == 1);  // greedy reads none of these
  CHECK(best({}, {}, {1, 0, 1, 1, 1}) == 2);
  // A penalty makes scores below 0 smaller, too.
  const std::vector<float> low{-1, -1.25f};
  CHECK(models::token_chances(low, {.repetition_penalty = 2}, std::vector{0})[0].id == 1);
  // A penalty counts an id once.
  const std::vector<float> high{8, 3};
  CHECK(models::token_chances(high, {.repetition_penalty = 2}, std::vector{0, 0, 0})[0].id == 0);
}

TEST_CASE("limits of sampling keep one token, or all", "[unit][models]") {
  const std::vector<float> scores = tied_scores();
  const auto count = [&](SamplingOptions options) {
    options.temperature = 1;
    return models::token_chances(scores, options).size();
  };
  CHECK(count({.top_p = 0}) == 1);
  const std::vector<float> equal{1, 2, 2, 2, 0};
  CHECK(ids_of(models::token_chances(equal, {.temperature = 1, .top_p = 0.6f})) ==
        std::vector<std::int32_t>{1, 2, 3});
  CHECK(ids_of(models::token_chances(equal, {.temperature = 1, .top_p = 0.5f})) ==
        std::vector<std::int32_t>{1, 2});
  CHECK(count({.top_p = 1}) == scores.size());
  CHECK(count({.top_k = 1}) == 1);
  CHECK(count({.top_k = 1000}) == scores.size());
  CHECK(count({.min_p = 1}) == 1);
  CHECK(count({}) == scores.size());
  std::vector<float> broken = scores;
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(id_of([&] { models::token_chances(broken, {}); }) == "models.not_finite");
  const std::vector<std::uint8_t> none(scores.size(), 0);
  CHECK(id_of([&] { models::token_chances(scores, {}, {}, none); }) == "models.generator");
  CHECK(id_of([&] { models::token_chances(scores, {.temperature = 1e-38f}); }) ==
        "models.not_finite");
}

TEST_CASE("draws have the probabilities of their tokens", "[unit][models][stat]") {
  const auto chances = models::token_chances(tied_scores(), {.temperature = 1.25f, .top_k = 30});
  const std::size_t draws = 100000;
  const auto chi_square = [&](const auto& draw) {
    std::map<std::int32_t, double> counts;
    for (std::size_t i = 0; i < draws; ++i) counts[draw(i).id] += 1;
    double sum = 0;
    for (const TokenChance& chance : chances) {
      const double wanted = chance.probability * static_cast<double>(draws);
      sum += (counts[chance.id] - wanted) * (counts[chance.id] - wanted) / wanted;
    }
    return sum;
  };
  const auto degrees = static_cast<double>(chances.size() - 1);
  // The seeds are fixed; six standard deviations would be exceeded by chance once in a million.
  const double most = degrees + 6 * std::sqrt(2 * degrees);
  CHECK(chi_square([&](std::size_t i) {
          return models::draw_token(chances, 3, 5, static_cast<std::uint32_t>(i));
        }) < most);
  CHECK(chi_square([&](std::size_t i) { return models::draw_token(chances, 3, i, 17); }) < most);
  CHECK(chi_square([&](std::size_t i) { return models::draw_token(chances, i, 0, 17); }) < most);
  // The same name, the same draw.
  CHECK(models::draw_token(chances, 3, 5, 8).id == models::draw_token(chances, 3, 5, 8).id);
}

TEST_CASE("generation_config.json is read as the usual library reads it", "[unit][models]") {
  const GenerationConfig nothing = config_of("{}");
  CHECK(nothing.sampling.temperature == 0);
  CHECK(nothing.sampling.repetition_penalty == 1);
  CHECK(nothing.max_new == 0);
  const GenerationConfig greedy =
      config_of(R"({"temperature": 0.5, "top_k": 3, "top_p": 0.5, "repetition_penalty": 1.25})");
  CHECK(greedy.sampling.temperature == 0);
  CHECK(greedy.sampling.top_k == 0);
  CHECK(greedy.sampling.repetition_penalty == 1.25f);
  const GenerationConfig usual = config_of(R"({"do_sample": true})");
  CHECK(usual.sampling.temperature == 1);
  CHECK(usual.sampling.top_k == 50);
  CHECK(usual.sampling.top_p == 1);
  const GenerationConfig all = config_of(
      R"({"do_sample": true, "temperature": 0.7, "top_k": 0, "top_p": 0.9, "min_p": 0.05,
          "max_new_tokens": 12, "max_length": 99, "eos_token_id": [3, 4], "stop_strings": "end",
          "note": "kept", "num_beams": 1, "guidance_scale": null, "use_cache": true})");
  CHECK(all.sampling.temperature == 0.7f);
  CHECK(all.sampling.top_k == 0);
  CHECK(all.sampling.top_p == 0.9f);
  CHECK(all.sampling.min_p == 0.05f);
  CHECK(all.max_new == 12);
  CHECK(all.most_rows == 99);
  CHECK(all.end_ids == std::vector<std::int32_t>{3, 4});
  CHECK(all.stop_texts == std::vector<std::string>{"end"});
  const std::string written = models::to_json(all);
  CHECK(nlohmann::json::parse(written)["note"] == "kept");
  CHECK(models::to_json(config_of(written)) == written);
  for (const GenerationConfig& each : {nothing, greedy, usual, all}) {
    const GenerationConfig again = config_of(models::to_json(each));
    CHECK(again.sampling.temperature == each.sampling.temperature);
    CHECK(again.sampling.top_k == each.sampling.top_k);
    CHECK(again.sampling.top_p == each.sampling.top_p);
    CHECK(again.sampling.min_p == each.sampling.min_p);
    CHECK(again.sampling.repetition_penalty == each.sampling.repetition_penalty);
    CHECK(again.end_ids == each.end_ids);
    CHECK(again.stop_texts == each.stop_texts);
    CHECK(again.max_new == each.max_new);
    CHECK(again.most_rows == each.most_rows);
  }
}

TEST_CASE("every key of generation_config.json does what its table says", "[unit][models]") {
  std::size_t refused = 0;
  for_each_model_key(ModelFile::generation_config, [&](const ModelKey& key) {
    const std::string name(key.key);
    INFO(name);
    const nlohmann::json odd = {{name, {"odd", 7}}}, nothing = {{name, nullptr}};
    CHECK(id_of([&] { config_of(nothing.dump()); }) == "no error");
    if (key.use == KeyUse::harmless)
      CHECK(id_of([&] { config_of(odd.dump()); }) == "no error");
    else
      CHECK(id_of([&] { config_of(odd.dump()); }) ==
            (key.use == KeyUse::refused ? "models.config_value" : "models.config_type"));
    if (key.use != KeyUse::refused) return;
    ++refused;
    if (!key.neutral.empty())
      CHECK(id_of([&] { config_of("{\"" + name + "\": " + std::string(key.neutral) + "}"); }) ==
            "no error");
  });
  CHECK(refused > 25);
  CHECK(message_of([&] { config_of(R"({"num_beams": 4})"); }) ==
        "generation_config_from_json: num_beams of \"generation_config.json\" is 4, wanted 1 "
        "[models.config_value]");
}

TEST_CASE("broken generation_config.json files are refused", "[unit][models]") {
  for (const auto& [text, id] :
       std::map<std::string, std::string>{{"", "models.config_json"},
                                          {"[]", "models.config_json"},
                                          {"{\"top_k\": 5", "models.config_json"},
                                          {R"({"top_k": -1})", "models.config_value"},
                                          {R"({"top_k": 2.5})", "models.config_type"},
                                          {R"({"top_p": 1.01})", "models.config_value"},
                                          {R"({"top_p": "0.9"})", "models.config_type"},
                                          {R"({"min_p": -0.1})", "models.config_value"},
                                          {R"({"temperature": -1})", "models.config_value"},
                                          {R"({"temperature": 1e300})", "models.config_value"},
                                          {R"({"repetition_penalty": 0})", "models.config_value"},
                                          {R"({"do_sample": 1})", "models.config_type"},
                                          {R"({"eos_token_id": -1})", "models.config_type"},
                                          {R"({"eos_token_id": [1, "2"]})", "models.config_type"},
                                          {R"({"eos_token_id": 4294967296})", "models.config_type"},
                                          {R"({"stop_strings": ["a", ""]})", "models.config_type"},
                                          {R"({"stop_strings": 3})", "models.config_type"},
                                          {R"({"max_new_tokens": 1e3})", "models.config_type"},
                                          {R"({"max_length": 99999999999})", "models.config_value"},
                                          {R"({"max_time": 3})", "models.config_value"}}) {
    INFO(text);
    CHECK(id_of([&] { config_of(text); }) == id);
  }
}

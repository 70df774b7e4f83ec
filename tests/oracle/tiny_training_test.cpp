// Ten training steps beside the same steps in float64 (README.md), and the same weights from any
// number of threads and any target.

#include "oracle/tiny_training.hpp"

#include <soma/soma.hpp>

#include <nlohmann/json.hpp>

#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

using namespace soma;
using soma_test::TinyTraining;

namespace {

std::vector<unsigned char> read(const char* name) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / name, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json load_oracle() { return nlohmann::json::parse(read("tiny_bert.json")); }

// A correct fp32 program has no reason to stray ten times as far as another one did.
constexpr double margin = 10;

}  // namespace

TEST_CASE("every gradient of the first step agrees with float64", "[unit][oracle]") {
  const nlohmann::json oracle = load_oracle();
  const std::vector<unsigned char> file = read("tiny_bert_gradients.bin");
  std::map<std::string, double> largest;
  for (const auto& stored : oracle["parameters"]) largest[stored["name"]] = stored["max_abs"];
  auto context = make_context();
  TinyTraining training(context);
  REQUIRE(training.parameters().size() == oracle["parameters"].size());
  training.step([&](const Tensor& logits, float, double) {
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 3; ++j)
        CHECK(std::fabs(static_cast<double>(logits.data<float>()[3 * i + j]) -
                        oracle["logits"][i][j].get<double>()) <=
              margin * oracle["fp32"]["logits"].get<double>());
    for (std::size_t p = 0; p < training.parameters().size(); ++p) {
      const Parameter& parameter = training.parameters()[p];
      const auto& stored = oracle["parameters"][p];
      INFO(parameter.name);
      REQUIRE(stored["name"].get<std::string>() == parameter.name);
      const Tensor gradient =
          context.built_in().to_dense(context, parameter.gradient(), parameter.value().shape());
      const std::vector<double> wanted =
          soma_test::tiny_gradient(file, stored["offset"], gradient.elements(), stored["max_abs"]);
      // The gradient of a key's bias is zero: its noise is seen beside that of the key's weight.
      std::string scale = parameter.name;
      if (scale.ends_with("key.bias")) scale.replace(scale.size() - 4, 4, "weight");
      const double bar =
          (margin * oracle["fp32"]["gradient"].get<double>() + 0x1p-24) * largest[scale];
      double worst = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        worst = (std::max)(worst,
                           std::fabs(static_cast<double>(gradient.data<float>()[i]) - wanted[i]));
      CHECK(worst <= bar);
    }
  });
}

TEST_CASE("ten training steps agree with float64", "[unit][oracle]") {
  const nlohmann::json oracle = load_oracle();
  auto context = make_context();
  TinyTraining training(context);
  StateDict state = nn::state_dict(training.parameters());
  for (const auto& stored : oracle["steps"]) {
    training.step([&](const Tensor&, float loss, double norm) {
      CHECK(std::fabs(static_cast<double>(loss) - stored["loss"].get<double>()) <=
            margin * oracle["fp32"]["loss"].get<double>());
      CHECK(std::fabs(norm / stored["grad_norm"].get<double>() - 1) <=
            margin * oracle["fp32"]["grad_norm_relative"].get<double>());
    });
    for (std::size_t i = 0; i < oracle["probes"].size(); ++i) {
      const Tensor& tensor = state.at(oracle["probes"][i][0].get<std::string>());
      const float value = tensor.data<float>()[oracle["probes"][i][1].get<std::size_t>()];
      CHECK(std::fabs(static_cast<double>(value) - stored["probe"][i].get<double>()) <=
            margin * oracle["fp32"]["probe"].get<double>());
    }
  }
  for (const auto& stored : oracle["parameters"]) {
    const std::string name = stored["name"];
    if (name.ends_with("key.bias")) continue;  // steps of noise: README.md
    double sum = 0, magnitudes = 0;
    for (const float value : state.at(name).span<float>()) {
      sum += static_cast<double>(value);
      magnitudes += std::fabs(static_cast<double>(value));
    }
    INFO(name);
    const double scale = stored["sum_abs"];
    CHECK(std::fabs(sum - stored["sum"].get<double>()) <=
          margin * oracle["fp32"]["sum"].get<double>() * scale);
    CHECK(std::fabs(magnitudes - scale) <=
          margin * oracle["fp32"]["sum_abs"].get<double>() * scale);
  }
}

TEST_CASE("weights after twenty steps are the same bits for any threads and, portable, any target",
          "[unit][invariance]") {
  const auto train = [](const ContextOptions& options) {
    auto context = make_context(options);
    TinyTraining training(context);
    training.steps(20);
    return training.weights_hash();
  };
  const std::uint64_t hash = train({.threads = 1});
  for (const int threads : {2, 3, 7}) CHECK(train({.threads = threads}) == hash);
  const std::uint64_t portable = train({.threads = 1, .math = Math::portable});
  auto any = make_context();
  if (any.fp32_products() == Fp32Products::multiply_add) CHECK(portable == hash);
  for (const Target& target : any.targets().targets) {
    if (!target.fused_multiply_add) continue;
    INFO(std::string(target.name));
    for (const int threads : {1, 3})
      CHECK(train({.threads = threads, .math = Math::portable, .target = target.name}) == portable);
  }
}

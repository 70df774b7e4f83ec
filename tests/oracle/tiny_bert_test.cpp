// The oracle's files and the header that repeats their inputs agree.
#include "oracle/tiny_bert.hpp"
#include "catch.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

std::ifstream open(const char* name) {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path() / name, std::ios::binary);
  REQUIRE(file);
  return file;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

TEST_CASE("the oracle's weights, ids and labels can be made again", "[unit]") {
  const auto oracle = nlohmann::json::parse(open("tiny_bert.json"));
  std::uint64_t hash = soma_test::fnv1a64_start, number = 0;
  for (const auto& parameter : oracle["parameters"]) {
    std::uint64_t count = 1;
    for (const auto& size : parameter["shape"]) count *= size.get<std::uint64_t>();
    const auto kind = soma_test::tiny_kind(parameter["name"].get<std::string>());
    for (std::uint64_t i = 0; i < count; ++i)
      hash = soma_test::fnv1a64(soma_test::tiny_weight(number, i, kind), hash);
    ++number;
  }
  CHECK(hex(hash) == oracle["weights_fnv1a64"].get<std::string>());

  std::uint64_t step = 0;
  for (const auto& stored : oracle["steps"]) {
    std::vector<std::size_t> lengths;
    std::vector<std::int32_t> ids, labels;
    for (std::size_t k = 0; k < soma_test::tiny_sequences; ++k) {
      lengths.push_back(soma_test::tiny_length(step, k));
      labels.push_back(soma_test::tiny_label(step, k));
    }
    for (std::uint64_t t = 0; t < soma_test::tiny_tokens; ++t)
      ids.push_back(soma_test::tiny_id(step, t));
    CHECK(stored["lengths"] == lengths);
    CHECK(stored["ids"] == ids);
    CHECK(stored["labels"] == labels);
    ++step;
  }
  CHECK(step == 10);
}

TEST_CASE("the oracle's gradients are stored whole", "[unit]") {
  const auto oracle = nlohmann::json::parse(open("tiny_bert.json"));
  auto file = open("tiny_bert_gradients.bin");
  const std::vector<unsigned char> bytes(std::istreambuf_iterator<char>(file), {});
  CHECK(hex(soma_test::fnv1a64(bytes)) == oracle["gradients_fnv1a64"].get<std::string>());

  std::size_t end = 0;
  double squares = 0;
  for (const auto& parameter : oracle["parameters"]) {
    std::size_t count = 1;
    for (const auto& size : parameter["shape"]) count *= size.get<std::size_t>();
    REQUIRE(parameter["offset"] == end);
    const double max_abs = parameter["max_abs"];
    double largest = 0;
    for (const double value : soma_test::tiny_gradient(bytes, end, count, max_abs)) {
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    CHECK(largest == max_abs);
    end += 3 * count;
  }
  CHECK(end == bytes.size());
  // Rounding to 24 bits of each tensor's largest value changes the norm far less than that.
  const double norm = oracle["steps"][0]["grad_norm"];
  CHECK(std::abs(std::sqrt(squares) - norm) < norm * 0x1p-24);
}

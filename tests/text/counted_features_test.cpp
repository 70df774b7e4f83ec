// Counted features: weights against the formulas over plain maps, words that were never seen, the
// table in a file, letters and marks beyond ASCII, threads.

#include <soma/soma.hpp>
#include <soma/text/counted_features.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

struct Learned {
  text::CountedFeatures features;
  text::FeatureRows rows;
};

Learned learned(Context& context, const std::vector<std::string_view>& texts,
                const std::vector<std::int32_t>& labels, std::size_t classes,
                const text::CountedFeatureOptions& options) {
  text::CountedFeatures features(options);
  const text::FeatureCounts counts = features.learn(context, texts);
  std::vector<std::int64_t> begins;
  for (std::size_t i = 0; i <= texts.size(); ++i) begins.push_back(static_cast<std::int64_t>(i));
  const std::vector<std::uint8_t> used(texts.size(), 1);
  features.weigh(counts, begins, labels, classes, used);
  return {features, features.values(counts, used, 1)};
}

text::FeatureRows row_of(const text::CountedFeatures& features, std::string_view text) {
  text::FeatureRows rows;
  features.add(text, rows);
  return rows;
}

std::vector<float> sorted(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// Words and pairs of a text of plain words, with their counts.
std::map<std::string, int> words_of(const std::string& content) {
  std::map<std::string, int> counts;
  std::string before, word;
  for (const char letter : content + " ") {
    if (letter != ' ') {
      word.push_back(letter);
      continue;
    }
    if (word.empty()) continue;
    ++counts[word];
    if (!before.empty()) ++counts[before + " " + word];
    before = word;
    word.clear();
  }
  return counts;
}

}  // namespace

TEST_CASE("counted features have the weights of the formulas", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::string> content = {"a good good film", "a bad film",
                                            "good film of a good man", "bad bad bad", "film"};
  const std::vector<std::string_view> texts(content.begin(), content.end());
  const std::vector<std::int32_t> labels{1, 0, 1, 0, 2};
  const std::size_t classes = 3;
  const Learned made = learned(context, texts, labels, classes, {.ngrams = 2, .strength = 0.5});
  // By the formulas.
  std::map<std::string, double> df;
  std::map<std::string, std::vector<double>> k;
  std::vector<double> in_class(classes);
  double all = 0;
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (const auto& [word, count] : words_of(content[i])) {
      df[word] += 1;
      k[word].resize(classes);
      k[word][static_cast<std::size_t>(labels[i])] += 1;
      in_class[static_cast<std::size_t>(labels[i])] += 1;
      all += 1;
    }
  const auto value_of = [&](const std::string& word, int count) {
    return (1 + std::log(count)) * (std::log((1 + 5.0) / (1 + df[word])) + 1);
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<double> values;
    double length = 0;
    for (const auto& [word, count] : words_of(content[i])) {
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        const double own = k[word][c], m = df[word];
        const double r =
            std::log(((own + 0.3) / (m - own + 0.3 * 2)) / (in_class[c] / (all - in_class[c])));
        sum += (own + 0.3) / (m + 0.9) * r * r;
      }
      values.push_back(value_of(word, count) * std::pow(sum, 0.25));
      length += values.back() * values.back();
    }
    std::vector<float> wanted;
    for (const double value : values)
      wanted.push_back(static_cast<float>(value / std::sqrt(length)));
    const auto begin = made.rows.values.begin() + made.rows.begins[i];
    const auto got = sorted({begin, made.rows.values.begin() + made.rows.begins[i + 1]});
    wanted = sorted(wanted);
    REQUIRE(got.size() == wanted.size());
    // Weights and their product have some ten roundings to float.
    for (std::size_t j = 0; j < got.size(); ++j)
      CHECK(std::abs(got[j] - wanted[j]) < 10 * 0x1p-24f);
    CHECK(made.rows.known[i] == 1);
    // The way of single texts.
    const text::FeatureRows one = row_of(made.features, texts[i]);
    CHECK(sorted(one.values) == got);
  }
}

TEST_CASE("unseen words dilute a text and add nothing", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::string_view> texts{"a good film", "a bad film", "good", "bad"};
  const Learned made = learned(context, texts, {1, 0, 1, 0}, 2, {.ngrams = 1, .strength = 0});
  const text::FeatureRows known = row_of(made.features, "good"),
                          more = row_of(made.features, "good zyxwv vwxyz");
  CHECK(known.known[0] == 1);
  REQUIRE(more.values.size() == 1);
  // The three words have idf ln(5 / 3) + 1 and twice ln(5 / 2) + 1.
  const double word = std::log(5 / 3.0) + 1, unseen = std::log(5 / 2.0) + 1;
  const double wanted = word / std::sqrt(word * word + 2 * unseen * unseen);
  CHECK(std::abs(static_cast<double>(more.known[0]) - wanted) < 1e-6);
  CHECK(std::abs(static_cast<double>(more.values[0]) - wanted) < 1e-6);
  const text::FeatureRows none = row_of(made.features, "zyxwv");
  CHECK(none.values.empty());
  CHECK(none.known[0] == 0);
  CHECK(row_of(made.features, "").known[0] == 0);
}

TEST_CASE("one in some thirty thousand unseen words finds a row", "[unit]") {
  auto context = make_context({.threads = 1});
  std::vector<std::string> content;
  for (int i = 0; i < 3000; ++i) content.push_back("word" + std::to_string(i));
  const std::vector<std::string_view> texts(content.begin(), content.end());
  const std::vector<std::int32_t> labels(texts.size(), 0);
  const Learned made = learned(context, texts, labels, 2, {.ngrams = 1, .strength = 0});
  CHECK(made.features.rows() == 3000);
  std::size_t found = 0;
  for (int i = 0; i < 200000; ++i)
    found += row_of(made.features, "other" + std::to_string(i)).values.size();
  CHECK(found <= 20);  // 7 or so are expected
}

TEST_CASE("letters and marks beyond ASCII", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::string_view> texts{
      "\xC3\x84RGER \xC2\xAB"
      "gut\xC2\xBB",
      "\xE4\xBD\xA0\xE5\xA5\xBD\xE5\x90\x97"};
  const Learned made = learned(context, texts, {0, 1}, 2, {.ngrams = 1, .strength = 0});
  // "\u00e4rger", both marks, "gut"; three characters, two pairs, a triple.
  CHECK(made.rows.begins[1] == 4);
  CHECK(made.rows.begins[2] - made.rows.begins[1] >= 3);
  CHECK(row_of(made.features, "\xC3\xA4rger").values.size() == 1);
  CHECK(row_of(made.features, "GUT").values.size() == 1);
  CHECK(row_of(made.features, "\xE5\xA5\xBD").values.size() == 1);
  const Learned runs = learned(context, texts, {0, 1}, 2, {.ngrams = 2, .strength = 0});
  CHECK(runs.rows.begins[2] - runs.rows.begins[1] == 6);
}

TEST_CASE("threads change no bit of counted features", "[invariance]") {
  std::vector<std::string> content;
  for (int i = 0; i < 4000; ++i)
    content.push_back("some words " + std::to_string(i % 97) + " and others " +
                      std::to_string(i % 13) + " then more of them");
  const std::vector<std::string_view> texts(content.begin(), content.end());
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 4000; ++i) labels.push_back(i % 3);
  text::FeatureRows first;
  for (const int threads : {1, 2, 7}) {
    auto context = make_context({.threads = threads});
    const Learned made =
        learned(context, texts, labels, 3, {.parts_from = 3, .parts = 5, .strength = 0.5});
    if (threads == 1) first = made.rows;
    CHECK(made.rows.features == first.features);
    CHECK(made.rows.values == first.values);
  }
}

TEST_CASE("tables of counted features that do not fit themselves are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::string_view> texts{"a good film", "a bad film"};
  const text::CountedFeatureOptions options{.ngrams = 1};
  const Learned made = learned(context, texts, {1, 0}, 2, options);
  const auto refused = [&](const auto& change) {
    text::CountedFeatures::Table table = made.features.table();
    change(table);
    return id_of([&] { text::CountedFeatures(options, table); }) == error_id::text_features.name;
  };
  using Table = text::CountedFeatures::Table;
  const text::CountedFeatures again(options, made.features.table());
  CHECK(row_of(again, "a good film").values == row_of(made.features, "a good film").values);
  CHECK(refused([](Table& t) { t.bits = 3; }));
  CHECK(refused([](Table& t) { t.bits = 31; }));
  CHECK(refused([](Table& t) { t.fingerprints.pop_back(); }));
  CHECK(refused([](Table& t) { t.homes[0] = -1; }));
  CHECK(refused([](Table& t) { t.homes[0] = 1 << 20; }));
  CHECK(refused([](Table& t) { t.g.pop_back(); }));
  CHECK(refused([](Table& t) { t.idf[0] = std::nanf(""); }));
  const auto bad = [](const text::CountedFeatureOptions& one) {
    return id_of([&] { text::CountedFeatures{one}; }) == error_id::text_features.name;
  };
  CHECK(bad({.ngrams = 0}));
  CHECK(bad({.parts_from = 4, .parts = 3}));
  CHECK(bad({.parts = 5}));
  CHECK(bad({.strength = -1}));
}

// The linear classifier of FastClassifier::fit(): it learns, is saved and answers as before, keeps
// to base rates where a text has no known word, and refuses what it cannot fit.

#include <soma/soma.hpp>

#include <soma/models/fast_classifier.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "models/fast_texts.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::id_of;

namespace {

using Text = soma_test::LabelledText;

// "not good" and "not bad" mean the opposite of their words: pairs are needed. A third of the rows
// is positive by chance alone.
std::vector<Text> reviews(std::size_t count) {
  const char* const good[] = {"good", "fine", "bright", "warm"};
  const char* const bad[] = {"bad", "dull", "cold", "weak"};
  const char* const things[] = {"lamp", "film", "chair", "song", "soup"};
  std::vector<Text> made;
  for (std::size_t i = 0; i < count; ++i) {
    const bool word = i * 7 % 3 != 0, negated = i % 5 == 1;
    made.push_back({std::string("the ") + things[i / 7 % 5] + " number " + std::to_string(i) +
                        " was " + (negated ? "not " : "") +
                        (word ? good[i / 3 % 4] : bad[i / 3 % 4]),
                    word != negated ? 1 : 0});
  }
  return made;
}

struct Work {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("soma_linear_" + std::to_string(::getpid()));
  Work() { std::filesystem::create_directories(path); }
  ~Work() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

const std::vector<std::string> two{"negative", "positive"};

}  // namespace

TEST_CASE("a linear classifier needs rows only, is saved and answers as before", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const auto model = models::FastClassifier::fit(context, reviews(600), two);
  CHECK(model.predict("the soup was not warm").label == "negative");
  CHECK(model.predict("the soup was not dull").label == "positive");
  CHECK(model.linear()->fitted().held_out_rows > 30);
  CHECK(model.linear()->fitted().held_out_accuracy > 0.95);
  CHECK(model.predict(" ").label.empty());
  const Work work;
  model.save(work / "model", {.fp32 = true});
  CHECK(models::is_fast_classifier(work / "model"));
  const auto loaded = models::FastClassifier::from_folder(context, work / "model");
  CHECK(loaded.labels() == two);
  for (const char* text : {"a bright chair", "", "the film was weak and cold", "\xff unknown"})
    CHECK(loaded.predict(text).probabilities == model.predict(text).probabilities);
  // A trainer has nothing to train here.
  CHECK(model.parameters().empty());
}

TEST_CASE("threads change no bit of a linear classifier", "[invariance]") {
  std::vector<Text> rows = reviews(900);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].label = static_cast<std::int64_t>(i % 40);
    rows[i].text += " kind" + std::to_string(i % 40);
  }
  std::vector<std::string> labels;
  for (int c = 0; c < 40; ++c) labels.push_back("class " + std::to_string(c));
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 7}) {
    auto context = make_context({.threads = threads});
    add_sparse(context);
    const auto model = models::FastClassifier::fit(context, rows, labels);
    const std::vector<float> got = model.predict("the lamp of kind7 was fine").probabilities;
    if (threads == 1) first = got;
    CHECK(got == first);
    CHECK(model.predict("number 3 was kind7").label == "class 7");
  }
}

TEST_CASE("a text of unseen words has the base rates, and unseen words dilute", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  std::vector<Text> rows = reviews(600);
  // Some labels are wrong, so that no text is certain.
  for (std::size_t i = 3; i < rows.size(); i += 10) rows[i].label = 1 - rows[i].label;
  double positive = 0;
  for (const Text& row : rows) positive += static_cast<double>(row.label);
  const auto model = models::FastClassifier::fit(context, rows, two, {.parts = 0});
  const double p = static_cast<double>(model.predict("zyxwv qwrtz").probabilities[1]);
  CHECK(std::abs(p - positive / 600) < 1e-4);
  std::string text = "the film was good";
  float before = model.predict(text).probabilities[1];
  CHECK(before > 0.75f);
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 1 << (2 * i); ++k)
      text += " zyx" + std::to_string(i) + "v" + std::to_string(k);
    const float now = model.predict(text).probabilities[1];
    CHECK(now < before);
    before = now;
  }
}

TEST_CASE("several labels a text, each alone", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  std::vector<Text> rows;
  const char* const words[] = {"red", "green", "blue"};
  for (int i = 0; i < 600; ++i) {
    Text row{"thing " + std::to_string(i % 50)};
    for (int c = 0; c < 3; ++c)
      if ((i * 37 >> c & 1) != 0) {
        row.labels.push_back(c);
        row.text += std::string(" ") + words[c];
      }
    rows.push_back(row);
  }
  const auto model =
      models::FastClassifier::fit(context, rows, {"r", "g", "b"}, {}, data::LabelKind::several);
  CHECK(model.predict("thing 7 red blue").labels.size() == 2);
  CHECK(model.predict("thing 7 green").labels == std::vector<std::string>{"g"});
  CHECK(model.predict("thing 8").labels.empty());
  const Work work;
  model.save(work / "several");
  const auto loaded = models::FastClassifier::from_folder(context, work / "several");
  CHECK(loaded.predict("thing 7 red blue").labels == model.predict("thing 7 red blue").labels);
}

TEST_CASE("odd sets of rows have a classifier", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const auto right = [&](const std::vector<Text>& rows, const std::vector<std::string>& labels) {
    const auto model = models::FastClassifier::fit(context, rows, labels);
    double count = 0;
    for (const Text& row : rows)
      count += model.predict(row.text).label == labels[static_cast<std::size_t>(row.label)];
    return count / static_cast<double>(rows.size());
  };
  CHECK(right(reviews(20), two) > 0.6);
  std::vector<Text> rare;
  for (int i = 0; i < 1000; ++i)
    rare.push_back(
        {i % 100 == 0 ? "rare thing" : "usual thing " + std::to_string(i), i % 100 == 0});
  CHECK(right(rare, two) >= 0.99);
  std::vector<Text> same;
  for (int i = 0; i < 100; ++i) same.push_back({"one text", i % 4 == 0});
  CHECK(right(same, two) == 0.75);
  std::vector<Text> once;
  for (int i = 0; i < 200; ++i) once.push_back({"w" + std::to_string(i), i % 3 == 0});
  CHECK(right(once, two) >= 0.66);
  std::vector<Text> large{{std::string(1 << 20, 'x'), 0}, {"small", 1}};
  CHECK(right(large, two) >= 0.5);
  std::vector<Text> lone = reviews(100);
  lone[50].label = 2;
  CHECK(right(lone, {"negative", "positive", "lone"}) > 0.9);
  // Many classes of few rows, no word twice in a text, and texts of nothing.
  std::vector<Text> few;
  std::vector<std::string> many;
  for (int c = 0; c < 150; ++c) {
    many.push_back("class " + std::to_string(c));
    for (int i = 0; i < 5; ++i)
      few.push_back({"topic" + std::to_string(c) + " said " + std::to_string(i), c});
  }
  CHECK(right(few, many) > 0.95);
  std::vector<Text> empty;
  for (int i = 0; i < 100; ++i) empty.push_back({"", i % 4 == 0});
  CHECK(models::FastClassifier::fit(context, empty, two).predict("a text").label == "negative");
  // A class without a row is never predicted.
  const auto model = models::FastClassifier::fit(context, reviews(100), {"no", "yes", "never"});
  CHECK(model.predict("the song was good").probabilities[2] == 0);
}

TEST_CASE("rows and folders that a linear classifier refuses", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto fitted = [&](const std::vector<Text>& rows, const std::vector<std::string>& labels,
                          const models::FastFitOptions& options = {},
                          data::LabelKind kind = data::LabelKind::one) {
    return id_of([&] { models::FastClassifier::fit(context, rows, labels, options, kind); });
  };
  CHECK(fitted(reviews(30), two) == error_id::no_sparse.name);
  add_sparse(context);
  CHECK(fitted({}, two) == error_id::data_empty.name);
  CHECK(fitted(reviews(30), {"one"}) == error_id::data_labels.name);
  CHECK(fitted(reviews(30), two, {.c = -1}) == error_id::config_value.name);
  CHECK(fitted(reviews(30), two, {.strength = 9}) == error_id::config_value.name);
  CHECK(fitted(reviews(30), two, {.held_out = 0.6}) == error_id::config_value.name);
  CHECK(fitted(reviews(30), two, {.memory_limit = 100}) == error_id::out_of_memory.name);
  CHECK(fitted({{"a"}, {"b"}}, two, {}, data::LabelKind::several) == error_id::data_labels.name);
  const Work work;
  const auto model = models::FastClassifier::fit(context, reviews(60), two);
  model.save(work / "model");
  const std::string config = soma_test::read_text(work / "model/config.json");
  const auto loads = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    const std::size_t at = changed.find(from);
    REQUIRE(at != changed.npos);
    changed.replace(at, from.size(), to);
    soma_test::write_text(work / "model/config.json", changed);
    return id_of([&] { models::FastClassifier::from_folder(context, work / "model"); });
  };
  CHECK(loads("features.version\": 2", "features.version\": 3") == error_id::text_features.name);
  CHECK(loads("negative\\npositive\\n", "negative\\npositive\\nmore\\n") ==
        error_id::missing_name.name);
  CHECK(loads("\"linear.bits\"", "\"linear.bit\"") == error_id::record_missing.name);
}

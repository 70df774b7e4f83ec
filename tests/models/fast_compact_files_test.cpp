// Folders of FastClassifier::fit(): 8 bits a weight, all weights in fp32, a share of the rows,
// damaged ones; the embedding bag of many classes; weights of classes.

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
using soma_test::class_names;
using soma_test::id_of;
using soma_test::share_right;

namespace {

using Text = soma_test::LabelledText;

struct Work {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("soma_compact_" + std::to_string(::getpid()));
  Work() { std::filesystem::create_directories(path); }
  ~Work() { std::filesystem::remove_all(path); }
  std::string operator/(const char* name) const { return (path / name).string(); }
};

// Two of each class's four words, among words that all classes share.
std::vector<Text> requests(std::size_t count, std::size_t classes) {
  std::vector<Text> made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t c = i % classes, round = i / classes;
    std::string text = "please";
    for (const std::size_t k : {round, round + 1})
      text.append(" w").append(std::to_string(c)).append("x").append(std::to_string(k % 4));
    text.append(" for number ").append(std::to_string(i * 7 % 40));
    made.push_back({text, static_cast<std::int64_t>(c)});
  }
  return made;
}

std::uintmax_t size_of(const std::string& folder) {
  return std::filesystem::file_size(folder + "/model.safetensors");
}

}  // namespace

TEST_CASE("a compact folder answers nearly the same, one in fp32 to the bit", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const Work work;
  for (const std::size_t classes : {2u, 3u, 20u}) {
    const std::vector<Text> rows = requests(800, classes);
    // Some labels are wrong, so that no text is certain.
    std::vector<Text> noisy = rows;
    for (std::size_t i = 0; i < noisy.size(); i += 7)
      noisy[i].label = (noisy[i].label + 1) % static_cast<std::int64_t>(classes);
    const auto model = models::FastClassifier::fit(context, noisy, class_names(classes));
    CHECK(model.linear()->fitted().bag_width == (classes == 20 ? 32 : 0));
    model.save(work / "compact");
    model.save(work / "exact", {.fp32 = true});
    CHECK(size_of(work / "compact") * 2 < size_of(work / "exact"));
    const auto compact = models::FastClassifier::from_folder(context, work / "compact");
    const auto exact = models::FastClassifier::from_folder(context, work / "exact");
    int changed = 0;
    float most = 0;
    for (const Text& row : rows) {
      const auto before = model.predict(row.text), after = compact.predict(row.text);
      CHECK(exact.predict(row.text).probabilities == before.probabilities);
      changed += before.label != after.label;
      for (std::size_t c = 0; c < classes; ++c)
        most = (std::max)(most, std::abs(before.probabilities[c] - after.probabilities[c]));
    }
    CHECK(changed == 0);
    CHECK(most > 0);
    CHECK(most < 0.01f);
    // A folder that was read is written as it was.
    compact.save(work / "again");
    const auto again = models::FastClassifier::from_folder(context, work / "again");
    for (std::size_t i = 0; i < 20; ++i)
      CHECK(std::abs(again.predict(rows[i].text).probability -
                     compact.predict(rows[i].text).probability) < 1e-3);
  }
}

TEST_CASE("the rows with the largest weights are kept", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const Work work;
  const std::vector<Text> rows = requests(800, 4);
  const auto model = models::FastClassifier::fit(context, rows, class_names(4));
  model.save(work / "all");
  model.save(work / "half", {.keep = 0.5});
  CHECK(size_of(work / "half") < size_of(work / "all") * 6 / 10);
  const auto all = models::FastClassifier::from_folder(context, work / "all");
  const auto half = models::FastClassifier::from_folder(context, work / "half");
  CHECK(half.linear()->features().rows() == (all.linear()->features().rows() + 1) / 2);
  CHECK(share_right(half, rows) == 1);
  model.save(work / "exact half", {.fp32 = true, .keep = 0.5});
  const auto exact = models::FastClassifier::from_folder(context, work / "exact half");
  CHECK(share_right(exact, rows) == 1);
  for (const double keep : {0.0, -0.1, 1.1})
    CHECK(id_of([&] { model.save(work / "none", {.keep = keep}); }) == error_id::config_value.name);
  const models::FastClassifier trained(context, {.labels = class_names(2)});
  CHECK(id_of([&] { trained.save(work / "none", {.keep = 0.5}); }) == error_id::config_value.name);
}

TEST_CASE("an embedding bag learns with one label and with several", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  std::vector<Text> rows = requests(1200, 20);
  // Without the linear part's weights the bag has to know the classes.
  text::CountedFeatures features;
  std::vector<std::string_view> texts;
  std::vector<std::int64_t> begins{0};
  std::vector<std::int32_t> labels;
  for (const Text& row : rows) {
    texts.push_back(row.text);
    labels.push_back(static_cast<std::int32_t>(row.label));
    begins.push_back(static_cast<std::int64_t>(labels.size()));
  }
  const auto counts = features.learn(context, texts);
  const std::vector<std::uint8_t> used(rows.size(), 1);
  features.weigh(counts, begins, labels, 20, used);
  const text::FeatureRows values = features.values(counts, used, 1);
  for (const auto kind : {data::LabelKind::one, data::LabelKind::several}) {
    const auto bag = models::FastBag::fit(context,
                                          {.texts = values,
                                           .features = features.rows(),
                                           .label_begins = begins,
                                           .labels = labels,
                                           .classes = 20,
                                           .kind = kind},
                                          {.width = 32, .passes = 6});
    std::size_t hits = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::vector<float> scores(20);
      const auto first = static_cast<std::size_t>(values.begins[row]);
      const auto count = static_cast<std::size_t>(values.begins[row + 1]) - first;
      bag.add(std::span(values.features).subspan(first, count),
              std::span(values.values).subspan(first, count), values.known[row], 1, scores.data());
      hits += std::max_element(scores.begin(), scores.end()) - scores.begin() == labels[row];
    }
    CHECK(hits > rows.size() * 95 / 100);
  }
  const auto without =
      models::FastClassifier::fit(context, rows, class_names(20), {.bag_width = 0, .seed = 1});
  const auto with = models::FastClassifier::fit(context, rows, class_names(20), {.seed = 1});
  CHECK(with.predict(rows[0].text).probabilities != without.predict(rows[0].text).probabilities);
  CHECK(share_right(with, rows) == 1);
  // A text of unseen words has the base rates, with a bag too.
  const auto unseen = with.predict("zyxvq qqzzyx").probabilities;
  for (const float p : unseen) CHECK(std::abs(p - 0.05f) < 0.03f);
}

TEST_CASE("weights of classes move the border and the base rates", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  // A word decides in three of four rows. One row in ten is of the second class.
  std::vector<Text> rows;
  for (int i = 0; i < 1200; ++i) {
    const bool second = i % 10 == 0, clear = i * 7 % 40 < 30;
    rows.push_back({std::string(clear ? (second ? "bright " : "dark ") : "plain ") + "day " +
                        std::to_string(i * 37 % 97) + " of year " + std::to_string(i * 11 % 89),
                    second ? 1 : 0});
  }
  const auto second_class = [&](const models::FastClassifier& model) {
    int count = 0;
    for (int k = 0; k < 97; ++k)
      count += model.predict("plain day " + std::to_string(k)).label == "class 1";
    return count;
  };
  const models::FastFitOptions plain{.parts = 0};
  models::FastFitOptions weighted = plain;
  weighted.class_weights = {1 / 1.8f, 5};  // balanced
  const auto as_they_are = models::FastClassifier::fit(context, rows, class_names(2), plain);
  const auto balanced = models::FastClassifier::fit(context, rows, class_names(2), weighted);
  CHECK(second_class(balanced) > second_class(as_they_are) + 10);
  CHECK(balanced.predict("dark day 5").label == "class 0");
  CHECK(balanced.predict("bright day 5").label == "class 1");
  CHECK(std::abs(balanced.predict("zyx").probabilities[1] - 0.5f) < 1e-4f);
  CHECK(to_string(balanced.linear()->fitted()).find("class weights") != std::string::npos);
  const Work work;
  balanced.save(work / "balanced", {.fp32 = true});
  CHECK(models::FastClassifier::from_folder(context, work / "balanced")
            .predict("plain day 5")
            .probabilities == balanced.predict("plain day 5").probabilities);
  const auto refused = [&](const std::vector<float>& weights,
                           data::LabelKind kind = data::LabelKind::one) {
    models::FastFitOptions options = plain;
    options.class_weights = weights;
    std::vector<Text> own = rows;
    for (Text& row : own) row.labels = {static_cast<std::int32_t>(row.label)};
    return id_of([&] { models::FastClassifier::fit(context, own, class_names(2), options, kind); });
  };
  CHECK(refused({1}) == error_id::config_value.name);
  CHECK(refused({1, 0}) == error_id::config_value.name);
  CHECK(refused({1, -1}) == error_id::config_value.name);
  CHECK(refused({1, 1}, data::LabelKind::several) == error_id::config_value.name);
  CHECK(refused({1, 1}) == "no error");
}

TEST_CASE("damaged compact folders are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const Work work;
  const auto model = models::FastClassifier::fit(context, requests(400, 20), class_names(20));
  Record record;
  StateDict state;
  model.linear()->save(record, state);
  const auto reads = [&](const Record& from, const StateDict& tensors) {
    return id_of([&] { models::FastLinear(context, from, tensors, 20, "folder"); });
  };
  CHECK(reads(record, state) == "no error");
  const auto with_tensor = [&](const std::string& name, const Tensor& tensor) {
    StateDict changed;
    for (const auto& [other, kept] : state) changed.set(other, other == name ? tensor : kept);
    return reads(record, changed);
  };
  const std::size_t rows = state.at("linear.idf").elements();
  for (const auto& [name, tensor] : state) {
    StateDict changed;
    for (const auto& [other, kept] : state)
      if (other != name) changed.set(other, kept);
    INFO(name);
    CHECK(reads(record, changed) == error_id::missing_name.name);
    CHECK(with_tensor(name, Tensor::zeros(context, Shape{1, 1, 1}, tensor.dtype())) ==
          error_id::state_shape.name);
  }
  CHECK(with_tensor("linear.weight", Tensor::zeros(context, Shape{rows, 20})) ==
        error_id::state_dtype.name);
  const auto filled = [&]<class T>(const char* name, T value, const Shape& shape) {
    return with_tensor(name, Tensor::full(context, shape, value));
  };
  CHECK(filled("linear.idf", fp16(INFINITY), Shape{rows}) == error_id::config_value.name);
  CHECK(filled("linear.g", fp16(NAN), Shape{rows}) == error_id::text_features.name);
  CHECK(filled("linear.g", fp16(-1.0f), Shape{rows}) == error_id::text_features.name);
  CHECK(filled("linear.scales", bf16(-1.0f), Shape{rows}) == error_id::config_value.name);
  CHECK(filled("bag.scales", bf16(INFINITY), Shape{rows}) == error_id::config_value.name);
  CHECK(filled("bag.weight", NAN, Shape{20, 32}) == error_id::config_value.name);
  // Slots far behind the table's end.
  CHECK(filled("linear.steps", std::uint8_t{254}, Shape{rows}) == error_id::text_features.name);
  CHECK(filled("linear.steps", std::uint8_t{255}, Shape{rows}) == error_id::state_shape.name);
  const auto with_value = [&](const char* name, auto value) {
    Record changed = record;
    changed.set(name, value);
    return reads(changed, state);
  };
  CHECK(with_value("linear.precision", "int4") == error_id::config_value.name);
  CHECK(with_value("bag.width", 5000) == error_id::config_value.name);
  CHECK(with_value("bag.share", -1.0) == error_id::config_value.name);
  CHECK(with_value("linear.bits", 4) == error_id::text_features.name);
  CHECK(with_value("linear.ngrams", 9) == error_id::text_features.name);
}

// The stream of FastClassifier::fit(): rows beyond the memory limit have the same features and
// nearly the solver's accuracy, and bits depend on neither threads nor an earlier fit.

#include <soma/models/fast_classifier.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "models/fast_texts.hpp"
#include "support/errors.hpp"

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

constexpr std::uint64_t limit = std::uint64_t{16} << 20;

// Twelve words of a thousand, of which the first hundred belong to classes; a text has two of its
// class and, with probability 1/2, one of any class. Every tenth label is drawn anew.
std::vector<Text> texts(std::size_t count, std::uint32_t classes, std::uint64_t seed) {
  std::vector<Text> made;
  DrawSequence draws({.seed = seed, .stream = 1});
  for (std::size_t i = 0; i < count; ++i) {
    Text one;
    one.label = draws.below(classes);
    const auto of_class = [&](std::uint32_t c) {
      return " w" + std::to_string(c + classes * draws.below(100 / classes));
    };
    one.text = of_class(static_cast<std::uint32_t>(one.label)) +
               of_class(static_cast<std::uint32_t>(one.label));
    if (draws.below(2) == 0) one.text += of_class(draws.below(classes));
    for (int k = 0; k < 9; ++k) one.text += " w" + std::to_string(100 + draws.below(900));
    if (draws.below(10) == 0) one.label = draws.below(classes);
    one.labels = {static_cast<std::int32_t>(one.label)};
    made.push_back(one);
  }
  return made;
}

std::vector<float> answers(const models::FastClassifier& model, const std::vector<Text>& rows) {
  std::vector<float> all;
  for (const Text& row : rows) {
    const std::vector<float> p = model.predict(row.text).probabilities;
    all.insert(all.end(), p.begin(), p.end());
  }
  return all;
}

}  // namespace

TEST_CASE("rows beyond the memory limit are streamed", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const std::uint32_t classes : {2u, 20u}) {
    const std::vector<Text> rows = texts(4000, classes, 1), test = texts(500, classes, 2);
    const auto solved =
        models::FastClassifier::fit(context, rows, class_names(classes), {.bag_width = 0});
    CHECK(!solved.linear()->fitted().streams);
    const auto model =
        models::FastClassifier::fit(context, rows, class_names(classes), {.memory_limit = limit});
    const models::FastFitted& fitted = model.linear()->fitted();
    INFO(to_string(fitted) << ", solver: " << share_right(solved, test));
    REQUIRE(fitted.streams);
    CHECK(fitted.memory_bytes > limit);
    CHECK(fitted.memory_limit == limit);
    CHECK(fitted.sampled_rows >= 400);
    CHECK(fitted.sampled_rows < 4000);
    CHECK(fitted.held_out_rows > 300);
    CHECK(to_string(fitted).find(std::to_string(fitted.sampled_rows) + " sampled rows of 4000") !=
          std::string::npos);
    CHECK(to_string(fitted).find("the limit is " + std::to_string(limit)) != std::string::npos);
    // 500 answers have a standard deviation of at most 0.022; both models answer the same texts.
    CHECK(share_right(model, test) > share_right(solved, test) - 0.03);
    CHECK(share_right(model, test) > 0.8);
    // Base rates of texts without a known word, as of the solver.
    CHECK(model.predict("xyzzy plugh").probability < 1.0 / classes + 0.05);
  }
}

TEST_CASE("threads and another fit change no bit of a stream", "[invariance]") {
  const std::vector<Text> rows = texts(4000, 3, 1), test = texts(20, 3, 2);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 1}) {
    auto context = make_context({.threads = threads});
    add_sparse(context);
    const auto model = models::FastClassifier::fit(context, rows, class_names(3),
                                                   {.passes = 1, .seed = 5, .memory_limit = limit});
    CHECK(model.linear()->fitted().streams);
    if (first.empty()) first = answers(model, test);
    CHECK(answers(model, test) == first);
  }
  auto context = make_context({.threads = 1});
  add_sparse(context);
  CHECK(answers(models::FastClassifier::fit(context, rows, class_names(3),
                                            {.passes = 1, .seed = 6, .memory_limit = limit}),
                test) != first);
}

TEST_CASE("a stream takes several labels and class weights, and its folder answers alike",
          "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const std::vector<Text> rows = texts(4000, 5, 1), test = texts(200, 5, 2);
  const auto several =
      models::FastClassifier::fit(context, rows, class_names(5),
                                  {.passes = 2, .memory_limit = limit}, data::LabelKind::several);
  CHECK(several.linear()->fitted().streams);
  CHECK(several.linear()->fitted().held_out_f1 > 0.7);
  // A class with a weight has more answers than without.
  const auto count = [&](float weight) {
    const auto model = models::FastClassifier::fit(
        context, rows, class_names(5),
        {.passes = 1, .memory_limit = limit, .class_weights = {weight, 1, 1, 1, 1}});
    CHECK(model.linear()->fitted().streams);
    std::size_t found = 0;
    for (const Text& row : test) found += model.predict(row.text).label == "class 0";
    return found;
  };
  CHECK(count(10) > count(1));
  const std::filesystem::path work =
      std::filesystem::temp_directory_path() / ("soma_stream_" + std::to_string(::getpid()));
  several.save(work.string(), {.fp32 = true});
  CHECK(answers(models::FastClassifier::from_folder(context, work.string()), test) ==
        answers(several, test));
  std::filesystem::remove_all(work);
}

TEST_CASE("a stream is refused only where not even a small sample fits", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const std::vector<Text> rows = texts(3000, 2, 1);
  const auto fitted = [&](std::uint64_t bytes) {
    return models::FastClassifier::fit(context, rows, class_names(2),
                                       {.passes = 1, .memory_limit = bytes})
        .linear()
        ->fitted();
  };
  CHECK(id_of([&] { fitted(std::uint64_t{1} << 20); }) == error_id::out_of_memory.name);
  const models::FastFitted small = fitted(std::uint64_t{10} << 20);
  CHECK(small.streams);
  CHECK(small.sampled_rows >= 100);
  StopFlag stop;
  stop.request();
  CHECK(id_of([&] {
          models::FastClassifier::fit(context, rows, class_names(2),
                                      {.memory_limit = std::uint64_t{10} << 20},
                                      data::LabelKind::one, &stop);
        }) == "runtime.stopped");
}

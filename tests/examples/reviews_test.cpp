// The reviews of examples/bert_classifier: always the same, balanced, and not to be told by their
// words or their length. (That a network learns them, the example shows.)

#include "bert_classifier/train/reviews.hpp"

#include <soma/data/content_hash.hpp>

#include "bert_classifier/train/baselines.hpp"
#include "catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using reviews::generate;
using reviews::Review;
using reviews::Split;

namespace {

std::vector<baselines::Text> texts(const std::vector<Review>& all) {
  std::vector<baselines::Text> result;
  for (const Review& review : all) result.push_back({review.text, review.label});
  return result;
}

std::set<std::string> words_of(const std::vector<Review>& all) {
  std::set<std::string> words;
  for (const Review& review : all)
    for (const std::string& word : baselines::words_of(review.text)) words.insert(word);
  return words;
}

}  // namespace

TEST_CASE("reviews are the same on every machine", "[unit][reviews]") {
  const std::vector<Review> made = generate(1000, 7, Split::train);
  soma::data::ContentHash hash;
  for (const Review& review : made) {
    hash.add_text(review.text);
    hash.add(static_cast<std::uint64_t>(review.label));
  }
  CHECK(hash.value() == 0xB82B435E52345B7Du);
  // A review depends on its index, not on the call that makes it.
  const std::vector<Review> part = generate(3, 7, Split::train, 0.02, 500);
  for (std::size_t i = 0; i < 3; ++i) CHECK(part[i].text == made[500 + i].text);
  CHECK(generate(1, 8, Split::train)[0].text != made[0].text);
}

TEST_CASE("reviews have their lengths and are balanced", "[unit][reviews]") {
  for (const Split split : {Split::train, Split::held_out}) {
    const std::vector<Review> made = generate(10000, 3, split);
    int positive = 0;
    for (const Review& review : made) {
      const auto words = std::ranges::count(review.text, ' ') + 1;
      CHECK((words >= 8 && words <= 60));
      positive += review.label;
    }
    // Six standard deviations of a binomial with p = 1/2.
    CHECK(positive > 5000 - 300);
    CHECK(positive < 5000 + 300);
  }
  CHECK(words_of(generate(20000, 3, Split::train)).size() > 2500);
}

TEST_CASE("a share of the labels is wrong", "[unit][reviews]") {
  const std::vector<Review> noisy = generate(10000, 3, Split::train, 0.1);
  const std::vector<Review> right = generate(10000, 3, Split::train, 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    REQUIRE(noisy[i].text == right[i].text);
    wrong += noisy[i].label != right[i].label ? 1 : 0;
  }
  CHECK(wrong > 1000 - 180);
  CHECK(wrong < 1000 + 180);
}

TEST_CASE("what is held out is not in training", "[unit][reviews]") {
  const std::vector<Review> train = generate(20000, 1, Split::train);
  const std::vector<Review> held_out = generate(2000, 1, Split::held_out);
  std::set<std::string> known;
  for (const Review& review : train) known.insert(review.text);
  for (const Review& review : held_out) CHECK(known.count(review.text) == 0);
  const std::set<std::string> words = words_of(train), new_words = words_of(held_out);
  const auto unknown = std::ranges::count_if(
      new_words, [&](const std::string& word) { return words.count(word) == 0; });
  CHECK(unknown > 300);
  // The words that decide are known.
  for (const std::string_view word : reviews::words::praising)
    CHECK(words.count(std::string(word)));
  for (const std::string_view word : reviews::words::blaming) CHECK(words.count(std::string(word)));
}

TEST_CASE("neither length nor words nor pairs of words tell a review", "[unit][reviews]") {
  const std::vector<Review> train = generate(20000, 1, Split::train);
  const std::vector<Review> held_out = generate(2000, 1, Split::held_out);
  const baselines::Accuracies accuracies = baselines::measure(texts(train), texts(held_out));
  // They come to 0.512, 0.739 and 0.705.
  CHECK(accuracies.length < 0.56);
  CHECK(accuracies.words < 0.8);
  CHECK(accuracies.pairs < 0.8);
  // The words do say something, so a measurement that is broken would be seen.
  CHECK(accuracies.words > 0.65);
  CHECK(accuracies.pairs > 0.6);
}

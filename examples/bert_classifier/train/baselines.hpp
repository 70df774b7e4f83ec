// Baselines that judge a review without understanding it: by its length, by its words, by its pairs
// of neighbouring words. A network is worth its improvement over them.
#pragma once

#include <soma/data/content_hash.hpp>
#include <soma/data/order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baselines {

struct Text {
  std::string_view text;
  int label = 0;  // 0 or 1
};

struct Accuracies {
  double length = 0, words = 0, pairs = 0;  // accuracy on the held-out texts, 0 to 1
};

inline constexpr std::size_t buckets = std::size_t{1} << 18;

using Features = std::vector<std::uint32_t>;  // ascending, without duplicates

// Words in lower case; punctuation marks are words.
inline std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool part = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      static_cast<unsigned char>(c) >= 0x80;
    if (part && inside)
      words.back().push_back(upper ? static_cast<char>(c + 32) : c);
    else if (c != ' ')
      words.emplace_back(1, upper ? static_cast<char>(c + 32) : c);
    inside = part;
  }
  return words;
}

inline std::uint32_t bucket(std::string_view first, std::string_view second = {}) {
  soma::data::ContentHash hash;
  hash.add_text(first);
  hash.add_text(second);
  return static_cast<std::uint32_t>(hash.value() >> 32) % buckets;
}

enum class Kind : std::uint8_t { length, words, pairs };

// The features of a text. A length is one feature of 64; the pairs kind has words as well.
inline Features features_of(std::string_view text, Kind kind) {
  const std::vector<std::string> words = words_of(text);
  if (kind == Kind::length)
    return {static_cast<std::uint32_t>((std::min)(words.size(), std::size_t{63}))};
  Features features;
  for (std::size_t i = 0; i < words.size(); ++i) {
    features.push_back(bucket(words[i]));
    if (kind == Kind::pairs && i > 0) features.push_back(bucket(words[i - 1], words[i]));
  }
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

// Logistic regression by Adagrad in double, one text at a time, five passes.
class LogisticRegression {
 public:
  template <class Look>
  void train(std::span<const Features> texts, std::span<const Text> labels, const Look& look) {
    constexpr double rate = 0.1;
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch)
      for (const std::uint32_t i : soma::data::shuffled_order(texts.size(), 1, epoch)) {
        look();
        const double error = 1 / (1 + std::exp(-score(texts[i]))) - labels[i].label;
        const auto move = [&](double& weight, double& squares) {
          squares += error * error;
          weight -= rate * error / std::sqrt(squares);
        };
        for (const std::uint32_t feature : texts[i]) move(weights_[feature], squares_[feature]);
        move(bias_, bias_squares_);
      }
  }
  double accuracy(std::span<const Features> texts, std::span<const Text> labels) const {
    std::size_t right = 0;
    for (std::size_t i = 0; i < texts.size(); ++i)
      right += (score(texts[i]) > 0) == (labels[i].label == 1) ? 1 : 0;
    return static_cast<double>(right) / static_cast<double>(texts.size());
  }

 private:
  double score(const Features& features) const {
    double sum = bias_;
    for (const std::uint32_t feature : features) sum += weights_[feature];
    return sum;
  }
  std::vector<double> weights_ = std::vector<double>(buckets), squares_ = weights_;
  double bias_ = 0, bias_squares_ = 0;
};

template <class Look>
double accuracy(std::span<const Text> train, std::span<const Text> held_out, Kind kind,
                const Look& look) {
  const auto features = [&](std::span<const Text> texts) {
    std::vector<Features> all;
    for (const Text& text : texts) {
      look();
      all.push_back(features_of(text.text, kind));
    }
    return all;
  };
  LogisticRegression model;
  model.train(features(train), train, look);
  return model.accuracy(features(held_out), held_out);
}

// Trains the three baselines on one set and measures them on the other set: about a second for
// 20,000 reviews. Calls look() before each text; look() may throw.
template <class Look>
Accuracies measure(std::span<const Text> train, std::span<const Text> held_out, const Look& look) {
  return {.length = accuracy(train, held_out, Kind::length, look),
          .words = accuracy(train, held_out, Kind::words, look),
          .pairs = accuracy(train, held_out, Kind::pairs, look)};
}
inline Accuracies measure(std::span<const Text> train, std::span<const Text> held_out) {
  return measure(train, held_out, [] {});
}

}  // namespace baselines

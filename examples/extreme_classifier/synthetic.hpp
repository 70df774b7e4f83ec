// Made-up points: the frequencies of labels fall as 1 / rank. Each label has 20 to 40 features of
// its own. A point has 75 features: seven in ten come from its labels, the others are noise.
#pragma once

#include <soma/data/point_source.hpp>
#include <soma/numeric/draw_sequence.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace synthetic {

// Draws a rank below n with probability about 1 / rank: the inverse of the logarithm.
inline std::uint32_t zipf(soma::DrawSequence& draws, std::size_t n) {
  const double rank = std::exp(draws.unit() * std::log(static_cast<double>(n) + 1)) - 1;
  return static_cast<std::uint32_t>((std::min)(rank, static_cast<double>(n - 1)));
}

// A feature of a label: a pure function of both numbers.
inline std::int32_t signature(std::uint64_t label, std::uint64_t place, std::size_t features) {
  std::uint64_t x = (label * 64 + place + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  return static_cast<std::int32_t>((x ^ x >> 32) % features);
}

inline soma::data::SparsePoints points(std::size_t count, std::size_t features, std::size_t classes,
                                       std::uint64_t seed) {
  constexpr std::size_t features_of_point = 75;
  soma::data::SparsePoints made{.features = features, .classes = classes};
  made.labels.offsets.push_back(0);
  std::vector<std::int32_t> labels, ids;
  for (std::size_t i = 0; i < count; ++i) {
    soma::DrawSequence draws({.seed = seed,
                              .stream = soma::stream_id("synthetic", "point"),
                              .step = static_cast<std::uint32_t>(i)});
    labels.clear();
    ids.clear();
    for (std::uint32_t k = draws.below(8) + 1; k > 0; --k)
      labels.push_back(static_cast<std::int32_t>(zipf(draws, classes)));
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    for (std::size_t k = 0; k < features_of_point; ++k) {
      const auto label = static_cast<std::uint64_t>(
          labels[draws.below(static_cast<std::uint32_t>(labels.size()))]);
      const std::uint32_t own = 20 + static_cast<std::uint32_t>(label % 21);
      ids.push_back(draws.below(10) < 7 ? signature(label, draws.below(own), features)
                                        : static_cast<std::int32_t>(zipf(draws, features)));
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
    made.offsets.push_back(made.ids.size());
    made.labels.add(labels);
  }
  return made;
}

}  // namespace synthetic

// Programs as hosts write them, each twice: with soma's parts for data (docs/data.md), and by hand.
// The test beside them makes the data and compares what the two versions learn.
#pragma once

#include <soma/train.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace home {

// Predicts the pitch of series of unequal lengths; returns the mean absolute error of the held-out
// series, in standard deviations. Both texts are CSV with a row for each measurement.
double series(const std::string& training, const std::string& held_out);
double series_by_hand(const std::string& training, const std::string& held_out);

struct Pictures {
  std::vector<float> pixels;         // [count, 1, side, side]
  std::vector<std::int64_t> labels;  // [count]
  std::size_t side = 0;
};
// How a training of pictures is interrupted, and what it left.
struct Run {
  std::string checkpoints;  // a folder
  soma::train::Callback* callback = nullptr;
  soma::train::StopFlag* stop = nullptr;
};
struct Learned {
  double accuracy = 0;  // of the held-out pictures
  std::uint64_t hash = 0;
};
// Trains a convolutional net on shifted pictures, from the newest checkpoint on.
Learned pictures(const Pictures& training, const Pictures& held_out, const Run& run);
Learned pictures_by_hand(const Pictures& training, const Pictures& held_out, const Run& run);

// Cross-validation of four nets on a table of categories and numbers: the best mean area under the
// curve.
double table(const std::string& csv);
double table_by_hand(const std::string& csv);

}  // namespace home

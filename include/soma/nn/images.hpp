#pragma once
// Modules of images and signals without parameters: pools, sizes, dropout of channels.

#include <soma/autograd/choosing.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/layers.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::nn {

// Images [N, C, H, W] to the largest element of each window.
class MaxPool2d {
 public:
  explicit MaxPool2d(const MaxPoolSetting& pool = {}) : setting(pool) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  MaxPoolSetting setting;
};

// Images to height x width largest elements; the windows cover each image evenly.
class AdaptiveMaxPool2d {
 public:
  AdaptiveMaxPool2d(std::size_t out_height, std::size_t out_width)
      : height(out_height), width(out_width) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  std::size_t height, width;
};

// Mirror images of the pixels around images [..., H, W]: as many before and behind.
class ReflectionPad2d {
 public:
  explicit ReflectionPad2d(std::size_t pixels) : height(pixels), width(pixels) {}
  ReflectionPad2d(std::size_t rows, std::size_t columns) : height(rows), width(columns) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  std::size_t height, width;
};

struct Pool1dOptions {
  std::size_t kernel = 2;
  std::size_t stride = 0;  // 0: as the kernel, so that windows do not overlap
  std::size_t pad = 0;     // on each side
};
void fields(FieldVisitor& visitor, Pool1dOptions& options);

// Signals [N, C, L] to the largest element, or the mean, of each window. A mean counts the zeros of
// the padding. Errors tensor.rank, and those of max_pool2d() and average_pool2d().
class MaxPool1d {
 public:
  explicit MaxPool1d(const Pool1dOptions& pool = {});
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  Pool1dOptions options;
};
class AveragePool1d {
 public:
  explicit AveragePool1d(const Pool1dOptions& pool = {});
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  Pool1dOptions options;
};

struct UpsampleOptions {
  std::size_t factor = 2;      // height and width grow by it
  bool bilinear = false;       // false: each pixel is repeated
  bool align_corners = false;  // ResizeSetting::align_corners, for bilinear
};
void fields(FieldVisitor& visitor, UpsampleOptions& options);

// Images [N, C, H, W] to [N, C, H factor, W factor]; resize() takes any size.
class Upsample {
 public:
  explicit Upsample(const UpsampleOptions& how = {});
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  UpsampleOptions options;
};

// [N, C factor^2, H, W] to [N, C, H factor, W factor].
class PixelShuffle {
 public:
  explicit PixelShuffle(std::size_t upscale) : factor(upscale) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  std::size_t factor;
};

// Dropout of whole channels of x [N, C, ...]. Error tensor.rank.
class Dropout2d {
 public:
  Dropout2d() = default;
  // Error random.probability.
  Dropout2d(const Scope& scope, float drop_probability) : channels(scope, drop_probability) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}

  Dropout channels;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/images.ipp>
#endif

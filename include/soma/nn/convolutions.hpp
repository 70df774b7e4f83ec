#pragma once
// Convolutions and pools beyond Conv2d: Conv1d, ConvTranspose2d, average pools.

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::nn {

namespace detail {

void describe_steps(Record& record, const ConvolutionSetting& steps);
// A signal [N, C, L], or its weight, as an image with one row, and back. Error tensor.rank.
Var image_of(std::string_view operation, Tape& tape, const Var& x);
Var signal_of(Tape& tape, const Var& y);

}  // namespace detail

// conv_transpose2d() at a site: in the formats of the tape's precision for that site. Error
// train.precision, as of convolution_at().
Var convolution_transpose_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                             const Var& bias, const TransposedSetting& setting);

struct Conv1dOptions {
  std::size_t stride = 1;                   // elements from one window to the next
  std::size_t pad = 0;                      // zeros before the signal
  std::optional<std::size_t> pad_behind{};  // zeros behind the signal; not set: as many as `pad`
  std::size_t dilation = 1, groups = 1;     // as in ConvolutionSetting
  // A result reads its own element and earlier ones: (kernel - 1) dilation zeros before the signal,
  // none behind it. `pad` and `pad_behind` must then have their defaults.
  bool causal = false;
  bool bias = true;
  bool edge = false;  // the first or the last layer of a model (nn/product_site.hpp)
};
void fields(FieldVisitor& visitor, Conv1dOptions& options);

// Signals [N, in, L] to [N, out, L'] with L' = (L + padding - (kernel - 1) dilation - 1) / stride
// + 1, computed as images with one row. Error operator.value: groups that do not divide the
// channels, or a padding beside `causal`.
class Conv1d {
 public:
  Conv1d() = default;
  Conv1d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
         const Conv1dOptions& options = {});
  // Errors tensor.rank, and those of conv2d().
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight, bias;  // [out, in / groups, kernel], [out]
  ConvolutionSetting setting;
  ProductSite site{};
};

struct ConvTranspose2dOptions {
  TransposedSetting setting{};
  bool bias = true;
  bool edge = false;  // as in Conv1dOptions
};
void fields(FieldVisitor& visitor, ConvTranspose2dOptions& options);

// Images [N, in, H, W] to [N, out, H', W'] with H' = (H - 1) stride - padding + (kernel - 1)
// dilation + 1 + extra.
class ConvTranspose2d {
 public:
  ConvTranspose2d() = default;
  ConvTranspose2d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
                  const ConvTranspose2dOptions& options = {});
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight, bias;  // [in, out / groups, kernel, kernel], [out]
  TransposedSetting setting;
  ProductSite site{};
};

struct ConvTranspose1dOptions {
  std::size_t stride = 1;  // elements from one window of the result to the next
  std::size_t pad = 0;     // elements that the result loses at each end
  std::size_t extra = 0;   // elements that the result gains behind its last, below the stride
  std::size_t dilation = 1, groups = 1;
  bool bias = true;
  bool edge = false;  // as in Conv1dOptions
};
void fields(FieldVisitor& visitor, ConvTranspose1dOptions& options);

// Signals [N, in, L] to [N, out, L'] with L' = (L - 1) stride - 2 pad + (kernel - 1) dilation + 1 +
// extra, computed as images with one row.
class ConvTranspose1d {
 public:
  ConvTranspose1d() = default;
  ConvTranspose1d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
                  const ConvTranspose1dOptions& options = {});
  // Errors tensor.rank, and those of conv_transpose2d().
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;
  void describe(Record& record) const;

  Var weight, bias;  // [in, out / groups, kernel], [out]
  TransposedSetting setting;
  ProductSite site{};
};

// Images [N, C, H, W] to the means of windows.
class AveragePool2d {
 public:
  explicit AveragePool2d(const AveragePoolSetting& pool = {}) : setting(pool) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  AveragePoolSetting setting;
};
// Images to height x width means; the windows cover each image evenly.
class AdaptiveAveragePool2d {
 public:
  AdaptiveAveragePool2d(std::size_t out_height, std::size_t out_width)
      : height(out_height), width(out_width) {}
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
  void describe(Record& record) const;

  std::size_t height, width;
};

// [N, ...] to [N, product of the other sizes].
class Flatten {
 public:
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector&) const {}
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/convolutions.ipp>
#endif

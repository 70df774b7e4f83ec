#pragma once
// The settings of average_pool, convolution_transpose, quantized_convolution and resize.

#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

struct AveragePoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
  bool count_padding = true;  // true: averages count the zeros around the image
  // Not 0: this number of windows, of any size, covers the image evenly; all other settings are
  // then ignored.
  std::size_t out_height = 0, out_width = 0;
};
void fields(FieldVisitor& visitor, AveragePoolSetting& setting);

struct TransposedSetting {
  ConvolutionSetting steps{};
  std::size_t extra_height = 0, extra_width = 0;  // rows and columns behind the result's last
};
void fields(FieldVisitor& visitor, TransposedSetting& setting);

struct ResizeSetting {
  std::size_t height = 0, width = 0;  // the size of the result
  bool bilinear = false;              // false: the nearest pixel
  // Bilinear: true: the centres of the corner pixels stay where they are; false: the edges do.
  bool align_corners = false;
};
void fields(FieldVisitor& visitor, ResizeSetting& setting);

// A convolution whose operands are converted on input (ops/image/quantized_convolution.hpp).
struct QuantizedConvolutionSetting {
  TransposedSetting steps{};
  bool transposed = false;           // false: steps.extra_height and extra_width are not read
  LinearFormats* formats = nullptr;  // owned by the layer, which outlives the tape's recording
  std::uint32_t step = 0;            // for stochastic rounding
  bool training = false;             // amax is remembered
  bool record = false;               // and operands for the gradient
};
void fields(FieldVisitor& visitor, QuantizedConvolutionSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/image/impl/settings.ipp>
#endif

#pragma once
// The functions of images.hpp.

#include <soma/nn/images.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/image_functions.hpp>
#include <soma/nn/convolutions.hpp>
#include <soma/ops/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE ConvolutionSetting steps_of(const Pool1dOptions& options) {
  return {.stride_width = options.stride == 0 ? options.kernel : options.stride,
          .pad_width = options.pad};
}

SOMA_INLINE void describe_pool(Record& record, const Pool1dOptions& options) {
  record.set("kernel", std::uint64_t{options.kernel});
  record.set("stride", std::uint64_t{options.stride});
  record.set("pad", std::uint64_t{options.pad});
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var MaxPool2d::operator()(Tape& tape, const Var& x) const {
  return max_pool2d(tape, x, setting);
}

SOMA_INLINE void MaxPool2d::describe(Record& record) const {
  detail::describe_steps(record, setting.steps);
  record.set("kernel_height", std::uint64_t{setting.kernel_height});
  record.set("kernel_width", std::uint64_t{setting.kernel_width});
}

SOMA_INLINE Var AdaptiveMaxPool2d::operator()(Tape& tape, const Var& x) const {
  return adaptive_max_pool2d(tape, x, height, width);
}

SOMA_INLINE void AdaptiveMaxPool2d::describe(Record& record) const {
  record.set("height", std::uint64_t{height});
  record.set("width", std::uint64_t{width});
}

SOMA_INLINE Var ReflectionPad2d::operator()(Tape& tape, const Var& x) const {
  return reflect_pad(tape, x, {{height, height}, {width, width}});
}

SOMA_INLINE void ReflectionPad2d::describe(Record& record) const {
  record.set("height", std::uint64_t{height});
  record.set("width", std::uint64_t{width});
}

SOMA_INLINE void fields(FieldVisitor& visitor, Pool1dOptions& options) {
  visitor.option("kernel", options.kernel, NumberRange::at_least(1));
  visitor.option("stride", options.stride);
  visitor.option("pad", options.pad);
}

SOMA_INLINE MaxPool1d::MaxPool1d(const Pool1dOptions& pool) : options(pool) {
  check_ranges("MaxPool1d", options);
}

SOMA_INLINE Var MaxPool1d::operator()(Tape& tape, const Var& x) const {
  return detail::signal_of(tape, max_pool2d(tape, detail::image_of("MaxPool1d", tape, x),
                                            {.kernel_height = 1,
                                             .kernel_width = options.kernel,
                                             .steps = detail::steps_of(options)}));
}

SOMA_INLINE void MaxPool1d::describe(Record& record) const {
  detail::describe_pool(record, options);
}

SOMA_INLINE AveragePool1d::AveragePool1d(const Pool1dOptions& pool) : options(pool) {
  check_ranges("AveragePool1d", options);
}

SOMA_INLINE Var AveragePool1d::operator()(Tape& tape, const Var& x) const {
  return detail::signal_of(tape, average_pool2d(tape, detail::image_of("AveragePool1d", tape, x),
                                                {.kernel_height = 1,
                                                 .kernel_width = options.kernel,
                                                 .steps = detail::steps_of(options)}));
}

SOMA_INLINE void AveragePool1d::describe(Record& record) const {
  detail::describe_pool(record, options);
}

SOMA_INLINE void fields(FieldVisitor& visitor, UpsampleOptions& options) {
  visitor.option("factor", options.factor, NumberRange::at_least(1));
}

SOMA_INLINE Upsample::Upsample(const UpsampleOptions& how) : options(how) {
  check_ranges("Upsample", options);
}

SOMA_INLINE Var Upsample::operator()(Tape& tape, const Var& x) const {
  const Shape& shape = x.shape();
  if (shape.rank() != 4)
    fail(error_id::tensor_rank, "Upsample", "x", to_string(shape), "[N, C, H, W]");
  return resize(tape, x,
                {.height = checked_multiply(shape[2], options.factor, "Upsample"),
                 .width = checked_multiply(shape[3], options.factor, "Upsample"),
                 .bilinear = options.bilinear,
                 .align_corners = options.align_corners});
}

SOMA_INLINE void Upsample::describe(Record& record) const {
  record.set("factor", std::uint64_t{options.factor});
  record.set("bilinear", options.bilinear);
  record.set("align_corners", options.align_corners);
}

SOMA_INLINE Var PixelShuffle::operator()(Tape& tape, const Var& x) const {
  return pixel_shuffle(tape, x, factor);
}

SOMA_INLINE void PixelShuffle::describe(Record& record) const {
  record.set("factor", std::uint64_t{factor});
}

SOMA_INLINE Var Dropout2d::operator()(Tape& tape, const Var& x) const {
  const Shape& shape = x.shape();
  if (shape.rank() < 2)
    fail(error_id::tensor_rank, "Dropout2d", "x", to_string(shape), "[N, C, ...]");
  std::vector<std::size_t> sizes(shape.rank(), 1);
  sizes[0] = shape[0];
  sizes[1] = shape[1];
  const Tensor ones =
      Tensor::full(tape.context(), Shape(std::span<const std::size_t>(sizes)), 1.0f);
  const Sequences& batch = x.sequences();
  const bool leads = batch.defined() && batch.place().dimension == 0;
  const Var kept = channels(tape, tape.constant(ones, leads ? batch : Sequences()));
  const DType dtype = x.value().dtype();
  return mul(tape, x, dtype == DType::fp32 ? kept : cast(tape, kept, dtype));
}

}  // namespace SOMA_NAMESPACE::nn

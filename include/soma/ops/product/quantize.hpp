#pragma once
// Quantize: numbers of a narrow format with scales, as an operand of a matrix product. All leading
// dimensions of x are rows.
//
// Outputs: values (shape of x), scales (fp32, one for each scaling block: rows of scales by columns
// of scales) and amax (fp32, [1]: the largest finite |x|). Values have the type quantized_dtype().
// They are codes with one scale, which the product applies; or they are numbers times their scales,
// which the product multiplies directly. With QuantizeSetting::codes, values are bytes of codes and
// scales (ops/product/coded.hpp), in the memory of codes.
//
// Scaling blocks lie along a row: Granularity::row, 1 x 128 and groups of 32 or 16 are parts of a
// row, and square blocks start from the first row of each shard. If the sum runs down the columns
// (along_rows), the first ones are a column, and 128, 32 or 16 rows of a column; all start anew at
// each shard. Without sequences, shards are the even cut of a sum over rows. Parameters belong to
// no batch and are not cut. A shard without rows has no scaling blocks. On a tape, scales are in
// the order of the batch's rows, wherever x has these.
//
// Stochastic rounding draws by logical index, whatever the scaling blocks. It costs two passes over
// the data if the scale is a whole tensor's amax, else one.

#include <soma/kernels/convert/atomic_maximum.hpp>
#include <soma/kernels/convert/convert.hpp>
#include <soma/ops/product/coded.hpp>
#include <soma/ops/product/quantize_grid.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The index of the type whose codes are numbers of the quantizer's format; -1 if there is no such
// type, or if there are many scales.
constexpr int quantized_code_dtype(const Quantizer& quantizer) {
  const bool codes = has_one_scale(quantizer.scaling) && !quantizer.own.defined();
  return codes ? dtype_index(quantizer.format.with(Overflow::special)) : -1;
}

}  // namespace detail

// The element type of quantize's result. It is the format's own type if a tensor has one scale and
// the type exists. Otherwise it is bf16 if bf16 holds the products of all numbers with all scales,
// powers of two or e4m3 (except those below its smallest number), else fp32. It is fp32 for a
// rounding of one's own.
constexpr DType quantized_dtype(const Quantizer& quantizer) {
  const FloatFormat& format = quantizer.format;
  if (const int index = detail::quantized_code_dtype(quantizer); index >= 0)
    return static_cast<DType>(index);
  if (quantizer.own.defined()) return DType::fp32;
  const Scaling& scaling = quantizer.scaling;
  const bool plain_scale =
      scaling.policy == ScalePolicy::none || scaling.format != ScaleFormat::fp32;
  const int scale_bits =
      scaling.policy != ScalePolicy::none && scaling.format == ScaleFormat::e4m3 ? 4 : 0;
  return plain_scale && format.mantissa_bits + scale_bits <= 7 &&
                 format.min_spacing_exponent() >= -133
             ? DType::bf16
             : DType::fp32;
}

namespace detail {

// Error scaling.invalid.
inline void check_quantizer_scale(const QuantizeSetting& setting) {
  const Scaling& scaling = validate(setting.quantizer.scaling, "quantize");
  if (setting.quantizer.own.defined() && !has_one_scale(scaling))
    fail(error_id::bad_scaling, "quantize", "scaling.granularity", to_string(scaling.granularity),
         "tensor, where the rounding is one's own");
  if (scaling.format == ScaleFormat::e4m3 && scaling.policy != ScalePolicy::none) {
    if (scaling.granularity == Granularity::tensor || scaling.policy == ScalePolicy::delayed)
      fail(error_id::bad_scaling, "quantize", "scaling.format", to_string(scaling.format),
           "fp32, power_of_two or e8m0 for one scale of a tensor: e4m3 scales are for parts of it");
    if (!(setting.scale >= 0 && setting.scale <= 0x1p117f))
      fail(error_id::bad_scaling, "quantize", "scale", std::to_string(setting.scale),
           "0 (from the tensor's amax) to 2^117");
  }
  if (scaling.policy != ScalePolicy::delayed) return;
  if (scaling.granularity != Granularity::tensor)
    fail(error_id::bad_scaling, "quantize", "scaling.policy",
         "delayed, for granules smaller than a tensor", "current, or Granularity::tensor");
  const bool positive = setting.scale > 0 && setting.scale <= (std::numeric_limits<float>::max)();
  if (!positive && !std::isnan(setting.scale))
    fail(error_id::bad_scaling, "quantize", "scale", std::to_string(setting.scale),
         "positive and finite, or NaN, with which all numbers read NaN");
}

// Errors tensor.rank, tensor.dtype, format.impossible, rounding.random_bits, scaling.invalid;
// operator.value: a rotation; codes of a quantizer without scales for parts, or of a wide format.
inline void quantize_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<QuantizeSetting>();
  const Tensor& x = call.inputs[0];
  check_min_rank("quantize", "x", x, 1);
  check_floating("quantize", "x", x);
  const FloatFormat& format = validate(setting.quantizer.format, "quantize");
  if (!format.is_signed || !format.has_zero())
    fail(error_id::impossible_format, "quantize", "format", to_string(format),
         "a format with a sign and a zero");
  check_random_bits("quantize", "rounding.random_bits", setting.quantizer.rounding);
  check_quantizer_scale(setting);
  if (setting.quantizer.rotation.size != 0)
    fail(error_id::operator_value, "quantize", "rotation",
         std::to_string(setting.quantizer.rotation.size),
         "0: a product rotates both of its operands before they are converted");
  const ScaleGrid scales =
      QuantizeGrid(setting, call.sequences, x.shape().rows(), x.shape().columns()).scales();
  call.outputs[0] = {x.shape(), quantized_dtype(setting.quantizer)};
  if (setting.codes) {
    if (!has_codes(setting.quantizer))
      fail(error_id::operator_value, "quantize", "codes", "true, for " + to_string(format),
           "a format of at most 8 bits with current scales for parts of a tensor");
    const CodedLayout layout(setting.quantizer, x.shape().rows(), x.shape().columns(),
                             scales.size());
    call.outputs[0] = {Shape{layout.all}, DType::uint8};
  }
  call.outputs[1] = {Shape{scales.rows, scales.columns}, DType::fp32};
  call.outputs[2] = {Shape{1}, DType::fp32};
}

// Draws of stochastic rounding. Error random.index_range.
inline void set_quantize_draws(const QuantizeSetting& setting, const Sequences& sequences,
                               std::size_t rows, std::size_t columns, MatrixTarget& y) {
  y.rounding = setting.quantizer.rounding;
  if (y.rounding.mode != RoundingMode::stochastic || rows == 0 || columns == 0) return;
  y.draw = setting.draw;
  y.draw.index = 0;
  if (setting.parameter) {
    static_cast<void>(parameter_index(rows - 1, columns - 1));
    y.draw_row_stride = std::uint64_t{1} << 32;
    return;
  }
  static_cast<void>(token_index(0, 0, columns - 1));
  y.row_indices = draw_rows(sequences, rows);
  if (!sequences.defined()) {
    static_cast<void>(token_index(rows - 1, 0, 0));
    y.draw_row_stride = std::uint64_t{1} << 40;
  }
}

// y = own rounding of x / scale, times scale. Scaled values stay within the format's range, as
// those that kernels round do.
inline void round_by_own(const OperatorCall& call, const QuantizeGrid& grid, float scale) {
  const Quantizer& quantizer = call.attributes.as<QuantizeSetting>().quantizer;
  const Tensor x = plain_fp32(call.context, call.inputs[0]);
  const std::size_t stride = x.shape().columns();
  const float* from = x.data<float>();
  float* to = call.outputs[0].mutable_data<float>();
  const bool scaled = quantizer.scaling.policy != ScalePolicy::none;
  const float inverse = 1 / scale;
  const float largest = decode(quantizer.format, quantizer.format.max_finite_code());
  grid.for_parts(call.context, [&](std::size_t row, std::size_t rows, std::size_t column,
                                   std::size_t columns, std::size_t) {
    for (std::size_t i = row; i < row + rows; ++i) {
      const float* source = from + i * stride + column;
      const std::span<float> values(to + i * stride + column, columns);
      for (std::size_t j = 0; j < columns; ++j) {
        const float value = source[j] * inverse;
        values[j] =
            scaled && std::isfinite(source[j]) ? std::clamp(value, -largest, largest) : value;
      }
      quantizer.own.function(values);
      for (float& value : values) value *= scale;
    }
  });
}

// The largest finite magnitude of all numbers; with `marks_infinite` infinity where one is not
// finite.
inline float largest_magnitude(Context& context, const Tensor& x, bool marks_infinite) {
  const TensorRows all = rows_of(context, x);
  const std::size_t rows = all.shape().rows(), columns = all.shape().columns();
  AtomicMaximum amax;
  for_ranges(context, rows, columns, [&](std::size_t begin, std::size_t end) {
    float largest = 0;
    context.kernels().quantize({.rows = end - begin,
                                .columns = columns,
                                .x = part(operand(all), begin, 0),
                                .amax = &largest,
                                .marks_infinite = marks_infinite});
    amax.include(largest);
  });
  return amax.value();
}

// ScaleFormat::e4m3: the scale of the tensor, over those of its parts.
inline float tensor_scale_of(Context& context, const QuantizeSetting& setting, const Tensor& x) {
  if (setting.scale > 0) return setting.scale;
  return tensor_scale_for(setting.quantizer.format, largest_magnitude(context, x, true));
}

// One scale for all parts.
inline float quantize_whole(const OperatorCall& call, const QuantizeGrid& grid, QuantizeArgs args) {
  const auto& setting = call.attributes.as<QuantizeSetting>();
  const Scaling& scaling = setting.quantizer.scaling;
  const bool current = scaling.policy == ScalePolicy::current;
  AtomicMaximum amax;
  const auto pass = [&](QuantizeArgs all, bool measures, AtomicMaximum& into, bool marks = false) {
    grid.for_parts(call.context, [&](std::size_t row, std::size_t rows, std::size_t column,
                                     std::size_t columns, std::size_t) {
      QuantizeArgs part_args = all;
      float largest = 0;
      part_args.rows = rows;
      part_args.columns = columns;
      part_args.x = part(all.x, row, column);
      part_args.y = part(all.y, row, column);
      if (measures) part_args.amax = &largest;
      part_args.marks_infinite = marks;
      call.context.kernels().quantize(part_args);
      if (measures) into.include(largest);
    });
  };
  float& scale = *args.scales;
  scale = scaling.policy == ScalePolicy::delayed ? setting.scale : 1.0f;
  if (current) {
    QuantizeArgs only_amax = args;
    only_amax.y.data = nullptr;
    AtomicMaximum marked;
    pass(only_amax, true, marked, has_nan_scales(scaling, args.format));
    if (marked.value() <= (std::numeric_limits<float>::max)())
      amax.include(marked.value());
    else
      pass(only_amax, true, amax);
    scale = scale_for(scaling, args.format, marked.value());
    args.scaling.policy = ScalePolicy::delayed;
  }
  if (!setting.quantizer.own.defined()) {
    const bool marks = !current && has_nan_scales(scaling, args.format);
    AtomicMaximum marked;
    pass(args, !current, marks ? marked : amax, marks);
    if (!marks) return amax.value();
    if (marked.value() <= (std::numeric_limits<float>::max)()) return marked.value();
    // A number that is not finite, in a format that cannot say so: all of the tensor reads NaN.
    scale = std::numeric_limits<float>::quiet_NaN();
    args.scaling.policy = ScalePolicy::delayed;
    pass(args, true, amax);
    return amax.value();
  }
  if (!current) {
    args.y.data = nullptr;
    pass(args, true, amax);
  }
  round_by_own(call, grid, scale);
  return amax.value();
}

inline float quantize_blocks(const OperatorCall& call, const QuantizeGrid& grid,
                             QuantizeArgs args) {
  const ScaleGrid scales = grid.scales();
  const auto& setting = call.attributes.as<QuantizeSetting>();
  if (args.scaling.format == ScaleFormat::e4m3)
    args.tensor_scale = tensor_scale_of(call.context, setting, call.inputs[0]);
  const StoredScale form = stored_scale(args.scaling);
  const CodedLayout layout(setting.quantizer, call.inputs[0].shape().rows(),
                           call.inputs[0].shape().columns(), scales.size());
  auto* const coded =
      setting.codes ? reinterpret_cast<std::byte*>(call.outputs[0].mutable_data<std::uint8_t>())
                    : nullptr;
  if (setting.codes) {
    args.codes = true;
    args.code_bits = layout.code_bits;
    args.y.row_stride = layout.row_bytes;
  }
  const auto store = [&](std::size_t i) {
    store_scale(args.scales[i], form, coded + layout.codes + i * layout.scale_bytes);
  };
  if (call.inputs[0].elements() == 0) {  // rows without columns
    std::fill_n(args.scales, scales.size(), scale_for(args.scaling, args.format, 0));
    for (std::size_t i = 0; setting.codes && i < scales.size(); ++i) store(i);
  }
  const Tensor all_amax = Tensor::zeros(call.context, Shape{scales.rows, scales.columns});
  float* found = all_amax.mutable_data<float>();
  AtomicMaximum amax;
  grid.for_parts(call.context, [&](std::size_t row, std::size_t rows, std::size_t column,
                                   std::size_t columns, std::size_t group) {
    const std::size_t width = grid.group_columns() == 0 ? columns : grid.group_columns();
    const std::size_t at = group * scales.columns + column / width;
    QuantizeArgs part_args = args;
    part_args.rows = rows;
    part_args.columns = columns;
    part_args.x = part(args.x, row, column);
    part_args.y = part(args.y, row, column);
    if (setting.codes)
      part_args.y.data =
          coded + row * layout.row_bytes + column * static_cast<std::size_t>(layout.code_bits) / 8;
    part_args.group_rows = grid.group_rows();
    part_args.group_columns = grid.group_columns();
    part_args.group_stride = scales.columns;
    part_args.scales = args.scales + at;
    part_args.amax = found + at;
    call.context.kernels().quantize(part_args);
    const std::size_t step = grid.group_rows() == 0 ? rows : grid.group_rows();
    for (std::size_t g = 0; g * step < rows; ++g)
      for (std::size_t i = 0; i * width < columns; ++i) {
        amax.include(found[at + g * scales.columns + i]);
        if (setting.codes) store(at + g * scales.columns + i);
      }
  });
  return amax.value();
}

// Error train.precision: a device computes, which has no functions of the host.
inline void refuse_own_on_device(Context& context, const OwnRounding& own) {
  const Device* device = context.device();
  if (own.defined() && device != nullptr && device->name() != "host")
    fail(error_id::train_precision, "quantize", "own", soma::quoted(own.name),
         "a rounding that the device has (" + device->name() +
             "): roundings of one's own run on "
             "the host only");
}

inline void quantize_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<QuantizeSetting>();
  refuse_own_on_device(call.context, setting.quantizer.own);
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  const QuantizeGrid grid(setting, call.sequences, rows, columns);
  QuantizeArgs args;
  args.x = operand(x);
  if (setting.codes)
    args.y = {.data = call.outputs[0].mutable_data<std::uint8_t>(), .dtype = DType::uint8};
  else
    args.y = target(call.outputs[0]);
  set_quantize_draws(setting, call.sequences, rows, columns, args.y);
  args.format = setting.quantizer.format;
  args.scaling = setting.quantizer.scaling;
  args.codes = quantized_code_dtype(setting.quantizer) >= 0;
  args.scales = call.outputs[1].mutable_data<float>();
  call.outputs[2].mutable_data<float>()[0] =
      grid.one_scale() ? quantize_whole(call, grid, args) : quantize_blocks(call, grid, args);
}

}  // namespace detail

namespace ops {

inline constexpr Operator quantize{.name = "quantize",
                                   .outputs = 3,
                                   .batch_inputs = 1,
                                   .shape = &detail::quantize_shape,
                                   .host = &detail::quantize_host,
                                   .wide_gradients = true,
                                   .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE

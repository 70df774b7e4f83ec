// A block of scaling blocks is read twice while it is in a cache: once to find its amax, once to
// round it.

#if defined(SOMA_KERNELS_QUANTIZE_QUANTIZE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_QUANTIZE_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_QUANTIZE_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_QUANTIZE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/quantize/args.hpp>
#include <soma/kernels/quantize/code_bits-inl.hpp>
#include <soma/kernels/quantize/round_bf16-inl.hpp>
#include <soma/kernels/quantize/round_fp32-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x *= factors, one for each column. Not inlined: products must not be contracted into sums.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_columns(float* x, const float* factors,
                                                           std::size_t count) {
  map_vectors<2>({x, factors}, x, count,
                 [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Mul(a, b); });
}

// As multiply_within, one factor for each column.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_columns_within(float* x, const float* factors,
                                                                  std::size_t count, float limit) {
  const FloatVector most = hn::Set(Floats(), limit);
  map_vectors<2>({x, factors}, x, count, [&](FloatVector value, FloatVector factor) HWY_ATTR {
    return product_within(Floats(), value, factor, most);
  });
}

namespace {  // internal linkage: units with other flags have their own

// scale_for(), but the parts that depend only on the format are computed once.
class ScaleRule {
 public:
  ScaleRule(const Scaling& scaling, const FloatFormat& format, float tensor_scale)
      : scaling_(scaling),
        format_(format),
        tensor_scale_(tensor_scale),
        largest_(decode(format, format.max_finite_code())),
        divisor_(static_cast<double>(largest_) * static_cast<double>(tensor_scale)),
        nan_(has_nan_scales(scaling, format)),
        power_(soma::detail::power_rule(scaling, format, largest_)),
        offset_(scaling.margin - 127 - power_.top),
        least_exponent_(scaling.format == ScaleFormat::mx ? -127 : -126),
        most_exponent_(scaling.format == ScaleFormat::mx
                           ? 127
                           : soma::detail::largest_scale_exponent(largest_)),
        margin_(static_cast<double>(soma::detail::two_to(scaling.margin))),
        most_(soma::detail::largest_scale(largest_)) {}

  // Scales that are powers of two, of numbers in bf16 whose largest magnitude has these bits: the
  // exponent, before it is limited.
  bool is_power() const {
    return scaling_.format == ScaleFormat::power_of_two || scaling_.format == ScaleFormat::mx;
  }
  int exponent_of(std::int16_t amax) const {
    return (amax >> 7) + offset_ +
           ((amax & 0x7F) > static_cast<int>(power_.fraction >> 16) ? 1 : 0);
  }
  float of_zeros() const {
    return scaling_.format == ScaleFormat::mx ? soma::detail::two_to(-127) : 1.0f;
  }

  // `finite`: whether all numbers of the scaling block are. Returns the scale; `used` is the one to
  // multiply by, which is another for zeros, because products with subnormal scales are slow.
  float set(float amax, bool finite, float& used, float& inverse) const {
    const auto bits = std::bit_cast<std::uint32_t>(amax);
    if (nan_ && !finite) {
      used = inverse = std::numeric_limits<float>::quiet_NaN();
    } else if (scaling_.format == ScaleFormat::e4m3) {
      used = scale_of_part(amax);
      inverse = 1.0f / (used * tensor_scale_);
    } else if (bits < 0x00800000u) {
      used = scale_for(scaling_, format_, amax, tensor_scale_);
      inverse = 1.0f / used;
      if (bits == 0 && scaling_.format == ScaleFormat::mx) {
        used = inverse = 1;
        return soma::detail::two_to(-127);
      }
    } else if (scaling_.format == ScaleFormat::fp32) {
      const double exact = static_cast<double>(amax) / static_cast<double>(largest_) * margin_;
      used = (std::min)(static_cast<float>((std::clamp)(exact, 0x1p-126, 0x1p126)), most_);
      inverse = 1.0f / used;
    } else {
      int exponent = static_cast<int>(bits >> 23) + offset_;
      if ((bits & 0x7FFFFFu) > power_.fraction) ++exponent;
      exponent = (std::clamp)(exponent, least_exponent_, most_exponent_);
      used = soma::detail::two_to(exponent);
      inverse = soma::detail::two_to(-exponent);
    }
    return used;
  }

 private:
  // ScaleFormat::e4m3. The sum of a number and a power of two is rounded at the number's last place
  // in e4m3.
  float scale_of_part(float amax) const {
    const double exact = static_cast<double>(amax) / divisor_ * margin_;
    const auto wanted = static_cast<float>((std::clamp)(exact, 0x1p-9, 448.0));
    const std::uint32_t field =
        (std::max)(std::bit_cast<std::uint32_t>(wanted) & 0x7F800000u, (127u - 6u) << 23);
    const auto power = std::bit_cast<float>(field + (20u << 23));
    return (wanted + power) - power;
  }

  Scaling scaling_;
  FloatFormat format_;
  float tensor_scale_, largest_;
  double divisor_;
  bool nan_;
  soma::detail::PowerRule power_;
  int offset_, least_exponent_, most_exponent_;
  double margin_;
  float most_;
};

class QuantizePass {
 public:
  explicit QuantizePass(const QuantizeArgs& args)
      : args_(args),
        rule_(args.scaling, args.format, args.tensor_scale),
        reader_(args.x),
        codec_(make_codec_params(args.format, args.y.rounding)),
        carrier_(stored_codec(args.y.dtype)),
        width_(size_of(args.y.dtype)),
        scaled_(args.scaling.policy != ScalePolicy::none && args.scales != nullptr),
        from_bf16_(args.x.dtype == DType::bf16 && args.x.column_stride == 1 && args.x.scale == 1),
        group_(args.group_columns == 0 ? args.columns : args.group_columns),
        block_(group_ == 1           ? wide_run
               : group_ >= row_chunk ? group_
                                     : row_chunk / group_ * group_),
        limit_(decode(args.format, args.format.max_finite_code())) {
    quick_format_ = make_quick_format(args.format, scaled_);
    if (is_quick(args.format, args.y.rounding) && (!args.codes || args.format.bytes() == 1))
      quick_ = quick_loop_for(from_bf16_, args.codes ? 1 : width_, group_ == 1);
    packs_ = args.codes && args.code_bits != 8;
    if (from_bf16_ && scaled_ && args.scaling.policy == ScalePolicy::current && rule_.is_power() &&
        args.y.data != nullptr && rounds_halves(args.y.rounding, args.format) &&
        (args.codes ? args.format.bytes() == 1 : args.y.dtype == DType::bf16) &&
        (group_ == 1 || group_ % half_padding == 0) && group_ <= row_chunk) {
      half_ = make_half_format(args.format);
      draws_ = args.y.rounding.mode == RoundingMode::stochastic;
      half_loop_ = draws_ ? half_loop_for<true>(args.codes ? 1 : 2, group_ == 1)
                          : half_loop_for<false>(args.codes ? 1 : 2, group_ == 1);
    }
    std::fill_n(scales_, (std::min)(wide_run, args.columns), 1.0f);
    std::fill_n(inverses_, (std::min)(wide_run, args.columns), 1.0f);
  }

  void run() {
    const std::size_t step = args_.group_rows == 0 ? args_.rows : args_.group_rows;
    std::size_t at = 0;  // among scales and amax
    for (std::size_t row = 0; row < args_.rows; row += step, at += args_.group_stride)
      for (std::size_t column = 0; column < args_.columns; column += block_)
        do_block(row, (std::min)(step, args_.rows - row), column,
                 (std::min)(block_, args_.columns - column), at + column / group_);
  }

 private:
  // A block is several whole scaling blocks, at most a chunk or wide_run columns, or one scaling
  // block.
  void do_block(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
                std::size_t at) {
    const std::size_t groups = (columns + group_ - 1) / group_;
    if (half_.usable && take_halves(row, rows, column, columns, at)) {
      write_block(
          row, rows, column, columns,
          [&](std::size_t r, std::size_t from, std::size_t count, std::size_t g, std::byte* to) {
            const std::byte* words = nullptr;
            if (draws_) {
              const Draw draw = draw_of(r, from);
              words = draw_words(codec_, draw, draw.index, count, buffers_.words);
            }
            half_loop_(half_, source(r, from, count), count, shifts_ + g, group_, words, to);
          });
      return;
    }
    const bool writes = args_.y.data != nullptr;
    const bool current = scaled_ && writes && args_.scaling.policy == ScalePolicy::current;
    if (current || args_.amax != nullptr) find_amax(row, rows, column, columns, groups);
    if (args_.amax != nullptr)
      for (std::size_t g = 0; g < groups; ++g)
        args_.amax[at + g] =
            (std::max)(args_.amax[at + g], args_.marks_infinite && !finite_[g]
                                               ? std::numeric_limits<float>::infinity()
                                               : amax_[g]);
    if (!writes) return;
    if (current)
      for (std::size_t g = 0; g < groups; ++g)
        args_.scales[at + g] = rule_.set(amax_[g], finite_[g], scales_[g], inverses_[g]);
    else if (scaled_)
      for (std::size_t g = 0; g < groups; ++g) {
        scales_[g] = args_.scales[at + g];
        inverses_[g] = 1.0f / (scales_[g] * args_.tensor_scale);
      }
    has_nan_ = scaled_ && std::any_of(inverses_, inverses_ + groups, is_nan);
    write_block(row, rows, column, columns,
                [&](std::size_t r, std::size_t first, std::size_t count, std::size_t g,
                    std::byte* to) { round_run(r, first, count, g, to); });
  }

  // Calls round(row, column, count, first scale, to) for all runs of a block.
  template <class Round>
  void write_block(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
                   const Round& round) {
    for (std::size_t r = row; r < row + rows; ++r)
      for (std::size_t first = 0; first < columns; first += row_chunk) {
        const std::size_t count = (std::min)(row_chunk, columns - first);
        write_run(r, column + first, count, [&](std::byte* to) {
          round(r, column + first, count, group_ == 1 ? first : 0, to);
        });
      }
  }

  // Finds the scales of a block in 16 bits; false: one of them is not ordinary, and nothing is
  // written.
  bool take_halves(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
                   std::size_t at) {
    const std::size_t groups = (columns + group_ - 1) / group_;
    std::fill_n(half_maxima_, groups + (group_ == 1 ? half_padding : 0), std::int16_t{0});
    for (std::size_t r = row; r < row + rows; ++r)
      if (const std::byte* from = source(r, column, columns); group_ == 1)  // in place
        raise_half_columns(from, columns, half_maxima_);
      else
        raise_half_groups(from, columns, group_, half_maxima_);
    bool ordinary = true;
    for (std::size_t g = 0; g < groups; ++g) {
      const int exponent = half_maxima_[g] == 0 ? 0 : rule_.exponent_of(half_maxima_[g]);
      ordinary = ordinary && half_maxima_[g] < 0x7F80 && exponent <= half_.most_exponent &&
                 exponent >= -half_.most_exponent;
      shifts_[g] = static_cast<std::int16_t>(exponent * 128);
    }
    if (!ordinary) return false;
    for (std::size_t g = 0; g < groups; ++g)
      args_.scales[at + g] =
          half_maxima_[g] == 0
              ? rule_.of_zeros()
              : std::bit_cast<float>((static_cast<std::int32_t>(shifts_[g]) + 127 * 128) * 65536);
    for (std::size_t g = 0; args_.amax != nullptr && g < groups; ++g)
      args_.amax[at + g] =
          (std::max)(args_.amax[at + g],
                     std::bit_cast<float>(static_cast<std::uint32_t>(half_maxima_[g]) << 16));
    return true;
  }

  // Calls round(to) with the place of a run in y, or with a buffer of codes that are packed then.
  template <class Round>
  void write_run(std::size_t row, std::size_t column, std::size_t count, const Round& round) {
    std::byte* const rows =
        static_cast<std::byte*>(args_.y.data) + row * args_.y.row_stride * width_;
    if (!packs_) return round(rows + column * width_);
    round(buffers_.codes);
    pack_codes(buffers_.codes, count, args_.code_bits,
               rows + column * static_cast<std::size_t>(args_.code_bits) / 8);
  }

  // The address of a run as bf16 or fp32: in place if possible, else in the buffer.
  const std::byte* source(std::size_t row, std::size_t column, std::size_t count) {
    if (from_bf16_)
      return static_cast<const std::byte*>(args_.x.data) +
             (row * args_.x.row_stride + column) * sizeof(std::uint16_t);
    return reinterpret_cast<const std::byte*>(reader_.read(row, column, count, decoded_.values));
  }

  static bool is_nan(float value) { return !(value == value); }

  // The largest finite magnitudes, and where all are finite. Those that are not are rare: only they
  // need a second look.
  void find_amax(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
                 std::size_t groups) {
    find_amax<false>(row, rows, column, columns, groups);
    bool all = true;
    for (std::size_t g = 0; g < groups; ++g) {
      finite_[g] = amax_[g] <= (std::numeric_limits<float>::max)();
      all = all && finite_[g];
    }
    if (!all) find_amax<true>(row, rows, column, columns, groups);
  }

  // The inner loop is over rows: then each scaling block of the block needs one horizontal maximum.
  template <bool kFinite>
  void find_amax(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns,
                 std::size_t groups) {
    std::fill_n(amax_, groups, 0.0f);
    const auto raise_each =
        from_bf16_ ? raise_columns<true, kFinite> : raise_columns<false, kFinite>;
    const auto raise = from_bf16_ ? raise_groups<true, kFinite> : raise_groups<false, kFinite>;
    std::fill_n(maxima_, group_ == 1 ? columns + lane_padding : groups * lane_padding, 0);
    for (std::size_t r = row; r < row + rows; ++r)
      for (std::size_t first = 0; first < columns; first += row_chunk) {
        const std::size_t count = (std::min)(row_chunk, columns - first);
        if (const std::byte* from = source(r, column + first, count); group_ == 1)
          raise_each(from, count, maxima_ + first);
        else
          raise(from, count, group_, maxima_);
      }
    if (group_ == 1)
      std::memcpy(amax_, maxima_, columns * sizeof(float));
    else
      join_maxima(maxima_, groups, amax_);
  }

  // `g`: the scale of the first column, among those of the block.
  void round_run(std::size_t row, std::size_t column, std::size_t count, std::size_t g,
                 std::byte* to) {
    const QuickScales scales{scales_ + g, inverses_ + g, (std::min)(group_, row_chunk)};
    if (quick_ != nullptr && !has_nan_ &&
        quick_(quick_format_, source(row, column, count), count, scales, to))
      return;
    write_any(row, column, count, scales.scales, scales.inverses, to);
  }

  // For any format and rounding, and for numbers that are not finite: by encoding and decoding.
  void write_any(std::size_t row, std::size_t column, std::size_t count, const float* scales,
                 const float* inverses, std::byte* to) {
    float* values = buffers_.values;
    const float* x = reader_.read(row, column, count, values);
    if (x != values) std::memcpy(values, x, count * sizeof(float));
    if (scaled_ && group_ == 1) {
      multiply_columns_within(values, inverses, count, limit_);
      for (std::size_t i = 0; has_nan_ && i < count; ++i)  // a NaN of the processor has any bits
        if (is_nan(inverses[i])) values[i] = std::numeric_limits<float>::quiet_NaN();
    }
    if (scaled_ && group_ != 1)
      for_each_group(0, count, group_, [&](std::size_t first, std::size_t n, std::size_t g) {
        multiply_within(values + first, n, inverses[g], limit_);
      });
    const Draw draw = draw_of(row, column);
    const auto* bytes = reinterpret_cast<const std::byte*>(values);
    if (args_.codes) return store(codec_, bytes, count, to, draw);
    encode_chunk(codec_, bytes, count, buffers_.codes, draw, buffers_);
    decode_chunk(codec_, buffers_.codes, count, buffers_);
    if (scaled_ && group_ == 1) multiply_columns(values, scales, count);
    if (scaled_ && group_ != 1)
      for_each_group(0, count, group_, [&](std::size_t first, std::size_t n, std::size_t g) {
        multiply(values + first, n, scales[g]);
      });
    store(carrier_, bytes, count, to, {});
  }

  Draw draw_of(std::size_t row, std::size_t column) const {
    Draw draw = args_.y.draw;
    draw.index = draw_index(draw, args_.y.draw_row_stride, args_.y.row_indices, row, column);
    return draw;
  }

  void store(const CodecParams& codec, const std::byte* values, std::size_t count, std::byte* to,
             const Draw& draw) {
    if (codec.plain_fp32)
      std::memcpy(to, values, count * sizeof(float));
    else
      encode_chunk(codec, values, count, to, draw, buffers_);
  }

  const QuantizeArgs& args_;
  ScaleRule rule_;
  MatrixReader reader_;
  CodecParams codec_, carrier_;
  std::size_t width_;
  bool scaled_, from_bf16_, has_nan_ = false;
  std::size_t group_, block_;
  float limit_;
  QuickFormat quick_format_;
  QuickLoop quick_ = nullptr;
  bool packs_ = false, draws_ = false;
  HalfFormat half_;
  HalfLoop half_loop_ = nullptr;

  // Scales and largest magnitudes of the scaling blocks of a block.
  alignas(64) float scales_[wide_run + lane_padding], inverses_[wide_run + lane_padding],
      amax_[wide_run];
  bool finite_[wide_run];
  alignas(64) std::int16_t half_maxima_[wide_run + half_padding], shifts_[wide_run + half_padding];
  alignas(64) std::int32_t maxima_[wide_run + lane_padding];
  ChunkBuffer decoded_;
  ConvertBuffers buffers_;
};

}  // namespace

static inline void quantize_kernel(const QuantizeArgs& args) noexcept {
  if (args.rows != 0 && args.columns != 0) QuantizePass(args).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Rows of operands and targets as fp32: in place if they are plain, else through a chunk buffer
// that stays in the first-level cache.

#if defined(SOMA_KERNELS_ROWS_MATRIX_IO_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ROWS_MATRIX_IO_INL_HPP
#undef SOMA_KERNELS_ROWS_MATRIX_IO_INL_HPP
#else
#define SOMA_KERNELS_ROWS_MATRIX_IO_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/convert/convert-inl.hpp>
#include <soma/kernels/convert/stored_codec.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The elements that are read or written at a time if they need decoding or encoding; a multiple of
// 16, so that the lanes of a sum continue from chunk to chunk.
inline constexpr std::size_t row_chunk = convert_chunk;

namespace {  // internal linkage: units with other flags have their own

// Floats of a chunk, with room for whole vectors.
struct ChunkBuffer {
  alignas(64) float values[row_chunk + lane_padding];
};

}  // namespace

// Logical index of element (row, column), as operand.hpp defines it.
static inline std::uint64_t draw_index(const Draw& draw, std::uint64_t row_stride,
                                       const std::uint64_t* row_indices, std::size_t row,
                                       std::size_t column) {
  const std::uint64_t start =
      draw.index + (row_indices != nullptr ? row_indices[row] : std::uint64_t{row} * row_stride);
  return start + column;
}

template <std::size_t kWidth>
static inline void gather_codes(const std::byte* from, std::size_t stride, std::size_t count,
                                std::byte* to) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * kWidth, from + i * stride * kWidth, kWidth);
}

// (stored - zero_point) of int8 or uint8. Writes whole vectors.
template <class Integer>
HWY_NOINLINE HWY_MAYBE_UNUSED static void widen_integers(const std::byte* from, std::size_t count,
                                                         std::int32_t zero_point, float* out) {
  const Floats d;
  const hn::RebindToSigned<Floats> di;
  const hn::Rebind<Integer, Floats> narrow;
  for (std::size_t i = 0; i < count; i += float_lanes) {
    alignas(16) Integer last[sum_lanes] = {};
    const std::byte* source = from + i;
    if (count - i < float_lanes) {
      std::memcpy(last, source, count - i);
      source = reinterpret_cast<const std::byte*>(last);
    }
    const auto stored = hn::PromoteTo(di, load_bytes(narrow, source));
    hn::StoreU(hn::ConvertTo(d, hn::Sub(stored, hn::Set(di, zero_point))), d, out + i);
  }
}

namespace {

// Reads an operand. Integers may be int8, uint8 and boolean (as uint8).
class MatrixReader {
 public:
  MatrixReader() = default;
  // Values are multiplied by `factor` after the operand's own scale; the two products are rounded
  // separately.
  explicit MatrixReader(const MatrixOperand& operand, float factor = 1)
      : operand_(operand), factor_(factor), width_(size_of(operand.dtype)) {
    if (is_floating(operand.dtype)) {
      params_ = stored_codec(operand.dtype);
      plain_ = params_.plain_fp32;
    }
    direct_ = plain_ && operand.column_stride == 1 && operand.scale == 1 && factor == 1;
  }

  bool direct() const { return direct_; }

  // `count` (where not direct at most row_chunk) values of a row, from `column` on: the operand
  // itself, or the buffer.
  const float* read(std::size_t row, std::size_t column, std::size_t count, float* buffer) const {
    const std::byte* from = static_cast<const std::byte*>(operand_.data) +
                            (row * operand_.row_stride + column * operand_.column_stride) * width_;
    if (direct_) return reinterpret_cast<const float*>(from);
    decode_row(from, count, buffer);
    return buffer;
  }

 private:
  HWY_NOINLINE void decode_row(const std::byte* from, std::size_t count, float* buffer) const {
    if (operand_.column_stride == 0) {
      decode(from, 1, 1, buffer);
      std::fill_n(buffer + 1, count - 1, buffer[0]);
    } else {
      decode(from, operand_.column_stride, count, buffer);
    }
  }

  HWY_NOINLINE void decode(const std::byte* from, std::size_t stride, std::size_t count,
                           float* buffer) const {
    alignas(64) std::byte codes[4 * row_chunk];
    if (stride != 1) {
      std::byte* to = plain_ ? reinterpret_cast<std::byte*>(buffer) : codes;
      if (width_ == 1) gather_codes<1>(from, stride, count, to);
      if (width_ == 2) gather_codes<2>(from, stride, count, to);
      if (width_ == 4) gather_codes<4>(from, stride, count, to);
      from = to;
    } else if (plain_) {
      std::memcpy(buffer, from, count * sizeof(float));
    }
    if (operand_.dtype == DType::int8)
      widen_integers<std::int8_t>(from, count, operand_.zero_point, buffer);
    else if (!is_floating(operand_.dtype))
      widen_integers<std::uint8_t>(from, count, operand_.zero_point, buffer);
    else if (!plain_)
      decode_run(from, count, buffer);
    if (operand_.scale != 1) multiply(buffer, count, operand_.scale);
    if (factor_ != 1) multiply(buffer, count, factor_);
  }

  void decode_run(const std::byte* from, std::size_t count, float* buffer) const {
    alignas(64) std::byte last[4 * lane_padding] = {};
    const std::size_t rest = count % float_lanes, whole = count - rest;
    if (whole != 0) decode_whole_vectors(params_, from, whole, buffer);
    if (rest == 0) return;
    std::memcpy(last, from + whole * width_, rest * width_);
    decode_whole_vectors(params_, last, rest, buffer + whole);
  }

  MatrixOperand operand_{};
  float factor_ = 1;
  std::size_t width_ = 0;
  CodecParams params_{};
  bool plain_ = false, direct_ = false;
};

// Writes a target: compute into place(), then call finish(); or call write() for values that are
// stored elsewhere.
class MatrixWriter {
 public:
  // `stream`: write() writes past the caches, and other threads see the values only after flush().
  explicit MatrixWriter(const MatrixTarget& target, bool stream = false)
      : target_(target),
        stream_(stream),
        params_(stored_codec(target.dtype, target.rounding)),
        width_(size_of(target.dtype)) {}

  bool direct() const { return params_.plain_fp32; }
  // True if bf16_codes<false>() makes the codes of the values.
  bool rounds_to_bf16() const {
    return params_.plain_bf16 && params_.mode == RoundingMode::nearest_even;
  }
  std::byte* at(std::size_t row, std::size_t column) const {
    return static_cast<std::byte*>(target_.data) + (row * target_.row_stride + column) * width_;
  }
  std::size_t row_stride() const { return target_.row_stride; }

  // The memory for the values of a row from `column` on: the target itself, or a buffer for a
  // chunk.
  float* place(std::size_t row, std::size_t column) {
    return direct() ? reinterpret_cast<float*>(at(row, column)) : buffers_.values;
  }

  // After `count` values were written to place(row, column).
  void finish(std::size_t row, std::size_t column, std::size_t count) {
    if (!direct()) encode(row, column, buffers_.values, count);
  }

  // Writes at most a row chunk.
  void write(std::size_t row, std::size_t column, const float* values, std::size_t count) {
    if (direct()) return write_out(at(row, column), values, count * sizeof(float), stream_);
    if (count % float_lanes == 0) return encode(row, column, values, count);
    std::memcpy(buffers_.values, values, count * sizeof(float));
    encode(row, column, buffers_.values, count);
  }
  bool streams() const { return stream_; }
  void flush() const {
    if (stream_) hwy::FlushStream();
  }

 private:
  // Reads whole vectors.
  HWY_NOINLINE void encode(std::size_t row, std::size_t column, const float* values,
                           std::size_t count) {
    Draw draw = target_.draw;
    draw.index = draw_index(draw, target_.draw_row_stride, target_.row_indices, row, column);
    std::byte* const to = stream_ ? buffers_.codes : at(row, column);
    encode_chunk(params_, reinterpret_cast<const std::byte*>(values), count, to, draw, buffers_);
    if (stream_) write_out(at(row, column), to, count * width_, true);
  }

  MatrixTarget target_;
  bool stream_;
  CodecParams params_;
  std::size_t width_;
  ConvertBuffers buffers_;
};

// A row that is read several times: it is decoded once if the decoded row fits.
class CachedRow {
 public:
  CachedRow(const MatrixOperand& operand, std::size_t columns)
      : reader_(operand), columns_(columns), kept_(!reader_.direct() && columns <= capacity) {}

  void start(std::size_t row) {
    row_ = row;
    if (!kept_) return;
    for (std::size_t first = 0; first < columns_; first += row_chunk)
      reader_.read(row, first, (std::min)(row_chunk, columns_ - first), values_ + first);
  }

  // Reads up to a chunk.
  const float* read(std::size_t column, std::size_t count) {
    return kept_ ? values_ + column : reader_.read(row_, column, count, values_);
  }

 private:
  static constexpr std::size_t capacity = 2048;

  MatrixReader reader_;
  std::size_t columns_, row_ = 0;
  bool kept_;
  alignas(64) float values_[capacity + lane_padding];
};

}  // namespace

// Calls body(column, count) for the chunks of a row.
template <class Body>
HWY_INLINE void for_each_chunk(std::size_t columns, const Body& body) {
  for (std::size_t first = 0; first < columns; first += row_chunk)
    body(first, (std::min)(row_chunk, columns - first));
}

// ---- a function of the elements of up to three operands

// Reads count elements of each input; out may be one of them.
using MapLoop = void (*)(const float* const* in, float* out, std::size_t count);

// True if the whole matrix can be treated as one row, which gives fewer and longer runs.
static inline bool is_one_row(std::size_t rows, std::size_t columns, const MatrixOperand& operand) {
  return rows == 1 || operand.row_stride == columns * operand.column_stride;
}
static inline bool is_one_row(std::size_t rows, std::size_t columns, const MatrixTarget& target) {
  const bool draws = target.rounding.mode == RoundingMode::stochastic;
  return rows == 1 ||
         (target.row_stride == columns &&
          (!draws || (target.row_indices == nullptr && target.draw_row_stride == columns)));
}

// y = loop(inputs). The last input is multiplied by `factor` first, and that product is rounded
// separately.
HWY_NOINLINE HWY_MAYBE_UNUSED static void map_rows(std::size_t rows, std::size_t columns,
                                                   const MatrixOperand* const* inputs,
                                                   std::size_t input_count, float factor,
                                                   const MatrixTarget& y, MapLoop loop) {
  constexpr std::size_t most = 4;
  ChunkBuffer buffers[most];
  MatrixReader readers[most];
  MatrixWriter writer(y);
  bool direct = writer.direct(), one_row = is_one_row(rows, columns, y);
  for (std::size_t k = 0; k < input_count; ++k) {
    readers[k] = MatrixReader(*inputs[k], k + 1 == input_count ? factor : 1);
    direct = direct && readers[k].direct();
    one_row = one_row && is_one_row(rows, columns, *inputs[k]);
  }
  if (one_row) {
    columns *= rows;
    rows = columns != 0 ? 1 : 0;
  }
  // The outer loop is over chunks: rows of a transposed operand share cache lines, which then stay
  // in the cache.
  const std::size_t step = direct ? (std::max)(columns, std::size_t{1}) : row_chunk;
  for (std::size_t first = 0; first < columns; first += step) {
    const std::size_t count = (std::min)(step, columns - first);
    for (std::size_t row = 0; row < rows; ++row) {
      const float* in[most] = {};
      for (std::size_t k = 0; k < input_count; ++k)
        in[k] = readers[k].read(row, first, count, buffers[k].values);
      loop(in, writer.place(row, first), count);
      writer.finish(row, first, count);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

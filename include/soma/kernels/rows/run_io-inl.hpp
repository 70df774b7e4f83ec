// Runs: converts stored elements of any type to adjacent floats and back, a chunk at a time. fp32
// is used in place.

#if defined(SOMA_KERNELS_ROWS_RUN_IO_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ROWS_RUN_IO_INL_HPP
#undef SOMA_KERNELS_ROWS_RUN_IO_INL_HPP
#else
#define SOMA_KERNELS_ROWS_RUN_IO_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/convert/convert-inl.hpp>
#include <soma/kernels/convert/stored_codec.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loops over a chunk work on whole groups of 16 elements, the widest vector. A chunk that does not
// end with a whole group is copied to a buffer and padded with zeros.
inline constexpr std::size_t run_chunk = convert_chunk;
inline constexpr std::size_t run_group = lane_padding;

struct RunBuffer {
  alignas(64) float values[run_chunk + run_group];
};

static inline std::size_t whole_groups(std::size_t count) {
  return (count + run_group - 1) / run_group * run_group;
}

// A matrix that is read in pieces of its rows; a plain run is its row 0.
struct RunSource {
  const std::byte* data;
  DType dtype;
  std::size_t width, row_stride, column_stride;
  float scale;
  std::int32_t zero_point;
  CodecParams codec;  // for floating types
  bool plain;         // fp32 as it is, elements of a row adjacent
};

static inline RunSource run_source(const MatrixOperand& x) {
  RunSource source{static_cast<const std::byte*>(x.data),
                   x.dtype,
                   size_of(x.dtype),
                   x.row_stride,
                   x.column_stride,
                   x.scale,
                   x.zero_point,
                   {},
                   x.dtype == DType::fp32 && x.column_stride == 1 && x.scale == 1};
  if (is_floating(x.dtype)) source.codec = stored_codec(x.dtype);
  return source;
}

static inline RunSource run_source(const void* data, DType dtype) {
  return run_source(MatrixOperand{.data = data, .dtype = dtype});
}

// Copies stored elements at a fixed distance to adjacent memory.
template <std::size_t kWidth>
static inline void collect_codes(const std::byte* from, std::size_t distance, std::size_t count,
                                 std::byte* to) {
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(to + i * kWidth, from + i * distance * kWidth, kWidth);
}

// (stored - zero_point) * scale of adjacent bytes; `count` rounded up to whole vectors. The
// difference is exact in 32 bits and in fp32 (zero_point is itself a value of the type), the
// product is rounded once.
template <class Integer>
HWY_NOINLINE HWY_MAYBE_UNUSED static void floats_from_bytes(const RunSource& source,
                                                            const std::byte* from,
                                                            std::size_t count, float* out) {
  const hn::CappedTag<float, run_group> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<Integer, decltype(d)> narrow;
  const auto zero_point = hn::Set(di, source.zero_point);
  const auto scale = hn::Set(d, source.scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto stored = hn::PromoteTo(di, load_bytes(narrow, from + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::Sub(stored, zero_point)), scale), d, out + i);
  }
}

template <class Integer>
static inline void floats_from_integers(const std::byte* from, std::size_t distance,
                                        std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    Integer stored;
    std::memcpy(&stored, from + i * distance * sizeof stored, sizeof stored);
    out[i] = static_cast<float>(stored);
  }
}

// Decodes up to a chunk of adjacent codes to floats.
HWY_NOINLINE HWY_MAYBE_UNUSED static void decode_adjacent(const RunSource& source,
                                                          const std::byte* from, std::size_t count,
                                                          float* out, ConvertBuffers& scratch) {
  const auto decode = [&source](const std::byte* codes, std::size_t n, float* to) {
    if (source.dtype == DType::int8)
      floats_from_bytes<std::int8_t>(source, codes, n, to);
    else if (is_floating(source.dtype))
      decode_whole_vectors(source.codec, codes, n, to);
    else
      floats_from_bytes<std::uint8_t>(source, codes, n, to);
  };
  const std::size_t whole = count / run_group * run_group, rest = count - whole;
  if (whole != 0) decode(from, whole, out);
  if (rest == 0) return;
  std::memset(scratch.last, 0, sizeof scratch.last);
  std::memcpy(scratch.last, from + whole * source.width, rest * source.width);
  decode(scratch.last, rest, out + whole);
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void load_converted(const RunSource& source,
                                                         const std::byte* from, std::size_t count,
                                                         float* out, ConvertBuffers& scratch) {
  const std::size_t distance = source.column_stride;
  if (source.dtype == DType::int32) {
    floats_from_integers<std::int32_t>(from, distance, count, out);
  } else if (source.dtype == DType::int64) {
    floats_from_integers<std::int64_t>(from, distance, count, out);
  } else if (source.dtype == DType::int16) {
    floats_from_integers<std::int16_t>(from, distance, count, out);
  } else if (source.dtype == DType::uint16) {
    floats_from_integers<std::uint16_t>(from, distance, count, out);
  } else if (source.dtype == DType::uint32) {
    floats_from_integers<std::uint32_t>(from, distance, count, out);
  } else {
    if (distance != 1) {
      if (source.width == 1) collect_codes<1>(from, distance, count, scratch.codes);
      if (source.width == 2) collect_codes<2>(from, distance, count, scratch.codes);
      if (source.width == 4) collect_codes<4>(from, distance, count, scratch.codes);
      from = scratch.codes;
    }
    decode_adjacent(source, from, count, out, scratch);
    if (is_floating(source.dtype) && source.scale != 1) multiply(out, count, source.scale);
  }
}

// Elements column ... column + count - 1 of a row, `count` up to a chunk: in place, or in the
// buffer, with zeros up to a whole group.
static inline const float* load_run(const RunSource& source, std::size_t row, std::size_t column,
                                    std::size_t count, float* buffer, ConvertBuffers& scratch) {
  const std::byte* from =
      source.data + (row * source.row_stride + column * source.column_stride) * source.width;
  const std::size_t whole = whole_groups(count);
  if (source.plain) {
    if (whole == count) return reinterpret_cast<const float*>(from);
    std::memcpy(buffer, from, count * sizeof(float));
  } else {
    load_converted(source, from, count, buffer, scratch);
  }
  std::fill(buffer + count, buffer + whole, 0.0f);
  return buffer;
}

// A run that is written: adjacent elements of a floating type.
struct RunTarget {
  std::byte* data;
  CodecParams codec;
  Draw draw;  // for element 0
};

static inline RunTarget run_target(void* data, DType dtype, const Rounding& rounding,
                                   const Draw& draw) {
  return {static_cast<std::byte*>(data), stored_codec(dtype, rounding), draw};
}

// The memory in which to compute elements first ... first + count - 1 before they are stored: the
// target, or the buffer.
static inline float* place_run(const RunTarget& target, std::size_t first, std::size_t count,
                               float* buffer) {
  if (!target.codec.plain_fp32 || whole_groups(count) != count) return buffer;
  return reinterpret_cast<float*>(target.data + first * sizeof(float));
}

// Stores up to a chunk, with one rounding for each value. Values that were computed in place are
// stored already.
static inline void store_run(const RunTarget& target, std::size_t first, std::size_t count,
                             const float* values, ConvertBuffers& scratch) {
  std::byte* to = target.data + first * static_cast<std::size_t>(target.codec.width);
  const auto* from = reinterpret_cast<const std::byte*>(values);
  if (from == to) return;
  if (target.codec.plain_fp32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  Draw draw = target.draw;
  draw.index += first;
  encode_chunk(target.codec, from, count, to, draw, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

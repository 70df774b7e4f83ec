// The convert entry of the kernel table. A run is cut into chunks that stay in the first-level
// cache; each chunk goes through up to four short loops (decode, source scale, amax and target
// scale, encode), one vector at a time. With separate loops, the number of compiled loops is widths
// plus roundings, instead of their product with everything else.

#if defined(SOMA_KERNELS_CONVERT_CONVERT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_CONVERT_CONVERT_INL_HPP
#undef SOMA_KERNELS_CONVERT_CONVERT_INL_HPP
#else
#define SOMA_KERNELS_CONVERT_CONVERT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/convert/args.hpp>
#include <soma/simd/code_runs-inl.hpp>
#include <soma/simd/memory-inl.hpp>

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

// ---- scales and amax, on floats in the chunk buffer (which has padding, so partial vectors are
// computed whole)

// Calls part(offset, count, group) for each piece of elements first ... first + count - 1 that
// shares a group.
template <class Part>
HWY_INLINE void for_each_group(std::size_t first, std::size_t count, std::size_t group,
                               const Part& part) {
  for (std::size_t done = 0; done < count;) {
    const std::size_t index = (first + done) / group;
    const std::size_t length = (std::min)(count - done, (index + 1) * group - (first + done));
    part(done, length, index);
    done += length;
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply(float* values, std::size_t count, float factor) {
  const hn::RebindToFloat<Lanes32> d;
  const auto f = hn::Set(d, factor);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), f), d, values + i);
  for (; i < count; ++i) values[i] *= factor;
}

// x * factor; a finite x stays within -limit and limit.
template <class D, class V>
HWY_INLINE V product_within(D d, V x, V factor, V limit) {
  const V infinity = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7F800000u));
  const V product = hn::Mul(x, factor);
  const V kept = hn::Min(hn::Max(product, hn::Neg(limit)), limit);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), infinity), kept, product);
}

// As multiply(), but finite products are limited to `limit` in magnitude. Infinities and NaN are
// not limited.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_within(float* values, std::size_t count,
                                                          float factor, float limit) {
  if (!(factor == factor)) {  // all the same NaN: one that a processor makes has any bits
    std::fill_n(values, count, factor);
    return;
  }
  const hn::RebindToFloat<Lanes32> d;
  const auto f = hn::Set(d, factor), most = hn::Set(d, limit);
  const auto scaled = [&](auto x) HWY_ATTR { return product_within(d, x, f, most); };
  const std::size_t lanes = hn::Lanes(d);
  alignas(64) float last[lane_padding] = {};
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(scaled(hn::LoadU(d, values + i)), d, values + i);
  if (i == count) return;
  std::memcpy(last, values + i, (count - i) * sizeof(float));
  hn::StoreU(scaled(hn::LoadU(d, last)), d, last);
  std::memcpy(values + i, last, (count - i) * sizeof(float));
}

// The largest finite magnitude; 0 if there is none. It compares bits as integers: larger magnitudes
// have larger bits. `marks_infinite`: infinity if a number is not finite.
HWY_NOINLINE HWY_MAYBE_UNUSED static float largest_finite(const float* values, std::size_t count,
                                                          bool marks_infinite = false) {
  const hn::RebindToSigned<Lanes32> d;
  const hn::RebindToFloat<Lanes32> df;
  const auto infinity = hn::Set(d, 0x7F800000);
  const auto others = hn::Set(d, marks_infinite ? 0x7F800000 : 0);
  const auto magnitude_of = [&](auto v) HWY_ATTR {
    const auto magnitude = hn::And(v, hn::Set(d, 0x7FFFFFFF));
    return hn::IfThenElse(hn::Lt(magnitude, infinity), magnitude, others);
  };
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    largest = hn::Max(largest, magnitude_of(hn::BitCast(d, hn::LoadU(df, values + i))));
  if (i != count) {
    alignas(64) float last[lane_padding] = {};
    std::memcpy(last, values + i, (count - i) * sizeof(float));
    largest = hn::Max(largest, magnitude_of(hn::BitCast(d, hn::Load(df, last))));
  }
  const std::int32_t result = hn::GetLane(hn::MaxOfLanes(d, largest));
  float value;
  std::memcpy(&value, &result, sizeof value);
  return value;
}

static inline void scale_chunk(const ConvertArgs& args, std::size_t first, std::size_t count,
                               float* values) {
  if (args.source_scales != nullptr)
    for_each_group(first, count, args.source_group,
                   [&](std::size_t at, std::size_t n, std::size_t group) {
                     multiply(values + at, n, args.source_scales[group]);
                   });
  if (args.amax != nullptr)
    for_each_group(
        first, count, args.target_group, [&](std::size_t at, std::size_t n, std::size_t group) {
          args.amax[group] =
              (std::max)(args.amax[group], largest_finite(values + at, n, args.marks_infinite));
        });
  if (args.inverse_scales != nullptr)
    for_each_group(first, count, args.target_group,
                   [&](std::size_t at, std::size_t n, std::size_t group) {
                     multiply_within(values + at, n, args.inverse_scales[group], args.limit);
                   });
}

// memcpy that bypasses the caches if `stream` is set.
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_out(std::byte* to, const void* from,
                                                    std::size_t bytes, bool stream) {
  const auto* source = static_cast<const std::byte*>(from);
  if (stream && HWY_TARGET != HWY_SCALAR) {
    const Lanes32 d;
    const std::size_t vector = hn::Lanes(d) * sizeof(std::uint32_t);
    const std::size_t head =
        (std::min)(bytes, (vector - reinterpret_cast<std::uintptr_t>(to) % vector) % vector);
    std::memcpy(to, source, head);
    std::size_t done = head;
    for (; done + vector <= bytes; done += vector)
      hn::Stream(load_bytes(d, source + done), d, reinterpret_cast<std::uint32_t*>(to + done));
    to += done;
    source += done;
    bytes -= done;
  }
  std::memcpy(to, source, bytes);
}

static inline void convert_kernel(const ConvertArgs& args) noexcept {
  const CodecParams &from = args.from_params, &to = args.to_params;
  const bool scaled =
      args.source_scales != nullptr || args.inverse_scales != nullptr || args.amax != nullptr;
  const auto from_width = static_cast<std::size_t>(from.width),
             to_width = static_cast<std::size_t>(to.width);
  if (from.plain_fp32 && to.plain_fp32 && !scaled) {
    std::memmove(args.to, args.from, args.count * from_width);
    return;
  }
  ConvertBuffers buffers;
  const std::size_t lanes = hn::Lanes(Lanes32());
  for (std::size_t first = 0; first < args.count; first += convert_chunk) {
    const std::size_t count = (std::min)(convert_chunk, args.count - first);
    const std::byte* source = args.from + first * from_width;
    const auto* values = reinterpret_cast<const std::byte*>(buffers.values);
    // fp32 that needs no scaling is encoded in place, if it ends with a whole vector.
    if (from.plain_fp32 && !scaled && count % lanes == 0)
      values = source;
    else
      decode_chunk(from, source, count, buffers);
    if (scaled) scale_chunk(args, first, count, buffers.values);
    if (args.to == nullptr) continue;
    std::byte* target = args.to + first * to_width;
    if (to.plain_fp32) {
      write_out(target, values, count * sizeof(float), args.stream);
      continue;
    }
    Draw draw = args.draw;
    draw.index += first;
    encode_chunk(to, values, count, args.stream ? buffers.codes : target, draw, buffers);
    if (args.stream) write_out(target, buffers.codes, count * to_width, true);
  }
  if (args.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

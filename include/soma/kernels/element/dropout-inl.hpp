// Dropout of a run of floats, also as a step of larger kernels.

#if defined(SOMA_KERNELS_ELEMENT_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ELEMENT_DROPOUT_INL_HPP
#undef SOMA_KERNELS_ELEMENT_DROPOUT_INL_HPP
#else
#define SOMA_KERNELS_ELEMENT_DROPOUT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/simd/philox-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out = x * keep_scale where the word is at least the threshold, else 0, whatever x is; out may be
// x. Not inlined: the product must not be contracted into a sum.
HWY_NOINLINE HWY_MAYBE_UNUSED static void drop_words(const float* x, const std::uint32_t* words,
                                                     std::size_t count, const DropoutArgs& args,
                                                     float* out) {
  const hn::RebindToUnsigned<Floats> du;
  const auto threshold = hn::Set(du, args.threshold);
  const auto scale = hn::Set(Floats(), args.keep_scale);
  // Words pass as floats: their bits are all that is looked at.
  map_vectors<2>({x, reinterpret_cast<const float*>(words)}, out, count,
                 [&](FloatVector value, FloatVector word) HWY_ATTR {
                   const auto dropped = hn::Lt(hn::BitCast(du, word), threshold);
                   return hn::IfThenZeroElse(hn::RebindMask(Floats(), dropped),
                                             hn::Mul(value, scale));
                 });
}

namespace {  // internal linkage: units with other flags have their own

// Words of a row chunk, and what drawing them writes around.
struct WordBuffer {
  alignas(64) std::uint32_t words[row_chunk + 6 + philox_padding];
};

}  // namespace

// The same for elements from logical index `index` on, at most a row chunk, in place.
HWY_NOINLINE HWY_MAYBE_UNUSED static void drop_in_place(const DropoutArgs& args,
                                                        std::uint64_t index, std::size_t count,
                                                        float* x) {
  WordBuffer buffer;
  drop_words(x, philox_run(args.draw, index, count, buffer.words), count, args, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Loops over runs of floats that all kernel families share: a function of each element, and sums in
// 16 logical lanes. Runs may have any length: the rest after the last whole vector goes through the
// same vector code as a padded copy, so the bits of an element do not depend on its position.

#if defined(SOMA_KERNELS_ROWS_VECTOR_LOOPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ROWS_VECTOR_LOOPS_INL_HPP
#undef SOMA_KERNELS_ROWS_VECTOR_LOOPS_INL_HPP
#else
#define SOMA_KERNELS_ROWS_VECTOR_LOOPS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums over a run: lane i adds elements i, i + 16, i + 32 ... in order, then lanes are added
// pairwise. Vectors of any width compute the same.
inline constexpr std::size_t sum_lanes = 16;
using Floats = hn::CappedTag<float, sum_lanes>;
using FloatVector = hn::Vec<Floats>;
static_assert(!HWY_HAVE_SCALABLE, "the number of lanes has to be known when compiling");
inline constexpr std::size_t float_lanes = hn::MaxLanes(Floats());

namespace {  // internal linkage: units with other flags have their own

// Copies of the last, partial block of a run.
template <std::size_t kInputs>
struct Tails {
  alignas(64) float values[kInputs][sum_lanes] = {};
  Tails(const std::array<const float*, kInputs>& in, std::size_t from, std::size_t count) {
    if (count == 0) return;  // an empty run has no addresses
    for (std::size_t k = 0; k < kInputs; ++k)
      std::memcpy(values[k], in[k] + from, count * sizeof(float));
  }
};

}  // namespace

// Marks loops whose operands come from memory instead of a first-level cache: these loops prefetch.
inline constexpr bool from_memory = true;

template <bool kFetches, class Function, std::size_t... k>
HWY_INLINE void map_whole_vectors(std::index_sequence<k...>,
                                  const std::array<const float*, sizeof...(k)>& in, float* out,
                                  std::size_t count, const Function& function) {
  const Floats d;
  for (std::size_t i = 0; i < count; i += float_lanes) {
    if constexpr (kFetches) (fetch_ahead(in[k] + i), ...);
    hn::StoreU(function(hn::LoadU(d, in[k] + i)...), d, out + i);
  }
}

// out[i] = function(in[0][i], in[1][i] ...). `out` may be one of the inputs.
template <std::size_t kInputs, bool kFetches = false, class Function>
HWY_INLINE void map_vectors(std::array<const float*, kInputs> in, float* out, std::size_t count,
                            const Function& function) {
  const std::size_t rest = count % float_lanes, whole = count - rest;
  alignas(64) float last[sum_lanes];
  const Tails<kInputs> tails(in, whole, rest);
  // Both cases go through one loop, so that it is compiled once.
  float* to = out;
  for (std::size_t length = whole;;) {
    map_whole_vectors<kFetches>(std::make_index_sequence<kInputs>(), in, to, length, function);
    if (to == last || rest == 0) break;
    for (std::size_t k = 0; k < kInputs; ++k) in[k] = tails.values[k];
    to = last;
    length = float_lanes;
  }
  if (rest != 0) std::memcpy(out + whole, last, rest * sizeof(float));
}

namespace {

// The 16 lanes of kSums sums, between pieces of a run.
template <std::size_t kSums>
struct LaneSums {
  alignas(64) float lanes[kSums][sum_lanes];
  explicit LaneSums(float start = 0) {
    for (auto& sum : lanes)
      for (float& lane : sum) lane = start;
  }
  // Adds lane i to i + 8, then to i + 4, i + 2, i + 1.
  template <class Meet>
  float meet(std::size_t which, const Meet& meet) const {
    float left[sum_lanes];
    std::memcpy(left, lanes[which], sizeof left);
    for (std::size_t half = sum_lanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) left[i] = meet(left[i], left[i + half]);
    return left[0];
  }
  float total(std::size_t which = 0) const {
#if HWY_TARGET == HWY_SCALAR  // has no shuffles
    return meet(which, [](float a, float b) { return a + b; });
#else  // the same tree in vectors: a norm takes three totals for each row
    const hn::CappedTag<float, 4> d;
    const float* from = lanes[which];
    const auto low = hn::Add(hn::Load(d, from), hn::Load(d, from + 8));
    const auto high = hn::Add(hn::Load(d, from + 4), hn::Load(d, from + 12));
    const auto four = hn::Add(low, high), two = hn::Add(four, hn::Shuffle1032(four));
    return hn::GetLane(hn::Add(two, hn::Shuffle2301(two)));
#endif
  }
};

template <std::size_t kSums, std::size_t kInputs, bool kWrites, bool kFetches, class Step>
class Accumulation {
  static constexpr std::size_t registers = sum_lanes / float_lanes;
  using Inputs = std::make_index_sequence<kInputs>;
  using Registers = std::make_index_sequence<registers>;
  using Sums = FloatVector[registers][kSums];

 public:
  HWY_INLINE static void run(const std::array<const float*, kInputs>& in, float* out,
                             std::size_t count, LaneSums<kSums>& state, const Step& step) {
    const Floats d;
    FloatVector sums[registers][kSums];
    for (std::size_t r = 0; r < registers; ++r)
      for (std::size_t k = 0; k < kSums; ++k)
        sums[r][k] = hn::Load(d, state.lanes[k] + r * float_lanes);
    const std::size_t rest = count % sum_lanes, whole = count - rest;
    for (std::size_t i = 0; i < whole; i += sum_lanes) block(Registers(), in, i, out, sums, step);
    for (std::size_t r = 0; r < registers; ++r)
      for (std::size_t k = 0; k < kSums; ++k)
        hn::Store(sums[r][k], d, state.lanes[k] + r * float_lanes);
    if (rest != 0) last_block(in, whole, rest, out, state, step);
  }

 private:
  // Missing elements do not change their lanes.
  HWY_INLINE static void last_block(const std::array<const float*, kInputs>& in, std::size_t whole,
                                    std::size_t rest, float* out, LaneSums<kSums>& state,
                                    const Step& step) {
    const Floats d;
    alignas(64) float last[sum_lanes];
    const Tails<kInputs> tails(in, whole, rest);
    std::array<const float*, kInputs> from;
    for (std::size_t k = 0; k < kInputs; ++k) from[k] = tails.values[k];
    for (std::size_t at = 0; at < rest; at += float_lanes) {
      const auto present = hn::FirstN(d, rest - at);
      FloatVector sums[kSums];
      for (std::size_t k = 0; k < kSums; ++k) sums[k] = hn::Load(d, state.lanes[k] + at);
      vector(Inputs(), from, at, last, sums, step);
      for (std::size_t k = 0; k < kSums; ++k) {
        const auto before = hn::Load(d, state.lanes[k] + at);
        hn::Store(hn::IfThenElse(present, sums[k], before), d, state.lanes[k] + at);
      }
    }
    if constexpr (kWrites) std::memcpy(out + whole, last, rest * sizeof(float));
  }

  template <std::size_t... r>
  HWY_INLINE static void block(std::index_sequence<r...>,
                               const std::array<const float*, kInputs>& in, std::size_t i,
                               float* out, Sums& sums, const Step& step) {
    (vector(Inputs(), in, i + r * float_lanes, out, sums[r], step), ...);
  }

  template <std::size_t... k>
  HWY_INLINE static void vector(std::index_sequence<k...>,
                                const std::array<const float*, kInputs>& in, std::size_t i,
                                float* out, FloatVector* sums, const Step& step) {
    const Floats d;
    if constexpr (kFetches) (fetch_ahead(in[k] + i), ...);
    if constexpr (kWrites)
      hn::StoreU(step(sums, hn::LoadU(d, in[k] + i)...), d, out + i);
    else
      step(sums, hn::LoadU(d, in[k] + i)...);
  }
};

}  // namespace

// Calls step(sums, in[0][i], in[1][i] ...) for each vector of a run that starts at a multiple of 16
// of its row; `sums` points to kSums vectors, which step updates.
template <std::size_t kSums, std::size_t kInputs, bool kFetches = false, class Step>
HWY_INLINE void accumulate(const std::array<const float*, kInputs>& in, std::size_t count,
                           LaneSums<kSums>& state, const Step& step) {
  Accumulation<kSums, kInputs, false, kFetches, Step>::run(in, nullptr, count, state, step);
}

// The same for a step that also returns the value of out[i].
template <std::size_t kSums, std::size_t kInputs, class Step>
HWY_INLINE void accumulate_and_write(const std::array<const float*, kInputs>& in, float* out,
                                     std::size_t count, LaneSums<kSums>& state, const Step& step) {
  Accumulation<kSums, kInputs, true, false, Step>::run(in, out, count, state, step);
}

// ---- steps that several families take

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_run(const float* x, std::size_t count,
                                                  LaneSums<1>& sums) {
  accumulate<1, 1, from_memory>({x}, count, sums, [](FloatVector* sum, FloatVector v) HWY_ATTR {
    sum[0] = hn::Add(sum[0], v);
  });
}

// Some targets ignore NaN here and others do not: a caller whose result depends on the largest of a
// row must make the result NaN by the elements themselves.
HWY_NOINLINE HWY_MAYBE_UNUSED static void largest_of_run(const float* x, std::size_t count,
                                                         LaneSums<1>& largest) {
  accumulate<1, 1>({x}, count, largest,
                   [](FloatVector* sum, FloatVector v) HWY_ATTR { sum[0] = hn::Max(sum[0], v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// A parameter, its gradient and its states, a chunk at a time: what optimizer steps are made of.
// Each chunk of a run is loaded as fp32, stepped by a vector loop and stored with each state's own
// rounding; plain fp32 is stepped where it lies.

#if defined(SOMA_KERNELS_OPTIMIZER_CHUNKS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_OPTIMIZER_CHUNKS_INL_HPP
#undef SOMA_KERNELS_OPTIMIZER_CHUNKS_INL_HPP
#else
#define SOMA_KERNELS_OPTIMIZER_CHUNKS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/rows/run_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using StepLanes = hn::CappedTag<float, run_group>;

// A StateRun in use: where its values of the present chunk are read, and where the new ones go.
// Both are the memory itself, or both the buffer.
struct StepRun {
  RunSource source;
  RunTarget target;
  const float* values;
  float* next;
  RunBuffer buffer;
};

static inline void open_run(const StateRun& state, StepRun& run) {
  run.source = run_source(state.data, state.dtype);
  run.target = run_target(state.data, state.dtype, state.rounding, state.draw);
}
// A gradient's source, and zeros for the rows that a sparse one does not have.
struct GradientSource {
  RunSource source;
  RunBuffer buffer, zeros;
};
static inline void open_gradient(const GradientRun& gradient, GradientSource& run) {
  run.source = run_source(gradient.data, gradient.dtype);
  if (gradient.sparse) std::fill_n(run.zeros.values, run_chunk, 0.0f);
}

// Up to a chunk of adjacent elements: of rows with a gradient, whose elements begin at `gradient`,
// or of rows without one, marked as not live or not.
struct StepChunk {
  std::size_t first, count, gradient;
  bool has_gradient, live;
};
static inline const float* load_gradient(GradientSource& run, const StepChunk& chunk,
                                         ConvertBuffers& scratch) {
  return chunk.has_gradient
             ? load_run(run.source, 0, chunk.gradient, chunk.count, run.buffer.values, scratch)
             : run.zeros.values;
}

// Finds out about a step's rows, in ascending order.
class StepRowKinds {
 public:
  StepRowKinds(const GradientRun& gradient, const std::uint8_t* live)
      : gradient_(gradient), live_(live) {}
  enum class Kind { with_gradient, without, idle };
  // The kind of a row; all rows before it have been passed.
  Kind kind(std::size_t row) const {
    if (!gradient_.sparse) return Kind::with_gradient;
    if (used_ < gradient_.rows.size() &&
        gradient_.rows[used_] == gradient_.first_row + static_cast<std::int64_t>(row))
      return Kind::with_gradient;
    return live_ != nullptr && live_[row] == 0 ? Kind::idle : Kind::without;
  }
  void pass(Kind kind) { used_ += kind == Kind::with_gradient ? 1u : 0u; }
  // Rows of the gradient that were passed.
  std::size_t used() const { return used_; }

 private:
  const GradientRun& gradient_;
  const std::uint8_t* live_;
  std::size_t used_ = 0;
};

// Calls step(chunk) for all rows, those of a kind together where draws do not part them. Draws of
// `runs` follow the rows.
template <class Step, class... Runs>
HWY_INLINE void for_step_chunks(const StepRows& rows, const GradientRun& gradient,
                                const std::uint8_t* live, const Step& step, Runs&... runs) {
  const bool together = rows.draw_stride == rows.columns;
  StepRowKinds kinds(gradient, live);
  for (std::size_t row = 0; row < rows.rows;) {
    const auto kind = kinds.kind(row);
    const bool has_gradient = kind == StepRowKinds::Kind::with_gradient;
    const std::size_t from = kinds.used() * rows.columns;
    std::size_t end = row;
    do {
      kinds.pass(kind);
      ++end;
    } while (together && end < rows.rows && kinds.kind(end) == kind);
    const std::size_t count = (end - row) * rows.columns;
    for (std::size_t at = 0; at < count; at += run_chunk)
      step(StepChunk{row * rows.columns + at, (std::min)(run_chunk, count - at), from + at,
                     has_gradient, kind != StepRowKinds::Kind::idle});
    ((runs.target.draw.index += (end - row) * (rows.draw_stride - rows.columns)), ...);
    row = end;
  }
}
static inline void load_chunk(StepRun& run, std::size_t first, std::size_t count,
                              ConvertBuffers& scratch) {
  run.values = load_run(run.source, 0, first, count, run.buffer.values, scratch);
  run.next = place_run(run.target, first, count, run.buffer.values);
}
static inline void store_chunk(const StepRun& run, std::size_t first, std::size_t count,
                               ConvertBuffers& scratch) {
  store_run(run.target, first, count, run.next, scratch);
}

// True where the magnitude of x is at least `smallest`, above 0, and for NaN. Compared as integers:
// many processors take thirty times as long over subnormal operands.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Mask<D> is_not_below(D d, float smallest, V x) {
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::BitCast(di, hn::Abs(x));
  const auto below = hn::Set(di, std::bit_cast<std::int32_t>(smallest) - 1);
  return hn::RebindMask(d, hn::Gt(magnitude, below));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V zero_below(D d, float smallest, V x) {
  return hn::IfThenElseZero(is_not_below(d, smallest, x), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

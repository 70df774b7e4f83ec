// Connectionist temporal classification. The states of a row are the blanks before, between and
// behind the labels, and the labels; they are kept in two runs, so that each step reads its
// neighbours as vectors:
//
//   blank i at row t:  x[blank]   + log(exp(blank i) + exp(label i - 1))   of row t - 1
//   label i at row t:  x[label i] + log(exp(label i) + exp(blank i) + exp(label i - 1)), the last
//                      one only if labels i - 1 and i differ
//
// The way back is the same with its direction reversed.

#if defined(SOMA_KERNELS_SEQUENCE_CTC_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SEQUENCE_CTC_INL_HPP
#undef SOMA_KERNELS_SEQUENCE_CTC_INL_HPP
#else
#define SOMA_KERNELS_SEQUENCE_CTC_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sequence/args.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float ctc_never = -std::numeric_limits<float>::infinity();

// Two runs of states; `run` floats each, of which 16 before the first state and the rest behind the
// last are -infinity.
struct CtcStates {
  float *blanks, *labels;
  CtcStates(float* memory, std::size_t run) : blanks(memory + 16), labels(memory + run + 16) {}
};

struct CtcRuns {
  std::size_t run, width;  // width: whole vectors of states
  float *alpha, *beta;
  float *emitted, *skips, *occupied_blanks, *occupied_labels;

  explicit CtcRuns(const CtcArgs& args) : run(ctc_run(args.count)), width(run - 32) {
    const std::size_t rows = args.gradient != nullptr ? args.rows + 2 : 2;
    alpha = args.workspace;
    beta = alpha + 2 * rows * run;
    emitted = beta + 4 * run + 16;
    skips = emitted + run;
    occupied_blanks = skips + run;
    occupied_labels = occupied_blanks + run;
    std::fill(args.workspace, occupied_labels - 16 + run, ctc_never);
    for (std::size_t i = 1; i < args.count; ++i)
      if (args.labels[i] != args.labels[i - 1]) skips[i] = 0;
  }
  CtcStates forward(std::size_t row) const { return {alpha + 2 * row * run, run}; }
  CtcStates backward(std::size_t row) const { return {beta + 2 * (row % 2) * run, run}; }
};

// log(exp(a) + exp(b) + ...); -infinity where all are.
template <class... More>
HWY_INLINE FloatVector log_of_sum(FloatVector a, More... more) {
  const Floats d;
  FloatVector largest = a;
  ((largest = hn::Max(largest, more)), ...);
  const FloatVector never = hn::Set(d, ctc_never);
  largest = hn::IfThenZeroElse(hn::Eq(largest, never), largest);
  FloatVector sum = exp_lanes(d, hn::Sub(a, largest));
  ((sum = hn::Add(sum, exp_lanes(d, hn::Sub(more, largest)))), ...);
  return hn::Add(largest, log_lanes(d, sum));
}

// The largest state, or 0 where there is none.
HWY_NOINLINE HWY_MAYBE_UNUSED static float largest_state(const float* a, const float* b,
                                                         std::size_t width) {
  const Floats d;
  FloatVector most = hn::Set(d, ctc_never);
  for (std::size_t i = 0; i < width; i += float_lanes)
    most = hn::Max(most, hn::Max(hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
  alignas(64) float lanes[float_lanes];
  hn::Store(most, d, lanes);
  float largest = lanes[0];
  for (const float lane : lanes) largest = (std::max)(largest, lane);
  return largest == ctc_never ? 0 : largest;
}

// The log probabilities of the labels at a row, less `shift`.
static inline void emit_labels(const CtcArgs& args, std::size_t row, float shift, float* to) {
  const float* x = args.x + row * args.classes;
  for (std::size_t i = 0; i < args.count; ++i)
    to[i] = x[static_cast<std::size_t>(args.labels[i])] - shift;
}

// The states of a row from those before it.
HWY_NOINLINE HWY_MAYBE_UNUSED static void step_forward(const CtcRuns& runs, const CtcStates& from,
                                                       float blank, const CtcStates& to) {
  const Floats d;
  for (std::size_t i = 0; i < runs.width; i += float_lanes) {
    const FloatVector blanks = hn::LoadU(d, from.blanks + i),
                      labels = hn::LoadU(d, from.labels + i),
                      earlier = hn::LoadU(d, from.labels + i - 1);
    hn::StoreU(hn::Add(log_of_sum(blanks, earlier), hn::Set(d, blank)), d, to.blanks + i);
    const FloatVector skipped = hn::Add(earlier, hn::LoadU(d, runs.skips + i));
    hn::StoreU(hn::Add(log_of_sum(labels, blanks, skipped), hn::LoadU(d, runs.emitted + i)), d,
               to.labels + i);
  }
}

// The log sums of all that follows a row's states: `from` has the next row's, with that row.
HWY_NOINLINE HWY_MAYBE_UNUSED static void step_backward(const CtcRuns& runs, const CtcStates& from,
                                                        const CtcStates& to) {
  const Floats d;
  for (std::size_t i = 0; i < runs.width; i += float_lanes) {
    const FloatVector blanks = hn::LoadU(d, from.blanks + i),
                      labels = hn::LoadU(d, from.labels + i),
                      next_blanks = hn::LoadU(d, from.blanks + i + 1),
                      next_labels = hn::LoadU(d, from.labels + i + 1);
    hn::StoreU(log_of_sum(blanks, labels), d, to.blanks + i);
    const FloatVector skipped = hn::Add(next_labels, hn::LoadU(d, runs.skips + i + 1));
    hn::StoreU(log_of_sum(labels, next_blanks, skipped), d, to.labels + i);
  }
}

// Adds a row to the states that follow it.
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_row(const CtcRuns& runs, float blank,
                                                  const CtcStates& states) {
  const Floats d;
  for (std::size_t i = 0; i < runs.width; i += float_lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, states.blanks + i), hn::Set(d, blank)), d, states.blanks + i);
    hn::StoreU(hn::Add(hn::LoadU(d, states.labels + i), hn::LoadU(d, runs.emitted + i)), d,
               states.labels + i);
  }
}

// Sums of both ways, then exp of them relative to the largest.
HWY_NOINLINE HWY_MAYBE_UNUSED static void occupy(const CtcRuns& runs, const CtcStates& before,
                                                 const CtcStates& behind) {
  const Floats d;
  for (std::size_t i = 0; i < runs.width; i += float_lanes) {
    hn::StoreU(hn::Add(hn::LoadU(d, before.blanks + i), hn::LoadU(d, behind.blanks + i)), d,
               runs.occupied_blanks + i);
    hn::StoreU(hn::Add(hn::LoadU(d, before.labels + i), hn::LoadU(d, behind.labels + i)), d,
               runs.occupied_labels + i);
  }
  const FloatVector most =
      hn::Set(d, largest_state(runs.occupied_blanks, runs.occupied_labels, runs.width));
  for (float* const states : {runs.occupied_blanks, runs.occupied_labels})
    for (std::size_t i = 0; i < runs.width; i += float_lanes)
      hn::StoreU(exp_lanes(d, hn::Sub(hn::LoadU(d, states + i), most)), d, states + i);
}

static inline void ctc_row_gradient(const CtcArgs& args, const CtcRuns& runs, float* gradient) {
  double blanks = 0, all = 0;
  for (std::size_t i = 0; i <= args.count; ++i)
    blanks += static_cast<double>(runs.occupied_blanks[i]);
  for (std::size_t i = 0; i < args.count; ++i) all += static_cast<double>(runs.occupied_labels[i]);
  all += blanks;
  gradient[args.blank] = static_cast<float>(-blanks / all);
  const auto factor = static_cast<float>(-1 / all);
  for (std::size_t i = 0; i < args.count; ++i)
    gradient[static_cast<std::size_t>(args.labels[i])] += runs.occupied_labels[i] * factor;
}

// -log of the sum of all ways.
static inline double ctc_forward(const CtcArgs& args, const CtcRuns& runs) {
  // Before the first row: at the first blank, from which the first label follows too.
  CtcStates states = runs.forward(0);
  states.blanks[0] = 0;
  double shifts = 0;
  for (std::size_t row = 0; row < args.rows; ++row) {
    const CtcStates next = runs.forward(args.gradient != nullptr ? row + 1 : (row + 1) % 2);
    const float shift = largest_state(states.blanks, states.labels, runs.width);
    emit_labels(args, row, shift, runs.emitted);
    step_forward(runs, states, args.x[row * args.classes + args.blank] - shift, next);
    shifts += static_cast<double>(shift);
    states = next;
  }
  // Both ends relative to the larger one, as in a vector of one.
  const float blank = states.blanks[args.count],
              label = args.count == 0 ? ctc_never : states.labels[args.count - 1];
  const Floats d;
  return -(shifts +
           static_cast<double>(hn::GetLane(log_of_sum(hn::Set(d, blank), hn::Set(d, label)))));
}

static inline void ctc_backward(const CtcArgs& args, const CtcRuns& runs) {
  CtcStates states = runs.backward(args.rows);
  states.blanks[args.count] = 0;
  if (args.count != 0) states.labels[args.count - 1] = 0;
  for (std::size_t row = args.rows; row-- > 0;) {
    occupy(runs, runs.forward(row + 1), states);
    ctc_row_gradient(args, runs, args.gradient + row * args.classes);
    const float shift = largest_state(states.blanks, states.labels, runs.width);
    emit_labels(args, row, shift, runs.emitted);
    add_row(runs, args.x[row * args.classes + args.blank] - shift, states);
    const CtcStates next = runs.backward(row);
    step_backward(runs, states, next);
    states = next;
  }
}

static inline void ctc_kernel(const CtcArgs& args) noexcept {
  const CtcRuns runs(args);
  *args.loss = ctc_forward(args, runs);
  if (args.gradient == nullptr) return;
  std::fill_n(args.gradient, args.rows * args.classes, 0.0f);
  if (*args.loss - *args.loss == 0) ctc_backward(args, runs);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

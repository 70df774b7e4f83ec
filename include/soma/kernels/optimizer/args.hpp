#pragma once
// Optimizer steps over a run of one parameter's elements, in one pass over memory. Everything is
// computed in fp32; parameter and states are each stored in their own type with their own rounding.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE {

// A stored run that a step reads and writes. Stochastic rounding of element i draws at draw.index +
// i.
struct StateRun {
  void* data = nullptr;
  DType dtype = DType::fp32;
  Rounding rounding{};
  Draw draw{};
};

struct GradientRun {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  float factor = 1;  // clipping and loss scale: the gradient is multiplied by it first
  // A sparse gradient has the rows of these numbers, ascending, where the step's first row has the
  // number `first_row`; that of others is zero. Not of LAMB.
  bool sparse = false;
  std::span<const std::int64_t> rows{};
  std::int64_t first_row = 0;
};

// The range of a step: adjacent rows, whose draws begin `draw_stride` apart.
struct StepRows {
  std::size_t rows = 1, columns = 0;
  std::uint64_t draw_stride = 0;
};

// Moments (b, m and v below) of a smaller magnitude are kept as zero, v where m is. Those of a row
// without gradients shrink by a factor each step, and rounding would hold them at a few units of
// the smallest subnormal number for good, over which many processors take thirty times as long.
// The step that a first moment of 2^-100 would have made is the rate times 2^-73 where epsilon is
// 1e-8, which no weight can tell; with an epsilon below 1e-20 and gradients as small, some could.
inline constexpr float smallest_first_moment = 0x1p-100f;   // times a rate still a normal number
inline constexpr float smallest_second_moment = 0x1p-126f;  // the smallest normal number

// SGD: g += weight_decay * w; b = momentum * b + (1 - dampening) * g (b = g in the first step);
// g = nesterov ? g + momentum * b : b; w -= rate * g. Without momentum no state.
struct SgdArgs {
  StepRows rows{};
  StateRun weight{}, momentum_state{};  // momentum_state.data nullptr: momentum 0
  GradientRun gradient{};
  float rate = 0, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, first_step = false;
};

// AdamW (arXiv 1711.05101): w -= rate * weight_decay * w; m = b1 m + (1 - b1) g;
// v = b2 v + (1 - b2) g^2; w -= rate / correction1 * m / (sqrt(v) / sqrt(correction2) + epsilon),
// with correction1 = 1 - b1^t and correction2 = 1 - b2^t. Where a sparse gradient has no row, rows
// whose m and v are zero may be marked: of those only w is read and written, to the same bits.
struct AdamArgs {
  StepRows rows{};
  StateRun weight{}, m{}, v{};
  GradientRun gradient{};
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;  // computed in double, rounded once
  float decay_factor = 1;                                  // 1 - rate * weight_decay
  float step_size = 0;                                     // rate / correction1
  float inverse_root_correction2 = 1;                      // 1 / sqrt(correction2)
  // Adam (arXiv 1412.6980): this times w is added to the gradient first. Not with marked rows.
  float coupled_decay = 0;
  const std::uint8_t* live = nullptr;  // per row, 0: m and v are zero; nullptr: no marks
};

// LAMB (arXiv 1904.00962), first part: m and v as above, u = (m / correction1) /
// (sqrt(v / correction2) + epsilon) + weight_decay * w into `update` (fp32), and the sums of
// squares of w and u in double, 16 logical lanes. Second part: w -= rate * trust * u.
struct LambArgs {
  std::size_t count = 0;
  StateRun weight{}, m{}, v{};
  GradientRun gradient{};
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float inverse_correction1 = 1, inverse_root_correction2 = 1;
  float* update = nullptr;
  double weight_squares = 0, update_squares = 0;  // results of the first part
  float rate_times_trust = 0;                     // second part
};

// RMSprop and Adagrad: g += weight_decay * w; v = keep * v + add * g^2;
// s = g / (sqrt(v) + epsilon); w -= rate * s, or with momentum b = momentum * b + s; w -= rate * b.
//
// Adadelta (`step_squares`), with u in the place of the momentum: v = keep * v + add * g^2;
// s = sqrt(u + epsilon) / sqrt(v + epsilon) * g; u = keep * u + add * s^2; w -= rate * s.
struct RmsArgs {
  StepRows rows{};
  StateRun weight{}, v{}, momentum_state{};  // momentum_state.data nullptr: momentum 0
  bool step_squares = false;
  GradientRun gradient{};
  float rate = 0, keep = 1, add = 1, epsilon = 1e-8f, momentum = 0, weight_decay = 0;
};

struct OptimizerKernels {
  void (*sgd)(const SgdArgs&) noexcept;
  void (*adam)(const AdamArgs&) noexcept;
  void (*lamb_update)(LambArgs&) noexcept;
  void (*lamb_apply)(const LambArgs&) noexcept;
  void (*rms)(const RmsArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE

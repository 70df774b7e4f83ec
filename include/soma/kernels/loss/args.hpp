#pragma once
// Losses: a number for each row or element, and gradients. The caller computes their sum or mean in
// the fixed order of reductions.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// Row r: loss = (1 - smoothing) * (lse - x[label]) + smoothing * (lse - mean of x), with
// lse = log sum exp x. Rows whose label is ignore_index have loss 0 and gradient 0. Labels are
// checked by the caller. Backward also takes a panel of the classes alone.
struct CrossEntropyArgs {
  std::size_t rows = 0, columns = 0;
  // backward: the class of the first column, and the number of all classes; 0: columns
  std::size_t first_class = 0, classes = 0;
  MatrixOperand logits{};
  const void* labels = nullptr;  // rows; int32 or int64
  DType label_dtype = DType::int64;
  std::int64_t ignore_index = -100;
  float smoothing = 0;
  float* loss = nullptr;  // rows
  // rows x 2: the largest logit m, and lse - m. Their sum would lose the digits that distinguish a
  // label far ahead of the others from certainty. Forward writes these numbers, backward reads
  // them.
  float* log_sum_exp = nullptr;
  // backward: dlogits = factor * (softmax(x) - target distribution)
  float factor = 1;
  const float* factors = nullptr;  // rows: a factor of its own for each row, instead
  MatrixTarget dlogits{};
};

// Sums over a panel of the classes of each row, relative to the largest logit of the panel.
struct ClassSums {
  float largest;      // logit of the panel
  float below;        // sum of exp(x - largest) over the logits below the largest
  float at_largest;   // the number of the others
  float differences;  // sum of x - largest, where it is wanted, else 0
};
struct ClassSumArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand logits{};
  bool differences = false;
  ClassSums* sums = nullptr;  // rows
};

enum class ElementLoss : std::uint8_t {
  squared_error,                // (x - t)^2
  binary_cross_entropy_logits,  // max(x, 0) - x t + log(1 + exp(-|x|)); at infinities its limits
  absolute_error,               // |x - t|; the slope is 0 where they are equal
  huber,            // d^2 / 2 with d = |x - t| up to the parameter p, beyond it p (d - p / 2)
  smooth_absolute,  // huber / p
  hinge,            // max(0, p - t x); the slope is 0 where that is 0
  divergence,       // t (log t - x), 0 where t is
};

// True if the element loss reads its parameter.
constexpr bool has_parameter(ElementLoss loss) {
  return loss == ElementLoss::huber || loss == ElementLoss::smooth_absolute ||
         loss == ElementLoss::hinge;
}

// `rows` x `columns` elements; loss is fp32, contiguous.
struct ElementLossArgs {
  ElementLoss loss = ElementLoss::squared_error;
  std::size_t rows = 0, columns = 0;
  float parameter = 1;
  MatrixOperand x{}, target{};
  float* losses = nullptr;  // forward
  // backward: dx = d(loss)/dx * (factors ? factors[row * columns + column] : factor)
  float factor = 1;
  const float* factors = nullptr;
  MatrixTarget dx{};
};

struct LossKernels {
  void (*cross_entropy)(const CrossEntropyArgs&) noexcept;
  void (*cross_entropy_backward)(const CrossEntropyArgs&) noexcept;
  void (*class_sums)(const ClassSumArgs&) noexcept;
  void (*element_loss)(const ElementLossArgs&) noexcept;
  void (*element_loss_backward)(const ElementLossArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE

#pragma once
// Kernels of sparse training, and their table. Ids and rows are checked by the caller.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// Row b of y, for bags first ... last - 1: the sum over i from offsets[b] to offsets[b + 1] of
// weights[i] * table[ids[i]] in fp32, times 1 / (number of ids) if `mean`. Ids are added in runs of
// rows_of_run() in ascending order, each from zero. The row of a bag without ids is 0. With
// weights, each term is one fused multiply-add.
struct BagArgs {
  std::size_t first = 0, last = 0, columns = 0;
  MatrixOperand table{};
  const void* ids = nullptr;
  DType id_dtype = DType::int32;   // or int64
  const float* weights = nullptr;  // nullptr: all are 1
  const std::size_t* offsets = nullptr;
  bool mean = false;
  MatrixTarget y{};  // from bag 0 on
};

// Row k of out, for k from first to last - 1: the sum over i from starts[k] to starts[k + 1] of
// weights[i] * dy[list[i]]. list names bags, ascending for each k. Bags of one segment are added in
// runs of rows_of_run() in order from zero, segments in the tree of Segments.
struct BagGradientArgs {
  std::size_t first = 0, last = 0, columns = 0;
  const float* dy = nullptr;
  std::size_t dy_stride = 0;  // a multiple of 16, at least `columns`: zeros follow
  const std::int32_t* list = nullptr;
  const float* weights = nullptr;  // one weight for each list entry; nullptr: all are 1
  const std::int64_t* starts = nullptr;
  const std::uint32_t* segments = nullptr;  // the segment of each bag; below 1024
  float* out = nullptr;                     // [last, columns]
};

// y[i] for i from offsets[b] to offsets[b + 1], of bags first ... last - 1: row b of x times row
// ids[i] of the table, plus bias[ids[i]]. Products are added by fused multiply-adds in 16 lanes,
// then the lanes are added pairwise, and the bias last.
struct BagDotsArgs {
  std::size_t first = 0, last = 0, columns = 0;
  const float* x = nullptr;      // [bags, columns]
  const float* table = nullptr;  // [rows, columns]
  const float* bias = nullptr;   // [rows]; nullptr: zeros
  const std::int32_t* ids = nullptr;
  const std::size_t* offsets = nullptr;
  float* y = nullptr;  // as ids
};

// Some rows of a parameter [R, columns] in fp32, and the gradient of each: row i of the gradient
// belongs to row rows[i] of the parameter, or to row i if rows is nullptr.
struct TouchedRows {
  std::size_t first = 0, last = 0, columns = 0;  // the gradient's rows and columns
  float* weight = nullptr;
  const std::int64_t* rows = nullptr;
  const float* gradient = nullptr;
  float factor = 1;  // the gradient is multiplied by it first
};

// w = fma(-rate, g, w).
struct RowSgdArgs {
  TouchedRows touched{};
  float rate = 0;
};

// Row-wise Adagrad: one number a row, s += mean(g^2); w = fma(-rate / (sqrt(s) + epsilon), g, w).
// Squares are added in 16 lanes, by fused multiply-adds.
struct RowAdagradArgs {
  TouchedRows touched{};
  float* squares = nullptr;  // [R]
  float rate = 0, epsilon = 0;
};

// Adam over touched rows: m = fma(b1, m, (1 - b1) g); v = fma(b2, v, ((1 - b2) g) g);
// w = fma(-step_size, m / fma(sqrt(v), inverse_root_correction2, epsilon), w).
struct RowAdamArgs {
  TouchedRows touched{};
  float *m = nullptr, *v = nullptr;  // [R, columns]
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;  // computed in double, rounded once
  float step_size = 0;                                     // rate / correction1
  float inverse_root_correction2 = 1;                      // 1 / sqrt(correction2)
};

// AdamW whose rows make up for missed steps when they are touched: row r has made stamps[r] steps.
// Missed steps have no gradient. They are computed one after the other, as dense AdamW computes
// them, with numbers from `history`: for step base + 1 + i the numbers rate / correction1, 1 /
// sqrt(correction2) and 1 - rate * decay. m = fma(b1, m, (1 - b1) g), 0 below
// smallest_first_moment; v = fma(b2, v, ((1 - b2) g) g); w = fma(decay, w, -(step_size * m /
// fma(sqrt(v), correction, epsilon))). If `sleeps` (there is no weight decay), a row whose m are
// all zero skips its steps, since only v would change: when the row is touched again, v is
// multiplied by b2^(steps missed), rounded once.
struct RowLazyAdamArgs {
  TouchedRows touched{};  // gradient nullptr: rows catch up with step `now`; else make that step
  float *m = nullptr, *v = nullptr;  // [R, columns]
  std::int64_t* stamps = nullptr;    // [R]
  const float* history = nullptr;
  std::int64_t base = 0, now = 0;
  double beta2_exact = 0.999;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  bool sleeps = false;
};

// Winner-take-all hashes. Code number c of a row compares eight of its numbers, order[8 c] to
// order[8 c + 7], and is the index, 0 to 7, of the largest one, the first of equal ones. If all
// eight are zero, the code is the next code whose numbers are not all zero. The codes of a table
// are the digits of its bucket.
inline constexpr std::size_t dwta_bin = 8;
inline constexpr std::size_t dwta_most_columns = 1024, dwta_most_codes = 512;
struct DwtaArgs {
  std::size_t first = 0, last = 0, columns = 0;  // rows of x; up to dwta_most_columns
  const float* x = nullptr;
  std::size_t stride = 0;  // from row to row
  const std::int32_t* order = nullptr;
  std::size_t tables = 0, codes = 0;  // codes of a table, up to 5; tables * codes up to the most
  std::uint16_t* buckets = nullptr;   // [tables, bucket_stride]
  std::size_t bucket_stride = 0;
};

// One pass of dual coordinate ascent on the squared hinge loss, for the classes of a panel from
// first_class on, each against all others. For each row x in turn, its number b that belongs to the
// bias, and each class with y = 1 (a label of the row) or -1 and the row's dual value a:
//   s = w x + bias b           products are added by fused multiply-adds in four chains, feature i
//                              of the row in chain i mod 4: (c0 + c1) + (c2 + c3), then the bias
//   a' = max(0, fma(-fma(a, diagonal, y s - 1), inverse, a))
//   w += (a' - a) y x, bias += (a' - a) y b
// Columns of the panel from `classes` on have y = 0: they stay zero.
inline constexpr std::size_t panel_widths[] = {1, 4, 16};
struct PanelPassArgs {
  const std::int64_t* begins = nullptr;  // rows in features and values, [rows + 1]
  const std::int32_t* features = nullptr;
  const float* values = nullptr;
  const float* bias_values = nullptr;  // b of each row; nullptr: all are 1
  const std::int64_t* label_begins = nullptr;
  const std::int32_t* labels = nullptr;  // ascending in a row
  const float* diagonals = nullptr;      // 1 / (2 C) of each row
  const float* inverses = nullptr;       // 1 / (x x + b b + 1 / (2 C)) of each row
  const std::uint32_t* order = nullptr;  // the rows to visit
  std::size_t count = 0;
  std::int32_t first_class = 0;
  std::size_t classes = 0, width = 16;  // a width of panel_widths, at least `classes`
  float* weights = nullptr;             // [features, width]
  float* bias = nullptr;                // [width]
  float* duals = nullptr;               // [rows, width]
};

// y[width p + c] = the score s of one row for column c of panel p.
struct PanelScoresArgs {
  const std::int32_t* features = nullptr;
  const float* values = nullptr;
  std::size_t count = 0;
  float bias_value = 1;
  std::size_t panels = 0, width = 16;
  std::size_t panel_stride = 0;    // floats from a panel's weights to those of the next
  const float* weights = nullptr;  // [panels][features, width]
  const float* bias = nullptr;     // [panels, width]
  float* y = nullptr;
};

struct SparseKernels {
  void (*bag)(const BagArgs&) noexcept;
  void (*bag_gradient)(const BagGradientArgs&) noexcept;
  void (*bag_dots)(const BagDotsArgs&) noexcept;
  void (*row_sgd)(const RowSgdArgs&) noexcept;
  void (*row_adagrad)(const RowAdagradArgs&) noexcept;
  void (*row_adam)(const RowAdamArgs&) noexcept;
  void (*row_lazy_adam)(const RowLazyAdamArgs&) noexcept;
  void (*dwta)(const DwtaArgs&) noexcept;
  void (*panel_pass)(const PanelPassArgs&) noexcept;
  void (*panel_scores)(const PanelScoresArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE

// Optimizer steps of the rows that have a gradient. The formulas in args.hpp define the order of
// rounding: fma() is one fused operation, every other operation is rounded to fp32 separately.

#if defined(SOMA_KERNELS_SPARSE_ROW_STEPS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_ROW_STEPS_INL_HPP
#undef SOMA_KERNELS_SPARSE_ROW_STEPS_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_ROW_STEPS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/simd/fused-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of a parameter are scattered in memory: a row is prefetched this many rows ahead.
inline constexpr std::size_t row_fetch_distance = 12;

// step(gradient, row) for each touched row: the gradient's numbers and the row of the parameter.
// fetch(row) prefetches the memory of a row.
template <class Fetch, class Step>
HWY_INLINE void for_touched_rows(const TouchedRows& touched, const Fetch& fetch, const Step& step) {
  const auto row_of = [&](std::size_t i) {
    return touched.rows == nullptr ? i : static_cast<std::size_t>(touched.rows[i]);
  };
  for (std::size_t i = touched.first; i < touched.last; ++i) {
    if (i + row_fetch_distance < touched.last) fetch(row_of(i + row_fetch_distance));
    step(touched.gradient + i * touched.columns, row_of(i));
  }
}

HWY_INLINE void fetch_row(const float* data, std::size_t row, std::size_t columns) {
  for (std::size_t c = 0; c < columns && c < 256; c += sum_lanes)
    hwy::Prefetch(data + row * columns + c);
}

static inline void row_sgd_entry(const RowSgdArgs& args) noexcept {
  const Floats d;
  const TouchedRows& touched = args.touched;
  const auto rate = hn::Set(d, -args.rate), factor = hn::Set(d, touched.factor);
  for_touched_rows(
      touched, [&](std::size_t row) { fetch_row(touched.weight, row, touched.columns); },
      [&](const float* gradient, std::size_t row) {
        float* w = touched.weight + row * touched.columns;
        map_vectors<2>({gradient, w}, w, touched.columns, [&](FloatVector g, FloatVector old) {
          return fused(d, rate, hn::Mul(g, factor), old);
        });
      });
}

static inline void row_adagrad_entry(const RowAdagradArgs& args) noexcept {
  const Floats d;
  const TouchedRows& touched = args.touched;
  const auto factor = hn::Set(d, touched.factor);
  const auto columns = static_cast<float>(touched.columns);
  for_touched_rows(
      touched,
      [&](std::size_t row) {
        fetch_row(touched.weight, row, touched.columns);
        hwy::Prefetch(args.squares + row);
      },
      [&](const float* gradient, std::size_t row) {
        LaneSums<1> sums;
        accumulate<1, 1>({gradient}, touched.columns, sums, [&](FloatVector* sum, FloatVector x) {
          const auto g = hn::Mul(x, factor);
          sum[0] = fused(d, g, g, sum[0]);
        });
        const float squares = args.squares[row] + sums.total() / columns;
        args.squares[row] = squares;
        const auto rate = hn::Set(d, -(args.rate / (std::sqrt(squares) + args.epsilon)));
        float* w = touched.weight + row * touched.columns;
        map_vectors<2>({gradient, w}, w, touched.columns, [&](FloatVector g, FloatVector old) {
          return fused(d, rate, hn::Mul(g, factor), old);
        });
      });
}

namespace {

// The constants of an Adam step in vectors.
struct RowAdamStep {
  Floats d{};
  FloatVector beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon, correction, step, factor;

  explicit RowAdamStep(const RowAdamArgs& args)
      : beta1(hn::Set(d, args.beta1)),
        beta2(hn::Set(d, args.beta2)),
        one_minus_beta1(hn::Set(d, args.one_minus_beta1)),
        one_minus_beta2(hn::Set(d, args.one_minus_beta2)),
        epsilon(hn::Set(d, args.epsilon)),
        correction(hn::Set(d, args.inverse_root_correction2)),
        step(hn::Set(d, -args.step_size)),
        factor(hn::Set(d, args.touched.factor)) {}
};

}  // namespace

static inline void row_adam_entry(const RowAdamArgs& args) noexcept {
  const RowAdamStep s(args);
  const Floats d;
  const TouchedRows& touched = args.touched;
  const std::size_t columns = touched.columns;
  for_touched_rows(
      touched,
      [&](std::size_t row) {
        fetch_row(touched.weight, row, columns);
        fetch_row(args.m, row, columns);
        fetch_row(args.v, row, columns);
      },
      [&](const float* gradient, std::size_t row) {
        float* w = touched.weight + row * columns;
        float *m = args.m + row * columns, *v = args.v + row * columns;
        map_vectors<2>({gradient, m}, m, columns, [&](FloatVector x, FloatVector old) {
          return fused(d, s.beta1, old, hn::Mul(s.one_minus_beta1, hn::Mul(x, s.factor)));
        });
        map_vectors<2>({gradient, v}, v, columns, [&](FloatVector x, FloatVector old) {
          const auto g = hn::Mul(x, s.factor);
          return fused(d, s.beta2, old, hn::Mul(hn::Mul(s.one_minus_beta2, g), g));
        });
        map_vectors<3>({m, v, w}, w, columns,
                       [&](FloatVector mean, FloatVector squares, FloatVector old) {
                         const auto root = fused(d, hn::Sqrt(squares), s.correction, s.epsilon);
                         return fused(d, s.step, hn::Div(mean, root), old);
                       });
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

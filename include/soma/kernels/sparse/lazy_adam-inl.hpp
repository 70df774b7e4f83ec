// AdamW whose rows make up for missed steps when they are touched. args.hpp defines the order of
// rounding.

#if defined(SOMA_KERNELS_SPARSE_LAZY_ADAM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_LAZY_ADAM_INL_HPP
#undef SOMA_KERNELS_SPARSE_LAZY_ADAM_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_LAZY_ADAM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/kernels/sparse/row_steps-inl.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

class LazyRow {
 public:
  LazyRow(const RowLazyAdamArgs& args, std::size_t row)
      : args_(args),
        columns_(args.touched.columns),
        w_(args.touched.weight + row * columns_),
        m_(args.m + row * columns_),
        v_(args.v + row * columns_) {}

  bool still() const {
    return std::all_of(m_, m_ + columns_, [](float value) { return value == 0; });
  }
  // Makes step number `step`, with a gradient, or without one (nullptr).
  void step(std::int64_t step, const float* gradient) {
    const Floats d;
    const float* constants = args_.history + 3 * (step - args_.base - 1);
    const auto b1 = hn::Set(d, args_.beta1), b2 = hn::Set(d, args_.beta2);
    const auto share1 = hn::Set(d, args_.one_minus_beta1),
               share2 = hn::Set(d, args_.one_minus_beta2);
    const auto factor = hn::Set(d, args_.touched.factor), epsilon = hn::Set(d, args_.epsilon);
    const auto size = hn::Set(d, constants[0]), correction = hn::Set(d, constants[1]);
    const auto decay = hn::Set(d, constants[2]), least = hn::Set(d, smallest_first_moment);
    const auto next_m = [&](FloatVector m) {
      return hn::IfThenZeroElse(hn::Lt(hn::Abs(m), least), m);
    };
    if (gradient == nullptr) {
      map_vectors<1>({m_}, m_, columns_, [&](FloatVector m) { return next_m(hn::Mul(b1, m)); });
      map_vectors<1>({v_}, v_, columns_, [&](FloatVector v) { return hn::Mul(b2, v); });
    } else {
      map_vectors<2>({gradient, m_}, m_, columns_, [&](FloatVector x, FloatVector m) {
        return next_m(fused(d, b1, m, hn::Mul(share1, hn::Mul(x, factor))));
      });
      map_vectors<2>({gradient, v_}, v_, columns_, [&](FloatVector x, FloatVector v) {
        const auto g = hn::Mul(x, factor);
        return fused(d, b2, v, hn::Mul(hn::Mul(share2, g), g));
      });
    }
    map_vectors<3>({m_, v_, w_}, w_, columns_, [&](FloatVector m, FloatVector v, FloatVector w) {
      const auto root = fused(d, hn::Sqrt(v), correction, epsilon);
      return fused(d, decay, w, hn::Neg(hn::Div(hn::Mul(size, m), root)));
    });
  }
  // Makes `steps` steps at once for a row without gradient and first moment.
  void shrink_squares(std::int64_t steps) {
    const Floats d;
    const auto factor = hn::Set(d, static_cast<float>(portable_power(
                                       args_.beta2_exact, static_cast<std::uint64_t>(steps))));
    map_vectors<1>({v_}, v_, columns_, [&](FloatVector v) { return hn::Mul(v, factor); });
  }

 private:
  const RowLazyAdamArgs& args_;
  std::size_t columns_;
  float *w_, *m_, *v_;
};

}  // namespace

static inline void row_lazy_adam_entry(const RowLazyAdamArgs& args) noexcept {
  const TouchedRows& touched = args.touched;
  for (std::size_t i = touched.first; i < touched.last; ++i) {
    const std::size_t row = touched.rows == nullptr ? i : static_cast<std::size_t>(touched.rows[i]);
    const bool steps = touched.gradient != nullptr;
    const std::int64_t last = steps ? args.now - 1 : args.now;
    std::int64_t& stamp = args.stamps[row];
    LazyRow lazy(args, row);
    bool asleep = args.sleeps && lazy.still();
    while (stamp < last && !asleep) {
      lazy.step(++stamp, nullptr);
      asleep = args.sleeps && lazy.still();
    }
    if (!steps) continue;
    if (stamp < last) lazy.shrink_squares(last - stamp);
    lazy.step(args.now, touched.gradient + i * touched.columns);
    stamp = args.now;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// The sequence family of the kernel table.

#if defined(SOMA_KERNELS_SEQUENCE_SEQUENCE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SEQUENCE_SEQUENCE_INL_HPP
#undef SOMA_KERNELS_SEQUENCE_SEQUENCE_INL_HPP
#else
#define SOMA_KERNELS_SEQUENCE_SEQUENCE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/run_parts-inl.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/kernels/sequence/args.hpp>
#include <soma/kernels/sequence/ctc-inl.hpp>
#include <soma/simd/math-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y (1 - y): the derivative of the sigmoid whose value is y; times a factor.
HWY_INLINE FloatVector through_sigmoid(FloatVector factor, FloatVector y) {
  const Floats d;
  return hn::Mul(factor, hn::Mul(y, hn::Sub(hn::Set(d, 1.0f), y)));
}
// 1 - y^2, of the hyperbolic tangent; times a factor.
HWY_INLINE FloatVector through_tanh(FloatVector factor, FloatVector y) {
  const Floats d;
  return hn::Mul(factor, fused(d, hn::Neg(y), y, hn::Set(d, 1.0f)));
}

static inline void gru_kernel(const GruArgs& args) noexcept {
  const Floats d;
  const std::size_t size = args.hidden;
  for_run_parts(size, [&](const RunPart& part) HWY_ATTR {
    const auto gate = [&](std::size_t i) HWY_ATTR {
      return sigmoid_lanes(d, hn::Add(part(args.x + i * size), part(args.h + i * size)));
    };
    const FloatVector r = gate(0), z = gate(1), h_n = part(args.h + 2 * size),
                      before = part(args.state);
    const FloatVector n = tanh_lanes(d, fused(d, r, h_n, part(args.x + 2 * size)));
    const FloatVector after = fused(d, z, hn::Sub(before, n), n);
    part.write(r, args.notes);
    part.write(z, args.notes + size);
    part.write(n, args.notes + 2 * size);
    part.write(h_n, args.notes + 3 * size);
    part.write(before, args.notes + 4 * size);
    part.write(after, args.state);
    part.write(after, args.y);
  });
}

static inline void gru_backward_kernel(const GruBackwardArgs& args) noexcept {
  const Floats d;
  const std::size_t size = args.hidden;
  const FloatVector one = hn::Set(d, 1.0f);
  for_run_parts(size, [&](const RunPart& part) HWY_ATTR {
    const FloatVector r = part(args.notes), z = part(args.notes + size),
                      n = part(args.notes + 2 * size), h_n = part(args.notes + 3 * size),
                      before = part(args.notes + 4 * size);
    const FloatVector after = hn::Add(part(args.dstate), part(args.dy));
    const FloatVector dn = through_tanh(hn::Mul(after, hn::Sub(one, z)), n);
    const FloatVector dr = through_sigmoid(hn::Mul(dn, h_n), r);
    const FloatVector dz = through_sigmoid(hn::Mul(after, hn::Sub(before, n)), z);
    const FloatVector dh_n = hn::Mul(dn, r);
    part.write(dr, args.dx);
    part.write(dz, args.dx + size);
    part.write(dn, args.dx + 2 * size);
    for (float* const to : {args.dh, args.dh_too}) {
      part.write(dr, to);
      part.write(dz, to + size);
      part.write(dh_n, to + 2 * size);
    }
    part.write(hn::Mul(after, z), args.dstate);
  });
}

static inline void lstm_kernel(const LstmArgs& args) noexcept {
  const Floats d;
  const std::size_t size = args.hidden;
  for_run_parts(size, [&](const RunPart& part) HWY_ATTR {
    const auto sum = [&](std::size_t i) HWY_ATTR {
      return hn::Add(part(args.x + i * size), part(args.h + i * size));
    };
    const FloatVector i = sigmoid_lanes(d, sum(0)), f = sigmoid_lanes(d, sum(1)),
                      g = tanh_lanes(d, sum(2)), o = sigmoid_lanes(d, sum(3));
    const FloatVector before = part(args.cell), state = part(args.state);
    const FloatVector cell = fused(d, f, before, hn::Mul(i, g));
    const FloatVector squashed = tanh_lanes(d, cell), after = hn::Mul(o, squashed);
    part.write(i, args.notes);
    part.write(f, args.notes + size);
    part.write(g, args.notes + 2 * size);
    part.write(o, args.notes + 3 * size);
    part.write(squashed, args.notes + 4 * size);
    part.write(before, args.notes + 5 * size);
    part.write(state, args.notes + 6 * size);
    part.write(cell, args.cell);
    part.write(after, args.state);
    part.write(after, args.y);
  });
}

static inline void lstm_backward_kernel(const LstmBackwardArgs& args) noexcept {
  const Floats d;
  const std::size_t size = args.hidden;
  for_run_parts(size, [&](const RunPart& part) HWY_ATTR {
    const FloatVector i = part(args.notes), f = part(args.notes + size),
                      g = part(args.notes + 2 * size), o = part(args.notes + 3 * size),
                      squashed = part(args.notes + 4 * size), before = part(args.notes + 5 * size);
    const FloatVector after = hn::Add(part(args.dstate), part(args.dy));
    const FloatVector slope = fused(d, hn::Neg(squashed), squashed, hn::Set(d, 1.0f));
    const FloatVector cell = fused(d, hn::Mul(after, o), slope, part(args.dcell));
    const FloatVector di = through_sigmoid(hn::Mul(cell, g), i),
                      df = through_sigmoid(hn::Mul(cell, before), f),
                      dg = through_tanh(hn::Mul(cell, i), g),
                      output = through_sigmoid(hn::Mul(after, squashed), o);
    for (float* const to : {args.dgates, args.dgates_too}) {
      part.write(di, to);
      part.write(df, to + size);
      part.write(dg, to + 2 * size);
      part.write(output, to + 3 * size);
    }
    part.write(hn::Mul(cell, f), args.dcell);
  });
}

static inline void rnn_kernel(const RnnArgs& args) noexcept {
  const Floats d;
  for_run_parts(args.hidden, [&](const RunPart& part) HWY_ATTR {
    const FloatVector sum = hn::Add(part(args.x), part(args.h)), before = part(args.state);
    // NaN stays NaN.
    const FloatVector after = args.relu ? hn::IfThenZeroElse(hn::Lt(sum, hn::Zero(d)), sum)
                                        : FloatVector(tanh_lanes(d, sum));
    part.write(after, args.notes);
    part.write(before, args.notes + args.hidden);
    part.write(after, args.state);
    part.write(after, args.y);
  });
}

static inline void rnn_backward_kernel(const RnnBackwardArgs& args) noexcept {
  const Floats d;
  for_run_parts(args.hidden, [&](const RunPart& part) HWY_ATTR {
    const FloatVector after = part(args.notes), from = hn::Add(part(args.dstate), part(args.dy));
    const FloatVector dx = args.relu ? hn::IfThenZeroElse(hn::Le(after, hn::Zero(d)), from)
                                     : through_tanh(from, after);
    part.write(dx, args.dx);
    part.write(dx, args.dx_too);
  });
}

// Some pairs of a head.
HWY_NOINLINE HWY_MAYBE_UNUSED static void turn_pairs(const float* a, const float* b,
                                                     const float* cosines, const float* sines,
                                                     float sign, std::size_t count, float* out_a,
                                                     float* out_b) {
  const Floats d;
  const FloatVector way = hn::Set(d, sign);
  for_run_parts(count, [&](const RunPart& part) HWY_ATTR {
    const FloatVector x = part(a), y = part(b), cosine = part(cosines),
                      sine = hn::Mul(part(sines), way);
    part.write(fused(d, hn::Neg(y), sine, hn::Mul(x, cosine)), out_a);
    part.write(fused(d, x, sine, hn::Mul(y, cosine)), out_b);
  });
}

static inline void rotary_kernel(const RotaryArgs& args) noexcept {
  const MatrixReader x(args.x);
  MatrixWriter y(args.y);
  ChunkBuffer in_a, in_b, out_a, out_b;
  const std::size_t half = args.width / 2;
  for (std::size_t row = 0; row < args.rows; ++row) {
    const std::size_t table = args.table_rows[row] * half;
    for (std::size_t head = 0; head < args.heads; ++head)
      for_each_chunk(half, [&](std::size_t at, std::size_t count) {
        const std::size_t first = head * args.width + at;
        turn_pairs(x.read(row, first, count, in_a.values),
                   x.read(row, first + half, count, in_b.values), args.cosines + table + at,
                   args.sines + table + at, args.back ? -1.0f : 1.0f, count, out_a.values,
                   out_b.values);
        y.write(row, first, out_a.values, count);
        y.write(row, first + half, out_b.values, count);
      });
    const std::size_t turned = args.heads * args.width;
    for_each_chunk(args.columns - turned, [&](std::size_t at, std::size_t count) {
      y.write(row, turned + at, x.read(row, turned + at, count, in_a.values), count);
    });
  }
}

static constexpr SequenceKernels sequence_kernels{
    .gru = gru_kernel,
    .gru_backward = gru_backward_kernel,
    .lstm = lstm_kernel,
    .lstm_backward = lstm_backward_kernel,
    .rotary = rotary_kernel,
    .rnn = rnn_kernel,
    .rnn_backward = rnn_backward_kernel,
    .ctc = ctc_kernel,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// One sequence and one head of attention for tests: inputs, calls of the kernels, the reference,
// and how far the two may be apart.
#pragma once

#include <soma/kernels/reference/attention.hpp>
#include <soma/kernels/table.hpp>

#include "kernels/gemm/gemm_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace soma_test {

struct AttentionCase {
  std::size_t queries, keys, width;
  float scale;
  StoredMatrix q, k, v, dout;
  soma::DropoutArgs dropout;
  soma::Bf16Products products = soma::Bf16Products::widened;
  bool causal = false;
  std::vector<std::uint8_t> mask{};  // queries x keys; empty: none

  AttentionCase(std::size_t t, std::size_t s, std::size_t d, float drop_probability = 0,
                soma::DType dtype = soma::DType::fp32, Layout layout = Layout::padded_rows,
                float range = 2)
      : queries(t),
        keys(s),
        width(d),
        scale(1 / std::sqrt(static_cast<float>(d))),
        q(store_matrix(t, d, dtype, layout, RandomFloats(1, range))),
        k(store_matrix(s, d, dtype, layout, RandomFloats(2, range))),
        v(store_matrix(s, d, dtype, layout, RandomFloats(3, range))),
        dout(store_matrix(t, d, dtype, layout, RandomFloats(4, range))) {
    dropout.threshold = static_cast<std::uint32_t>(static_cast<double>(drop_probability) * 0x1p32);
    dropout.keep_scale = 1 / (1 - drop_probability);
    dropout.draw = {.seed = 12, .stream = 3, .step = 4, .index = (std::uint64_t{1} << 40) + 3};
  }

  soma::AttentionArgs args() const {
    soma::AttentionArgs args;
    args.queries = queries, args.keys = keys, args.width = width, args.scale = scale;
    args.q = q.operand, args.k = k.operand, args.v = v.operand, args.dout = dout.operand;
    args.dropout = dropout;
    args.causal = causal;
    args.mask = mask.empty() ? nullptr : mask.data();
    args.bf16_products = products;
    return args;
  }
  AttentionCase with(soma::Bf16Products way) const {
    AttentionCase same = *this;
    same.products = way;
    return same;
  }
  AttentionCase in_tiles() const { return with(soma::Bf16Products::tiles); }
  // True if this case uses tiles.
  bool tiled() const {
    return products == soma::Bf16Products::tiles && keys >= soma::tiled_keys &&
           soma::size_of(q.operand.dtype) <= 2 && q.operand.dtype != soma::DType::fp16;
  }
  // True if this case uses dot products, which round probabilities and their gradients to bf16.
  bool dotted() const {
    return products == soma::Bf16Products::dot_instruction && width % 2 == 0 && width != 0 &&
           q.operand.dtype == soma::DType::bf16 && q.operand.column_stride == 1;
  }
  // Ways whose bits are their own.
  std::size_t way() const { return tiled() ? 2 : dotted() ? 1 : 0; }

  template <class T>
  soma::reference::Attention<T> reference() const {
    const auto all = [](const StoredMatrix& m) {
      return std::vector<T>(m.values.begin(), m.values.end());
    };
    soma::reference::Attention<T> r{queries, keys, width, scale, all(q), all(k), all(v), {},
                                    {},      {},   {},    {},    {},     {},     {}};
    if (causal || !mask.empty())
      for (std::size_t i = 0; i < queries; ++i)
        for (std::size_t j = 0; j < keys; ++j)
          r.seen.push_back((!causal || j <= i) && (mask.empty() || mask[i * keys + j] != 0));
    if (dropout.threshold != 0)
      for (std::size_t i = 0; i < queries; ++i)
        for (std::size_t j = 0; j < keys; ++j)
          r.kept.push_back(soma::random_word(dropout.draw, (std::uint64_t{i} << 16) + j) <
                                   dropout.threshold
                               ? T(0)
                               : T(dropout.keep_scale));
    r.forward();
    r.backward(all(dout));
    return r;
  }
};

struct AttentionResults {
  std::vector<float> out, log_sum_exp, dq, dk, dv;

  std::vector<float> all() const {
    std::vector<float> joined;
    for (const auto* part : {&out, &log_sum_exp, &dq, &dk, &dv})
      joined.insert(joined.end(), part->begin(), part->end());
    return joined;
  }
};

inline AttentionResults attend(const soma::Context& context, const AttentionCase& c,
                               bool backward = true) {
  const soma::AttentionKernels& kernels = context.kernels().attention;
  AttentionResults r;
  r.out.assign(c.queries * c.width, -1);
  r.log_sum_exp.assign(c.queries, -1);
  soma::AttentionArgs args = c.args();
  args.out = plain_target(r.out, c.width);
  args.log_sum_exp = r.log_sum_exp.data();
  const std::size_t bytes = kernels.workspace_bytes(args);
  {
    const GuardedWorkspace workspace(bytes);
    args.workspace = workspace.data();
    kernels.forward(args);
    CHECK(workspace.intact());
  }
  if (!backward) return r;
  r.dq.assign(c.queries * c.width, -1);
  r.dk.assign(c.keys * c.width, -1);
  r.dv.assign(c.keys * c.width, -1);
  args.forward_out = plain(r.out, c.width);
  args.dq = plain_target(r.dq, c.width);
  args.dk = plain_target(r.dk, c.width);
  args.dv = plain_target(r.dv, c.width);
  const GuardedWorkspace workspace(bytes);
  args.workspace = workspace.data();
  kernels.backward(args);
  CHECK(workspace.intact());
  return r;
}

// Calls test(context, c) for a case on every target, and with bf16 instructions where there are
// some.
template <class Test>
void on_every_way(const AttentionCase& c, const Test& test) {
  on_every_target([&](const soma::Context& context) { test(context, c); });
  on_every_bf16_target([&](const soma::Context& context, soma::Bf16Products products) {
    test(context, c.with(products));
  });
}

// Bounds of the errors of a float computation, first order, with u = 2^-24 (2 u in the products
// where a target rounds twice; in tiles what gemm/args.hpp says of split numbers). For a row:
// scores are sums of `width` products; a probability's relative error is the absolute error of its
// score and of the log-sum-exp (or of the largest score and the sum), a few u for exp, and the
// sum's own; what is summed with probabilities adds its length. With dot products each weight of a
// sum is rounded to bf16 (attention/dots-inl.hpp).
class AttentionBounds {
 public:
  AttentionBounds(const AttentionCase& c, const soma::reference::Attention<double>& r)
      : c_(c), r_(r), weights_(c.queries * c.keys), slopes_(c.queries * c.keys) {
    for (std::size_t i = 0; i < c.queries; ++i) add_row(i);
  }

  std::vector<double> out, log_sum_exp, dq, dk, dv;

  void finish() {
    const std::size_t t = c_.queries, s = c_.keys, d = c_.width;
    const double over_q = product_error(t), over_k = product_error(s);
    out.assign(t * d, 0), dq = out, dk.assign(s * d, 0), dv = dk;
    for (std::size_t i = 0; i < t; ++i)
      for (std::size_t j = 0; j < s; ++j) {
        const double weight = weights_[i * s + j], slope = slopes_[i * s + j], e = relative_[i];
        // delta is computed from `out`, whose error comes in again.
        const double slope_error = 3 * e + 3 * product_error(d) + 16 * u + 2 * rounding();
        for (std::size_t x = 0; x < d; ++x) {
          out[i * d + x] += weight * std::fabs(r_.v[j * d + x]) * (e + over_k + 8 * u + rounding());
          dq[i * d + x] += slope * std::fabs(r_.k[j * d + x]) * (slope_error + over_k);
          dk[j * d + x] += slope * std::fabs(r_.q[i * d + x]) * (slope_error + over_q);
          dv[j * d + x] +=
              weight * std::fabs(c_.dout.values[i * d + x]) * (e + over_q + rounding());
        }
      }
  }

 private:
  static constexpr double u = 0x1p-24;

  // The error of a sum of this number of products, relative to its magnitudes.
  double product_error(std::size_t products) const {
    const auto count = static_cast<double>(products);
    return u * (c_.tiled() ? count / 5 + 27 : 2 * count);
  }

  // The relative error of a weight by rounding; the smaller term is for its other errors.
  double rounding() const { return c_.dotted() ? 0x1p-8 + 0x1p-17 : 0; }

  void add_row(std::size_t i) {
    const std::size_t s = c_.keys, d = c_.width;
    double largest = 0, mean_slope = 0;
    std::vector<double> products(s);
    for (std::size_t j = 0; j < s; ++j) {
      double magnitude = 0;
      for (std::size_t x = 0; x < d; ++x) {
        magnitude += std::fabs(r_.q[i * d + x] * r_.k[j * d + x]);
        products[j] += std::fabs(static_cast<double>(c_.dout.values[i * d + x]) * r_.v[j * d + x]);
      }
      largest = (std::max)(largest, magnitude * std::fabs(r_.scale));
      weights_[i * s + j] = r_.p[i * s + j] * (r_.kept.empty() ? 1 : r_.kept[i * s + j]);
      mean_slope += weights_[i * s + j] * products[j];
    }
    // Magnitude of the slope: p scale (|dropped dp| + |delta|).
    for (std::size_t j = 0; j < s; ++j)
      slopes_[i * s + j] =
          std::fabs(r_.scale) * (weights_[i * s + j] * products[j] + r_.p[i * s + j] * mean_slope);
    const double score_error = (product_error(d) + 2 * u) * largest;
    const double lse = std::fabs(r_.log_sum_exp[i]);
    // A block adds a correction (exp, product, sum), its lanes a sum over an 16th of its keys.
    const double blocks = static_cast<double>(s) / (c_.tiled() ? 128 : 140) + 1;
    const double sum_error = (static_cast<double>(s) / 16 + 6 * blocks + 8) * u;
    log_sum_exp.push_back(score_error + sum_error + 2 * u * (lse + largest) + 4 * u);
    relative_.push_back(2 * score_error + sum_error + 4 * u * (lse + largest) + 8 * u);
  }

  const AttentionCase& c_;
  const soma::reference::Attention<double>& r_;
  std::vector<double> weights_, slopes_, relative_;
};

// `lost`: what may be missing beside that, where small numbers count as zero.
inline bool within(const std::vector<float>& values, const std::vector<double>& wanted,
                   const std::vector<double>& bounds, double lost = 0x1p-140) {
  if (values.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!(std::fabs(values[i] - wanted[i]) <= bounds[i] + lost)) return false;
  return true;
}

// Forward and backward against the reference in double, on every target; those with fused
// multiply-add have the same bits, and tiles have their own.
inline void check_case(const AttentionCase& plain_case) {
  const auto reference = plain_case.reference<double>();
  std::vector<float> first[3];
  on_every_way(plain_case, [&](const soma::Context& context, const AttentionCase& c) {
    // By bf16 instructions what is below 2^-126 counts as zero, by tiles in three products of parts
    // for each of 600.
    const double lost = c.way() != 0 ? 0x1p-114 : 0x1p-140;
    AttentionBounds bounds(c, reference);
    bounds.finish();
    const AttentionResults r = attend(context, c);
    CHECK(within(r.out, reference.out, bounds.out, lost));
    CHECK(within(r.log_sum_exp, reference.log_sum_exp, bounds.log_sum_exp, lost));
    CHECK(within(r.dq, reference.dq, bounds.dq, lost));
    CHECK(within(r.dk, reference.dk, bounds.dk, lost));
    CHECK(within(r.dv, reference.dv, bounds.dv, lost));
    if (!context.target().fused_multiply_add) return;
    auto& same = first[c.way()];
    if (same.empty()) same = r.all();
    CHECK(same_bits(r.all(), same));
  });
}

}  // namespace soma_test

// Attention of a single query, forward and backward: scores lie side by side in a row instead of
// across a panel of which one column would be in use. The sums and their order are those of
// panels, so are the bits.

#if defined(SOMA_KERNELS_ATTENTION_ONE_QUERY_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_ONE_QUERY_INL_HPP
#undef SOMA_KERNELS_ATTENTION_ONE_QUERY_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_ONE_QUERY_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/backward-inl.hpp>
#include <soma/kernels/attention/forward-inl.hpp>
#include <soma/kernels/attention/vectors-inl.hpp>
#include <soma/kernels/element/dropout-inl.hpp>
#include <soma/kernels/norm/softmax-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One packed panel: c (+)= a b for a row a.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_row_panel(std::size_t steps, const float* a,
                                                             const float* b, float* c, bool fresh) {
  constexpr std::size_t vectors = micro_columns / float_lanes;
  const Floats d;
  FloatVector sums[vectors];
  for (std::size_t i = 0; i < vectors; ++i)
    sums[i] = fresh ? hn::Zero(d) : hn::Load(d, c + i * float_lanes);
  for (std::size_t step = 0; step < steps; ++step, b += micro_columns) {
    const FloatVector factor = hn::Set(d, a[step]);
    for (std::size_t i = 0; i < vectors; ++i)
      sums[i] = multiply_add(factor, hn::Load(d, b + i * float_lanes), sums[i]);
  }
  for (std::size_t i = 0; i < vectors; ++i) hn::Store(sums[i], d, c + i * float_lanes);
}

// c (+)= a b for a row a and b as pack_columns_whole leaves it; from zero where `fresh`. Writes
// whole panels.
static inline void multiply_row(std::size_t columns, std::size_t depth, const float* a,
                                const float* b, float* c, bool fresh) {
  if (depth == 0 && fresh) std::fill_n(c, columns, 0.0f);
  for (std::size_t k = 0; k < depth; k += pack_depth) {
    const std::size_t part = (std::min)(pack_depth, depth - k);
    for (std::size_t column = 0; column < columns; column += micro_columns)
      multiply_row_panel(part, a + k, b + column * part, c + column, fresh && k == 0);
    b += panel_floats(part, columns);
  }
}

// A product with one term: x * factor, added to zero as longer ones are.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_run(const float* x, std::size_t count,
                                                       float factor, float* out) {
  const Floats d;
  const FloatVector all = hn::Set(d, factor);
  map_vectors<1>({x}, out, count,
                 [&](FloatVector v) HWY_ATTR { return multiply_add(v, all, hn::Zero(d)); });
}

namespace {  // internal linkage: units with other flags have their own

struct OneQuerySpace {
  PackBuffer* pack;
  float *q, *dout, *sums;  // [width]; sums: the result, or dq
  float *across, *along;   // a block of keys or values, packed with keys as columns, and as steps
  float *scores, *dp;      // [key_block]
  std::uint32_t* words;    // [key_block]
  float *log_sum_exp, *delta, *scales;  // [query_panel] times the same

  OneQuerySpace(Carver& carver, std::size_t width)
      : pack(reinterpret_cast<PackBuffer*>(carver.bytes(sizeof(PackBuffer)))),
        q(carver.floats(whole_units(width, micro_columns))),
        dout(carver.floats(whole_units(width, micro_columns))),
        sums(carver.floats(whole_units(width, micro_columns))),
        across(carver.floats(panel_floats(width, key_block))),
        along(carver.floats(panel_floats(key_block, width))),
        scores(carver.floats(whole_units(key_block, micro_columns))),
        dp(carver.floats(whole_units(key_block, micro_columns))),
        words(reinterpret_cast<std::uint32_t*>(
            carver.floats(whole_units(key_block, micro_columns) + 6 + philox_padding))),
        log_sum_exp(carver.floats(query_panel)),
        delta(carver.floats(query_panel)),
        scales(carver.floats(query_panel)) {}
};

class OneQuery {
 public:
  explicit OneQuery(const AttentionArgs& args)
      : args_(args), carver_(args.workspace), space_(carver_, args.width) {
    new (space_.pack) PackBuffer;
    read(args.q, space_.q);
  }

  void forward() {
    float largest = minus_infinity, sum = 0;
    for (std::size_t first = 0; first < args_.keys; first += key_block) {
      const std::size_t keys = (std::min)(key_block, args_.keys - first);
      make_scores(first, keys);
      LaneSums<1> most(largest), exponentials;
      largest_of_run(space_.scores, keys, most);
      const float next = most.meet(0, [](float a, float b) { return a < b ? b : a; });
      const FloatVector shift = score_shift(hn::Set(Floats(), next));
      const float correction =
          hn::GetLane(exp_lanes(Floats(), hn::Sub(hn::Set(Floats(), largest), shift)));
      write_exponentials(space_.scores, keys, hn::GetLane(shift), space_.scores, exponentials);
      sum = hn::GetLane(fused(Floats(), hn::Set(Floats(), sum), hn::Set(Floats(), correction),
                              hn::Set(Floats(), exponentials.total())));
      largest = next;
      if (args_.dropout.threshold != 0)
        drop_in_place(args_.dropout, args_.dropout.draw.index + first, keys, space_.scores);
      if (first != 0) scale_run(space_.sums, args_.width, correction, space_.sums);
      add_rows(args_.v, first, keys, space_.scores);
    }
    scale_run(space_.sums, args_.width, 1 / sum, space_.sums);
    write(args_.out);
    if (args_.log_sum_exp != nullptr) *args_.log_sum_exp = largest + log_of(sum);
  }

  void backward() {
    read(args_.dout, space_.dout);
    std::fill_n(space_.log_sum_exp, query_panel, *args_.log_sum_exp);
    std::fill_n(space_.delta, query_panel, sum_outputs());
    std::fill_n(space_.scales, query_panel, score_gradient_scale(args_, 0));
    MatrixWriter dk(args_.dk), dv(args_.dv);
    const DropoutArgs& dropout = args_.dropout;
    const auto differentiate =
        dropout.threshold != 0 ? differentiate_scores<true> : differentiate_scores<false>;
    for (std::size_t first = 0; first < args_.keys; first += key_block) {
      const std::size_t keys = (std::min)(key_block, args_.keys - first);
      make_scores(first, keys);
      multiply_across(args_.v, first, keys, space_.dout, space_.dp);
      const std::uint32_t* words = nullptr;
      if (dropout.threshold != 0)
        words = philox_run(dropout.draw, dropout.draw.index + first, keys, space_.words);
      for (std::size_t key = 0; key < keys; key += query_panel)
        differentiate(space_.scores + key, space_.dp + key, 1, query_panel, space_.log_sum_exp,
                      space_.delta, space_.scales, dropout,
                      words != nullptr ? words + key : nullptr);
      for (std::size_t key = 0; key < keys; ++key) {
        write_product(space_.dout, space_.scores[key], first + key, dv);
        write_product(space_.q, space_.dp[key], first + key, dk);
      }
      add_rows(args_.k, first, keys, space_.dp);
    }
    write(args_.dq);
  }

 private:
  void read(const MatrixOperand& operand, float* row) const {
    const MatrixReader reader(operand);
    ChunkBuffer buffer;
    for_each_chunk(args_.width, [&](std::size_t column, std::size_t count) {
      std::memcpy(row + column, reader.read(0, column, count, buffer.values),
                  count * sizeof(float));
    });
  }

  // row of `keys` = x times the rows of keys or values, turned.
  void multiply_across(const MatrixOperand& rows, std::size_t first, std::size_t keys,
                       const float* x, float* row) {
    const PackSource lines(rows, args_.keys, args_.width, rows.row_stride, rows.column_stride);
    pack_columns_whole(lines, first, keys, 0, args_.width, *space_.pack, space_.across);
    multiply_row(keys, args_.width, x, space_.across, row, true);
  }
  // sums (+)= weights times the rows of keys or values.
  void add_rows(const MatrixOperand& rows, std::size_t first, std::size_t keys,
                const float* weights) {
    const PackSource steps(rows, args_.width, args_.keys, rows.column_stride, rows.row_stride);
    pack_columns_whole(steps, 0, args_.width, first, keys, *space_.pack, space_.along);
    multiply_row(args_.width, keys, weights, space_.along, space_.sums, first == 0);
  }

  void make_scores(std::size_t first, std::size_t keys) {
    multiply_across(args_.k, first, keys, space_.q, space_.scores);
    scale_run(space_.scores, keys, args_.scale, space_.scores);
    if (args_.mask == nullptr) return;
    for (std::size_t key = 0; key < keys; ++key)
      if (args_.mask[first + key] == 0) space_.scores[key] = minus_infinity;
  }

  float sum_outputs() const {
    const MatrixReader out(args_.forward_out);
    ChunkBuffer buffer;
    LaneSums<1> sums;
    for_each_chunk(args_.width, [&](std::size_t column, std::size_t count) {
      add_row_products(space_.dout + column, out.read(0, column, count, buffer.values), count,
                       sums);
    });
    return sums.total();
  }

  void write_product(const float* row, float factor, std::size_t key, MatrixWriter& writer) const {
    for_each_chunk(args_.width, [&](std::size_t column, std::size_t count) {
      multiply_run(row + column, count, factor, writer.place(key, column));
      writer.finish(key, column, count);
    });
  }
  void write(const MatrixTarget& target) const {
    MatrixWriter writer(target);
    for_each_chunk(args_.width, [&](std::size_t column, std::size_t count) {
      writer.write(0, column, space_.sums + column, count);
    });
  }

  const AttentionArgs& args_;
  Carver carver_;
  OneQuerySpace space_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

// Attention of queries, keys and values that bf16 holds exactly, by the tile instruction. Matrices
// are cut into squares of 32 x 32, two tiles each way, with zeros where they end. Probabilities and
// their gradients, which are fp32, are split into three parts (gemm/pack/fp32_split-inl.hpp):
// nothing of them is lost.
//
// Scores lie with keys as rows, and sums of values and of dq with queries as columns: so a square
// of scores is split as it lies, for either side of a product, and only operands are turned, once.

#if defined(SOMA_KERNELS_ATTENTION_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_TILES_INL_HPP
#undef SOMA_KERNELS_ATTENTION_TILES_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_TILES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/pack/fp32_split-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t square_side = 2 * tile_lines,
                             square_floats = square_side * square_side;
static_assert(square_side == tile_steps && square_side == query_panel &&
              square_side == micro_columns);
static constexpr std::size_t squares_of(std::size_t lines) {
  return (lines + square_side - 1) / square_side;
}
// Floats of a square as an operand: two tiles, each of which has `parts` parts.
static constexpr std::size_t operand_floats(std::size_t parts) {
  return 2 * parts * split_tile_floats;
}

// Keys whose scores are made together, part of the result's definition: four squares, which texts
// cut at a power of two fill.
inline constexpr std::size_t tile_key_block = 4 * square_side;

// A tile of pairs from 16 pairs of rows: the second of each lies `half` floats behind the first.
template <std::size_t kParts>
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_tile(const float* even, std::size_t half,
                                                     float* out) {
  const Floats d;
  for (std::size_t i = 0; i < tile_lines; ++i, even += square_side, out += tile_floats)
    split_pairs<kParts>(hn::LoadU(d, even), hn::LoadU(d, even + half), out);
}
// A square as the operand on the left of a product, whose columns are steps of k, ...
template <std::size_t kParts>
static inline void write_left(const float* square, float* out) {
  write_tile<kParts>(square, tile_floats, out);
  write_tile<kParts>(square + tile_lines * square_side, tile_floats,
                     out + kParts * split_tile_floats);
}
// ... or on the right, whose rows are.
template <std::size_t kParts>
static inline void write_right(const float* square, float* out) {
  write_tile<kParts>(square, tile_lines * square_side, out);
  write_tile<kParts>(square + tile_floats, tile_lines * square_side,
                     out + kParts * split_tile_floats);
}

static inline void turn_square(const float* square, float* out) {
  turn_panels(square, square_side, square_side, out);
}

// Every column of a square times a factor of its own.
HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_columns(float* square, const float* factors) {
  const Floats d;
  const FloatVector left = hn::Load(d, factors), right = hn::Load(d, factors + float_lanes);
  for (float* row = square; row != square + square_floats; row += square_side) {
    hn::Store(hn::Mul(hn::Load(d, row), left), d, row);
    hn::Store(hn::Mul(hn::Load(d, row + float_lanes), right), d, row + float_lanes);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Products of operands of which one may have parts: the smallest first.
template <std::size_t kLeft, std::size_t kRight>
class SquareProduct {
  static constexpr std::size_t parts = (std::max)(kLeft, kRight);
  static_assert(kLeft == 1 || kRight == 1);

 public:
  // A square c (+)= the sum of products of so many squares, one behind the other on the left and
  // `apart` floats apart on the right; from zero where `fresh`.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void add(std::size_t count, const float* left,
                                                const float* right, std::size_t apart, float* c,
                                                bool fresh) {
    if (fresh)
      SumTiles<2, 2>::clear();
    else
      SumTiles<2, 2>::load(c, square_side);
    for (; count != 0; --count, left += operand_floats(kLeft), right += apart) add_one(left, right);
    SumTiles<2, 2>::store(c, square_side);
  }

 private:
  HWY_INLINE static void add_one(const float* left, const float* right) {
    if constexpr (kLeft == 1) load<4, 5, 1, 0>(left);
    if constexpr (kRight == 1) load<6, 7, 1, 0>(right);
    add_parts(std::make_index_sequence<parts>(), left, right);
  }
  template <std::size_t... i>
  HWY_INLINE static void add_parts(std::index_sequence<i...>, const float* left,
                                   const float* right) {
    (add_part<parts - 1 - i>(left, right), ...);
  }
  template <std::size_t kPart>
  HWY_INLINE static void add_part(const float* left, const float* right) {
    if constexpr (kLeft != 1) load<4, 5, kLeft, kPart>(left);
    if constexpr (kRight != 1) load<6, 7, kRight, kPart>(right);
    Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>();
    Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>();
  }
  // A part of both tiles of an operand.
  template <int kFirst, int kSecond, std::size_t kParts, std::size_t kPart>
  HWY_INLINE static void load(const float* operand) {
    constexpr std::size_t stride = tile_floats * sizeof(float);
    Tiles::load<kFirst>(operand + kPart * split_tile_floats, stride);
    Tiles::load<kSecond>(operand + (kParts + kPart) * split_tile_floats, stride);
  }
};

// Rows of a matrix as squares.
class SquareRows {
 public:
  SquareRows(const MatrixOperand& operand, std::size_t rows, std::size_t width)
      : rows_(rows),
        width_(width),
        source_(operand, width, rows, operand.column_stride, operand.row_stride) {}

  // Squares with rows from `first` on, one behind the other.
  void read(std::size_t first, PackBuffer& buffer, float* squares) const {
    const std::size_t rows = (std::min)(square_side, rows_ - first);
    source_.pack<micro_columns, micro_columns>({0, width_, first, rows, squares, square_floats},
                                               buffer);
    // Packing leaves zeros behind the last column.
    if (rows != square_side)
      for (std::size_t i = 0; i < squares_of(width_); ++i)
        std::fill_n(squares + i * square_floats + rows * square_side,
                    (square_side - rows) * square_side, 0.0f);
  }

 private:
  std::size_t rows_, width_;
  PackSource source_;
};

// Operands that forward and backward share.
class TileOperands {
 public:
  static constexpr std::size_t block = tile_key_block, score_rows = tile_key_block;
  // Rows of scores that products of so many keys read.
  static constexpr std::size_t score_rows_read(std::size_t keys) {
    return squares_of(keys) * square_side;
  }
  using Registers = Tiles;

 protected:
  // Floats of a square of queries, keys or values, and of probabilities, as operands.
  static constexpr std::size_t input_floats = operand_floats(1),
                               weight_floats = operand_floats(split_parts);
  static constexpr std::size_t block_squares = squares_of(block);

  TileOperands(const AttentionArgs& args, Carver& carver)
      : args_(args),
        across_(squares_of(args.width)),
        pack_(carver.one<PackBuffer>()),
        squares_(carver.floats(across_ * square_floats)),
        turned_(carver.floats(square_floats)) {}

  // Rows from `first` on: write(square, i) for each of the squares across.
  template <class Write>
  void for_squares(const SquareRows& rows, std::size_t first, const Write& write) {
    rows.read(first, *pack_, squares_);
    for (std::size_t i = 0; i < across_; ++i) write(squares_ + i * square_floats, i);
  }
  const float* turned(const float* square) {
    turn_square(square, turned_);
    return turned_;
  }
  // Weights of a block of keys, which lie as scores do, for the right of a product.
  void write_weights(const float* weights, std::size_t keys, float* out) const {
    for (std::size_t i = 0; i < squares_of(keys); ++i)
      write_right<split_parts>(weights + i * square_floats, out + i * weight_floats);
  }
  // Sums with queries as columns, one square behind the other, times a factor of each query.
  void write_columns(const float* sums, std::size_t panel, const float* factors,
                     MatrixWriter& writer) {
    for (std::size_t i = 0; i < across_; ++i)
      turn_square(sums + i * square_floats, squares_ + i * square_floats);
    write_panels(squares_, square_floats, args_.width, panel * query_panel,
                 queries_of(args_, panel), factors, writer);
  }

  const AttentionArgs& args_;
  std::size_t across_;  // squares
  PackBuffer* pack_;
  float* squares_;  // [across]
  float* turned_;
};

// The operands of AttentionForward.
class ForwardTiles : public TileOperands {
 public:
  ForwardTiles(const AttentionArgs& args, Carver& carver)
      : TileOperands(args, carver),
        q_rows_(args.q, args.queries, args.width),
        k_rows_(args.k, args.keys, args.width),
        v_rows_(args.v, args.keys, args.width),
        q_(carver.floats(query_panels(args.queries) * across_ * input_floats)),
        out_(carver.floats(query_panels(args.queries) * across_ * square_floats)),
        k_(carver.floats(block_squares * across_ * input_floats)),
        v_(carver.floats(block_squares * across_ * input_floats)),
        weights_(carver.floats(block_squares * weight_floats)) {}

  void take_queries(std::size_t panel) {
    float* const q = q_ + panel * across_ * input_floats;
    for_squares(q_rows_, panel * query_panel, [&](const float* square, std::size_t i) {
      write_right<1>(turned(square), q + i * input_floats);
    });
  }
  void take_keys(std::size_t first, std::size_t keys) {
    for (std::size_t at = 0; at < squares_of(keys); ++at) {
      const std::size_t row = first + at * square_side;
      for_squares(k_rows_, row, [&](const float* square, std::size_t i) {
        write_left<1>(square, k_ + (at * across_ + i) * input_floats);
      });
      for_squares(v_rows_, row, [&](const float* square, std::size_t i) {
        write_left<1>(turned(square), v_ + (i * block_squares + at) * input_floats);
      });
    }
  }
  void make_scores(std::size_t panel, std::size_t keys, float* scores) const {
    for (std::size_t at = 0; at < squares_of(keys); ++at)
      SquareProduct<1, 1>::add(across_, k_ + at * across_ * input_floats,
                               q_ + panel * across_ * input_floats, input_floats,
                               scores + at * square_floats, true);
  }
  void clear_sums(std::size_t panel) {
    std::fill_n(out_ + panel * across_ * square_floats, across_ * square_floats, 0.0f);
  }
  // To sums times `correction`, of each query; nullptr: to none.
  void add_values(std::size_t panel, std::size_t keys, const float* weights,
                  const float* correction) {
    write_weights(weights, keys, weights_);
    float* sums = out_ + panel * across_ * square_floats;
    for (std::size_t i = 0; i < across_; ++i, sums += square_floats) {
      if (correction != nullptr) scale_columns(sums, correction);
      SquareProduct<1, split_parts>::add(squares_of(keys), v_ + i * block_squares * input_floats,
                                         weights_, weight_floats, sums, correction == nullptr);
    }
  }
  // Sums, times a factor of each query.
  void write(std::size_t panel, const float* factors, MatrixWriter& writer) {
    write_columns(out_ + panel * across_ * square_floats, panel, factors, writer);
  }

 private:
  SquareRows q_rows_, k_rows_, v_rows_;
  float *q_, *out_;  // [panels of queries][across], queries as columns
  float *k_, *v_;    // one block: [keys][across], and turned, [across][keys]
  float* weights_;   // [keys]
};

// The operands of AttentionBackward.
class BackwardTiles : public TileOperands {
 public:
  BackwardTiles(const AttentionArgs& args, Carver& carver)
      : TileOperands(args, carver),
        rows_of_q_(args.q, args.queries, args.width),
        rows_of_k_(args.k, args.keys, args.width),
        rows_of_v_(args.v, args.keys, args.width),
        rows_of_dout_(args.dout, args.queries, args.width),
        q_(carver.floats(query_panels(args.queries) * across_ * input_floats)),
        dout_(carver.floats(query_panels(args.queries) * across_ * input_floats)),
        q_rows_(carver.floats(query_panels(args.queries) * across_ * input_floats)),
        dout_rows_(carver.floats(query_panels(args.queries) * across_ * input_floats)),
        dq_(carver.floats(query_panels(args.queries) * across_ * square_floats)),
        k_(carver.floats(block_squares * across_ * input_floats)),
        v_(carver.floats(block_squares * across_ * input_floats)),
        k_turned_(carver.floats(block_squares * across_ * input_floats)),
        dk_(carver.floats(block_squares * across_ * square_floats)),
        dv_(carver.floats(block_squares * across_ * square_floats)),
        weights_(carver.floats(block_squares * weight_floats)) {}

  void take_queries(std::size_t panel) {
    const auto take = [&](const SquareRows& from, float* columns, float* rows) {
      for_squares(from, panel * query_panel, [&](const float* square, std::size_t i) {
        const std::size_t at = (panel * across_ + i) * input_floats;
        write_right<1>(square, rows + at);
        write_right<1>(turned(square), columns + at);
      });
    };
    take(rows_of_q_, q_, q_rows_);
    take(rows_of_dout_, dout_, dout_rows_);
  }
  void take_keys(std::size_t first, std::size_t keys) {
    for (std::size_t at = 0; at < squares_of(keys); ++at) {
      const std::size_t row = first + at * square_side;
      for_squares(rows_of_k_, row, [&](const float* square, std::size_t i) {
        write_left<1>(square, k_ + (at * across_ + i) * input_floats);
        write_left<1>(turned(square), k_turned_ + (i * block_squares + at) * input_floats);
      });
      for_squares(rows_of_v_, row, [&](const float* square, std::size_t i) {
        write_left<1>(square, v_ + (at * across_ + i) * input_floats);
      });
    }
  }
  void make_scores(std::size_t panel, std::size_t keys, float* scores, float* dp) const {
    const std::size_t queries = panel * across_ * input_floats;
    const auto make = [&](const float* left, const float* right, float* to) {
      for (std::size_t at = 0; at < squares_of(keys); ++at)
        SquareProduct<1, 1>::add(across_, left + at * across_ * input_floats, right + queries,
                                 input_floats, to + at * square_floats, true);
    };
    make(k_, q_, scores);
    make(v_, dout_, dp);
  }
  // Rows of dout and the result are read as those of any type.
  static bool sum_products(std::size_t, float&) { return false; }
  void clear_sums(std::size_t panel) {
    std::fill_n(dq_ + panel * across_ * square_floats, across_ * square_floats, 0.0f);
  }
  void clear_key_sums() {
    std::fill_n(dk_, block_squares * across_ * square_floats, 0.0f);
    std::fill_n(dv_, block_squares * across_ * square_floats, 0.0f);
  }
  // p and ds, in place of scores and dp.
  void add_gradients(std::size_t panel, std::size_t keys, const float* p, const float* ds,
                     const FreshSums& fresh) {
    add_to_keys(panel, keys, p, dout_rows_, dv_, fresh.keys);
    add_to_keys(panel, keys, ds, q_rows_, dk_, fresh.keys);
    write_weights(ds, keys, weights_);
    float* sums = dq_ + panel * across_ * square_floats;
    for (std::size_t i = 0; i < across_; ++i, sums += square_floats)
      SquareProduct<1, split_parts>::add(squares_of(keys),
                                         k_turned_ + i * block_squares * input_floats, weights_,
                                         weight_floats, sums, fresh.queries);
  }
  void write_keys(std::size_t first, std::size_t keys, MatrixWriter& dk, MatrixWriter& dv) {
    constexpr std::size_t panel = block_squares * square_floats;
    write_panels(dk_, panel, args_.width, first, keys, nullptr, dk);
    write_panels(dv_, panel, args_.width, first, keys, nullptr, dv);
  }
  void write_queries(std::size_t panel, MatrixWriter& dq) {
    write_columns(dq_ + panel * across_ * square_floats, panel, nullptr, dq);
  }

 private:
  // sums [across][keys] += weights times rows of a panel of queries
  void add_to_keys(std::size_t panel, std::size_t keys, const float* weights, const float* rows,
                   float* sums, bool fresh) {
    rows += panel * across_ * input_floats;
    for (std::size_t at = 0; at < squares_of(keys); ++at) {
      write_left<split_parts>(weights + at * square_floats, weights_);
      for (std::size_t i = 0; i < across_; ++i)
        SquareProduct<split_parts, 1>::add(1, weights_, rows + i * input_floats, 0,
                                           sums + (i * block_squares + at) * square_floats, fresh);
    }
  }

  SquareRows rows_of_q_, rows_of_k_, rows_of_v_, rows_of_dout_;
  // [panels of queries][across]: queries as columns, as rows, and sums with queries as columns.
  float *q_, *dout_, *q_rows_, *dout_rows_, *dq_;
  float *k_, *v_, *k_turned_;  // one block: [keys][across], and turned, [across][keys]
  float *dk_, *dv_;            // one block: [across][keys]
  float* weights_;             // [keys]
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif

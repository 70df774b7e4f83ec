#pragma once
// Parts that the programs of recurrent layers share: the order of sequences, and a product with the
// same weights at every step.
//
// 128 sequences at a time lie across the partitions, the longest first, so that those that continue
// at a step are the first partitions. Their states stay in SBUF from step to step.

#include <soma/ops/sequence/recurrent.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>
#include <soma/programs/product/operand.hpp>
#include <soma/programs/sequence/row_runs.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace SOMA_NAMESPACE::programs {

// Some sequences of a batch that lie across the partitions.
class StepBlock {
 public:
  StepBlock(const Sequences& sequences, bool reverse, const std::size_t* sorted, std::size_t count)
      : sequences_(sequences), reverse_(reverse), sorted_(sorted), count_(count) {}

  std::size_t count() const { return count_; }
  std::size_t longest() const { return sequences_.length(sorted_[0]); }
  // The number of sequences that have that step.
  std::size_t alive(std::size_t step) const {
    std::size_t alive = count_;
    while (alive != 0 && sequences_.length(sorted_[alive - 1]) <= step) --alive;
    return alive;
  }
  // A row for each sequence: its number, and the row of its step.
  auto numbers() const {
    return [this](std::size_t i) { return sorted_[i]; };
  }
  auto rows(std::size_t step) const {
    return [this, step](std::size_t i) {
      const std::size_t sequence = sorted_[i];
      return reverse_ ? sequences_.end(sequence) - 1 - step : sequences_.begin(sequence) + step;
    };
  }

 private:
  const Sequences& sequences_;
  bool reverse_;
  const std::size_t* sorted_;
  std::size_t count_;
};

// Calls call(block) for all sequences.
template <class Call>
void for_step_blocks(const OperatorCall& call, const Call& each) {
  const Sequences& sequences = call.sequences;
  std::vector<std::size_t> sorted(sequences.count());
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = i;
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return sequences.length(a) > sequences.length(b);
  });
  const bool reverse = call.attributes.as<RecurrentSetting>().reverse;
  for_pieces(sorted.size(), lanes, [&](std::size_t first, std::size_t count) {
    each(StepBlock(sequences, reverse, &sorted[first], count));
  });
}

// Columns `first` and following of each of `parts` matrices that lie side by side in the rows of a
// view, `width` columns apart: [rows, parts x columns].
inline HbmView side_by_side(const HbmView& view, std::size_t parts, std::size_t width,
                            std::size_t first, std::size_t columns) {
  return view.pattern({{view.stride(0), view.rows()}, {width, parts}, {1, columns}}, first);
}

// Part `part` of a tile [rows, parts x columns].
inline Tile part_of(const Tile& tile, std::size_t part, std::size_t columns) {
  return tile.columns(part * columns, (part + 1) * columns);
}

// The states that a block's sequences begin with: rows of an input, or zeros without it.
inline void start_states(Core& core, const Tile& states, const Tensor& input,
                         const StepBlock& block) {
  if (input.defined())
    load_rows(core, states, adjacent_rows(core, input).view(), block.numbers());
  else
    core.vector.memset(states, 0);
}

// Rows of fp32 in SBUF times weights: the weights stay in SBUF if there is room for them, and are
// loaded at every step if there is not. Made after all other tiles of a program.
class RecurrentProduct {
 public:
  // Rows [up to `rows`, inner] times [inner, outer]. Products are in fp32, as on the host.
  RecurrentProduct(Core& core, const InnerOperand& weights, std::size_t rows)
      : core_(core),
        inner_(weights.inner()),
        outer_(weights.outer()),
        loader_(core, weights, bank_columns, 1),
        turner_(core, DType::fp32, 1),
        left_(core.sbuf.tile(DType::fp32, (std::min)(inner_, lanes), blocks_of(inner_) * rows)) {
    const std::size_t columns = blocks_of(inner_) * outer_;
    const std::size_t room = core.sbuf.capacity() - core.sbuf.used();
    if (columns * sizeof(float) <= room)
      whole_ = core.sbuf.tile(DType::fp32, (std::min)(inner_, lanes), columns);
    else
      strips_.emplace(core, DType::fp32, lanes, blocks_of(most_inner) * bank_columns);
  }

  // Loads columns that run() will ask for, if they stay in SBUF.
  void keep(std::size_t column, std::size_t columns) {
    if (whole_.defined()) loader_.load(resident(column, columns), column, columns, 0, inner_);
  }
  // The left side of the products that follow.
  void start(const Tile& rows) {
    rows_ = rows.partitions();
    turner_.turn(left_.columns(0, blocks_of(inner_) * rows_), rows_, inner_,
                 [&](std::size_t, std::size_t) { return rows; });
  }
  // sums = up to 512 columns of the product, in PSUM.
  void run(const Tile& sums, std::size_t column) {
    const std::size_t columns = sums.free_size();
    for_pieces(
        inner_, whole_.defined() ? inner_ : most_inner, [&](std::size_t begin, std::size_t size) {
          const Tile weights = loaded(column, columns, begin, size);
          for_pieces(size, lanes, [&](std::size_t at, std::size_t part) {
            const std::size_t block = (begin + at) / lanes;
            core_.tensor.matmul(
                sums, left_.rows(0, part).columns(block * rows_, (block + 1) * rows_),
                weights.rows(0, part).columns(at / lanes * columns, (at / lanes + 1) * columns),
                begin + at == 0 ? neuroncore::Accumulate::no : neuroncore::Accumulate::yes);
          });
        });
  }

 private:
  static constexpr std::size_t most_inner = 1024;  // of weights that do not stay

  Tile resident(std::size_t column, std::size_t columns) const {
    const std::size_t blocks = blocks_of(inner_);
    return whole_.columns(blocks * column, blocks * (column + columns));
  }
  Tile loaded(std::size_t column, std::size_t columns, std::size_t begin, std::size_t size) {
    if (whole_.defined()) return resident(column, columns);
    const Tile strip = strips_->next(lanes, blocks_of(size) * columns);
    loader_.load(strip, column, columns, begin, size);
    return strip;
  }

  Core& core_;
  std::size_t inner_, outer_, rows_ = 0;
  OperandLoader loader_;
  Turner turner_;
  Tile left_, whole_{};
  std::optional<Pair> strips_;
};

}  // namespace SOMA_NAMESPACE::programs

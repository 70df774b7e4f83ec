#pragma once
// The product of two matrices of MX numbers (MatmulSetting::microscaled) on a machine that has MX
// products: operands arrive as bf16 numbers, the Vector engine turns them into codes and scales
// (quantize_mx), and one instruction sums over 512 of them.
//
// Numbers stay what they are, but for one case: where the largest of a group was rounded up to a
// power of two, its scale is twice the one that it had, and numbers below 2^-14 of the largest lose
// their last bit.

#include <soma/programs/product/operand.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

// True if product() may run as mx_product().
inline bool has_mx_product(const Core& core, const InnerOperand& a, const InnerOperand& b) {
  using neuroncore::Feature;
  const neuroncore::Machine& machine = core.machine();
  const auto fits = [](const InnerOperand& operand) {
    return operand.tile_type == DType::bf16 && operand.view.dtype() == DType::bf16 &&
           !operand.scaled();
  };
  return machine.has(Feature::matmul_mx) && machine.has(Feature::quantize_mx) && fits(a) &&
         fits(b) && a.inner() != 0;
}

// Codes and scales of a part of an operand: element 4 p + e of the inner dimension is code e of the
// packs in partition p, so that 32 neighbours share a scale.
struct MxTile {
  Tile codes, scales;
};

// Makes MX tiles of parts of an operand.
class MxLoader {
 public:
  static constexpr std::size_t depth = 4 * lanes;  // elements of the inner dimension in a tile

  MxLoader(Core& core, const InnerOperand& operand, std::size_t most_outer)
      : core_(core), operand_(operand), most_outer_(even(most_outer)) {
    spread_.emplace(core, DType::bf16, lanes, 4 * most_outer_);
    if (operand.inner_rows) {
      rows_.emplace(core, DType::bf16, lanes, most_outer_);
      return;
    }
    rows_.emplace(core, DType::bf16, lanes, depth);
    for (Tile& turned : turned_) turned = core.psum.tile(lanes, lanes, DType::bf16);
  }

  MxTile tile() const {
    return {core_.sbuf.tile(DType::fp8_e4m3fn, lanes, 4 * most_outer_),
            core_.sbuf.tile(DType::e8m0, lanes, most_outer_)};
  }

  // The part of `to` that holds up to 512 inner and `outer` outer elements; zeros fill up whole
  // groups, and an even number of outer elements.
  MxTile load(const MxTile& to, std::size_t outer_begin, std::size_t outer, std::size_t inner_begin,
              std::size_t inner) {
    const std::size_t height = (inner + lanes - 1) / lanes * 32, width = even(outer);
    const Tile spread = spread_->next(height, 4 * width);
    if (inner % lanes != 0 || width != outer) core_.vector.memset(spread, 0);
    operand_.inner_rows ? spread_rows(spread, outer_begin, outer, inner_begin, inner)
                        : turn_rows(spread, outer_begin, outer, inner_begin, inner);
    const MxTile part{to.codes.rows(0, height).columns(0, 4 * width).packed4(),
                      to.scales.rows(0, height).columns(0, width)};
    core_.vector.quantize_mx(part.codes, spread, part.scales);
    return part;
  }

 private:
  static constexpr std::size_t even(std::size_t count) { return (count + 1) / 2 * 2; }
  // Partitions that element e of packs reaches.
  static std::size_t reach(std::size_t inner, std::size_t e) { return (inner + 3 - e) / 4; }

  void spread_rows(const Tile& spread, std::size_t outer_begin, std::size_t outer,
                   std::size_t inner_begin, std::size_t inner) {
    const HbmView& view = operand_.view;
    for (std::size_t e = 0; e < 4 && e < inner; ++e) {
      const std::size_t height = reach(inner, e);
      const Tile rows = rows_->next(height, outer);
      core_.dma.load(rows, view.rows(inner_begin + e, inner_begin + e + 1)
                               .columns(outer_begin, outer_begin + outer)
                               .with_rows(height, 4 * view.stride(0)));
      core_.vector.copy(spread.rows(0, height).columns(e, 4 * outer, 4), rows);
    }
  }
  void turn_rows(const Tile& spread, std::size_t outer_begin, std::size_t outer,
                 std::size_t inner_begin, std::size_t inner) {
    for_pieces(outer, lanes, [&](std::size_t first, std::size_t count) {
      const Tile rows = rows_->next(count, inner);
      core_.dma.load(rows, operand_.view.rows(outer_begin + first, outer_begin + first + count)
                               .columns(inner_begin, inner_begin + inner));
      for (std::size_t e = 0; e < 4 && e < inner; ++e) {
        const std::size_t height = reach(inner, e);
        const Tile turned = turned_[turn_ ^= 1].rows(0, height).columns(0, count);
        core_.tensor.transpose(turned, rows.columns(e, inner, 4));
        core_.vector.copy(spread.rows(0, height).columns(4 * first + e, 4 * (first + count), 4),
                          turned);
      }
    });
  }

  Core& core_;
  InnerOperand operand_;
  std::size_t most_outer_;
  std::optional<Pair> spread_, rows_;
  Tile turned_[2];
  std::size_t turn_ = 0;
};

// As product(), for operands that has_mx_product() takes. The right operand's blocks of 512 columns
// stay in SBUF while all rows are multiplied by them, up to `most_resident` inner elements.
template <class Epilogue>
void mx_product(Core& core, const InnerOperand& a, const InnerOperand& b,
                const Epilogue& epilogue) {
  using neuroncore::Accumulate;
  constexpr std::size_t most_resident = 16;  // tiles: 40 KiB a partition
  const std::size_t m = a.outer(), n = b.outer(), k = a.inner();
  const std::size_t rows = (std::min)(m, lanes), columns = (std::min)(n, bank_columns);
  MxLoader load_a(core, a, rows), load_b(core, b, columns);
  const MxTile left[] = {load_a.tile(), load_a.tile()};
  const std::size_t depth = MxLoader::depth, blocks = (k + depth - 1) / depth;
  const bool resident = blocks <= most_resident;
  MxTile right[most_resident];
  for (std::size_t i = 0; i < (resident ? blocks : std::size_t{2}); ++i) right[i] = load_b.tile();
  const std::size_t even_rows = (rows + 1) / 2 * 2;
  const Tile banks[] = {core.psum.tile(even_rows, columns), core.psum.tile(even_rows, columns)};
  std::size_t turn = 0, bank = 0;
  for_pieces(n, bank_columns, [&](std::size_t column, std::size_t width) {
    MxTile strip[most_resident];
    if (resident)
      for_pieces(k, depth, [&](std::size_t at, std::size_t inner) {
        strip[at / depth] = load_b.load(right[at / depth], column, width, at, inner);
      });
    for_pieces(m, lanes, [&](std::size_t row, std::size_t height) {
      const Tile sums = banks[bank ^= 1].rows(0, (height + 1) / 2 * 2).columns(0, width);
      for_pieces(k, depth, [&](std::size_t at, std::size_t inner) {
        turn ^= 1;
        const MxTile w = load_a.load(left[turn], row, height, at, inner);
        const MxTile x =
            resident ? strip[at / depth] : load_b.load(right[turn], column, width, at, inner);
        const Tile codes = x.codes.slice(0, 0, width), scales = x.scales.columns(0, width);
        core.tensor.matmul_mx(sums, w.codes, codes, w.scales, scales,
                              at == 0 ? Accumulate::no : Accumulate::yes);
      });
      epilogue(sums.rows(0, height), row, column);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs

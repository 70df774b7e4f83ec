#pragma once
// The product of two matrices of any size on the Tensor engine: blocks of 128 x 512 of the result,
// each summed in PSUM over the whole inner dimension and then given to the caller's function. Where
// the machine lets a product span banks, one instruction sums two blocks side by side: half of the
// sums are then moved out while the others grow.

#include <soma/programs/product/mx_product.hpp>
#include <soma/programs/product/operand.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::programs {

// Error neuroncore.rule_broken: PSUM adds in fp32, whatever the types of the operands.
inline void check_accumulation(std::string_view operation, const Accumulation& accumulation) {
  if (!accumulation.plain())
    neuroncore::rule_broken(operation, "accumulation", to_string(accumulation.format),
                            "fp32, which PSUM adds in");
}

inline constexpr std::size_t sum_banks = 4;  // PSUM for the sums of a product

// How many columns of the result one instruction sums: all the machine's, as long as two of them
// share the banks of sums.
constexpr std::size_t columns_together(const neuroncore::Machine& machine, std::size_t columns) {
  const std::size_t most =
      (std::min)(machine.matmul_moving_free, machine.matmul_banks * bank_columns);
  const std::size_t together = (std::min)(most, sum_banks / 2 * bank_columns);
  return columns > bank_columns ? (std::max)(together / bank_columns * bank_columns, bank_columns)
                                : bank_columns;
}

// The cut of a product that makes it fit: `columns` of the right operand and `inner` of the inner
// dimension stay in SBUF while all rows are multiplied by them.
struct ProductCut {
  static constexpr std::size_t most_columns = 4096;  // a multiple of 512
  std::size_t columns, inner;

  ProductCut(std::size_t n, std::size_t k, DType right) {
    constexpr std::size_t resident_bytes = 64 * 1024;
    const std::size_t strip = (std::min)(n, bank_columns),
                      blocks = (std::max)(blocks_of(k), std::size_t{1});
    const std::size_t strips = resident_bytes / (blocks * strip * size_of(right));
    if (strips != 0) {
      columns = (std::min)(n, (std::min)(strips * bank_columns, most_columns));
      inner = k;
      return;
    }
    // The sums of all these columns wait in PSUM for the next piece of the inner dimension; two
    // pieces are in SBUF.
    columns = (std::min)(n, sum_banks * bank_columns);
    inner = resident_bytes / (2 * columns * size_of(right)) * lanes;
  }
};

// a [m, k] b [k, n], both summed over the inner dimension; `microscaled`: as MX numbers, if the
// machine multiplies them. Calls epilogue(sums, row, column) for every block of the result; sums is
// fp32 [up to 128, up to 512], in PSUM if k is not 0.
template <class Epilogue>
void product(Core& core, const InnerOperand& a, const InnerOperand& b, const Epilogue& epilogue,
             bool microscaled = false) {
  using neuroncore::Accumulate;
  if (microscaled && has_mx_product(core, a, b)) return mx_product(core, a, b, epilogue);
  const std::size_t m = a.outer(), n = b.outer(), k = a.inner();
  if (k == 0) {
    const Tile zeros =
        core.sbuf.tile(DType::fp32, (std::min)(m, lanes), (std::min)(n, bank_columns));
    core.vector.memset(zeros, 0);
    for_pieces(m, lanes, [&](std::size_t row, std::size_t rows) {
      for_pieces(n, bank_columns, [&](std::size_t column, std::size_t columns) {
        epilogue(zeros.rows(0, rows).columns(0, columns), row, column);
      });
    });
    return;
  }
  const ProductCut cut(n, k, b.tile_type);
  const bool whole = cut.inner >= k;
  const std::size_t depth = blocks_of((std::min)(cut.inner, k));
  const std::size_t height = (std::min)(k, lanes), most_rows = (std::min)(m, lanes);
  // The rows of the left operand that are loaded together: several blocks if they are adjacent in
  // device memory, because transfers of 128 elements a row are slow.
  constexpr std::size_t left_bytes = 32 * 1024;
  const std::size_t fit = left_bytes / (depth * lanes * size_of(a.tile_type));
  const std::size_t group =
      (a.inner_rows && whole ? std::clamp(fit, std::size_t{1}, std::size_t{4}) : 1) * lanes;
  const std::size_t most_group = (std::min)(m, group);
  OperandLoader load_a(core, a, group), load_b(core, b, b.inner_rows ? cut.columns : bank_columns);
  Pair left(core, a.tile_type, height, depth * most_group);
  const Tile right[] = {core.sbuf.tile(b.tile_type, height, depth * cut.columns),
                        whole ? Tile() : core.sbuf.tile(b.tile_type, height, depth * cut.columns)};
  const std::size_t together =
      b.inner_rows ? columns_together(core.machine(), cut.columns) : bank_columns;
  const std::size_t turns = sum_banks * bank_columns / together;
  Tile banks[sum_banks];
  for (std::size_t i = 0; i < turns; ++i)
    banks[i] = core.psum.tile(most_rows, (std::min)(cut.columns, together));
  std::size_t turn = 0, bank = 0;
  // All columns of a block of the inner dimension side by side, as in device memory, or, if they
  // are transposed, strip after strip.
  const auto load_strips = [&](std::size_t first, std::size_t columns, std::size_t begin,
                               std::size_t inner) {
    turn = whole ? 0 : turn ^ 1;
    if (b.inner_rows) return load_b.load(right[turn], first, columns, begin, inner);
    for_pieces(columns, bank_columns, [&](std::size_t column, std::size_t count) {
      load_b.load(right[turn].columns(depth * column, depth * (column + count)), first + column,
                  count, begin, inner);
    });
  };
  const auto part_of_strip = [&](std::size_t block, std::size_t columns, std::size_t column,
                                 std::size_t count) {
    const std::size_t at = b.inner_rows ? block * columns + column : depth * column + block * count;
    return right[turn].columns(at, at + count);
  };
  for_pieces(n, cut.columns, [&](std::size_t first, std::size_t columns) {
    if (whole) load_strips(first, columns, 0, k);
    for_pieces(m, group, [&](std::size_t group_row, std::size_t group_rows) {
      for_pieces(k, cut.inner, [&](std::size_t begin, std::size_t inner) {
        if (!whole) load_strips(first, columns, begin, inner);
        const Tile rows_of_a = left.next(height, depth * most_group);
        load_a.load(rows_of_a, group_row, group_rows, begin, inner);
        for_pieces(group_rows, lanes, [&](std::size_t row, std::size_t rows) {
          for_pieces(columns, together, [&](std::size_t column, std::size_t count) {
            bank = whole ? (bank + 1) % turns : column / together;
            const Tile sums = banks[bank].rows(0, rows).columns(0, count);
            for_pieces(inner, lanes, [&](std::size_t at, std::size_t part) {
              const std::size_t block = at / lanes, left_at = block * group_rows + row;
              core.tensor.matmul(sums, rows_of_a.rows(0, part).columns(left_at, left_at + rows),
                                 part_of_strip(block, columns, column, count).rows(0, part),
                                 begin + at == 0 ? Accumulate::no : Accumulate::yes);
            });
            if (begin + inner != k) return;
            for_pieces(count, bank_columns, [&](std::size_t at, std::size_t width) {
              epilogue(sums.columns(at, at + width), group_row + row, first + column + at);
            });
          });
        });
      });
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// Element-wise functions of two tensors. Broadcasting is in the addresses: dimensions that both
// inputs walk alike become one, the last two are rows and columns of tiles, and what an input
// repeats is loaded once.

#include <soma/ops/element/binary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// The output's dimensions with the steps of both inputs, in elements.
struct BinaryLoops {
  struct Dimension {
    std::size_t size = 1, a = 0, b = 0;
  };
  std::array<Dimension, max_rank> dimensions{};
  std::size_t rank = 0;

  BinaryLoops(const Tensor& a, const Tensor& b, const Shape& shape) {
    const Tensor x = a.broadcast_to(shape), z = b.broadcast_to(shape);
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 1) continue;
      const Dimension next{shape[i], soma::detail::step_of(x, i), soma::detail::step_of(z, i)};
      Dimension* last = rank == 0 ? nullptr : &dimensions[rank - 1];
      if (last != nullptr && last->a == next.a * next.size && last->b == next.b * next.size)
        *last = {last->size * next.size, next.a, next.b};
      else
        dimensions[rank++] = next;
    }
  }

  // call(number of the matrix, offsets in a and b) for each matrix of the last two dimensions.
  template <class Call>
  void for_each_matrix(const Call& call) const {
    std::array<std::size_t, max_rank> at{};
    std::size_t a = 0, b = 0, matrix = 0, matrices = 1;
    for (std::size_t i = 0; i + 2 < rank; ++i) matrices *= dimensions[i].size;
    while (true) {
      call(matrix, a, b);
      if (++matrix == matrices) return;
      for (std::size_t d = rank - 2; d-- > 0;) {
        a += dimensions[d].a;
        b += dimensions[d].b;
        if (++at[d] != dimensions[d].size) break;
        a -= at[d] * dimensions[d].a;
        b -= at[d] * dimensions[d].b;
        at[d] = 0;
      }
    }
  }
};

// One of the inputs, in blocks that are loaded as tiles.
class BinaryInput {
 public:
  BinaryInput(Core& core, const Tensor& tensor, std::size_t row_step, std::size_t column_step,
              std::size_t partitions, std::size_t width)
      : core_(core),
        view_(neuroncore::hbm_first(tensor)),
        row_step_(row_step),
        column_step_(column_step),
        tiles_(core, tensor.dtype(), partitions, column_step == 0 ? 1 : width) {}
  // The block that begins at a row and column.
  Tile read(std::size_t offset, std::size_t row, std::size_t rows, std::size_t column,
            std::size_t columns) {
    const std::size_t begin = offset + row * row_step_ + column * column_step_;
    const std::size_t loaded = column_step_ == 0 ? 1 : columns;
    const bool repeated = tile_.defined() && row_step_ == 0 && begin == begin_ &&
                          tile_.partitions() >= rows && tile_.free_size() == loaded;
    if (!repeated) {
      tile_ = tiles_.next(rows, loaded);
      const neuroncore::PatternStep block[] = {{row_step_, rows}, {column_step_, loaded}};
      core_.dma.load(tile_, view_.pattern(block, begin));
      begin_ = begin;
    }
    const Tile tile = tile_.rows(0, rows);
    return column_step_ == 0 ? tile.broadcast(0, columns) : tile;
  }

 private:
  Core& core_;
  HbmView view_;
  std::size_t row_step_, column_step_, begin_ = 0;
  Pair tiles_;
  Tile tile_{};
};

// y = a / b, computed as a * (1 / b), because the engines have no division. If b is below 2^-64,
// both are multiplied by 2^64 first: otherwise the reciprocal may overflow even if the quotient
// does not. The reciprocal of a number above 2^126 is subnormal and has at least 22 bits.
inline void divide_tile(Core& core, const Tile& y, const Tile& a, const Tile& b, Scratch& scratch) {
  const Tile factor = scratch.like(0, b), inverse = scratch.like(1, b);
  core.vector.tensor_scalar(factor, b, Alu::absolute, 0, Alu::less, 0x1p-64f)
      .tensor_scalar(factor, factor, Alu::multiply, 0x1p64f, Alu::maximum, 1)
      .tensor_tensor(inverse, b, factor, Alu::multiply)
      .reciprocal(inverse, inverse)
      .tensor_tensor(factor, a, factor, Alu::multiply)
      .tensor_tensor(y, factor, inverse, Alu::multiply);
}

// y = f(a, b), for a tile.
inline void binary_tile(Core& core, Binary function, const Tile& y, const Tile& a, const Tile& b,
                        Scratch& scratch) {
  switch (function) {
    case Binary::add:
      core.vector.tensor_tensor(y, a, b, Alu::add);
      return;
    case Binary::subtract:
      core.vector.tensor_tensor(y, a, b, Alu::subtract);
      return;
    case Binary::multiply:
      core.vector.tensor_tensor(y, a, b, Alu::multiply);
      return;
    case Binary::divide:
      return divide_tile(core, y, a, b, scratch);
    default: {
      // The engine's operators keep a NaN of b and lose a NaN of a. Adding 0 a brings it back; a is
      // clamped before, so that an infinity does not become NaN.
      const Tile chosen = scratch.like(0, a), close_by = scratch.like(1, a);
      core.vector
          .tensor_tensor(chosen, a, b, function == Binary::maximum ? Alu::maximum : Alu::minimum)
          .tensor_scalar(close_by, a, Alu::maximum, -1, Alu::minimum, 1,
                         {.reverse0 = true, .reverse1 = true})
          .scalar_tensor_tensor(y, close_by, Alu::multiply, 0, Alu::add, chosen);
    }
  }
}

inline void run_binary(Core& core, const OperatorCall& call, Binary function) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  const BinaryLoops loops(a, b, y.shape());
  const HbmView to = flat_target(y);
  const auto run_with = [&](const BinaryLoops::Dimension& rows,
                            const BinaryLoops::Dimension& columns, const auto& for_each_block) {
    const std::size_t partitions = row_partitions(rows.size);
    const std::size_t width = (std::min)(columns.size, piece);
    BinaryInput left(core, a, rows.a, columns.a, partitions, width);
    BinaryInput right(core, b, rows.b, columns.b, partitions, width);
    Pair out(core, y.dtype(), partitions, width);
    Scratch scratch(core, partitions, width);
    for_each_block([&](const HbmView& block, std::size_t in_a, std::size_t in_b, std::size_t row,
                       std::size_t column) {
      const std::size_t count = block.rows(), size = block.row_elements();
      const Tile result = out.next(count, size);
      binary_tile(core, function, result, left.read(in_a, row, count, column, size),
                  right.read(in_b, row, count, column, size), scratch);
      core.dma.queue(store_queue).store(block, result);
    });
  };
  if (loops.rank < 2) {
    const BinaryLoops::Dimension all = loops.dimensions[0];
    const ElementTiles tiles(all.size);
    const std::size_t width = tiles.width();
    run_with({tiles.partitions(), all.a * width, all.b * width}, {width, all.a, all.b},
             [&](const auto& run_block) {
               tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
                 run_block(element_block(to, first, rows, columns), first * all.a, first * all.b,
                           std::size_t{0}, std::size_t{0});
               });
             });
    return;
  }
  const BinaryLoops::Dimension rows = loops.dimensions[loops.rank - 2];
  const BinaryLoops::Dimension columns = loops.dimensions[loops.rank - 1];
  const HbmView matrix_rows = to.as_rows(columns.size);
  run_with(rows, columns, [&](const auto& run_block) {
    loops.for_each_matrix([&](std::size_t matrix, std::size_t in_a, std::size_t in_b) {
      for_pieces(columns.size, piece, [&](std::size_t column, std::size_t size) {
        for_pieces(rows.size, lanes, [&](std::size_t row, std::size_t count) {
          const std::size_t first = matrix * rows.size + row;
          run_block(matrix_rows.rows(first, first + count).columns(column, column + size), in_a,
                    in_b, row, column);
        });
      });
    });
  });
}

template <Binary function>
void binary(Core& core, const OperatorCall& call) {
  run_binary(core, call, function);
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// Sums and means. The Scalar engine's accumulators sum along the free dimensions; sums over rows
// are products with ones that are added in PSUM. If the summed dimensions are between other
// dimensions, a copy moves them to the front first.

#include <soma/ops/rows/reduce.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/loss/total.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// output = factor * sums over the columns of a contiguous matrix.
inline void sum_columns(Core& core, const Tensor& matrix, const Tensor& output, float factor) {
  const DeviceRows x(core, matrix);
  const HbmView to = flat_target(output);
  const std::size_t partitions = row_partitions(x.rows()), width = piece_columns(x.columns());
  RowPieces pieces(core, x);
  Pair sums(core, DType::fp32, partitions, 1);
  Scratch scratch(core, partitions, width);
  for_pieces(x.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    pieces.start(row, rows);
    const Tile sum = sums.next(rows, 1);
    for_pieces(x.columns(), width, [&](std::size_t column, std::size_t columns) {
      core.scalar.activation(
          scratch.tile(0, rows, columns), pieces.read(column, columns), Function::copy,
          {.reduce = column == 0 ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
           .reduce_result = &sum});
    });
    core.vector.tensor_scalar(sum, sum, Alu::multiply, factor);
    core.dma.queue(store_queue).store(column_of(to, row, rows), sum);
  });
}

// output, one number, = factor * the sum of all elements.
inline void sum_all(Core& core, const Tensor& x, const Tensor& output, float factor) {
  const HbmView from = flat_view(x);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), sums(core, DType::fp32, tiles.partitions(), 1);
  Scratch scratch(core, tiles.partitions(), tiles.width());
  Total total(core);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), sum = sums.next(rows, 1);
    core.dma.load(source, element_block(from, first, rows, columns));
    core.scalar.activation_reduce(scratch.like(0, source), source, Function::copy, sum);
    total.add(sum);
  });
  total.store(output, factor);
}

// output = factor * sums over the rows of a contiguous matrix [rows, columns]. If rows are short, a
// partition takes several of them side by side, which are added at the end.
inline void sum_rows(Core& core, const Tensor& x, std::size_t rows, std::size_t columns,
                     const Tensor& output, float factor) {
  constexpr std::size_t bank = 512, most = 8 * bank;  // floats of PSUM in one partition
  const HbmView from = flat_view(x), to = flat_target(output);
  const std::size_t together =
      std::clamp(rows / lanes, std::size_t{1}, (std::max)(most / columns, std::size_t{1}));
  const std::size_t width = (std::min)(columns * together, most);
  const std::size_t groups = rows / together, rest = rows % together;
  const std::size_t partitions = row_partitions(groups);
  Pair in(core, x.dtype(), partitions, width), out(core, DType::fp32, 1, width);
  const Tile ones = core.sbuf.tile(x.dtype(), partitions, 1);
  core.vector.memset(ones, 1);
  for_pieces(columns, most, [&](std::size_t column, std::size_t part) {
    const Core::Scope scope(core);
    const std::size_t wide = part * together;
    const Tile sums = core.psum.tile(1, wide);
    const auto add = [&](const HbmView& block, std::size_t count, std::size_t size, bool first) {
      const Tile source = in.next(count, size);
      core.dma.load(source, block);
      for_pieces(size, bank, [&](std::size_t begin, std::size_t length) {
        core.tensor.matmul(sums.columns(begin, begin + length), ones.rows(0, count),
                           source.columns(begin, begin + length),
                           first ? neuroncore::Accumulate::no : neuroncore::Accumulate::yes);
      });
    };
    for_pieces(groups, lanes, [&](std::size_t group, std::size_t count) {
      const HbmView all = from.columns(0, groups * together * columns).as_rows(columns * together);
      add(all.rows(group, group + count).columns(column, column + wide), count, wide, group == 0);
    });
    if (rest != 0)
      add(from.columns(groups * together * columns, rows * columns), 1, rest * columns, false);
    const Tile result = out.next(1, part);
    if (together == 1) {
      core.scalar.activation(result, sums, Function::copy, {.scale = factor});
    } else {
      core.vector.tensor_reduce(result, sums.reshape({together, part}).swap(0, 1), Alu::add)
          .tensor_scalar(result, result, Alu::multiply, factor);
    }
    core.dma.queue(store_queue).store(to.columns(column, column + part), result);
  });
}

inline void reduce(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<ReduceSetting>();
  const auto summed = [&](std::size_t i) { return (setting.dimensions >> i & 1) != 0; };
  Tensor x = call.inputs[0];
  const Tensor& output = call.outputs[0];
  const std::size_t all = x.elements(), kept = output.elements();
  const float count = static_cast<float>(all / kept), factor = setting.mean ? 1 / count : 1;
  if (all == 0) return fill(core, output, setting.mean ? 0 * factor : 0);  // 0 / 0
  if (kept == 1) return sum_all(core, row_major(core, x), output, factor);
  std::size_t trailing = 0, leading = 0;
  while (trailing < x.rank() && summed(x.rank() - 1 - trailing)) ++trailing;
  std::size_t in_all = 0;
  for (std::size_t i = 0; i < x.rank(); ++i) in_all += summed(i) ? 1u : 0u;
  const std::size_t rows = all / kept;
  if (in_all == trailing)
    return sum_columns(core, row_major(core, x).reshape(Shape{kept, rows}), output, factor);
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (!summed(i)) continue;
    for (std::size_t j = i; j > leading; --j) x = x.transpose(j, j - 1);
    ++leading;
  }
  sum_rows(core, row_major(core, x), rows, kept, output, factor);
}

}  // namespace SOMA_NAMESPACE::programs

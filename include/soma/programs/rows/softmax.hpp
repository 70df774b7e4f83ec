#pragma once
// Softmax over rows: the Vector engine finds the row's largest number, the Scalar engine computes
// the exponentials and their sum in one pass.

#include <soma/ops/rows/softmax.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// largest [P, 1] = minus the largest of each row.
inline void negated_largest(Core& core, RowPieces& x, std::size_t columns, const Tile& largest) {
  const std::size_t width = piece_columns(columns);
  for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
    const Tile source = x.read(column, size);
    if (column == 0) {
      core.vector.tensor_reduce(largest, source, Alu::maximum, 1, true);
      return;
    }
    const Core::Scope scope(core);
    const Tile part = column_tile(core, largest.partitions());
    core.vector.tensor_reduce(part, source, Alu::maximum, 1, true)
        .tensor_tensor(largest, largest, part, Alu::minimum);
  });
}

// exponentials = exp(x + shift); total gets their sum with the last piece.
inline void exponentials_of(Core& core, const Tile& exponentials, const Tile& x, const Tile& shift,
                            const Tile& total, bool first) {
  core.scalar.activation(
      exponentials, x, Function::exp,
      {.bias = &shift,
       .reduce = first ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
       .reduce_result = &total});
}

inline void softmax(Core& core, const OperatorCall& call) {
  const bool logarithm = call.attributes.as<SoftmaxSetting>().logarithm;
  const DeviceRows x(core, call.inputs[0]);
  const HbmView y = DeviceRows::target(call.outputs[0]);
  const std::size_t columns = x.columns(), width = piece_columns(columns);
  const std::size_t partitions = row_partitions(x.rows());
  RowPieces pieces(core, x);
  Pair out(core, y.dtype(), partitions, width), stats(core, DType::fp32, partitions, 2);
  Scratch scratch(core, partitions, width);
  for_pieces(x.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    pieces.start(row, rows);
    const Tile both = stats.next(rows, 2);
    const Tile largest = both.columns(0, 1), total = both.columns(1, 2);
    const Tile wide = scratch.tile(0, rows, width);
    negated_largest(core, pieces, columns, largest);
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      exponentials_of(core, wide.columns(0, size), pieces.read(column, size), largest, total,
                      column == 0);
    });
    if (logarithm)
      core.scalar.activation(total, total, Function::log);
    else
      core.vector.reciprocal(total, total);
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile result = out.next(rows, size), values = wide.columns(0, size);
      if (logarithm) {
        core.vector.tensor_scalar(result, pieces.read(column, size), Alu::add, largest,
                                  Alu::subtract, total);
      } else {
        if (width != columns)
          core.scalar.activation(values, pieces.read(column, size), Function::exp,
                                 {.bias = &largest});
        core.vector.tensor_scalar(result, values, Alu::multiply, total);
      }
      core.dma.queue(store_queue)
          .store(y.rows(row, row + rows).columns(column, column + size), result);
    });
  });
}

// Softmax: y (dy - sum of y dy); its logarithm: dy - exp(y) sum of dy.
inline void softmax_backward(Core& core, const OperatorCall& call) {
  const bool logarithm = call.attributes.as<SoftmaxSetting>().logarithm;
  const DeviceRows y(core, call.inputs[0]), dy(core, call.inputs[1]);
  const HbmView dx = DeviceRows::target(call.outputs[0]);
  const std::size_t columns = y.columns(), width = piece_columns(columns);
  const std::size_t partitions = row_partitions(y.rows());
  RowPieces values(core, y), gradients(core, dy);
  Pair out(core, dx.dtype(), partitions, width), sums(core, DType::fp32, partitions, 1);
  Scratch scratch(core, partitions, width);
  for_pieces(y.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    values.start(row, rows);
    gradients.start(row, rows);
    const Tile sum = sums.next(rows, 1);  // minus the sum of the row
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile gradient = gradients.read(column, size), wide = scratch.tile(0, rows, size);
      if (!logarithm)
        core.vector.tensor_tensor(wide, values.read(column, size), gradient, Alu::multiply);
      core.scalar.activation(
          wide, logarithm ? gradient : wide, Function::copy,
          {.scale = -1,
           .reduce = column == 0 ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
           .reduce_result = &sum});
    });
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile gradient = gradients.read(column, size), value = values.read(column, size);
      const Tile result = out.next(rows, size), wide = scratch.tile(0, rows, size);
      if (logarithm) {
        core.scalar.activation(wide, value, Function::exp);
        core.vector.scalar_tensor_tensor(result, wide, Alu::multiply, sum, Alu::add, gradient);
      } else {
        core.vector.scalar_tensor_tensor(result, gradient, Alu::add, sum, Alu::multiply, value);
      }
      core.dma.queue(store_queue)
          .store(dx.rows(row, row + rows).columns(column, column + size), result);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs

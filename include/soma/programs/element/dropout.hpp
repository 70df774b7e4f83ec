#pragma once
// Dropout: the Vector engine zeroes elements, the Scalar engine scales the others. The random draws
// depend on the element's logical position, not on its tile.

#include <soma/ops/element/dropout.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline void dropout(Core& core, const OperatorCall& call) {
  const DeviceRows x(core, call.inputs[0]);
  const HbmView y = DeviceRows::target(call.outputs[0]);
  const DropoutArgs args = soma::detail::dropout_args(call.attributes.as<DropoutSetting>(),
                                                      call.sequences, x.rows(), x.columns());
  const std::size_t width = piece_columns(x.columns()), partitions = row_partitions(x.rows());
  Pair in(core, x.dtype(), partitions, width), out(core, y.dtype(), partitions, width);
  for_pieces(x.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    for_pieces(x.columns(), width, [&](std::size_t column, std::size_t columns) {
      const Tile source = in.next(rows, columns), result = out.next(rows, columns);
      core.dma.load(source, x.block(row, rows, column, columns));
      if (args.threshold == 0) {
        core.scalar.copy(result, source);
      } else {
        core.vector.dropout(source, source, args.threshold, position_of(args, row, column));
        core.scalar.activation(result, source, Function::copy, {.scale = args.keep_scale});
      }
      core.dma.queue(store_queue)
          .store(y.rows(row, row + rows).columns(column, column + columns), result);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// LSTM, as gru.hpp: products for up to 128 sequences at once, gates in pieces of hidden columns.

#include <soma/ops/sequence/lstm.hpp>
#include <soma/programs/sequence/recurrent.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline void lstm(Core& core, const OperatorCall& call) {
  const DeviceRows x = adjacent_rows(core, call.inputs[0]),
                   weight = adjacent_rows(core, call.inputs[1]);
  const Tensor bias = soma::detail::input_or_none(call.inputs, 2);
  const std::size_t hidden = weight.columns(), gates = 4 * hidden;
  const std::size_t width = (std::min)(hidden, bank_columns);
  const HbmView y = DeviceRows::target(call.outputs[0]),
                last_state = DeviceRows::target(call.outputs[1]),
                last_cell = DeviceRows::target(call.outputs[2]),
                notes = DeviceRows::target(call.outputs[3]);
  const std::size_t most = (std::min)(call.sequences.count(), lanes);
  const Tile states = core.sbuf.tile(DType::fp32, most, hidden),
             cells = core.sbuf.tile(DType::fp32, most, hidden);
  const Tile biases = bias.defined() ? core.sbuf.tile(DType::fp32, most, gates) : Tile();
  Pair inputs(core, x.dtype(), most, 4 * width), kept(core, DType::fp32, most, 7 * width),
      out(core, y.dtype(), most, width), work(core, DType::fp32, most, width);
  const Tile banks[] = {core.psum.tile(most, width), core.psum.tile(most, width),
                        core.psum.tile(most, width), core.psum.tile(most, width)};
  RecurrentProduct product(core, {.view = weight.view(), .inner_rows = false}, most);
  for (std::size_t gate = 0; gate < 4; ++gate)
    for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
      product.keep(gate * hidden + column, columns);
    });
  if (bias.defined()) core.dma.load(biases, hbm(row_major(core, bias)).broadcast_rows(most));

  for_step_blocks(call, [&](const StepBlock& block) {
    start_states(core, states.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 3),
                 block);
    start_states(core, cells.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 4),
                 block);
    for (std::size_t step = 0; step < block.longest(); ++step) {
      const std::size_t alive = block.alive(step);
      product.start(states.rows(0, alive));
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile given = inputs.next(alive, 4 * columns), note = kept.next(alive, 7 * columns);
        load_rows(core, given, side_by_side(x.view(), 4, hidden, column, columns),
                  block.rows(step));
        const auto part = [&](const Tile& tile, std::size_t i) {
          return part_of(tile, i, columns);
        };
        // Input, forget, cell and output gate.
        for (std::size_t gate = 0; gate < 4; ++gate) {
          const Tile sums = banks[gate].rows(0, alive).columns(0, columns);
          product.run(sums, gate * hidden + column);
          const Tile sum = work.next(alive, columns);
          core.vector.tensor_tensor(sum, sums, part(given, gate), Alu::add);
          if (bias.defined())
            core.vector.tensor_tensor(sum, sum,
                                      biases.rows(0, alive).columns(
                                          gate * hidden + column, gate * hidden + column + columns),
                                      Alu::add);
          core.scalar.activation(part(note, gate), sum,
                                 gate == 2 ? Function::tanh : Function::sigmoid);
        }
        const Tile state = states.rows(0, alive).columns(column, column + columns),
                   cell = cells.rows(0, alive).columns(column, column + columns);
        core.scalar.copy(part(note, 5), cell).copy(part(note, 6), state);
        const Tile added = work.next(alive, columns);
        core.vector.tensor_tensor(added, part(note, 0), part(note, 2), Alu::multiply)
            .tensor_tensor(cell, cell, part(note, 1), Alu::multiply)
            .tensor_tensor(cell, cell, added, Alu::add);
        core.scalar.activation(part(note, 4), cell, Function::tanh);
        core.vector.tensor_tensor(state, part(note, 3), part(note, 4), Alu::multiply);
        const Tile result = out.next(alive, columns);
        core.scalar.copy(result, state);
        store_rows(core, side_by_side(notes, 7, hidden, column, columns), note, block.rows(step));
        store_rows(core, y.columns(column, column + columns), result, block.rows(step));
      });
    }
    store_rows(core, last_state, states.rows(0, block.count()), block.numbers());
    store_rows(core, last_cell, cells.rows(0, block.count()), block.numbers());
  });
}

inline void lstm_backward(Core& core, const OperatorCall& call) {
  const DeviceRows notes = adjacent_rows(core, call.inputs[0]),
                   weight = adjacent_rows(core, call.inputs[1]);
  const Tensor dy = soma::detail::input_or_none(call.inputs, 2);
  const std::size_t hidden = weight.columns(), gates = 4 * hidden;
  const std::size_t width = (std::min)(hidden, bank_columns);
  const HbmView dx = DeviceRows::target(call.outputs[0]),
                dfirst = DeviceRows::target(call.outputs[1]),
                dfirst_cell = DeviceRows::target(call.outputs[2]);
  const std::size_t most = (std::min)(call.sequences.count(), lanes);
  // Without gradients of the states nothing is read.
  const DeviceRows given = dy.defined() ? adjacent_rows(core, dy) : notes;
  const Tile dstates = core.sbuf.tile(DType::fp32, most, hidden),
             dcells = core.sbuf.tile(DType::fp32, most, hidden),
             dgates = core.sbuf.tile(DType::fp32, most, gates);
  Pair kept(core, DType::fp32, most, 6 * width), inputs(core, given.dtype(), most, width);
  Scratch scratch(core, most, width);
  const Tile banks[] = {core.psum.tile(most, width), core.psum.tile(most, width)};
  RecurrentProduct product(core, {.view = weight.view(), .inner_rows = true}, most);
  for_pieces(hidden, width,
             [&](std::size_t column, std::size_t columns) { product.keep(column, columns); });

  for_step_blocks(call, [&](const StepBlock& block) {
    start_states(core, dstates.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 3),
                 block);
    start_states(core, dcells.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 4),
                 block);
    for (std::size_t step = block.longest(); step-- > 0;) {
      const std::size_t alive = block.alive(step);
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile note = kept.next(alive, 6 * columns);
        load_rows(core, note, side_by_side(notes.view(), 6, hidden, column, columns),
                  block.rows(step));
        const auto part = [&](std::size_t i) { return part_of(note, i, columns); };
        const Tile i = part(0), f = part(1), g = part(2), o = part(3), squashed = part(4),
                   before = part(5);
        const Tile after = dstates.rows(0, alive).columns(column, column + columns),
                   cell = dcells.rows(0, alive).columns(column, column + columns);
        if (dy.defined()) {
          const Tile more = inputs.next(alive, columns);
          load_rows(core, more, given.view().columns(column, column + columns), block.rows(step));
          core.vector.tensor_tensor(after, after, more, Alu::add);
        }
        const Tile slope = scratch.tile(0, alive, columns),
                   factor = scratch.tile(1, alive, columns);
        // cell += after o (1 - squashed^2)
        core.vector.tensor_tensor(slope, squashed, squashed, Alu::multiply)
            .tensor_scalar(slope, slope, Alu::multiply, -1, Alu::add, 1)
            .tensor_tensor(factor, after, o, Alu::multiply)
            .tensor_tensor(factor, factor, slope, Alu::multiply)
            .tensor_tensor(cell, cell, factor, Alu::add);
        const auto gate = [&](std::size_t number) {
          return dgates.rows(0, alive).columns(number * hidden + column,
                                               number * hidden + column + columns);
        };
        // The gradient of a gate of that value: outer times inner times the function's slope.
        const auto through = [&](std::size_t number, const Tile& value, const Tile& outer,
                                 const Tile& inner) {
          if (number == 2) {  // tanh
            core.vector.tensor_tensor(slope, value, value, Alu::multiply)
                .tensor_scalar(slope, slope, Alu::multiply, -1, Alu::add, 1);
          } else {
            core.vector.tensor_scalar(factor, value, Alu::multiply, -1, Alu::add, 1)
                .tensor_tensor(slope, value, factor, Alu::multiply);
          }
          core.vector.tensor_tensor(factor, outer, inner, Alu::multiply)
              .tensor_tensor(gate(number), factor, slope, Alu::multiply);
        };
        through(0, i, cell, g);
        through(1, f, cell, before);
        through(2, g, cell, i);
        through(3, o, after, squashed);
        core.vector.tensor_tensor(cell, cell, f, Alu::multiply);
      });
      store_rows(core, dx, dgates.rows(0, alive), block.rows(step));
      product.start(dgates.rows(0, alive));
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile sums = banks[column / width % 2].rows(0, alive).columns(0, columns);
        product.run(sums, column);
        core.scalar.copy(dstates.rows(0, alive).columns(column, column + columns), sums);
      });
    }
    store_rows(core, dfirst, dstates.rows(0, block.count()), block.numbers());
    store_rows(core, dfirst_cell, dcells.rows(0, block.count()), block.numbers());
  });
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// GRU: the Tensor engine multiplies the states of up to 128 sequences at once; the gates of a step
// are computed in pieces of hidden columns, as products leave PSUM.

#include <soma/ops/sequence/gru.hpp>
#include <soma/programs/sequence/recurrent.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline void gru(Core& core, const OperatorCall& call) {
  const DeviceRows x = adjacent_rows(core, call.inputs[0]),
                   weight = adjacent_rows(core, call.inputs[1]);
  const Tensor bias = soma::detail::input_or_none(call.inputs, 2);
  const std::size_t hidden = weight.columns(), gates = 3 * hidden;
  const std::size_t width = (std::min)(hidden, bank_columns);
  const HbmView y = DeviceRows::target(call.outputs[0]), last = DeviceRows::target(call.outputs[1]),
                notes = DeviceRows::target(call.outputs[2]);
  const std::size_t most = (std::min)(call.sequences.count(), lanes);
  const Tile states = core.sbuf.tile(DType::fp32, most, hidden);
  const Tile biases = bias.defined() ? core.sbuf.tile(DType::fp32, most, gates) : Tile();
  Pair inputs(core, x.dtype(), most, 3 * width), kept(core, DType::fp32, most, 5 * width),
      out(core, y.dtype(), most, width), work(core, DType::fp32, most, width);
  const Tile banks[] = {core.psum.tile(most, width), core.psum.tile(most, width),
                        core.psum.tile(most, width)};
  RecurrentProduct product(core, {.view = weight.view(), .inner_rows = false}, most);
  for (std::size_t gate = 0; gate < 3; ++gate)
    for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
      product.keep(gate * hidden + column, columns);
    });
  if (bias.defined()) core.dma.load(biases, hbm(row_major(core, bias)).broadcast_rows(most));

  for_step_blocks(call, [&](const StepBlock& block) {
    start_states(core, states.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 3),
                 block);
    for (std::size_t step = 0; step < block.longest(); ++step) {
      const std::size_t alive = block.alive(step);
      product.start(states.rows(0, alive));
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile given = inputs.next(alive, 3 * columns), note = kept.next(alive, 5 * columns);
        load_rows(core, given, side_by_side(x.view(), 3, hidden, column, columns),
                  block.rows(step));
        const auto part = [&](const Tile& tile, std::size_t i) {
          return part_of(tile, i, columns);
        };
        const auto bias_of = [&](std::size_t gate) {
          return biases.rows(0, alive).columns(gate * hidden + column,
                                               gate * hidden + column + columns);
        };
        const Tile r = part(note, 0), z = part(note, 1), n = part(note, 2), h_n = part(note, 3);
        for (std::size_t gate = 0; gate < 3; ++gate) {
          const Tile sums = banks[gate].rows(0, alive).columns(0, columns);
          product.run(sums, gate * hidden + column);
          if (gate == 2) {
            bias.defined() ? (void)core.vector.tensor_tensor(h_n, sums, bias_of(gate), Alu::add)
                           : (void)core.scalar.copy(h_n, sums);
            continue;
          }
          const Tile sum = work.next(alive, columns);
          core.vector.tensor_tensor(sum, sums, part(given, gate), Alu::add);
          if (bias.defined()) core.vector.tensor_tensor(sum, sum, bias_of(gate), Alu::add);
          core.scalar.activation(gate == 0 ? r : z, sum, Function::sigmoid);
        }
        const Tile sum = work.next(alive, columns), change = work.next(alive, columns);
        core.vector.tensor_tensor(sum, r, h_n, Alu::multiply)
            .tensor_tensor(sum, sum, part(given, 2), Alu::add);
        core.scalar.activation(n, sum, Function::tanh);
        const Tile state = states.rows(0, alive).columns(column, column + columns);
        core.scalar.copy(part(note, 4), state);
        core.vector.tensor_tensor(change, state, n, Alu::subtract)
            .tensor_tensor(change, change, z, Alu::multiply)
            .tensor_tensor(state, change, n, Alu::add);
        const Tile result = out.next(alive, columns);
        core.scalar.copy(result, state);
        store_rows(core, side_by_side(notes, 5, hidden, column, columns), note, block.rows(step));
        store_rows(core, y.columns(column, column + columns), result, block.rows(step));
      });
    }
    store_rows(core, last, states.rows(0, block.count()), block.numbers());
  });
}

// As the host kernel, with the gradient of the hidden gates of all columns in SBUF, because the
// product with the weights needs all of them.
inline void gru_backward(Core& core, const OperatorCall& call) {
  const DeviceRows notes = adjacent_rows(core, call.inputs[0]),
                   weight = adjacent_rows(core, call.inputs[1]);
  const Tensor dy = soma::detail::input_or_none(call.inputs, 2);
  const std::size_t hidden = weight.columns(), gates = 3 * hidden;
  const std::size_t width = (std::min)(hidden, bank_columns);
  const HbmView dx = DeviceRows::target(call.outputs[0]), dh = DeviceRows::target(call.outputs[1]),
                dfirst = DeviceRows::target(call.outputs[2]);
  const std::size_t most = (std::min)(call.sequences.count(), lanes);
  // Without gradients of the states nothing is read.
  const DeviceRows given = dy.defined() ? adjacent_rows(core, dy) : notes;
  const Tile dstates = core.sbuf.tile(DType::fp32, most, hidden),
             dgates = core.sbuf.tile(DType::fp32, most, gates);
  Pair kept(core, DType::fp32, most, 5 * width), inputs(core, given.dtype(), most, width),
      out(core, DType::fp32, most, 3 * width);
  Scratch scratch(core, most, width);
  const Tile banks[] = {core.psum.tile(most, width), core.psum.tile(most, width)};
  RecurrentProduct product(core, {.view = weight.view(), .inner_rows = true}, most);
  for_pieces(hidden, width,
             [&](std::size_t column, std::size_t columns) { product.keep(column, columns); });

  for_step_blocks(call, [&](const StepBlock& block) {
    start_states(core, dstates.rows(0, block.count()), soma::detail::input_or_none(call.inputs, 3),
                 block);
    for (std::size_t step = block.longest(); step-- > 0;) {
      const std::size_t alive = block.alive(step);
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile note = kept.next(alive, 5 * columns), result = out.next(alive, 3 * columns);
        load_rows(core, note, side_by_side(notes.view(), 5, hidden, column, columns),
                  block.rows(step));
        const auto part = [&](const Tile& tile, std::size_t i) {
          return part_of(tile, i, columns);
        };
        const auto number = [&](std::size_t i) { return scratch.tile(i, alive, columns); };
        const Tile r = part(note, 0), z = part(note, 1), n = part(note, 2), h_n = part(note, 3),
                   before = part(note, 4);
        const Tile dr = part(result, 0), dz = part(result, 1), dn = part(result, 2);
        const Tile after = dstates.rows(0, alive).columns(column, column + columns);
        if (dy.defined()) {
          const Tile more = inputs.next(alive, columns);
          load_rows(core, more, given.view().columns(column, column + columns), block.rows(step));
          core.vector.tensor_tensor(after, after, more, Alu::add);
        }
        const Tile slope = number(0), factor = number(1);
        // dn = after (1 - z) (1 - n^2)
        core.vector.tensor_tensor(slope, n, n, Alu::multiply)
            .tensor_scalar(slope, slope, Alu::multiply, -1, Alu::add, 1)
            .tensor_scalar(factor, z, Alu::multiply, -1, Alu::add, 1)
            .tensor_tensor(dn, after, factor, Alu::multiply)
            .tensor_tensor(dn, dn, slope, Alu::multiply);
        // dz = after (before - n) z (1 - z)
        core.vector.tensor_tensor(slope, z, factor, Alu::multiply)
            .tensor_tensor(factor, before, n, Alu::subtract)
            .tensor_tensor(dz, after, factor, Alu::multiply)
            .tensor_tensor(dz, dz, slope, Alu::multiply);
        // dr = dn h_n r (1 - r)
        core.vector.tensor_scalar(factor, r, Alu::multiply, -1, Alu::add, 1)
            .tensor_tensor(slope, r, factor, Alu::multiply)
            .tensor_tensor(dr, dn, h_n, Alu::multiply)
            .tensor_tensor(dr, dr, slope, Alu::multiply);
        const auto gate = [&](std::size_t i) {
          return dgates.rows(0, alive).columns(i * hidden + column, i * hidden + column + columns);
        };
        core.scalar.copy(gate(0), dr).copy(gate(1), dz);
        core.vector.tensor_tensor(gate(2), dn, r, Alu::multiply)
            .tensor_tensor(after, after, z, Alu::multiply);
        store_rows(core, side_by_side(dx, 3, hidden, column, columns), result, block.rows(step));
      });
      store_rows(core, dh, dgates.rows(0, alive), block.rows(step));
      product.start(dgates.rows(0, alive));
      for_pieces(hidden, width, [&](std::size_t column, std::size_t columns) {
        const Tile sums = banks[column / width % 2].rows(0, alive).columns(0, columns);
        product.run(sums, column);
        const Tile state = dstates.rows(0, alive).columns(column, column + columns);
        core.vector.tensor_tensor(state, sums, state, Alu::add);
      });
    }
    store_rows(core, dfirst, dstates.rows(0, block.count()), block.numbers());
  });
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// Rotary positions: the cosines and sines of all positions are constants of the program. Both
// halves of all heads turn together, because an access pattern reads the halves in exchanged order.

#include <soma/ops/sequence/rotary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>
#include <soma/programs/sequence/row_runs.hpp>
#include <soma/programs/views/views.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE::programs {

namespace detail {

// Cosines and sines, [positions, pairs] each, in device memory.
struct RotaryTables {
  RotaryTables(Core& core, const RotarySetting& setting, std::size_t positions, std::size_t width)
      : cosines(core.hold(Tensor::empty(core.context(), Shape{positions, width / 2}))),
        sines(core.hold(Tensor::empty(core.context(), Shape{positions, width / 2}))) {
    auto* const to_cosine = cosines.mutable_data<float>();
    auto* const to_sine = sines.mutable_data<float>();
    soma::detail::for_rotary_turns(core.context(), setting, positions, width,
                                   [&](std::size_t i, double cosine, double sine) {
                                     to_cosine[i] = static_cast<float>(cosine);
                                     to_sine[i] = static_cast<float>(sine);
                                   });
  }
  Tensor cosines, sines;
};

// Some heads whole, or some pairs of one head.
struct RotaryPart {
  std::size_t head, heads, pair, pairs;
};
template <class Call>
void for_rotary_parts(std::size_t heads, std::size_t width, const Call& call) {
  const std::size_t half = width / 2, together = (std::max)(piece / width, std::size_t{1});
  for_pieces(heads, together, [&](std::size_t head, std::size_t count) {
    for_pieces(half, (std::max)(piece / 2, std::size_t{1}),
               [&](std::size_t pair, std::size_t pairs) {
                 call(RotaryPart{head, count, pair, pairs});
               });
  });
}

}  // namespace detail

// `back`: true for the gradient.
inline void turn_rows(Core& core, const OperatorCall& call, bool back) {
  const auto& setting = call.attributes.as<RotarySetting>();
  const Tensor& input = call.inputs[0];
  if (const Tensor begins = soma::detail::input_or_none(call.inputs, 1); begins.defined())
    fail(error_id::operator_value, "rotary", "begins", begins.describe() + " on a NeuronCore",
         "no such input: only the host supports it");
  const bool ragged = input.rank() == 2;
  const std::size_t all = input.shape().columns();
  const std::size_t columns = soma::detail::rotary_columns(setting, input);
  const std::size_t width = columns / setting.heads, half = width / 2;
  const std::size_t positions = ragged ? call.sequences.longest() : input.size(input.rank() - 2);
  const detail::RotaryTables tables(core, setting, positions, width);
  const DeviceRows rows = adjacent_rows(core, input);
  const HbmView x = rows.view(), y = DeviceRows::target(call.outputs[0]);
  if (columns != all) copy_rows(core, x.columns(columns, all), y.columns(columns, all));

  // The position of each row, in order.
  std::vector<std::size_t> position(rows.rows());
  if (ragged)
    for (std::size_t i = 0; i < call.sequences.count(); ++i)
      for (std::size_t row = call.sequences.begin(i); row < call.sequences.end(i); ++row)
        position[row] = row - call.sequences.begin(i);
  else
    for (std::size_t row = 0; row < position.size(); ++row) position[row] = row % positions;

  const std::size_t partitions = row_partitions(rows.rows());
  const std::size_t most = (std::min)(columns, piece);
  const std::size_t most_pairs = (std::min)(half, piece / 2);
  Pair in(core, x.dtype(), partitions, most), out(core, y.dtype(), partitions, most);
  Pair cosines(core, DType::fp32, partitions, most_pairs),
      sines(core, DType::fp32, partitions, most_pairs);
  const Tile straight = core.sbuf.tile(DType::fp32, partitions, most),
             crossed = core.sbuf.tile(DType::fp32, partitions, most);
  for_pieces(rows.rows(), lanes, [&](std::size_t row, std::size_t count) {
    std::size_t loaded = half;  // the first pair of the tables in SBUF
    Tile cosine, sine;
    detail::for_rotary_parts(setting.heads, width, [&](const detail::RotaryPart& part) {
      const std::size_t pairs = part.pairs, heads = part.heads, size = heads * 2 * pairs;
      if (loaded != part.pair) {
        const auto at = [&](std::size_t i) { return position[row + i]; };
        cosine = cosines.next(count, pairs);
        sine = sines.next(count, pairs);
        load_rows(core, cosine, hbm(tables.cosines).columns(part.pair, part.pair + pairs), at);
        load_rows(core, sine, hbm(tables.sines).columns(part.pair, part.pair + pairs), at);
        loaded = part.pair;
      }
      const auto block = [&](const HbmView& view) {
        return view.pattern({{view.stride(0), count}, {width, heads}, {half, 2}, {1, pairs}},
                            row * view.stride(0) + part.head * width + part.pair);
      };
      const Tile a = in.next(count, size), b = out.next(count, size);
      core.dma.load(a, block(x));
      const auto turns = [&](const Tile& tile) {
        return tile.pattern({{0, heads}, {0, 2}, {1, pairs}});
      };
      const Tile s = straight.rows(0, count).columns(0, size),
                 c = crossed.rows(0, count).columns(0, size);
      core.vector.tensor_tensor(s, a, turns(cosine), Alu::multiply);
      // The halves of each head exchanged.
      const Tile exchanged = a.pattern(
          {{2 * pairs, heads}, {-static_cast<std::ptrdiff_t>(pairs), 2}, {1, pairs}}, pairs);
      core.vector.tensor_tensor(c, exchanged, turns(sine), Alu::multiply);
      const auto part_of = [&](const Tile& tile, std::size_t which) {
        return tile.pattern({{2 * pairs, heads}, {1, pairs}}, which * pairs);
      };
      core.vector.tensor_tensor(part_of(b, 0), part_of(s, 0), part_of(c, 0),
                                back ? Alu::add : Alu::subtract);
      core.vector.tensor_tensor(part_of(b, 1), part_of(s, 1), part_of(c, 1),
                                back ? Alu::subtract : Alu::add);
      core.dma.queue(store_queue).store(block(y), b);
    });
  });
}
inline void rotary(Core& core, const OperatorCall& call) { turn_rows(core, call, false); }
inline void rotary_backward(Core& core, const OperatorCall& call) { turn_rows(core, call, true); }

}  // namespace SOMA_NAMESPACE::programs

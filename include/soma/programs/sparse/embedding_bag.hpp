#pragma once
// Embedding bags on the core: rows are gathered 128 at a time, multiplied by their weights and
// added in fp32 to the rows of the result.

#include <soma/ops/sparse/embedding_bag.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/rows/rows_of_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace SOMA_NAMESPACE::programs {

namespace detail {

// sums [rows, columns] = 0.
inline void clear_rows(Core& core, const HbmView& sums) {
  const std::size_t width_most = (std::min)(sums.row_elements(), piece);
  const Tile zeros = core.sbuf.tile(DType::fp32, (std::min)(sums.rows(), lanes), width_most);
  core.vector.memset(zeros, 0);
  for_pieces(sums.rows(), lanes, [&](std::size_t row, std::size_t count) {
    for_pieces(sums.row_elements(), piece, [&](std::size_t column, std::size_t width) {
      core.dma.queue(store_queue)
          .store(sums.rows(row, row + count).columns(column, column + width),
                 zeros.rows(0, count).columns(0, width));
    });
  });
}

// A column of numbers in device memory, 128 at a time.
class FactorColumns {
 public:
  FactorColumns(Core& core, const Tensor& factors)
      : core_(core),
        view_(hbm(factors).flat().swap(0, 1)),
        tiles_(core, DType::fp32, (std::min)((std::max)(factors.elements(), std::size_t{1}), lanes),
               1) {}
  Tile next(std::size_t first, std::size_t count) {
    const Tile tile = tiles_.next(count, 1);
    core_.dma.load(tile, view_.rows(first, first + count));
    return tile;
  }

 private:
  Core& core_;
  HbmView view_;
  Pair tiles_;
};

// Row to[i] of sums += weights[i] * row from[i] of table, for all i in ascending order.
inline void scatter_rows(Core& core, const DeviceRows& table, const Tensor& from,
                         const Tensor& weights, const Tensor& to, const HbmView& sums) {
  const std::size_t count = from.elements(), columns = sums.row_elements();
  if (count == 0) return;
  NumberColumns sources(core, from), targets(core, to);
  std::optional<FactorColumns> factors;
  if (weights.defined()) factors.emplace(core, weights);
  Pair tiles(core, DType::fp32, (std::min)(count, lanes), (std::min)(columns, piece));
  for_pieces(count, lanes, [&](std::size_t begin, std::size_t rows) {
    const Tile source = sources.next(begin, rows), target = targets.next(begin, rows);
    const Tile factor = factors ? factors->next(begin, rows) : Tile();
    for_pieces(columns, piece, [&](std::size_t column, std::size_t width) {
      const Tile tile = tiles.next(rows, width);
      core.dma.gather(tile, table.view().columns(column, column + width), source);
      if (factors) core.vector.tensor_scalar(tile, tile, Alu::multiply, factor);
      core.dma.queue(store_queue)
          .scatter(sums.columns(column, column + width), tile, target, neuroncore::Scatter::add);
    });
  });
}

}  // namespace detail

inline void embedding_bag(Core& core, const OperatorCall& call) {
  Context& context = call.context;
  const Tensor ids = row_major(core, call.inputs[1]);
  Tensor weights = soma::detail::input_or_none(call.inputs, 2);
  if (weights.defined()) weights = row_major(core, weights);
  soma::detail::check_ids(call.inputs[0], HostNumbers(core, call.inputs[1]).tensor());
  const Sequences& bags = call.sequences;
  const std::size_t count = bags.count(), columns = call.inputs[0].size(1);
  const Tensor owners = Tensor::empty(context, Shape{ids.elements()}, DType::int32);
  const Tensor scales = Tensor::empty(context, Shape{count});
  const bool mean = call.attributes.as<EmbeddingBagSetting>().mode == BagMode::mean;
  for (std::size_t bag = 0; bag < count; ++bag) {
    auto* owner = owners.mutable_data<std::int32_t>();
    std::fill(owner + bags.begin(bag), owner + bags.end(bag), static_cast<std::int32_t>(bag));
    scales.mutable_data<float>()[bag] =
        mean && bags.length(bag) != 0 ? 1.0f / static_cast<float>(bags.length(bag)) : 1.0f;
  }
  // Sums are fp32 in device memory and rounded to the result's type once.
  const Tensor sums = core.hold(Tensor::empty(context, Shape{count, columns}));
  const HbmView totals = DeviceRows::target(sums), y = DeviceRows::target(call.outputs[0]);
  detail::clear_rows(core, totals);
  detail::scatter_rows(core, DeviceRows(core, call.inputs[0]), ids, weights, owners, totals);
  detail::FactorColumns factors(core, scales);
  Pair tiles(core, DType::fp32, (std::min)(count, lanes), (std::min)(columns, piece));
  for_pieces(count, lanes, [&](std::size_t row, std::size_t rows) {
    const Tile factor = factors.next(row, rows);
    for_pieces(columns, piece, [&](std::size_t column, std::size_t width) {
      const Tile tile = tiles.next(rows, width);
      core.dma.queue(store_queue)
          .load(tile, totals.rows(row, row + rows).columns(column, column + width));
      core.vector.tensor_scalar(tile, tile, Alu::multiply, factor);
      core.dma.queue(store_queue)
          .store(y.rows(row, row + rows).columns(column, column + width), tile);
    });
  });
}

inline void embedding_bag_backward(Core& core, const OperatorCall& call) {
  const Tensor &list = call.inputs[1], &dy = call.inputs[0];
  const HostNumbers starts(core, call.inputs[2]);
  soma::detail::check_bag_lists(HostNumbers(core, list).tensor(), starts.tensor(), dy.size(0));
  const HbmView sums = DeviceRows::target(call.outputs[0]);
  detail::clear_rows(core, sums);
  const std::span<const std::int64_t> bounds = starts.numbers<std::int64_t>();
  const std::size_t ids = sums.rows();
  const auto first = static_cast<std::size_t>(bounds[0]),
             last = static_cast<std::size_t>(bounds[ids]);
  const Tensor owners = Tensor::empty(call.context, Shape{last - first}, DType::int32);
  for (std::size_t id = 0; id < ids; ++id)
    std::fill(owners.mutable_data<std::int32_t>() + bounds[id] - bounds[0],
              owners.mutable_data<std::int32_t>() + bounds[id + 1] - bounds[0],
              static_cast<std::int32_t>(id));
  const Tensor weights = soma::detail::input_or_none(call.inputs, 3);
  detail::scatter_rows(core, DeviceRows(core, dy), list.slice(0, first, last),
                       weights.defined() ? weights.slice(0, first, last) : Tensor(), owners, sums);
}

}  // namespace SOMA_NAMESPACE::programs

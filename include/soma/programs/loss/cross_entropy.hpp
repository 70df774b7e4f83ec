#pragma once
// Cross entropy. The logit of the label is gathered by its address; the gradient finds the label's
// column by comparison with a row of column numbers.
//
// Labels are read by the host, as ids are (HostNumbers): it checks them and plans addresses.

#include <soma/ops/loss/cross_entropy.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/loss/element_loss.hpp>
#include <soma/programs/loss/total.hpp>
#include <soma/programs/rows/softmax.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::programs {

// The plan of a call: labels as int32, -1 for ignored rows, and the position of each label's logit
// in its block of 128 rows.
class LabelPlan {
 public:
  LabelPlan(Core& core, const CrossEntropySetting& setting, const Tensor& given,
            const DeviceRows& logits)
      : logits_(logits.view()),
        labels_(Tensor::empty(core.context(), Shape{given.elements()}, DType::int32)),
        positions_(Tensor::empty(core.context(), Shape{given.elements()}, DType::int32)) {
    const HostNumbers numbers(core, given);
    const Tensor& labels = numbers.tensor();
    counted_ = soma::detail::counted_labels(setting, labels, logits.columns());
    const std::size_t row_step = logits_.stride(0), column_step = logits_.stride(1);
    // Numbers of columns are compared as fp32; positions are 32 bits.
    constexpr std::size_t most_classes = std::size_t{1} << 24, most_reach = std::size_t{1} << 31;
    if (logits.columns() > most_classes ||
        row_partitions(logits.rows()) * row_step + logits.columns() * column_step > most_reach)
      fail(error_id::operator_value, "cross_entropy", "logits", logits_.describe(),
           "at most 2^24 classes on the accelerator, and 128 rows within 2^31 elements");
    const std::span<std::int32_t> to = labels_.mutable_span<std::int32_t>();
    planned_ = to;
    const std::span<std::int32_t> positions = positions_.mutable_span<std::int32_t>();
    for (std::size_t row = 0; row < to.size(); ++row) {
      const std::int64_t label = soma::detail::index_at(labels, row);
      const bool counts = label != setting.ignore_index;
      to[row] = counts ? static_cast<std::int32_t>(label) : -1;
      const std::size_t column = counts ? static_cast<std::size_t>(label) : 0;
      positions[row] = static_cast<std::int32_t>(row % lanes * row_step + column * column_step);
    }
  }
  std::size_t counted() const { return counted_; }
  bool all_count(std::size_t row, std::size_t rows) const {
    const std::span<const std::int32_t> labels = planned_.subspan(row, rows);
    return std::all_of(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; });
  }
  HbmView labels(std::size_t row, std::size_t rows) const {
    return column_of(hbm(labels_), row, rows);
  }
  HbmView positions(std::size_t row, std::size_t rows) const {
    return column_of(hbm(positions_), row, rows);
  }
  // The label's logit of each row of a block.
  HbmView table(std::size_t row, std::size_t rows) const {
    const std::size_t last =
        (rows - 1) * logits_.stride(0) + (logits_.row_elements() - 1) * logits_.stride(1);
    return logits_.rows(row, row + 1).columns(0, 1).with_rows(last + 1, 1);
  }

 private:
  HbmView logits_;
  Tensor labels_, positions_;
  std::span<const std::int32_t> planned_;  // the labels
  std::size_t counted_ = 0;
};

// Labels of up to 128 rows in SBUF: as floats, and 1 for rows that are not ignored.
struct LabelTiles {
  Tile whole, floats, counts;
  LabelTiles(Core& core, std::size_t partitions)
      : whole(core.sbuf.tile(DType::int32, partitions, 1)),
        floats(column_tile(core, partitions)),
        counts(core.sbuf.tile(DType::uint8, partitions, 1)) {}
  void load(Core& core, const HbmView& labels) {
    const std::size_t rows = labels.rows();
    core.dma.load(whole.rows(0, rows), labels);
    core.vector.copy(floats.rows(0, rows), whole.rows(0, rows))
        .tensor_scalar(counts.rows(0, rows), floats.rows(0, rows), Alu::greater_equal, 0);
  }
};

// With all logits relative to the row's largest logit m, and s = log sum exp(x - m):
//     loss = (1 - smoothing) (s - (x[label] - m)) + smoothing (s - mean of (x - m)).
inline void cross_entropy(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const DeviceRows logits(core, call.inputs[0]);
  const LabelPlan plan(core, setting, call.inputs[1], logits);
  const bool each = setting.reduction == LossReduction::none;
  const HbmView lse_out = DeviceRows::target(call.outputs[1]);
  const HbmView loss_out = flat_target(call.outputs[0]);
  const std::size_t columns = logits.columns(), width = piece_columns(columns);
  const float smoothing = setting.label_smoothing;
  Total total(core);
  if (columns == 0 && each) fill(core, call.outputs[0], 0);  // no row counts
  if (columns == 0) fill(core, call.outputs[1], 0);
  if (logits.rows() != 0 && columns != 0) {
    const std::size_t partitions = row_partitions(logits.rows());
    RowPieces pieces(core, logits);
    Pair results(core, DType::fp32, partitions, 3), stats(core, DType::fp32, partitions, 3);
    Scratch scratch(core, partitions, width);
    LabelTiles labels(core, partitions);
    const Tile positions = core.sbuf.tile(DType::int32, partitions, 1);
    const Tile own_logits = core.sbuf.tile(logits.dtype(), partitions, 1);
    for_pieces(logits.rows(), lanes, [&](std::size_t row, std::size_t rows) {
      pieces.start(row, rows);
      labels.load(core, plan.labels(row, rows));
      const Tile own = own_logits.rows(0, rows), position = positions.rows(0, rows);
      core.dma.load(position, plan.positions(row, rows));
      core.dma.gather(own, plan.table(row, rows), position);
      const Tile result = results.next(rows, 3), three = stats.next(rows, 3);
      const Tile loss = result.columns(0, 1), lse = result.columns(1, 3);   // in its two terms
      const Tile largest = three.columns(0, 1), sum = three.columns(1, 2);  // the first negated
      const Tile differences = three.columns(2, 3);
      negated_largest(core, pieces, columns, largest);
      for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
        exponentials_of(core, scratch.tile(0, rows, size), pieces.read(column, size), largest, sum,
                        column == 0);
      });
      core.scalar.activation(sum, sum, Function::log);
      core.scalar.activation(lse.columns(0, 1), largest, Function::copy, {.scale = -1})
          .activation(lse.columns(1, 2), sum, Function::copy);
      core.vector.tensor_tensor(loss, own, largest, Alu::add)
          .tensor_tensor(loss, sum, loss, Alu::subtract);
      if (smoothing != 0) {
        for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
          core.scalar.activation(scratch.tile(0, rows, size), pieces.read(column, size),
                                 Function::copy,
                                 {.bias = &largest,
                                  .reduce = column == 0 ? neuroncore::Reduce::reset_reduce
                                                        : neuroncore::Reduce::reduce,
                                  .reduce_result = &differences});
        });
        core.vector
            .scalar_tensor_tensor(sum, differences, Alu::multiply, -1 / static_cast<float>(columns),
                                  Alu::add, sum)
            .tensor_scalar(loss, loss, Alu::multiply, 1 - smoothing)
            .scalar_tensor_tensor(loss, sum, Alu::multiply, smoothing, Alu::add, loss);
      }
      if (!plan.all_count(row, rows)) {
        const Tile counts = labels.counts.rows(0, rows);
        core.vector.select(loss, counts, loss, 0).select(lse, counts.broadcast(0, 2), lse, 0);
      }
      core.dma.queue(store_queue).store(lse_out.rows(row, row + rows), lse);
      if (each)
        core.dma.queue(store_queue).store(column_of(loss_out, row, rows), loss);
      else
        total.add(loss);
    });
  }
  if (!each)
    total.store(call.outputs[0], 1 / soma::detail::loss_denominator(
                                         setting.reduction, setting.denominator, plan.counted()));
}

// factor (softmax - target), where the target is 1 - smoothing at the label and smoothing / columns
// everywhere.
inline void cross_entropy_backward(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const DeviceRows logits(core, call.inputs[0]);
  const LabelPlan plan(core, setting, call.inputs[1], logits);
  const Tensor dloss = row_major(core, call.inputs[3]);
  const bool each = setting.reduction == LossReduction::none;
  const HbmView dlogits = DeviceRows::target(call.outputs[0]),
                lse_in = DeviceRows(core, call.inputs[2]).view();
  const HbmView factors = flat_view(dloss);
  const std::size_t columns = logits.columns(), width = piece_columns(columns);
  const std::size_t partitions = row_partitions(logits.rows());
  const float smoothing = setting.label_smoothing, others = smoothing / static_cast<float>(columns);
  Pair in(core, logits.dtype(), partitions, width), out(core, dlogits.dtype(), partitions, width);
  Pair stats(core, DType::fp32, partitions, 5);
  Scratch scratch(core, partitions, width);
  LabelTiles labels(core, partitions);
  // 0, 1, 2 ... in every partition.
  const Tile numbers = core.sbuf.tile(DType::fp32, partitions, width);
  core.gpsimd.iota(numbers, {.loops = {{1, width}}});
  Tile factor;
  if (!each)
    factor = repeated_number(
        core, dloss, partitions,
        1 / soma::detail::loss_denominator(setting.reduction, setting.denominator, plan.counted()));
  for_pieces(logits.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    labels.load(core, plan.labels(row, rows));
    const bool all_count = plan.all_count(row, rows);
    const Tile five = stats.next(rows, 5), label = labels.floats.rows(0, rows);
    const Tile lse = five.columns(0, 2), bias = five.columns(2, 3);
    const Tile largest = lse.columns(0, 1), log_sum = lse.columns(1, 2);  // negated
    const Tile in_piece = five.columns(3, 4);  // the label less the first column
    core.dma.load(lse, lse_in.rows(row, row + rows));
    core.scalar.activation(lse, lse, Function::copy, {.scale = -1});
    const Tile scale = each ? five.columns(4, 5) : factor.rows(0, rows);
    if (each) core.dma.load(scale, column_of(factors, row, rows));
    core.vector.tensor_scalar(bias, scale, Alu::multiply, -others);
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile source = in.next(rows, size), result = out.next(rows, size);
      const Tile wide = scratch.tile(0, rows, size), target = scratch.tile(1, rows, size);
      core.dma.load(source, logits.block(row, rows, column, size));
      core.scalar.activation(wide, source, Function::copy, {.bias = &largest})
          .activation(wide, wide, Function::exp, {.bias = &log_sum});
      core.vector.tensor_scalar(in_piece, label, Alu::subtract, static_cast<float>(column))
          .tensor_scalar(target, numbers.rows(0, rows).columns(0, size), Alu::equal, in_piece)
          .scalar_tensor_tensor(wide, target, Alu::multiply, smoothing - 1, Alu::add, wide);
      core.scalar.activation(all_count ? result : wide, wide, Function::copy,
                             {.scale_tile = &scale, .bias = smoothing == 0 ? nullptr : &bias});
      if (!all_count)
        core.vector.select(result, labels.counts.rows(0, rows).broadcast(0, size), wide, 0);
      core.dma.queue(store_queue)
          .store(dlogits.rows(row, row + rows).columns(column, column + size), result);
    });
  });
}

}  // namespace SOMA_NAMESPACE::programs

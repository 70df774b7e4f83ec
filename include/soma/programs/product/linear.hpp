#pragma once
// linear: a product. Bias, activation, dropout and residual are applied to each block when it is
// moved out of PSUM.

#include <soma/ops/product/linear.hpp>
#include <soma/programs/element/unary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/product/matmul.hpp>
#include <soma/programs/product/product.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

inline void linear(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<LinearSetting>();
  check_accumulation("linear", setting.accumulation);
  const DeviceRows x(core, call.inputs[0]), weight(core, call.inputs[1]);
  const std::size_t m = x.rows(), n = weight.rows();
  const Tensor bias = soma::detail::input_or_none(call.inputs, 2);
  const Tensor residual = soma::detail::input_or_none(call.inputs, 3);
  const bool activated = setting.activation != Activation::none;
  const HbmView y = DeviceRows::target(call.outputs[0]);
  std::optional<HbmView> pre_activation;
  if (activated) pre_activation = DeviceRows::target(call.outputs[1]);
  std::optional<DeviceRows> more;
  if (residual.defined()) more.emplace(core, residual);
  const DropoutArgs dropout = soma::detail::dropout_args(setting.dropout, call.sequences, m, n);

  const std::size_t rows = (std::min)(m, lanes), columns = (std::min)(n, bank_columns);
  const DType type = call.outputs[0].dtype();
  Pair work(core, DType::fp32, rows, columns), out(core, type, rows, columns);
  std::optional<Pair> saved, residuals;
  if (activated) saved.emplace(core, type, rows, columns);
  if (more) residuals.emplace(core, more->dtype(), rows, columns);
  Scratch scratch(core, rows, columns);
  Tile biases;  // in every partition, for the columns from bias_begin on
  std::size_t bias_begin = n;
  if (bias.defined())
    biases = core.sbuf.tile(DType::fp32, rows, (std::min)(n, ProductCut::most_columns));

  const Quantization x_scale{.scale = setting.x_scale}, weight_scale{.scale = setting.weight_scale};
  const InnerOperand a =
      detail::matmul_operand(x.view(), false, x_scale, weight.dtype(), weight_scale);
  const InnerOperand b =
      detail::matmul_operand(weight.view(), false, weight_scale, x.dtype(), x_scale);
  const auto finish = [&](const Tile& sums, std::size_t row, std::size_t column) {
    const std::size_t height = sums.partitions(), width = sums.free_size();
    const auto block = [&](const HbmView& view) {
      return view.rows(row, row + height).columns(column, column + width);
    };
    // Each step writes a tile of fp32, the last one the result.
    const Tile result = out.next(height, width);
    int steps = (bias.defined() ? 1 : 0) + (activated ? 1 : 0) + (dropout.threshold != 0 ? 2 : 0) +
                (more && dropout.threshold == 0 ? 1 : 0);
    Tile at = sums;
    const auto next = [&] { return --steps == 0 ? result : work.next(height, width); };
    if (steps == 0) core.scalar.copy(result, at);
    if (bias.defined()) {
      const std::size_t begin = column / ProductCut::most_columns * ProductCut::most_columns;
      if (bias_begin != begin) {
        const std::size_t count = (std::min)(ProductCut::most_columns, n - begin);
        core.dma.load(biases.columns(0, count),
                      hbm(bias).columns(begin, begin + count).broadcast_rows(rows));
        bias_begin = begin;
      }
      const Tile to = next();
      core.vector.tensor_tensor(
          to, at, biases.rows(0, height).columns(column - begin, column - begin + width), Alu::add);
      at = to;
    }
    if (activated) {
      const Tile rounded = saved->next(height, width);
      core.vector.copy(rounded, at);
      core.dma.queue(store_queue).store(block(*pre_activation), rounded);
      const Tile to = next();
      unary_tile(core, unary_of(setting.activation), to, at, scratch);
      at = to;
    }
    Tile residual_tile;
    if (more) {
      residual_tile = residuals->next(height, width);
      core.dma.load(residual_tile, block(more->view()));
    }
    if (dropout.threshold != 0) {
      const Tile kept = next();
      core.vector.dropout(kept, at, dropout.threshold, position_of(dropout, row, column));
      const Tile to = next();
      if (more)
        core.vector.scalar_tensor_tensor(to, kept, Alu::multiply, dropout.keep_scale, Alu::add,
                                         residual_tile);
      else
        core.vector.tensor_scalar(to, kept, Alu::multiply, dropout.keep_scale);
    } else if (more) {
      core.vector.tensor_tensor(next(), at, residual_tile, Alu::add);
    }
    core.dma.queue(store_queue).store(block(y), result);
  };
  product(core, a, b, finish, setting.microscaled);
}

}  // namespace SOMA_NAMESPACE::programs

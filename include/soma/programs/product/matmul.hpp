#pragma once
// Matrix products. Transposed operands need no code of their own: they are loaded in another order.

#include <soma/ops/product/matmul.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/product/product.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

namespace detail {

// An operand of matmul for product(), in tiles whose type pairs with the other operand's.
inline InnerOperand matmul_operand(const HbmView& view, bool inner_rows,
                                   const Quantization& quantization, DType other,
                                   const Quantization& others) {
  InnerOperand operand{.view = view, .inner_rows = inner_rows, .quantization = quantization};
  // A scaled number has more digits than its storage type.
  const auto inner_type = [](DType dtype, const Quantization& how) {
    return how.scale != 1 || how.zero_point != 0 ? DType::fp32 : dtype;
  };
  operand.tile_type =
      operand_type(inner_type(view.dtype(), quantization), inner_type(other, others));
  return operand;
}

}  // namespace detail

inline void matmul(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  check_accumulation("matmul", setting.accumulation);
  // The core adds products of integers in fp32, as all other products.
  soma::detail::check_output("matmul on a NeuronCore", call.outputs[0].dtype());
  const auto sizes = soma::detail::matmul_sizes(call.inputs, setting);
  const bool stacks = call.inputs[1].rank() > 2;
  // A stack of matrices, one after the other.
  const auto stack = [&](const Tensor& tensor) {
    if (!stacks) return tensor;
    const std::size_t rank = tensor.rank();
    return row_major(core, tensor)
        .reshape(Shape{sizes.batch, tensor.size(rank - 2), tensor.size(rank - 1)});
  };
  const Tensor all_a = stack(call.inputs[0]), all_b = stack(call.inputs[1]);
  const Tensor y = call.outputs[0].reshape(Shape{sizes.batch * sizes.m, sizes.n});
  const HbmView target = hbm_target(y);
  for (std::size_t i = 0; i < sizes.batch; ++i) {
    const Core::Scope scope(core);
    const DeviceRows a(core, stacks ? all_a.select(0, i) : all_a);
    const DeviceRows b(core, stacks ? all_b.select(0, i) : all_b);
    Pair out(core, y.dtype(), (std::min)(sizes.m, lanes), (std::min)(sizes.n, bank_columns));
    product(
        core,
        detail::matmul_operand(a.view(), setting.transpose_a, setting.a, b.dtype(), setting.b),
        detail::matmul_operand(b.view(), !setting.transpose_b, setting.b, a.dtype(), setting.a),
        [&](const Tile& sums, std::size_t row, std::size_t column) {
          const Tile rounded = out.next(sums.partitions(), sums.free_size());
          core.scalar.copy(rounded, sums);
          const std::size_t first = i * sizes.m + row;
          core.dma.queue(store_queue)
              .store(target.rows(first, first + sums.partitions())
                         .columns(column, column + sums.free_size()),
                     rounded);
        },
        setting.microscaled);
  }
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// Matrix products. Leading dimensions of a are rows: [..., K] times [K, N] is [..., N]. Two tensors
// of the same rank above 2 are stacks of matrices. Sums of 8-bit integers are exact
// (integer_product.hpp).

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/batch.hpp>
#include <soma/ops/product/integer_product.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

struct MatmulSizes {
  std::size_t batch = 1, m = 0, n = 0, k = 0;
  Shape shape;
};

inline MatmulSizes matmul_sizes(std::span<const Tensor> inputs, const MatmulSetting& setting) {
  const Tensor &a = inputs[0], &b = inputs[1];
  check_min_rank("matmul", "a", a, 2);
  check_min_rank("matmul", "b", b, 2);
  const std::size_t rank = b.rank();
  MatmulSizes sizes;
  if (rank > 2) {
    bool stacks = a.rank() == rank;
    for (std::size_t i = 0; stacks && i + 2 < rank; ++i) {
      stacks = a.size(i) == b.size(i);
      sizes.batch *= a.size(i);
    }
    if (!stacks)
      fail(error_id::tensor_shape, "matmul", "b", b.describe(),
           "one matrix, or the number of matrices of a, " + a.describe());
  }
  const std::size_t rows = rank > 2 ? a.size(a.rank() - 2) : a.shape().rows();
  const std::size_t columns = a.shape().columns();
  sizes.m = setting.transpose_a ? columns : rows;
  sizes.k = setting.transpose_a ? rows : columns;
  sizes.n = setting.transpose_b ? b.size(rank - 2) : b.size(rank - 1);
  const std::size_t inner = setting.transpose_b ? b.size(rank - 1) : b.size(rank - 2);
  if (inner != sizes.k)
    fail(error_id::tensor_shape, "matmul", "b", b.describe(),
         "inner size " + std::to_string(sizes.k) + ", that of a, " + a.describe());
  if (rank > 2)
    sizes.shape = a.shape().with(rank - 2, sizes.m).with(rank - 1, sizes.n);
  else if (setting.transpose_a)
    sizes.shape = Shape{sizes.m, sizes.n};
  else
    sizes.shape = a.shape().with(a.rank() - 1, sizes.n);
  return sizes;
}

inline void matmul_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  check_accumulation("matmul", setting.accumulation);
  const DType a = call.inputs[0].dtype();
  const DType dtype = setting.output.value_or(is_floating(a) ? a : DType::fp32);
  if (!is_floating(dtype)) check_integer_output(call.inputs, setting);
  call.outputs[0] = {matmul_sizes(call.inputs, setting).shape, dtype};
}

inline double matmul_operations(const OperatorCall& call) {
  const MatmulSizes sizes = matmul_sizes(call.inputs, call.attributes.as<MatmulSetting>());
  return 2.0 * static_cast<double>(call.outputs[0].elements()) * static_cast<double>(sizes.k);
}

inline void matmul_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  const MatmulSizes sizes = matmul_sizes(call.inputs, setting);
  const bool stacks = call.inputs[1].rank() > 2;
  const auto rows = [&](const Tensor& tensor) {
    return rows_of(call.context, stacks ? contiguous(call.context, tensor) : tensor);
  };
  const TensorRows a = rows(call.inputs[0]), b = rows(call.inputs[1]);
  const RowSegments segments(setting.over_rows ? call.sequences : Sequences(), sizes.k);
  GemmArgs args{.m = sizes.m, .n = sizes.n, .k = sizes.k};
  args.a = operand(a);
  args.b = operand(b);
  args.c = target(call.outputs[0]);
  const std::size_t a_step = sizes.m * sizes.k * size_of(a.dtype());
  const std::size_t b_step = sizes.k * sizes.n * size_of(b.dtype());
  const std::size_t c_step = sizes.m * sizes.n * size_of(call.outputs[0].dtype());
  args.a.scale = setting.a.scale;
  args.a.zero_point = setting.a.zero_point;
  args.b.scale = setting.b.scale;
  args.b.zero_point = setting.b.zero_point;
  if (setting.transpose_a) args.a = transposed(args.a);
  if (setting.transpose_b) args.b = transposed(args.b);
  if (setting.over_rows) {
    // The gradient of a weight is read once all gradients are complete. One that fits in the
    // second-level cache may still be there then.
    constexpr std::size_t cached_bytes = std::size_t{2} << 20;
    args.segments = segments.get();
    args.stream_c = c_step > cached_bytes;
  }
  args.accumulation = setting.accumulation;
  args.factor = setting.factor;
  const bool integers = has_8bit_integers(a.tensor()) && has_8bit_integers(b.tensor()) &&
                        setting.accumulation.plain();
  for (std::size_t i = 0; i < sizes.batch; ++i) {
    if (integers)
      multiply_integers(call.context, args);
    else
      multiply(call.context, args);
    args.a.data = static_cast<const std::byte*>(args.a.data) + a_step;
    args.b.data = static_cast<const std::byte*>(args.b.data) + b_step;
    args.c.data = static_cast<std::byte*>(args.c.data) + c_step;
  }
}

// The rows of the result are those of a, its columns those of b. A batch that the product sums over
// is gone.
inline void matmul_batch(const BatchCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  const std::size_t rank = call.outputs[0].rank(), first = call.first();
  const Sequences& batch = call.batches[first];
  const bool turned = first == 0 ? setting.transpose_a : setting.transpose_b;
  const std::size_t own_rank = call.inputs[first].rank();
  BatchPlace place = batch.place();
  const bool last = place.dimension + 1 == own_rank;
  const bool in_stack = call.inputs[1].rank() > 2 && place.dimension + 2 < own_rank;
  if (!in_stack) {
    const bool gone = first == 0 ? last != turned : last == turned;
    if (gone) return;
    if (first == 1) place.dimension = rank - 1;
    if (first == 0 && turned) place.dimension = rank - 2;
  }
  call.results[0] = batch.at(place);
}

inline void matmul_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator matmul{.name = "matmul",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .keeps_inputs = 3,
                                 .keeps_for = &detail::other_operand,
                                 .wants_batches = true,
                                 .batch = &detail::matmul_batch,
                                 .shape = &detail::matmul_shape,
                                 .host = &detail::matmul_host,
                                 .gradient = &detail::matmul_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true,
                                 .operations = &detail::matmul_operations};

}  // namespace ops

// y = op(a) op(b): da = dy op(b)^T and db = op(a)^T dy, each transposed as its operand was, and
// times its operand's scale. Sums over the rows of a follow the batch in them; so do sums over a
// batch in the columns of op(a)^T or of b.
inline void detail::matmul_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  const bool ta = setting.transpose_a, tb = setting.transpose_b, stacks = call.inputs[1].rank() > 2;
  const auto in_order = [&](const Tensor& tensor, const Sequences& batch) {
    return stacks ? tensor : rows_in_batch_order(call.context, tensor, batch);
  };
  const auto give = [&](std::size_t input, const Tensor& x, const Tensor& z, MatmulSetting how,
                        const Sequences& batch) {
    how.output = call.sum_type(input);
    how.accumulation = setting.accumulation;
    call.input_gradients[input].values =
        run(call.context, ops::matmul, how, {x, z}, batch)[0].reshape(call.inputs[input].shape());
  };
  // The batch of input i, if it lies in that dimension, or in a dimension before the last.
  const auto batch_of = [&](std::size_t i, bool in_last) {
    if (stacks || call.batches.empty() || !call.batches[i].defined()) return Sequences();
    const BatchPlace& place = call.batches[i].place();
    const bool last = place.dimension + 1 == call.inputs[i].rank();
    const bool one_run = !in_last || place.outer == 1;
    return last == in_last && one_run ? call.batches[i] : Sequences();
  };
  const Tensor b = call.inputs[1];
  const Quantization scaled_a{.scale = setting.a.scale}, scaled_b{.scale = setting.b.scale};
  if (call.wanted[0]) {
    const Tensor dy = in_order(call.output_gradients[0], {});
    const Sequences batch = batch_of(1, !tb);
    const bool over = batch.defined() && (!tb || batch.place().outer == 1);
    if (!ta)
      give(0, dy, b, {.transpose_b = !tb, .over_rows = over, .a = scaled_a, .b = setting.b}, batch);
    else
      give(0, b, dy,
           {.transpose_a = tb,
            .transpose_b = true,
            .over_rows = over,
            .a = setting.b,
            .b = scaled_a},
           batch);
  }
  if (!call.wanted[1]) return;
  const Sequences batch = batch_of(0, ta);
  const Sequences rows = ta ? Sequences() : batch;
  const Tensor a = in_order(call.inputs[0], rows), dy = in_order(call.output_gradients[0], rows);
  const bool over_rows = !stacks && (!ta || batch.defined());
  if (!tb)
    give(1, a, dy, {.transpose_a = !ta, .over_rows = over_rows, .a = setting.a, .b = scaled_b},
         batch);
  else
    give(1, dy, a,
         {.transpose_a = true,
          .transpose_b = ta,
          .over_rows = over_rows,
          .a = scaled_b,
          .b = setting.a},
         batch);
}

}  // namespace SOMA_NAMESPACE

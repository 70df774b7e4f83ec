#pragma once
// Matrix products. Leading dimensions of a are rows: [..., K] times [K, N] is [..., N]. Two tensors
// of the same rank above 2 are stacks of matrices. Sums of 8-bit integers are exact
// (integer_product.hpp).

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/product/integer_product.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
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
  const RowSegments segments(call.sequences, sizes.k);
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

inline void matmul_gradient(const GradientCall& call);

inline std::vector<ReferenceTensor> matmul_reference(const Sample& sample,
                                                     const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<MatmulSetting>();
  const ReferenceTensor &a = inputs[0], &b = inputs[1];
  const std::size_t rank = b.shape.rank();
  std::size_t batch = 1;
  for (std::size_t i = 0; i + 2 < rank; ++i) batch *= b.shape[i];
  const std::size_t rows = a.shape.rows() / batch, columns = a.shape.columns();
  const std::size_t m = setting.transpose_a ? columns : rows;
  const std::size_t k = setting.transpose_a ? rows : columns;
  const std::size_t n =
      k == 0 ? b.shape[rank - (setting.transpose_b ? 2 : 1)] : b.shape.elements() / batch / k;
  ReferenceTensor y;
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p) {
          const std::size_t x = setting.transpose_a ? p * m + i : i * k + p;
          const std::size_t z = setting.transpose_b ? j * k + p : p * n + j;
          sum += (a.values[s * m * k + x] - setting.a.zero_point) *
                 static_cast<double>(setting.a.scale) *
                 ((b.values[s * k * n + z] - setting.b.zero_point) *
                  static_cast<double>(setting.b.scale));
        }
        y.values.push_back(sum);
      }
  if (rank > 2)
    y.shape = a.shape.with(rank - 2, m).with(rank - 1, n);
  else
    y.shape = setting.transpose_a ? Shape{m, n} : a.shape.with(a.shape.rank() - 1, n);
  return {y};
}

inline OperatorSamples matmul_samples() {
  OperatorSamples result;
  result.reference = &matmul_reference;
  const auto add = [&](const Shape& a, const Shape& b, const MatmulSetting& setting,
                       std::vector<std::size_t> lengths = {}, DType dtype = DType::fp32) {
    const bool integer = !is_floating(dtype);
    const double low = dtype == DType::uint8 ? 0 : integer ? -20 : -1, high = integer ? 20 : 1;
    const double inner = static_cast<double>(a.elements() + b.elements());
    result.samples.push_back(
        {.name = to_string(a) + " " + to_string(b) + " " + std::string(to_string(dtype)),
         .inputs = {{.shape = a, .dtype = dtype, .low = low, .high = high},
                    {.shape = b, .dtype = dtype, .low = low, .high = high}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = inner * (integer ? 400 : 1) * 0x1p-24,
         .gradient_error = inner * 0x1p-24});
  };
  add({5, 7}, {7, 3}, {});
  add({37, 19}, {19, 65}, {});
  add({2, 3, 5}, {5, 4}, {});
  add({2, 3, 5}, {2, 5, 4}, {});
  add({4, 0}, {0, 3}, {});
  add({0, 4}, {4, 3}, {});
  add({13, 5}, {7, 5}, {.transpose_b = true});
  add({13, 5}, {13, 7}, {.transpose_a = true, .over_rows = true}, {3, 0, 9, 1});
  add({13, 5}, {13, 7}, {.transpose_a = true});
  add({2, 5, 3}, {2, 4, 5}, {.transpose_a = true, .transpose_b = true});
  for (const bool turned : {false, true})
    add({6, 6}, {6, 6}, {.transpose_a = turned, .transpose_b = turned, .a = {0.5f}, .b = {3}});
  add({6, 10}, {10, 5}, {.a = {0.5f, 3}, .b = {0.25f, -2}}, {}, DType::int8);
  add({6, 10}, {10, 5}, {.a = {0.5f, 3}, .b = {0.25f, 7}}, {}, DType::uint8);
  add({3, 1030}, {1030, 2}, {.b = {1, 5}}, {}, DType::int8);
  add({6, 10}, {10, 5}, {.b = {1, 5}, .output = DType::int32}, {}, DType::int8);
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator matmul{.name = "matmul",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .keeps_inputs = 3,
                                 .shape = &detail::matmul_shape,
                                 .host = &detail::matmul_host,
                                 .gradient = &detail::matmul_gradient,
                                 .samples = SOMA_BUILT_IN_SAMPLES(detail::matmul_samples),
                                 .operations = &detail::matmul_operations};

}  // namespace ops

// y = op(a) op(b): da = dy op(b)^T and db = op(a)^T dy, each transposed as its operand was, and
// times its operand's scale.
inline void detail::matmul_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<MatmulSetting>();
  const bool ta = setting.transpose_a, tb = setting.transpose_b, stacks = call.inputs[1].rank() > 2;
  const auto rows = [&](const Tensor& tensor) {
    return stacks ? tensor : as_rows(call.context, tensor);
  };
  const Tensor a = rows(call.inputs[0]), b = call.inputs[1], dy = rows(call.output_gradients[0]);
  const auto give = [&](std::size_t input, const Tensor& x, const Tensor& z, MatmulSetting how) {
    how.accumulation = setting.accumulation;
    call.input_gradients[input].values =
        run(call.context, ops::matmul, how, {x, z}, call.sequences)[0].reshape(
            call.inputs[input].shape());
  };
  const Quantization scaled_a{.scale = setting.a.scale}, scaled_b{.scale = setting.b.scale};
  if (call.wanted[0] && !ta) give(0, dy, b, {.transpose_b = !tb, .a = scaled_a, .b = setting.b});
  if (call.wanted[0] && ta)
    give(0, b, dy, {.transpose_a = tb, .transpose_b = true, .a = setting.b, .b = scaled_a});
  // Sums over the rows of a follow its shards.
  const bool over_rows = !ta && !stacks;
  if (call.wanted[1] && !tb)
    give(1, a, dy, {.transpose_a = !ta, .over_rows = over_rows, .a = setting.a, .b = scaled_b});
  if (call.wanted[1] && tb)
    give(1, dy, a,
         {.transpose_a = true,
          .transpose_b = ta,
          .over_rows = over_rows,
          .a = scaled_b,
          .b = setting.a});
}

}  // namespace SOMA_NAMESPACE

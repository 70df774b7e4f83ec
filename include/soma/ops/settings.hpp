#pragma once
// The settings of the built-in operators: what a call gives beside tensors.

#include <soma/kernels/element/args.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace soma {

// Which elements of a site are dropped.
struct DropoutSetting {
  float probability = 0;  // 0 to below 1
  Draw draw{};            // seed, stream and step; the index is the element's own
};

struct LinearSetting {
  Activation activation = Activation::none;
  DropoutSetting dropout{};
  float x_scale = 1, weight_scale = 1;  // stored elements stand for so many times themselves
  std::optional<DType> output{};        // of the result; none: x's
  Accumulation accumulation{};          // of the products forward and backward
};

struct LinearFormats;  // ops/product_formats.hpp

// A linear layer whose operands are converted on their way in.
struct QuantizedLinearSetting {
  Activation activation = Activation::none;
  DropoutSetting dropout{};
  LinearFormats* formats = nullptr;  // of the layer, which outlives the tape's recording
  std::uint32_t step = 0;            // of stochastic rounding
  bool training = false;             // amax is remembered
  bool record = false;               // and operands for the gradient
};

// A stored value q of an int8 or uint8 operand stands for (q - zero_point) * scale, one of a
// floating type for q * scale.
struct Quantization {
  float scale = 1;
  std::int32_t zero_point = 0;
};

struct MatmulSetting {
  bool transpose_a = false, transpose_b = false;  // a is [..., K, M], b is [N, K]
  // The sum runs over the rows of a batch: it follows their shards. Weight gradients.
  bool over_rows = false;
  Quantization a{}, b{};
  // Of the result; none: a's, or fp32 for integers. Sums of 8-bit integers are exact, and int32 or
  // int64 keeps them so: without scales, on the host.
  std::optional<DType> output{};
  // Where there is a place: a factor that scales give the whole product (see GemmArgs) is stored
  // there and not applied. It holds 1 before.
  float* factor = nullptr;
  Accumulation accumulation{};  // of the gradient's products too
};

struct AttentionSetting {
  std::size_t heads = 1;
  DropoutSetting dropout{};  // of the probabilities
  // The first row of each sequence is its only query: queries, which are apart, and the result have
  // a row for each sequence.
  bool first_rows = false;
  bool causal = false;  // row i of a sequence sees rows 0 to i alone
};

struct EmbeddingSetting {
  bool dense_gradient = false;  // of all rows, mostly zeros
};

struct NormSetting {
  float epsilon = 1e-5f;
  bool rms = false;
};

struct SoftmaxSetting {
  bool logarithm = false;
};

struct ReduceSetting {
  std::uint32_t dimensions = ~std::uint32_t{0};  // bit i: dimension i is summed; all by default
  bool mean = false;
};

enum class LossReduction : std::uint8_t { mean, sum, none };

struct CrossEntropySetting {
  LossReduction reduction = LossReduction::mean;  // mean: over the rows that count
  float label_smoothing = 0;                      // 0 to 1
  std::int64_t ignore_index = -100;               // rows with this label do not count
  // What a mean divides by; 0: the rows of this call that count. Parts of a larger batch are given
  // the whole batch's number.
  double denominator = 0;
};

struct ElementLossSetting {
  ElementLoss loss = ElementLoss::squared_error;
  LossReduction reduction = LossReduction::mean;
  // What a mean divides by; 0: the elements of this call.
  double denominator = 0;
  float parameter = 1;  // of losses that have one (kernels/loss/args.hpp)
};

struct ConvolutionSetting {
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_height = 0, pad_width = 0;  // zeros on each side
};

struct MaxPoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
};

struct ReshapeSetting {
  Shape shape;
};

struct TransposeSetting {
  std::size_t a = 0, b = 1;
};

struct SliceSetting {
  std::size_t dimension = 0, begin = 0, end = to_end, step = 1;
};

struct CastSetting {
  DType dtype = DType::fp32;
  Rounding rounding{};
  Draw draw{};  // of stochastic rounding: element i, row-major, draws at draw.index + i
};

// Numbers of a narrow format with their scales, as an operand of a matrix product
// (ops/product/quantize.hpp).
struct QuantizeSetting {
  Quantizer quantizer{};
  // The sum runs down the columns: groups of a scale lie along the rows, and begin anew at each
  // shard.
  bool along_rows = false;
  // x is a parameter: stochastic rounding draws at parameter_index(row, column), else at the
  // token_index of its sequences.
  bool parameter = false;
  float scale = 1;  // ScalePolicy::delayed
  Draw draw{};      // of stochastic rounding; the index is the element's own
};

// Optimizer steps. Stochastic rounding of a stored number draws at parameter_index(row, column) of
// the parameter as a matrix, on streams stream, + 1 and + 2 for the weight and its states.
struct SgdSetting {
  float rate = 0, momentum = 0, dampening = 0, weight_decay = 0, gradient_factor = 1;
  bool nesterov = false, first_step = false;
  std::size_t first_row = 0;  // of the parameter, where the tensors are some rows of it
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};

struct AdamSetting {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float decay_factor = 1, step_size = 0, inverse_root_correction2 = 1, gradient_factor = 1;
  float coupled_decay = 0;    // this times the weight is added to the gradient: Adam
  std::size_t first_row = 0;  // of the parameter, where the tensors are some rows of it
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};

struct LambSetting {
  float rate = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float inverse_correction1 = 1, inverse_root_correction2 = 1, gradient_factor = 1;
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};

}  // namespace soma

#pragma once
// The settings of the built-in operators: the arguments of a call beside tensors. Each number has
// its range in the function fields() of its struct; run() refuses others. Scales that are computed
// from tensors may have any value: what was not finite in the tensors shows in the result.

#include <soma/kernels/element/args.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/operand.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/ops/fields.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace SOMA_NAMESPACE {

// The elements of a site that are dropped.
struct DropoutSetting {
  float probability = 0;  // 0 to below 1
  Draw draw{};            // seed, stream and step; the index is the element's own
};
void fields(FieldVisitor& visitor, DropoutSetting& setting);

class PackedWeights;  // ops/product/packed_weights.hpp

struct LinearSetting {
  Activation activation = Activation::none;
  DropoutSetting dropout{};
  float x_scale = 1, weight_scale = 1;  // the values of stored elements are multiplied by these
  std::optional<DType> output{};        // the result's type; none: the type of x
  bool microscaled = false;             // as MatmulSetting::microscaled
  Accumulation accumulation{};          // for the products forward and backward
  PackedWeights* packed = nullptr;      // the weight's panels are taken from there
};
void fields(FieldVisitor& visitor, LinearSetting& setting);

struct LinearFormats;  // ops/product_formats.hpp

// A linear layer whose operands are converted on input.
struct QuantizedLinearSetting {
  Activation activation = Activation::none;
  DropoutSetting dropout{};
  LinearFormats* formats = nullptr;  // owned by the layer, which outlives the tape's recording
  std::uint32_t step = 0;            // for stochastic rounding
  bool training = false;             // amax is remembered
  bool record = false;               // and operands for the gradient
};
void fields(FieldVisitor& visitor, QuantizedLinearSetting& setting);

// A stored value q of an int8 or uint8 operand stands for (q - zero_point) * scale; a stored value
// q of a floating type stands for q * scale.
struct Quantization {
  float scale = 1;
  std::int32_t zero_point = 0;
};
void fields(FieldVisitor& visitor, Quantization& setting);

struct MatmulSetting {
  bool transpose_a = false, transpose_b = false;  // a is [..., K, M], b is [N, K]
  // The sum runs over the rows of a batch and follows its shards: for weight gradients.
  bool over_rows = false;
  // Both operands are numbers of fp8_e4m3fn with the accelerator's scales (ScaleRule::trn3) of
  // groups of 32 along the sum, from its beginning on: a core may multiply codes and scales.
  bool microscaled = false;
  Quantization a{}, b{};
  // The type of the result; not set: a's type, or fp32 for integers. Sums of 8-bit integers are
  // exact; int32 or int64 results stay exact, without scales, on the host.
  std::optional<DType> output{};
  // If not nullptr: a factor that scales give the whole product (see GemmArgs) is stored there and
  // not applied. It must hold 1 before.
  float* factor = nullptr;
  Accumulation accumulation{};  // also for the gradient's products
};
void fields(FieldVisitor& visitor, MatmulSetting& setting);

struct AttentionSetting {
  std::size_t heads = 1;
  DropoutSetting dropout{};  // for the probabilities
  // The first row of each sequence is its only query: the separate queries and the result have a
  // row for each sequence.
  bool first_rows = false;
  // Row i of a sequence sees rows 0 to i alone; other rows as queries are its last ones.
  bool causal = false;
  // Grouped queries (arXiv 2305.13245): this many heads of keys and values, each of which serves
  // heads / key_value_heads neighbouring heads of queries. 0: as many as heads.
  std::size_t key_value_heads = 0;
  std::size_t head_width = 0;  // columns of a head, checked where it is given; 0: as qkv is cut
};
void fields(FieldVisitor& visitor, AttentionSetting& setting);

struct EmbeddingSetting {
  bool dense_gradient = false;  // true: the gradient has all rows, mostly zeros
  std::int64_t padding = -1;    // the row that has no gradient; -1: none
};
void fields(FieldVisitor& visitor, EmbeddingSetting& setting);

struct NormSetting {
  float epsilon = 1e-5f;
  bool rms = false;  // true: RMS norm; false: layer norm
};
void fields(FieldVisitor& visitor, NormSetting& setting);

struct SoftmaxSetting {
  bool logarithm = false;
};
void fields(FieldVisitor& visitor, SoftmaxSetting& setting);

struct ReduceSetting {
  std::uint32_t dimensions = ~std::uint32_t{0};  // bit i: dimension i is summed; all by default
  bool mean = false;
};
void fields(FieldVisitor& visitor, ReduceSetting& setting);

enum class LossReduction : std::uint8_t { mean, sum, none };

struct CrossEntropySetting {
  LossReduction reduction = LossReduction::mean;  // mean: over the rows that count
  float label_smoothing = 0;                      // 0 to 1
  std::int64_t ignore_index = -100;               // rows with this label do not count
  // The divisor of a mean; 0: the number of this call's rows that count. Parts of a larger batch
  // get the whole batch's number.
  double denominator = 0;
};
void fields(FieldVisitor& visitor, CrossEntropySetting& setting);

struct ElementLossSetting {
  ElementLoss loss = ElementLoss::squared_error;
  LossReduction reduction = LossReduction::mean;
  // The divisor of a mean; 0: the number of this call's elements.
  double denominator = 0;
  float parameter = 1;  // for losses that have a parameter (kernels/loss/args.hpp)
};
void fields(FieldVisitor& visitor, ElementLossSetting& setting);

inline constexpr std::uint32_t as_before = 0xFFFFFFFF;

// A pool has strides and padding on both sides alone.
struct ConvolutionSetting {
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_height = 0, pad_width = 0;  // zeros before the image
  // Zeros behind the image; as_before: as many as before it.
  std::uint32_t pad_height_behind = as_before, pad_width_behind = as_before;
  std::uint32_t dilation_height = 1, dilation_width = 1;  // from a pixel of the window to the next
  // The channels of x and of the result are in so many groups, and a result reads its own group.
  std::uint32_t groups = 1;
};
void fields(FieldVisitor& visitor, ConvolutionSetting& setting);

struct MaxPoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
};
void fields(FieldVisitor& visitor, MaxPoolSetting& setting);

struct ReshapeSetting {
  Shape shape;
};
void fields(FieldVisitor& visitor, ReshapeSetting& setting);

struct TransposeSetting {
  std::size_t a = 0, b = 1;
};
void fields(FieldVisitor& visitor, TransposeSetting& setting);

struct SliceSetting {
  std::size_t dimension = 0, begin = 0, end = to_end, step = 1;
};
void fields(FieldVisitor& visitor, SliceSetting& setting);

struct CastSetting {
  DType dtype = DType::fp32;
  Rounding rounding{};
  Draw draw{};  // for stochastic rounding: element i, row-major, draws at draw.index + i
};
void fields(FieldVisitor& visitor, CastSetting& setting);

// Numbers of a narrow format with their scales, as an operand of a matrix product
// (ops/product/quantize.hpp).
struct QuantizeSetting {
  Quantizer quantizer{};
  // The sum runs down the columns: groups of a scale lie along the rows, and start anew at each
  // shard.
  bool along_rows = false;
  // x is a parameter: stochastic rounding then draws at parameter_index(row, column), otherwise at
  // the token_index of its sequences.
  bool parameter = false;
  // The result is codes and scale bytes in one tensor (ops/product/coded.hpp) instead of numbers,
  // for what is kept: a third to a half of the bytes.
  bool codes = false;
  // ScalePolicy::delayed. ScaleFormat::e4m3: the scale of the tensor, which the product applies; 0:
  // from its amax.
  float scale = 1;
  Draw draw{};  // for stochastic rounding; the index is the element's own
};
void fields(FieldVisitor& visitor, QuantizeSetting& setting);

// Optimizer steps. Stochastic rounding of a stored number draws at parameter_index(row, column) of
// the parameter as a matrix, on the streams stream, stream + 1 and stream + 2 for the weight and
// its states.
struct SgdSetting {
  float rate = 0, momentum = 0, dampening = 0, weight_decay = 0, gradient_factor = 1;
  bool nesterov = false, first_step = false;
  std::size_t first_row = 0;  // the parameter's row at which the tensors begin
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, SgdSetting& setting);

struct AdamSetting {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float decay_factor = 1, step_size = 0, inverse_root_correction2 = 1, gradient_factor = 1;
  float coupled_decay = 0;    // this times the weight is added to the gradient: Adam
  std::size_t first_row = 0;  // the parameter's row at which the tensors begin
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, AdamSetting& setting);

struct LambSetting {
  float rate = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float inverse_correction1 = 1, inverse_root_correction2 = 1, gradient_factor = 1;
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, LambSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/settings.ipp>
#endif

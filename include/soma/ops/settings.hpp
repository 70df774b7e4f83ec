#pragma once
// The settings of the built-in operators: the arguments of a call beside tensors.

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

namespace soma {

// The elements of a site that are dropped.
struct DropoutSetting {
  float probability = 0;  // 0 to below 1
  Draw draw{};            // seed, stream and step; the index is the element's own
};
inline void fields(FieldVisitor& visitor, DropoutSetting& setting) {
  visitor.key("probability", setting.probability);
  visitor.key("draw", setting.draw);
}

struct LinearSetting {
  Activation activation = Activation::none;
  DropoutSetting dropout{};
  float x_scale = 1, weight_scale = 1;  // the values of stored elements are multiplied by these
  std::optional<DType> output{};        // the result's type; none: the type of x
  Accumulation accumulation{};          // for the products forward and backward
};
inline void fields(FieldVisitor& visitor, LinearSetting& setting) {
  visitor.key("activation", setting.activation);
  visitor.key("dropout", setting.dropout);
  visitor.key("x_scale", setting.x_scale);
  visitor.key("weight_scale", setting.weight_scale);
  visitor.key("output", setting.output);
  visitor.key("accumulation", setting.accumulation);
}

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
inline void fields(FieldVisitor& visitor, QuantizedLinearSetting& setting) {
  visitor.key("activation", setting.activation);
  visitor.key("dropout", setting.dropout);
  visitor.pointer("formats", setting.formats);
  visitor.run_time("step", setting.step);
  visitor.key("training", setting.training);
  visitor.key("record", setting.record);
}

// A stored value q of an int8 or uint8 operand stands for (q - zero_point) * scale; a stored value
// q of a floating type stands for q * scale.
struct Quantization {
  float scale = 1;
  std::int32_t zero_point = 0;
};
inline void fields(FieldVisitor& visitor, Quantization& setting) {
  visitor.key("scale", setting.scale);
  visitor.key("zero_point", setting.zero_point);
}

struct MatmulSetting {
  bool transpose_a = false, transpose_b = false;  // a is [..., K, M], b is [N, K]
  // The sum runs over the rows of a batch and follows its shards: for weight gradients.
  bool over_rows = false;
  Quantization a{}, b{};
  // The type of the result; not set: a's type, or fp32 for integers. Sums of 8-bit integers are
  // exact; int32 or int64 results stay exact, without scales, on the host.
  std::optional<DType> output{};
  // If not nullptr: a factor that scales give the whole product (see GemmArgs) is stored there and
  // not applied. It must hold 1 before.
  float* factor = nullptr;
  Accumulation accumulation{};  // also for the gradient's products
};
inline void fields(FieldVisitor& visitor, MatmulSetting& setting) {
  visitor.key("transpose_a", setting.transpose_a);
  visitor.key("transpose_b", setting.transpose_b);
  visitor.key("over_rows", setting.over_rows);
  visitor.key("a", setting.a);
  visitor.key("b", setting.b);
  visitor.key("output", setting.output);
  visitor.pointer("factor", setting.factor);
  visitor.key("accumulation", setting.accumulation);
}

struct AttentionSetting {
  std::size_t heads = 1;
  DropoutSetting dropout{};  // for the probabilities
  // The first row of each sequence is its only query: the separate queries and the result have a
  // row for each sequence.
  bool first_rows = false;
  bool causal = false;  // row i of a sequence sees rows 0 to i alone
};
inline void fields(FieldVisitor& visitor, AttentionSetting& setting) {
  visitor.key("heads", setting.heads);
  visitor.key("dropout", setting.dropout);
  visitor.key("first_rows", setting.first_rows);
  visitor.key("causal", setting.causal);
}

struct EmbeddingSetting {
  bool dense_gradient = false;  // true: the gradient has all rows, mostly zeros
};
inline void fields(FieldVisitor& visitor, EmbeddingSetting& setting) {
  visitor.key("dense_gradient", setting.dense_gradient);
}

struct NormSetting {
  float epsilon = 1e-5f;
  bool rms = false;
};
inline void fields(FieldVisitor& visitor, NormSetting& setting) {
  visitor.key("epsilon", setting.epsilon);
  visitor.key("rms", setting.rms);
}

struct SoftmaxSetting {
  bool logarithm = false;
};
inline void fields(FieldVisitor& visitor, SoftmaxSetting& setting) {
  visitor.key("logarithm", setting.logarithm);
}

struct ReduceSetting {
  std::uint32_t dimensions = ~std::uint32_t{0};  // bit i: dimension i is summed; all by default
  bool mean = false;
};
inline void fields(FieldVisitor& visitor, ReduceSetting& setting) {
  visitor.key("dimensions", setting.dimensions);
  visitor.key("mean", setting.mean);
}

enum class LossReduction : std::uint8_t { mean, sum, none };

struct CrossEntropySetting {
  LossReduction reduction = LossReduction::mean;  // mean: over the rows that count
  float label_smoothing = 0;                      // 0 to 1
  std::int64_t ignore_index = -100;               // rows with this label do not count
  // The divisor of a mean; 0: the number of this call's rows that count. Parts of a larger batch
  // get the whole batch's number.
  double denominator = 0;
};
inline void fields(FieldVisitor& visitor, CrossEntropySetting& setting) {
  visitor.key("reduction", setting.reduction);
  visitor.key("label_smoothing", setting.label_smoothing);
  visitor.key("ignore_index", setting.ignore_index);
  visitor.run_time("denominator", setting.denominator);
}

struct ElementLossSetting {
  ElementLoss loss = ElementLoss::squared_error;
  LossReduction reduction = LossReduction::mean;
  // The divisor of a mean; 0: the number of this call's elements.
  double denominator = 0;
  float parameter = 1;  // for losses that have a parameter (kernels/loss/args.hpp)
};
inline void fields(FieldVisitor& visitor, ElementLossSetting& setting) {
  visitor.key("loss", setting.loss);
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator);
  visitor.key("parameter", setting.parameter);
}

struct ConvolutionSetting {
  std::size_t stride_height = 1, stride_width = 1;
  std::size_t pad_height = 0, pad_width = 0;  // zeros on each side
};
inline void fields(FieldVisitor& visitor, ConvolutionSetting& setting) {
  visitor.key("stride_height", setting.stride_height);
  visitor.key("stride_width", setting.stride_width);
  visitor.key("pad_height", setting.pad_height);
  visitor.key("pad_width", setting.pad_width);
}

struct MaxPoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
};
inline void fields(FieldVisitor& visitor, MaxPoolSetting& setting) {
  visitor.key("kernel_height", setting.kernel_height);
  visitor.key("kernel_width", setting.kernel_width);
  visitor.key("steps", setting.steps);
}

struct ReshapeSetting {
  Shape shape;
};
inline void fields(FieldVisitor& visitor, ReshapeSetting& setting) {
  visitor.key("shape", setting.shape);
}

struct TransposeSetting {
  std::size_t a = 0, b = 1;
};
inline void fields(FieldVisitor& visitor, TransposeSetting& setting) {
  visitor.key("a", setting.a);
  visitor.key("b", setting.b);
}

struct SliceSetting {
  std::size_t dimension = 0, begin = 0, end = to_end, step = 1;
};
inline void fields(FieldVisitor& visitor, SliceSetting& setting) {
  visitor.key("dimension", setting.dimension);
  visitor.key("begin", setting.begin);
  visitor.key("end", setting.end);
  visitor.key("step", setting.step);
}

struct CastSetting {
  DType dtype = DType::fp32;
  Rounding rounding{};
  Draw draw{};  // for stochastic rounding: element i, row-major, draws at draw.index + i
};
inline void fields(FieldVisitor& visitor, CastSetting& setting) {
  visitor.key("dtype", setting.dtype);
  visitor.key("rounding", setting.rounding);
  visitor.key("draw", setting.draw);
}

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
  float scale = 1;  // ScalePolicy::delayed
  Draw draw{};      // for stochastic rounding; the index is the element's own
};
inline void fields(FieldVisitor& visitor, QuantizeSetting& setting) {
  visitor.key("quantizer", setting.quantizer);
  visitor.key("along_rows", setting.along_rows);
  visitor.key("parameter", setting.parameter);
  visitor.run_time("scale", setting.scale);
  visitor.key("draw", setting.draw);
}

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
inline void fields(FieldVisitor& visitor, SgdSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.key("momentum", setting.momentum);
  visitor.key("dampening", setting.dampening);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("nesterov", setting.nesterov);
  visitor.key("first_step", setting.first_step);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

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
inline void fields(FieldVisitor& visitor, AdamSetting& setting) {
  visitor.key("beta1", setting.beta1);
  visitor.key("beta2", setting.beta2);
  visitor.key("epsilon", setting.epsilon);
  visitor.key("one_minus_beta1", setting.one_minus_beta1);
  visitor.key("one_minus_beta2", setting.one_minus_beta2);
  visitor.run_time("decay_factor", setting.decay_factor);
  visitor.run_time("step_size", setting.step_size);
  visitor.run_time("inverse_root_correction2", setting.inverse_root_correction2);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("coupled_decay", setting.coupled_decay);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

struct LambSetting {
  float rate = 0, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-6f, weight_decay = 0;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float inverse_correction1 = 1, inverse_root_correction2 = 1, gradient_factor = 1;
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
inline void fields(FieldVisitor& visitor, LambSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.key("beta1", setting.beta1);
  visitor.key("beta2", setting.beta2);
  visitor.key("epsilon", setting.epsilon);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.key("one_minus_beta1", setting.one_minus_beta1);
  visitor.key("one_minus_beta2", setting.one_minus_beta2);
  visitor.run_time("inverse_correction1", setting.inverse_correction1);
  visitor.run_time("inverse_root_correction2", setting.inverse_root_correction2);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

}  // namespace soma

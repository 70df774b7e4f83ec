#pragma once
// BasicOperators: operators that every context has in addition to BuiltInOperators, and their
// settings. They have a header of their own so that api.hpp need not read it; soma/nn.hpp does.

#include <soma/ops/operator.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace soma {

struct BasicOperators {
  // element by element
  const Operator *clamp, *power, *leaky_relu;
  // choosing and arranging
  const Operator *gather, *pad, *top_k, *where;
  // images
  const Operator *average_pool, *convolution_transpose;
  // statistics of a whole batch
  const Operator* batch_norm;
  // losses
  const Operator *nll_loss, *cosine_loss;
  // optimizer steps
  const Operator *rms_step, *adafactor_step;
};

struct ClampSetting {
  float low = 0, high = 0;
};
inline void fields(FieldVisitor& visitor, ClampSetting& setting) {
  visitor.key("low", setting.low);
  visitor.key("high", setting.high);
}
struct PowerSetting {
  float exponent = 1;
};
inline void fields(FieldVisitor& visitor, PowerSetting& setting) {
  visitor.key("exponent", setting.exponent);
}
struct LeakySetting {
  float slope = 0.01f;  // below zero
};
inline void fields(FieldVisitor& visitor, LeakySetting& setting) {
  visitor.key("slope", setting.slope);
}

struct GatherSetting {
  std::size_t dimension = 0;
};
inline void fields(FieldVisitor& visitor, GatherSetting& setting) {
  visitor.key("dimension", setting.dimension);
}

struct TopKSetting {
  std::size_t dimension = 0, k = 1;
  bool smallest = false;
};
inline void fields(FieldVisitor& visitor, TopKSetting& setting) {
  visitor.key("dimension", setting.dimension);
  visitor.key("k", setting.k);
  visitor.key("smallest", setting.smallest);
}

// The number of elements of `value` before and behind each dimension.
struct PadSetting {
  static constexpr std::size_t most = 4;  // dimensions that a call may pad: the last ones
  std::size_t before[most] = {}, behind[most] = {};
  float value = 0;
};
inline void fields(FieldVisitor& visitor, PadSetting& setting) {
  for (std::size_t& size : setting.before) visitor.key("before", size);
  for (std::size_t& size : setting.behind) visitor.key("behind", size);
  visitor.key("value", setting.value);
}

struct AveragePoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
  bool count_padding = true;  // true: averages count the zeros around the image
  // Not 0: this number of windows, of any size, covers the image evenly; all other settings are
  // then ignored.
  std::size_t out_height = 0, out_width = 0;
};
inline void fields(FieldVisitor& visitor, AveragePoolSetting& setting) {
  visitor.key("kernel_height", setting.kernel_height);
  visitor.key("kernel_width", setting.kernel_width);
  visitor.key("steps", setting.steps);
  visitor.key("count_padding", setting.count_padding);
  visitor.key("out_height", setting.out_height);
  visitor.key("out_width", setting.out_width);
}

struct TransposedSetting {
  ConvolutionSetting steps{};
  std::size_t extra_height = 0, extra_width = 0;  // rows and columns behind the result's last
};
inline void fields(FieldVisitor& visitor, TransposedSetting& setting) {
  visitor.key("steps", setting.steps);
  visitor.key("extra_height", setting.extra_height);
  visitor.key("extra_width", setting.extra_width);
}

// Sums over all ranks that share a batch, for norms over a whole batch. A trainer provides it
// (TapeOptions::batch_sums).
class BatchSums {
 public:
  virtual ~BatchSums() = default;
  // Replaces each number by its sum over all ranks, in the order of the shard tree. Collective:
  // every rank calls it in the same order, with the same number of numbers.
  virtual void add(std::span<float> numbers) = 0;

 protected:
  BatchSums() = default;
  BatchSums(const BatchSums&) = default;
  BatchSums& operator=(const BatchSums&) = default;
};

struct BatchNormSetting {
  float epsilon = 1e-5f;
  bool given = false;         // true: mean and variance are inputs, not computed from the batch
  BatchSums* sums = nullptr;  // adds the other ranks' sums; nullptr: x is the whole batch
};
inline void fields(FieldVisitor& visitor, BatchNormSetting& setting) {
  visitor.key("epsilon", setting.epsilon);
  visitor.key("given", setting.given);
  visitor.pointer("sums", setting.sums);
}

struct CosineLossSetting {
  float margin = 0;  // -1 to 1
  LossReduction reduction = LossReduction::mean;
  double denominator = 0;  // the divisor of a mean; 0: the rows of this call
};
inline void fields(FieldVisitor& visitor, CosineLossSetting& setting) {
  visitor.key("margin", setting.margin);
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator);
}

// Adagrad and RMSprop: v = keep v + add g^2, w -= rate g / (sqrt(v) + epsilon).
struct RmsSetting {
  float rate = 0, keep = 1, add = 1, epsilon = 1e-8f, momentum = 0, weight_decay = 0;
  float gradient_factor = 1;
  std::size_t first_row = 0;  // the parameter's row at which the tensors begin
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
inline void fields(FieldVisitor& visitor, RmsSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.key("keep", setting.keep);
  visitor.key("add", setting.add);
  visitor.key("epsilon", setting.epsilon);
  visitor.key("momentum", setting.momentum);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

struct AdafactorSetting {
  // A step replaces `share` of the stored squares; adafactor_step.hpp explains the other members.
  double rate = 0, share = 1, floor = 0, least_scale = 1e-3, clip = 1, relative_step = 0;
  float weight_decay = 0, gradient_factor = 1;
  std::size_t first_row = 0;   // always 0: norms are computed over whole parameters
  Rounding weight{}, state{};  // states are fp32
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
inline void fields(FieldVisitor& visitor, AdafactorSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.run_time("share", setting.share);
  visitor.run_time("floor", setting.floor);
  visitor.key("least_scale", setting.least_scale);
  visitor.key("clip", setting.clip);
  visitor.run_time("relative_step", setting.relative_step);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

}  // namespace soma

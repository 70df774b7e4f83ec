#pragma once
// Settings of operators that api.hpp need not read; soma/nn.hpp does.

#include <soma/ops/operator.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE {

struct ClampSetting {
  float low = 0, high = 0;
};
void fields(FieldVisitor& visitor, ClampSetting& setting);
struct PowerSetting {
  float exponent = 1;
};
void fields(FieldVisitor& visitor, PowerSetting& setting);
struct LeakySetting {
  float slope = 0.01f;  // below zero
};
void fields(FieldVisitor& visitor, LeakySetting& setting);

struct GatherSetting {
  std::size_t dimension = 0;
};
void fields(FieldVisitor& visitor, GatherSetting& setting);

struct TopKSetting {
  std::size_t dimension = 0, k = 1;
  bool smallest = false;
};
void fields(FieldVisitor& visitor, TopKSetting& setting);

// The number of elements of `value` before and behind each dimension.
struct PadSetting {
  static constexpr std::size_t most = 4;  // dimensions that a call may pad: the last ones
  std::size_t before[most] = {}, behind[most] = {};
  float value = 0;
};
void fields(FieldVisitor& visitor, PadSetting& setting);

struct AveragePoolSetting {
  std::size_t kernel_height = 2, kernel_width = 2;
  ConvolutionSetting steps{.stride_height = 2, .stride_width = 2};
  bool count_padding = true;  // true: averages count the zeros around the image
  // Not 0: this number of windows, of any size, covers the image evenly; all other settings are
  // then ignored.
  std::size_t out_height = 0, out_width = 0;
};
void fields(FieldVisitor& visitor, AveragePoolSetting& setting);

struct TransposedSetting {
  ConvolutionSetting steps{};
  std::size_t extra_height = 0, extra_width = 0;  // rows and columns behind the result's last
};
void fields(FieldVisitor& visitor, TransposedSetting& setting);

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
void fields(FieldVisitor& visitor, BatchNormSetting& setting);

struct CosineLossSetting {
  float margin = 0;  // -1 to 1
  LossReduction reduction = LossReduction::mean;
  double denominator = 0;  // the divisor of a mean; 0: the rows of this call
};
void fields(FieldVisitor& visitor, CosineLossSetting& setting);

// Adagrad and RMSprop: v = keep v + add g^2, w -= rate g / (sqrt(v) + epsilon).
struct RmsSetting {
  float rate = 0, keep = 1, add = 1, epsilon = 1e-8f, momentum = 0, weight_decay = 0;
  float gradient_factor = 1;
  std::size_t first_row = 0;  // the parameter's row at which the tensors begin
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, RmsSetting& setting);

struct AdafactorSetting {
  // A step replaces `share` of the stored squares; adafactor_step.hpp explains the other members.
  double rate = 0, share = 1, floor = 0, least_scale = 1e-3, clip = 1, relative_step = 0;
  float weight_decay = 0, gradient_factor = 1;
  std::size_t first_row = 0;   // always 0: norms are computed over whole parameters
  Rounding weight{}, state{};  // states are fp32
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, AdafactorSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/basic.ipp>
#endif

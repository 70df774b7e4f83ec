#pragma once
// The settings of cosine_loss, ctc_loss and the gradient of head_loss.

#include <soma/ops/settings.hpp>

#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE {

struct CosineLossSetting {
  float margin = 0;  // -1 to 1
  LossReduction reduction = LossReduction::mean;
  double denominator = 0;  // the divisor of a mean; 0: the rows of this call
};
void fields(FieldVisitor& visitor, CosineLossSetting& setting);

struct CtcSetting {
  std::size_t blank = 0;       // the class that stands between labels
  bool zero_infinity = false;  // true: the loss of a sequence that cannot have its labels is 0
  bool record = true;          // false: without what the gradient needs
};
void fields(FieldVisitor& visitor, CtcSetting& setting);

// The gradients of head_loss that are wanted, and the types of those that are sums over the batch.
struct HeadGradientSetting {
  CrossEntropySetting loss{};
  bool x = true, weight = true, bias = false;
  std::optional<DType> x_type{}, weight_type{};
};
void fields(FieldVisitor& visitor, HeadGradientSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/loss/impl/settings.ipp>
#endif

#pragma once
// The settings of cosine_loss and ctc_loss.

#include <soma/ops/settings.hpp>

#include <cstddef>

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

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/loss/impl/settings.ipp>
#endif

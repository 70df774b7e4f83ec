#pragma once
// The settings of cosine_loss.

#include <soma/ops/settings.hpp>

namespace SOMA_NAMESPACE {

struct CosineLossSetting {
  float margin = 0;  // -1 to 1
  LossReduction reduction = LossReduction::mean;
  double denominator = 0;  // the divisor of a mean; 0: the rows of this call
};
void fields(FieldVisitor& visitor, CosineLossSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/loss/impl/settings.ipp>
#endif

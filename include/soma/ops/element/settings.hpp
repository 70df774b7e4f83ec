#pragma once
// The settings of element-wise operators with numbers of their own: clamp, power and leaky_relu.

#include <soma/ops/fields.hpp>

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

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/element/impl/settings.ipp>
#endif

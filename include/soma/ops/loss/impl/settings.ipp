#pragma once
// The fields of the settings, one by one.

#include <soma/ops/loss/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, CosineLossSetting& setting) {
  visitor.key("margin", setting.margin, NumberRange::within(-1, 1));
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator, NumberRange::at_least(0));
}

SOMA_INLINE void fields(FieldVisitor& visitor, CtcSetting& setting) {
  visitor.key("blank", setting.blank);
  visitor.key("zero_infinity", setting.zero_infinity);
  visitor.key("record", setting.record);
}

SOMA_INLINE void fields(FieldVisitor& visitor, HeadGradientSetting& setting) {
  visitor.key("loss", setting.loss);
  visitor.key("x", setting.x);
  visitor.key("weight", setting.weight);
  visitor.key("bias", setting.bias);
  visitor.key("x_type", setting.x_type);
  visitor.key("weight_type", setting.weight_type);
}

}  // namespace SOMA_NAMESPACE

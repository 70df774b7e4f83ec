#pragma once
// The fields of the settings, one by one.

#include <soma/ops/element/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, ClampSetting& setting) {
  visitor.key("low", setting.low, {.infinite = true});
  visitor.key("high", setting.high, {.infinite = true});
}

SOMA_INLINE void fields(FieldVisitor& visitor, PowerSetting& setting) {
  visitor.key("exponent", setting.exponent, finite_number);
}

SOMA_INLINE void fields(FieldVisitor& visitor, LeakySetting& setting) {
  visitor.key("slope", setting.slope, finite_number);
}

}  // namespace SOMA_NAMESPACE

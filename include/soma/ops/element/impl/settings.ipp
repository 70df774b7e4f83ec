#pragma once
// The fields of the settings, one by one.

#include <soma/ops/element/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, ClampSetting& setting) {
  visitor.key("low", setting.low);
  visitor.key("high", setting.high);
}

SOMA_INLINE void fields(FieldVisitor& visitor, PowerSetting& setting) {
  visitor.key("exponent", setting.exponent);
}

SOMA_INLINE void fields(FieldVisitor& visitor, LeakySetting& setting) {
  visitor.key("slope", setting.slope);
}

}  // namespace SOMA_NAMESPACE

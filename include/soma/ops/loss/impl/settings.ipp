#pragma once
// The fields of the settings, one by one.

#include <soma/ops/loss/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, CosineLossSetting& setting) {
  visitor.key("margin", setting.margin);
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator);
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The fields of the settings, one by one.

#include <soma/ops/rows/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, BatchNormSetting& setting) {
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.key("given", setting.given);
  visitor.pointer("sums", setting.sums);
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The fields of the settings, one by one.

#include <soma/ops/choose/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, DimensionSetting& setting) {
  visitor.key("dimension", setting.dimension);
}

SOMA_INLINE void fields(FieldVisitor& visitor, TopKSetting& setting) {
  visitor.key("dimension", setting.dimension);
  visitor.key("k", setting.k);
  visitor.key("smallest", setting.smallest);
}

SOMA_INLINE void fields(FieldVisitor& visitor, PadSetting& setting) {
  for (std::size_t& size : setting.before) visitor.key("before", size);
  for (std::size_t& size : setting.behind) visitor.key("behind", size);
  visitor.key("value", setting.value, any_number);
}

}  // namespace SOMA_NAMESPACE

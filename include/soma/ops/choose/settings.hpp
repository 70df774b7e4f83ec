#pragma once
// The settings of operators that choose elements along a dimension: gather, top_k, pad and others.

#include <soma/ops/fields.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// Used by gather, scatter_add and cumsum.
struct DimensionSetting {
  std::size_t dimension = 0;
};
void fields(FieldVisitor& visitor, DimensionSetting& setting);

struct TopKSetting {
  std::size_t dimension = 0, k = 1;
  bool smallest = false;
};
void fields(FieldVisitor& visitor, TopKSetting& setting);

// The number of elements of `value` before and behind each dimension.
struct PadSetting {
  static constexpr std::size_t most = 4;  // dimensions that a call may pad: the last ones
  std::size_t before[most] = {}, behind[most] = {};
  float value = 0;
};
void fields(FieldVisitor& visitor, PadSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/choose/impl/settings.ipp>
#endif

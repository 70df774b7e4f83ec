#pragma once
// The functions of basic.hpp.

#include <soma/ops/basic.hpp>

#include <cstddef>
#include <cstdint>
#include <soma/ops/operator.hpp>
#include <soma/ops/settings.hpp>
#include <span>

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

SOMA_INLINE void fields(FieldVisitor& visitor, GatherSetting& setting) {
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
  visitor.key("value", setting.value);
}

SOMA_INLINE void fields(FieldVisitor& visitor, AveragePoolSetting& setting) {
  visitor.key("kernel_height", setting.kernel_height);
  visitor.key("kernel_width", setting.kernel_width);
  visitor.key("steps", setting.steps);
  visitor.key("count_padding", setting.count_padding);
  visitor.key("out_height", setting.out_height);
  visitor.key("out_width", setting.out_width);
}

SOMA_INLINE void fields(FieldVisitor& visitor, TransposedSetting& setting) {
  visitor.key("steps", setting.steps);
  visitor.key("extra_height", setting.extra_height);
  visitor.key("extra_width", setting.extra_width);
}

SOMA_INLINE void fields(FieldVisitor& visitor, BatchNormSetting& setting) {
  visitor.key("epsilon", setting.epsilon);
  visitor.key("given", setting.given);
  visitor.pointer("sums", setting.sums);
}

SOMA_INLINE void fields(FieldVisitor& visitor, CosineLossSetting& setting) {
  visitor.key("margin", setting.margin);
  visitor.key("reduction", setting.reduction);
  visitor.run_time("denominator", setting.denominator);
}

SOMA_INLINE void fields(FieldVisitor& visitor, RmsSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.key("keep", setting.keep);
  visitor.key("add", setting.add);
  visitor.key("epsilon", setting.epsilon);
  visitor.key("momentum", setting.momentum);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

SOMA_INLINE void fields(FieldVisitor& visitor, AdafactorSetting& setting) {
  visitor.run_time("rate", setting.rate);
  visitor.run_time("share", setting.share);
  visitor.run_time("floor", setting.floor);
  visitor.key("least_scale", setting.least_scale);
  visitor.key("clip", setting.clip);
  visitor.run_time("relative_step", setting.relative_step);
  visitor.key("weight_decay", setting.weight_decay);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

}  // namespace SOMA_NAMESPACE

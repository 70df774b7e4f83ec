#pragma once
// The fields of the settings, one by one.

#include <soma/ops/optimizer/settings.hpp>

namespace SOMA_NAMESPACE {

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

#pragma once
// The fields of the settings, one by one.

#include <soma/ops/optimizer/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, RmsSetting& setting) {
  visitor.key("step_squares", setting.step_squares);
  visitor.run_time("rate", setting.rate, finite_number);
  visitor.key("keep", setting.keep, NumberRange::within(0, 1));
  visitor.key("add", setting.add, NumberRange::within(0, 1));
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.key("momentum", setting.momentum, NumberRange::at_least(0));
  visitor.key("weight_decay", setting.weight_decay, NumberRange::at_least(0));
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

SOMA_INLINE void fields(FieldVisitor& visitor, AdafactorSetting& setting) {
  visitor.run_time("rate", setting.rate, finite_number);
  visitor.run_time("share", setting.share, NumberRange::within(0, 1));
  visitor.run_time("floor", setting.floor, epsilon_range);
  visitor.key("least_scale", setting.least_scale, NumberRange::at_least(0));
  visitor.key("clip", setting.clip, NumberRange::above(0));
  visitor.run_time("relative_step", setting.relative_step, finite_number);
  visitor.key("weight_decay", setting.weight_decay, NumberRange::at_least(0));
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("first_row", setting.first_row);
  visitor.key("weight", setting.weight);
  visitor.key("state", setting.state);
  visitor.run_time("seed", setting.seed);
  visitor.key("stream", setting.stream);
  visitor.run_time("step", setting.step);
}

}  // namespace SOMA_NAMESPACE

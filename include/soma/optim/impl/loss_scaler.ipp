#pragma once
// The functions of loss_scaler.hpp.

#include <soma/optim/loss_scaler.hpp>

#include <soma/base/error.hpp>
#include <soma/optim/ranges.hpp>

#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, LossScalerOptions& options) {
  visitor.option("initial", options.initial, loss_scale_range);
  visitor.option("smallest", options.smallest, loss_scale_range);
  visitor.option("largest", options.largest, loss_scale_range);
  visitor.option("growth_interval", options.growth_interval, NumberRange::at_least(1));
}

SOMA_INLINE LossScalerOptions LossScalerOptions::fixed(float scale) {
  return {.initial = scale, .smallest = scale, .largest = scale};
}

SOMA_INLINE LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.initial) {
  check_ranges("LossScaler", options);
  if (options.smallest > options.largest)
    fail(error_id::operator_value, "LossScaler", "smallest", std::to_string(options.smallest),
         "at most largest, " + std::to_string(options.largest));
}

SOMA_INLINE void LossScaler::restore(float scale, std::uint64_t good_steps) {
  check_range("LossScaler::restore", "scale", static_cast<double>(scale), loss_scale_range);
  scale_ = scale;
  good_steps_ = good_steps;
}

SOMA_INLINE bool LossScaler::update(bool finite) {
  if (!finite) {
    scale_ = scale_ / 2 < options_.smallest ? options_.smallest : scale_ / 2;
    good_steps_ = 0;
    return false;
  }
  if (++good_steps_ >= options_.growth_interval) {  // a resumed run may have a larger count
    scale_ = scale_ * 2 > options_.largest ? options_.largest : scale_ * 2;
    good_steps_ = 0;
  }
  return true;
}

}  // namespace SOMA_NAMESPACE::optim

#pragma once
// The functions of loss_scaler.hpp.

#include <soma/optim/loss_scaler.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void LossScaler::restore(float scale, std::uint64_t good_steps) {
  scale_ = scale;
  good_steps_ = static_cast<std::uint32_t>(good_steps);
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

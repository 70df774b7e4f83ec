#pragma once
// The ranges that the tables of several optimizers share.

#include <soma/ops/fields.hpp>
#include <soma/ops/number_range.hpp>

namespace SOMA_NAMESPACE::optim {

// The share of an old mean that a step keeps. Bias corrections are computed with it in double, so
// 1 - 1e-9 is below 1, which fp32 cannot say.
inline constexpr NumberRange share_range = NumberRange::from_to_below(0, 1);
// Loss scales whose inverse is a normal number of fp32, too.
inline constexpr NumberRange loss_scale_range = NumberRange::within(0x1p-126, 0x1p126);

}  // namespace SOMA_NAMESPACE::optim

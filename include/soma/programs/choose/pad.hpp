#pragma once
// pad: the whole result is filled, then x is copied into its place.

#include <soma/ops/choose/pad.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

namespace SOMA_NAMESPACE::programs {

inline void pad(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<PadSetting>();
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  fill(core, y, setting.value);
  copy_elements(core, x, soma::detail::inside_padding(y, x.shape(), setting));
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// The settings of rms_step and adafactor_step.

#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// Adagrad and RMSprop: v = keep v + add g^2, w -= rate g / (sqrt(v) + epsilon).
// Adadelta, with step_squares: v as above, s = sqrt(u + epsilon) / sqrt(v + epsilon) g,
// u = keep u + add s^2, w -= rate s.
struct RmsSetting {
  bool step_squares = false;
  float rate = 0, keep = 1, add = 1, epsilon = 1e-8f, momentum = 0, weight_decay = 0;
  float gradient_factor = 1;
  std::size_t first_row = 0;  // the parameter's row at which the tensors begin
  Rounding weight{}, state{};
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, RmsSetting& setting);

struct AdafactorSetting {
  // A step replaces `share` of the stored squares; adafactor_step.hpp explains the other members.
  double rate = 0, share = 1, floor = 0x1p-23, least_scale = 1e-3, clip = 1, relative_step = 0;
  float weight_decay = 0, gradient_factor = 1;
  std::size_t first_row = 0;   // always 0: norms are computed over whole parameters
  Rounding weight{}, state{};  // states are fp32
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};
void fields(FieldVisitor& visitor, AdafactorSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/optimizer/impl/settings.ipp>
#endif

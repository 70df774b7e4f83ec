#pragma once
// Dynamic loss scaling ("Mixed Precision Training", arXiv 1710.03740): the loss is multiplied by a
// power of two so that small gradients survive a narrow format. The scale halves when a gradient
// overflows, and doubles after many steps without an overflow.

#include <soma/base/config.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {
class FieldVisitor;  // ops/fields.hpp
}

namespace SOMA_NAMESPACE::optim {

struct LossScalerOptions {
  float initial = 65536, smallest = 1, largest = 16777216;  // powers of two, 2^-126 to 2^126
  std::uint32_t growth_interval = 2000;                     // at least 1

  static LossScalerOptions fixed(float scale);
};
void fields(FieldVisitor& visitor, LossScalerOptions& options);

class LossScaler {
 public:
  // Error operator.value: a number out of its range, or a smallest scale above the largest.
  explicit LossScaler(const LossScalerOptions& options = {});

  // scale() is for Tape::backward, inverse() for Step::gradient_factor.
  float scale() const { return scale_; }
  float inverse() const { return 1 / scale_; }

  const LossScalerOptions& options() const { return options_; }
  // The state that a resumed run continues from.
  std::uint64_t good_steps() const { return good_steps_; }
  // Error operator.value: a scale out of its range; nothing changes then.
  void restore(float scale, std::uint64_t good_steps);

  // Call it after backward; `finite`: all gradients were finite. Returns true if the step should be
  // taken.
  bool update(bool finite);

 private:
  LossScalerOptions options_;
  float scale_;
  std::uint64_t good_steps_ = 0;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/loss_scaler.ipp>
#endif

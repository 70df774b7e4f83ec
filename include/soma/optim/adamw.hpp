#pragma once
// AdamW (arXiv 1711.05101): Adam with decoupled weight decay.

#include <soma/ops/ranges.hpp>
#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

namespace detail {

// Returns uint8 [rows]: 1 for each row in which a moment is not zero. Compares bytes, so a negative
// zero counts as not zero. One pass.
Tensor live_rows(Context& context, const Tensor& first, const Tensor& second);

}  // namespace detail

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, AdamWOptions& options);

namespace detail {

// The settings that Adam and AdamW share in a step; each adds its own weight decay and roundings.
// Bias corrections are computed in double, the same on every machine, and rounded to fp32 once.
AdamSetting adam_setting(const Slot& slot, const Step& step, const AdamWOptions& options);

}  // namespace detail

class AdamW final : public Optimizer {
 public:
  AdamW(Context& context, const std::vector<Group>& groups, const AdamWOptions& options = {});
  AdamW(Context& context, Parameters parameters, float weight_decay = 0,
        const AdamWOptions& options = {});

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return 2; }

  // In a word embedding most rows never get a gradient. Their moments stay zero, so the step need
  // not read them.
  void mark_live(detail::Slot& slot, const Gradient& gradient);

  AdamWOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/adamw.ipp>
#endif

#pragma once
// TapeGradients: StepGradients by forward and backward of a task on a tape: for whole batches, or,
// on several ranks, for this rank's shards of each batch.

#include <soma/autograd/tape.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/early_steps.hpp>
#include <soma/train/ranks.hpp>
#include <soma/train/step_gradients.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::train {

class TapeGradients final : public StepGradients {
 public:
  // `seed`: of dropout. `early`: requests have StepRequest::early; for one process.
  TapeGradients(Context& context, nn::Task& task, PrecisionState& precision, Ranks& ranks,
                std::uint64_t seed, bool early = false);

  SOMA_INLINE const Parameters& parameters() const override;

  SOMA_INLINE StepSums run(data::BatchSource& batches, const StepRequest& request) override;

  SOMA_INLINE double norm() override;
  SOMA_INLINE void stepped() override;
  SOMA_INLINE Evaluation evaluate(data::BatchSource& source) override;

 private:
  BatchLoss differentiate(const data::Batch& batch, const StepRequest& request, StepSums& sums);

  Context& context_;
  nn::Task& task_;
  PrecisionState& precision_;
  Ranks& ranks_;
  std::optional<EarlySteps> early_{};
  Tape tape_;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/tape_gradients.ipp>
#endif

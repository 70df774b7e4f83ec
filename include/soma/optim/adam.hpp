#pragma once
// Adam (arXiv 1412.6980), with weight decay that is added to the gradient. AdamW keeps weight decay
// apart from the gradient, and is the better choice where weights decay.

#include <soma/optim/adamw.hpp>
#include <soma/optim/optimizer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

// Takes the options of AdamW. Without weight decay its steps equal AdamW's to the bit.
class Adam final : public Optimizer {
 public:
  Adam(Context& context, const std::vector<Group>& groups, const AdamWOptions& options = {});
  Adam(Context& context, Parameters parameters, float weight_decay = 0,
       const AdamWOptions& options = {});

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return 2; }

  AdamWOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/adam.ipp>
#endif

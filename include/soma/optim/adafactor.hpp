#pragma once
// Adafactor (arXiv 1804.04235), as torch.optim.Adafactor: for a matrix it stores only the means of
// squared gradients by rows and by columns, and its steps are relative to the size of the weights.
// Formulas: ops/optimizer/adafactor_step.hpp.

#include <soma/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct AdafactorOptions {
  double beta2_decay = -0.8;   // step t replaces a share t^beta2_decay of the means; at most 0
  double floor = 0x1p-23;      // epsilon 1 of PyTorch: least mean of squares, and least root
  double least_scale = 1e-3;   // epsilon 2: least root mean square of weights
  double clip = 1;             // largest root mean square of an update, before rate and scale
  Rounding weight_rounding{};  // for parameters that are not fp32
  std::uint64_t seed = 0;      // for stochastic rounding
};
void fields(FieldVisitor& visitor, AdafactorOptions& options);

// States are fp32: a parameter [..., R, C] has R + C numbers for each matrix.
class Adafactor final : public Optimizer {
 public:
  Adafactor(Context& context, const std::vector<Group>& groups,
            const AdafactorOptions& options = {});
  Adafactor(Context& context, Parameters parameters, const AdafactorOptions& options = {})
      : Adafactor(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;

  // Updates the parameters that have a gradient; gradients stay. The learning rate of step t is at
  // most 1 / sqrt(t).
  SOMA_INLINE void step(const Step& step) override;

 private:
  static StepStorage storage_of(const AdafactorOptions& options);
  std::size_t moments() const override { return 2; }
  SOMA_INLINE std::size_t moments_of(const detail::Slot& slot) const override;
  // A matrix has one moment by rows and one by columns; a vector has the squares of its elements.
  SOMA_INLINE Shape moment_shape(const detail::Slot& slot, std::size_t moment) const override;

  AdafactorOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/adafactor.ipp>
#endif

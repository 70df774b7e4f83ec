#pragma once
// RMSprop (Tieleman and Hinton 2012) and Adagrad (Duchi, Hazan, Singer 2011): steps divided by the
// root of a moving mean of squared gradients, and of their sum. As in PyTorch, epsilon is added to
// the root, and weight decay to the gradient; there is no centred variant of RMSprop.

#include <soma/ops/optimizer/settings.hpp>
#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

namespace detail {

// The settings that RMSprop and Adagrad share in a step; each adds roundings and its own settings.
RmsSetting rms_setting(const Slot& slot, const Step& step, const StepStorage& storage);

}  // namespace detail

struct RmsPropOptions {
  double alpha = 0.99;  // share of the old mean of squares that a step keeps
  double epsilon = 1e-8;
  float momentum = 0;  // 0: none, and no state for it
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, RmsPropOptions& options);

class RmsProp final : public Optimizer {
 public:
  RmsProp(Context& context, const std::vector<Group>& groups, const RmsPropOptions& options = {});
  RmsProp(Context& context, Parameters parameters, const RmsPropOptions& options = {})
      : RmsProp(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  // The mean of squares is the first moment, momentum the second.
  std::size_t moments() const override { return options_.momentum != 0 ? 2 : 1; }

  RmsPropOptions options_;
};

struct AdagradOptions {
  double epsilon = 1e-10;
  double rate_decay = 0;     // step t (from 1) has the learning rate / (1 + (t - 1) rate_decay)
  float initial_square = 0;  // the first value of the sums of squares
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, AdagradOptions& options);

class Adagrad final : public Optimizer {
 public:
  Adagrad(Context& context, const std::vector<Group>& groups, const AdagradOptions& options = {});
  Adagrad(Context& context, Parameters parameters, const AdagradOptions& options = {})
      : Adagrad(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return 1; }

  // Rounded to the type of states.
  Tensor first_squares(const Shape& shape) const;

  AdagradOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/rmsprop.ipp>
#endif

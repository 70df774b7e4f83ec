#pragma once
// Optimizers for parameters of which each step touches few rows: a step costs what the rows with a
// gradient cost, however many rows there are. Parameters and states are fp32.
//
// A dense gradient touches all rows. Weight decay would have to touch all rows as well, so groups
// with weight_decay are refused. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/ops/ranges.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

// The base class of row optimizers. Their states have names and shapes of their own, so it
// overrides state() and load_state(). Errors of the constructors: context.no_sparse, tensor.dtype,
// tensor.rank (a scalar), operator.value (weight_decay, an option out of its range).
class RowOptimizer : public Optimizer {
 public:
  SOMA_INLINE void describe(Record& record) const final;

  SOMA_INLINE void step(const Step& step) final;

  // The states of each parameter that has been stepped: "<name>.steps", and the states named by
  // state_names().
  SOMA_INLINE StateDict state() const final;
  SOMA_INLINE void load_state(const StateDict& state) final;

 protected:
  RowOptimizer(Context& context, const std::vector<Group>& groups, std::string_view name,
               std::vector<std::string> state_names, bool state_of_rows);

 private:
  virtual void describe_own(Record& record) const = 0;
  virtual const Operator& operator_of(const SparseOperators& operators) const = 0;
  // Fills in `setting` for a step with this learning rate, after `steps` earlier steps.
  virtual void complete(RowStepSetting& setting, double rate, std::uint64_t steps) const = 0;

  Shape state_shape(const detail::Slot& slot) const;
  void make_states(detail::Slot& slot) const;
  const Tensor& entry(const StateDict& state, const std::string& name, const Shape& shape,
                      DType dtype) const;
  static std::uint64_t steps_in(const Tensor& steps, const std::string& parameter);
  [[noreturn]] void refuse_extra(const StateDict& state) const;

  std::string_view name_;
  std::vector<std::string> state_names_;
  bool state_of_rows_;
};

// w -= rate * g for the rows that have a gradient. No states.
class RowSgd final : public RowOptimizer {
 public:
  RowSgd(Context& context, const std::vector<Group>& groups)
      : RowOptimizer(context, groups, "row_sgd", {}, false) {}
  RowSgd(Context& context, Parameters parameters)
      : RowSgd(context, {Group{.parameters = std::move(parameters)}}) {}

 private:
  void describe_own(Record&) const override {}
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_sgd_step;
  }
  void complete(RowStepSetting&, double, std::uint64_t) const override {}
};

struct RowAdagradOptions {
  double epsilon = 1e-10;  // at least 2^-100
};
void fields(FieldVisitor& visitor, RowAdagradOptions& options);

// Adagrad (Duchi, Hazan and Singer 2011) with one sum of squares for each row, of the means of the
// squares of its gradients: w -= rate * g / (sqrt(sum) + epsilon). The state is 4 bytes a row.
class RowAdagrad final : public RowOptimizer {
 public:
  RowAdagrad(Context& context, const std::vector<Group>& groups,
             const RowAdagradOptions& options = {});
  RowAdagrad(Context& context, Parameters parameters, const RowAdagradOptions& options = {})
      : RowAdagrad(context, {Group{.parameters = std::move(parameters)}}, options) {}

 private:
  SOMA_INLINE void describe_own(Record& record) const override;
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_adagrad_step;
  }
  SOMA_INLINE void complete(RowStepSetting& setting, double, std::uint64_t) const override;

  RowAdagradOptions options_;
};

struct RowAdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};
void fields(FieldVisitor& visitor, RowAdamOptions& options);

// Adam (arXiv 1412.6980) over touched rows: moments of other rows do not decay, and the bias
// corrections are those of the step's number. So a row that is touched rarely keeps old moments
// longer than in dense Adam.
class RowAdam final : public RowOptimizer {
 public:
  RowAdam(Context& context, const std::vector<Group>& groups, const RowAdamOptions& options = {});
  RowAdam(Context& context, Parameters parameters, const RowAdamOptions& options = {})
      : RowAdam(context, {Group{.parameters = std::move(parameters)}}, options) {}

 private:
  SOMA_INLINE void describe_own(Record& record) const override;
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_adam_step;
  }
  SOMA_INLINE void complete(RowStepSetting& setting, double rate,
                            std::uint64_t steps) const override;

  RowAdamOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/row_optimizers.ipp>
#endif

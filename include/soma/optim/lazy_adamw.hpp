#pragma once
// LazyAdamW: AdamW (arXiv 1711.05101) for tables of which each step touches few rows, with the same
// weights as AdamW. A step skips rows without a gradient; before a row is read, the row catches up
// with the steps that it missed.
//
//   optimizer.catch_up(table, rows);  // those that the next forward reads
//   ... forward, backward ...
//   optimizer.step({.rate = 1e-3});
//   optimizer.settle();               // all rows: before evaluation and saving
//
// Trainers call settle(); the task calls catch_up(), because only the task knows the rows that a
// forward reads. Without weight decay, a row whose first moments have died out (after some 600
// steps) costs nothing more. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/ops/sparse/table.hpp>
#include <soma/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct LazyAdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};
void fields(FieldVisitor& visitor, LazyAdamWOptions& options);

class LazyAdamW final : public Optimizer {
 public:
  // Parameters are fp32 and have rows. Errors context.no_sparse, operator.value, tensor.dtype,
  // tensor.rank.
  LazyAdamW(Context& context, const std::vector<Group>& groups,
            const LazyAdamWOptions& options = {});
  LazyAdamW(Context& context, Parameters parameters, float weight_decay = 0,
            const LazyAdamWOptions& options = {});

  SOMA_INLINE void describe(Record& record) const override;

  SOMA_INLINE void step(const Step& step) override;

  // Gives rows (int64, ascending, each once) of the parameter with that variable the weights that
  // AdamW would have given them by now. Error operator.value: a variable that is not stepped here,
  // or a row number out of range.
  void catch_up(const Var& parameter, const Tensor& rows);
  SOMA_INLINE void settle() override;

  // The states of AdamW, and "<name>.row_steps": the number of steps that each row has taken. Call
  // it after settle().
  SOMA_INLINE StateDict state() const override;
  // Errors as of Optimizer; operator.value: a row that has missed steps and still has a moment.
  SOMA_INLINE void load_state(const StateDict& state) override;

 private:
  // The history of one parameter: three numbers for each step since `base`, and the number of steps
  // that each row has taken.
  struct History {
    Tensor constants{}, rows{};
    std::size_t count = 0;
    std::int64_t base = 0;
  };

  std::size_t moments() const override { return 2; }

  void make_states(std::size_t i);
  void add_to_history(std::size_t i, double rate);
  void apply(std::size_t i, const Tensor& values, const Tensor& rows, float factor);
  static void check_rows(const detail::Slot& slot, const Tensor& rows, const Tensor& steps,
                         const Tensor& first);

  LazyAdamWOptions options_;
  std::vector<History> history_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/lazy_adamw.ipp>
#endif

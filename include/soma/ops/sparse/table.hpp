#pragma once
// SparseTable: the kernels and operators of sparse training that a context has after
// add_sparse(context) (soma/sparse.hpp), and the settings of these operators.

#include <soma/base/error.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/settings.hpp>
#include <soma/runtime/context.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE {

struct SparseKernels;  // kernels/sparse/args.hpp

struct SparseOperators {
  const Operator *embedding_bag, *embedding_bag_backward;
  const Operator *row_sgd_step, *row_adagrad_step, *row_adam_step, *row_lazy_adam_step;
  const Operator *list_loss, *bag_logits, *bag_loss;
  std::span<const Operator* const> all;
};

struct SparseTable {
  const SparseKernels* kernels = nullptr;
  const SparseOperators* operators = nullptr;
  // The table of another target of the same program.
  const SparseTable& (*of_target)(std::string_view target) = nullptr;
};

// Error context.no_sparse.
inline const SparseTable& sparse_table(const Context& context, std::string_view operation) {
  if (context.sparse() == nullptr)
    fail(error_id::no_sparse, operation, "context", "without kernels of sparse training",
         "a context after add_sparse(context) of soma/sparse.hpp");
  return *context.sparse();
}

// Gives `to` the sparse training of `from`, a context of the same program whose operators it
// shares.
inline void share_sparse(const Context& from, Context& to) {
  if (from.sparse() != nullptr) to.set_sparse(&from.sparse()->of_target(to.target().name));
}

enum class BagMode : std::uint8_t { sum, mean };

struct EmbeddingBagSetting {
  BagMode mode = BagMode::sum;
};
inline void fields(FieldVisitor& visitor, EmbeddingBagSetting& setting) {
  visitor.key("mode", setting.mode);
}

enum class ListLoss : std::uint8_t {
  softmax,  // cross entropy: each of a row's n labels has the share 1 / n
  binary,   // binary cross entropy of every column, added up over a row
};

struct ListLossSetting {
  ListLoss loss = ListLoss::softmax;
  LossReduction reduction = LossReduction::mean;  // over all rows; or their sum
};
inline void fields(FieldVisitor& visitor, ListLossSetting& setting) {
  visitor.key("loss", setting.loss);
  visitor.key("reduction", setting.reduction);
}

struct BagLossSetting {
  LossReduction reduction = LossReduction::mean;  // over all bags; or their sum
};
inline void fields(FieldVisitor& visitor, BagLossSetting& setting) {
  visitor.key("reduction", setting.reduction);
}

// Settings of steps of the rows with a gradient. An optimizer ignores members that it does not use.
struct RowStepSetting {
  float rate = 0, epsilon = 1e-8f, gradient_factor = 1;
  float beta1 = 0.9f, beta2 = 0.999f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;
  float step_size = 0, inverse_root_correction2 = 1;  // rate / correction1, 1 / sqrt(correction2)
  // For rows that catch up (RowLazyAdamArgs): the number of this step, and the number of steps
  // before the history.
  std::int64_t now = 0, base = 0;
  double beta2_exact = 0.999;
  bool sleeps = false;
};
inline void fields(FieldVisitor& visitor, RowStepSetting& setting) {
  visitor.run_time("rate", setting.rate, finite_number);
  visitor.key("epsilon", setting.epsilon, epsilon_range);
  visitor.factor("gradient_factor", setting.gradient_factor);
  visitor.key("beta1", setting.beta1, NumberRange::within(0, 1));
  visitor.key("beta2", setting.beta2, NumberRange::within(0, 1));
  visitor.key("one_minus_beta1", setting.one_minus_beta1, NumberRange::within(0, 1));
  visitor.key("one_minus_beta2", setting.one_minus_beta2, NumberRange::within(0, 1));
  visitor.run_time("step_size", setting.step_size, finite_number);
  visitor.run_time("inverse_root_correction2", setting.inverse_root_correction2, finite_number);
  visitor.run_time("now", setting.now);
  visitor.run_time("base", setting.base);
  visitor.key("beta2_exact", setting.beta2_exact, NumberRange::within(0, 1));
  visitor.key("sleeps", setting.sleeps);
}

}  // namespace SOMA_NAMESPACE

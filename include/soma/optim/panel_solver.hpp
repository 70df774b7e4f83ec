#pragma once
// PanelSolver: linear classifiers of sparse rows, one against all, for all classes at once: the
// weights w and the bias of each class are least for
//   (|w|^2 + bias^2) / 2 + sum over rows of C max(0, 1 - y s)^2,    s = w x + bias b,
// with y = 1 for rows that have the class as a label, else -1, and b = 1 unless bias_values say
// otherwise. Dual coordinate ascent: no learning rate; five to eight passes are enough for texts.
// (Hsieh, Chang, Lin, Keerthi, Sundararajan, "A Dual Coordinate Descent Method for Large-scale
// Linear SVM", ICML 2008; here each step takes a row for all classes of a panel.)
//
// Threads own panels of classes: bits depend neither on threads nor on the CPU. Needs
// add_sparse(context) (soma/sparse.hpp).

#include <soma/ops/fields.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::optim {

// Rows and their labels, which belong to the caller. Row r has the features and values from
// begins[r] to begins[r + 1], each feature once, and the labels from label_begins[r] to
// label_begins[r + 1], ascending. For two classes of which each row has exactly one, a problem of
// one class is enough: the other one's scores are its negatives.
struct PanelProblem {
  std::span<const std::int64_t> begins{};  // [rows + 1]
  std::span<const std::int32_t> features{};
  std::span<const float> values{};
  std::span<const std::int64_t> label_begins{};  // [rows + 1]
  std::span<const std::int32_t> labels{};
  std::int64_t feature_count = 0, class_count = 0;

  std::size_t rows() const;
};

struct PanelOptions {
  double c = 1;                             // the loss counts so much beside the size of weights
  std::span<const float> row_weights = {};  // C of each row is multiplied by it; empty: by 1
  std::span<const float> bias_values = {};  // each row's b; empty: 1
  std::uint64_t seed = 0;                   // rows have a new order in each pass
};
void fields(FieldVisitor& visitor, PanelOptions& options);

// Panel p has classes width p ... width (p + 1) - 1. Columns beyond class_count are zero.
struct PanelModel {
  explicit PanelModel(Heap& heap) : weights(heap), bias(heap) {}

  std::int64_t feature_count = 0, class_count = 0;
  std::size_t width = 1, panels = 0;
  HeapVector<float> weights;  // [panels][feature_count, width]
  HeapVector<float> bias;     // [panels, width]

  // The same weights from [feature_count, class_count] and [class_count], as files keep them. Error
  // convert.size_mismatch.
  static PanelModel of_rows(Heap& heap, std::size_t feature_count, std::size_t class_count,
                            std::span<const float> weights, std::span<const float> bias);

  float weight(std::size_t feature, std::size_t of_class) const;
  // Writes the scores of a row for all classes to `scores`, which has panels * width places.
  // Features are below feature_count. Thread-safe. Error convert.size_mismatch: not a value for
  // each feature, or too few places.
  void score(const Context& context, std::span<const std::int32_t> features,
             std::span<const float> values, float bias_value, std::span<float> scores) const;
};

class PanelSolver {
 public:
  // Checks the problem and takes memory_bytes(). The problem's spans have to live as long as the
  // solver. Errors context.no_sparse, operator.value (c or a weight not above 0 or not finite,
  // sizes that do not fit, begins that fall, a feature or label out of range, labels that do not
  // ascend, a value that is not finite), memory.exhausted.
  PanelSolver(Context& context, const PanelProblem& problem, const PanelOptions& options = {});

  // The bytes that a solver takes beside the problem: 4 for each feature and class, 4 for each row
  // and class, and 12 for each row. Classes count in panels, of 1, 4 or a multiple of 16.
  static std::uint64_t memory_bytes(std::size_t rows, std::size_t feature_count,
                                    std::size_t class_count);

  // Visits all rows once for each class. Error runtime.stopped (between two panels of classes: the
  // solver is then of no more use).
  void pass(const StopFlag* stop = nullptr);
  std::uint64_t passes() const { return passes_; }

  // The objective of the weights, and the objective of the dual values: the least possible one lies
  // between them, and they meet. Computed in double; costs about a pass.
  struct Objectives {
    double primal = 0, dual = 0;
    double gap() const { return primal - dual; }
  };
  Objectives objectives() const;

  const PanelModel& model() const { return model_; }
  // Gives the model away and frees the rest; no pass after it.
  PanelModel take();

  // Everything a later solver of the same problem and options needs to go on with the same bits.
  std::span<const float> duals() const;
  // Errors operator.value: other sizes, or a dual value below 0.
  void restore(std::uint64_t passes, std::span<const float> weights, std::span<const float> bias,
               std::span<const float> duals);

 private:
  std::size_t classes_of(std::size_t panel) const;
  void check() const;
  void check_labels(std::size_t row) const;

  Context& context_;
  PanelProblem problem_;
  PanelOptions options_;
  std::uint64_t passes_ = 0;
  PanelModel model_;
  HeapVector<float> duals_;  // [panels][rows, width]
  HeapVector<float> diagonals_, inverses_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/panel_solver.ipp>
#endif

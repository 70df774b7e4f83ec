#pragma once
// The functions of panel_solver.hpp.

#include <soma/optim/panel_solver.hpp>

#include <soma/base/error.hpp>
#include <soma/data/order.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/runtime/stop_flag.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

namespace detail {

inline constexpr std::string_view solver_name = "PanelSolver";

// The least width that holds the classes; more than 16 of them take several panels.
inline std::size_t panel_width(std::size_t classes) {
  for (const std::size_t width : panel_widths)
    if (classes <= width) return width;
  return panel_widths[2];
}

[[noreturn]] inline void refuse(const std::string& what, const std::string& got,
                                const std::string& wanted) {
  fail(error_id::operator_value, solver_name, what, got, wanted);
}

}  // namespace detail

SOMA_INLINE void fields(FieldVisitor& visitor, PanelOptions& options) {
  visitor.option("c", options.c, NumberRange::above(0));
  visitor.option("seed", options.seed);
}

SOMA_INLINE std::size_t PanelProblem::rows() const {
  return begins.empty() ? 0 : begins.size() - 1;
}

SOMA_INLINE float PanelModel::weight(std::size_t feature, std::size_t of_class) const {
  const std::size_t panel = of_class / width;
  return weights[(panel * static_cast<std::size_t>(feature_count) + feature) * width +
                 of_class % width];
}

SOMA_INLINE void PanelModel::score(const Context& context, std::span<const std::int32_t> features,
                                   std::span<const float> values, float bias_value,
                                   std::span<float> scores) const {
  if (features.size() != values.size() || scores.size() < panels * width)
    fail(error_id::size_mismatch, "PanelModel::score", "features, values and scores",
         std::to_string(features.size()) + ", " + std::to_string(values.size()) + " and " +
             std::to_string(scores.size()),
         "a value for each feature and " + std::to_string(panels * width) + " scores");
  sparse_table(context, "PanelModel::score")
      .kernels->panel_scores({.features = features.data(),
                              .values = values.data(),
                              .count = features.size(),
                              .bias_value = bias_value,
                              .panels = panels,
                              .width = width,
                              .panel_stride = static_cast<std::size_t>(feature_count) * width,
                              .weights = weights.data(),
                              .bias = bias.data(),
                              .y = scores.data()});
}

SOMA_INLINE PanelSolver::PanelSolver(Context& context, const PanelProblem& problem,
                                     const PanelOptions& options)
    : context_(context),
      problem_(problem),
      options_(options),
      model_(context.heap()),
      duals_(context.heap()),
      diagonals_(context.heap()),
      inverses_(context.heap()) {
  static_cast<void>(sparse_table(context, detail::solver_name));
  check();
  const auto classes = static_cast<std::size_t>(problem.class_count);
  const std::size_t rows = problem.rows();
  model_.feature_count = problem.feature_count;
  model_.class_count = problem.class_count;
  model_.width = detail::panel_width(classes);
  model_.panels = (classes + model_.width - 1) / model_.width;
  const std::size_t columns = model_.panels * model_.width;
  model_.weights.resize(checked_multiply(static_cast<std::size_t>(problem.feature_count), columns,
                                         detail::solver_name));
  model_.bias.resize(columns);
  duals_.resize(checked_multiply(rows, columns, detail::solver_name));
  diagonals_.resize(rows);
  inverses_.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const double weight = options.row_weights.empty() ? 1 : options.row_weights[row];
    const double b = options.bias_values.empty() ? 1 : options.bias_values[row];
    const double diagonal = 1 / (2 * options.c * weight);
    double square = b * b + diagonal;
    for (auto i = static_cast<std::size_t>(problem.begins[row]);
         i < static_cast<std::size_t>(problem.begins[row + 1]); ++i)
      square += static_cast<double>(problem.values[i]) * static_cast<double>(problem.values[i]);
    diagonals_[row] = static_cast<float>(diagonal);
    inverses_[row] = static_cast<float>(1 / square);
  }
}

SOMA_INLINE std::uint64_t PanelSolver::memory_bytes(std::size_t rows, std::size_t feature_count,
                                                    std::size_t class_count) {
  const std::size_t width = detail::panel_width(class_count);
  const std::size_t columns = (class_count + width - 1) / width * width;
  return (std::uint64_t{rows} + feature_count + 1) * columns * sizeof(float) +
         std::uint64_t{rows} * (2 * sizeof(float) + sizeof(std::uint32_t));
}

SOMA_INLINE std::size_t PanelSolver::classes_of(std::size_t panel) const {
  return (std::min)(model_.width,
                    static_cast<std::size_t>(problem_.class_count) - panel * model_.width);
}

SOMA_INLINE void PanelSolver::check() const {
  const auto above_zero = [](double value) { return value > 0 && std::isfinite(value); };
  check_ranges(detail::solver_name, options_);
  const std::size_t rows = problem_.rows();
  if (problem_.class_count < 1 || problem_.class_count > INT32_MAX)
    detail::refuse("class_count", std::to_string(problem_.class_count), "1 to 2^31 - 1");
  if (problem_.feature_count < 0 || problem_.feature_count > INT32_MAX)
    detail::refuse("feature_count", std::to_string(problem_.feature_count), "0 to 2^31 - 1");
  if (rows == 0 || problem_.label_begins.size() != rows + 1)
    detail::refuse("rows and rows of labels",
                   std::to_string(rows) + " and " + std::to_string(problem_.label_begins.size()),
                   "at least one row, and begins of labels for each and the end");
  const auto spans = [&](std::span<const std::int64_t> begins, std::size_t end, const char* what) {
    if (begins.front() != 0 || begins.back() < 0 || static_cast<std::size_t>(begins.back()) != end)
      detail::refuse(what, std::to_string(begins.back()), "ends at " + std::to_string(end));
    for (std::size_t row = 0; row < rows; ++row)
      if (begins[row + 1] < begins[row])
        detail::refuse(std::string(what) + " of row " + std::to_string(row),
                       std::to_string(begins[row + 1]), "not before its begin");
  };
  if (problem_.values.size() != problem_.features.size())
    detail::refuse("values", std::to_string(problem_.values.size()),
                   std::to_string(problem_.features.size()) + ", one for each feature");
  spans(problem_.begins, problem_.features.size(), "begins");
  spans(problem_.label_begins, problem_.labels.size(), "label_begins");
  for (const std::int32_t feature : problem_.features)
    if (feature < 0 || feature >= problem_.feature_count)
      detail::refuse("a feature", std::to_string(feature),
                     "below " + std::to_string(problem_.feature_count));
  for (const float value : problem_.values)
    if (!std::isfinite(value)) detail::refuse("a value", std::to_string(value), "finite");
  for (std::size_t row = 0; row < rows; ++row) check_labels(row);
  if (!options_.row_weights.empty() && options_.row_weights.size() != rows)
    detail::refuse("row_weights", std::to_string(options_.row_weights.size()),
                   std::to_string(rows) + " or none");
  for (const float weight : options_.row_weights)
    if (!above_zero(static_cast<double>(weight)))
      detail::refuse("a weight of a row", std::to_string(weight), "above 0");
  if (!options_.bias_values.empty() && options_.bias_values.size() != rows)
    detail::refuse("bias_values", std::to_string(options_.bias_values.size()),
                   std::to_string(rows) + " or none");
  for (const float value : options_.bias_values)
    if (!std::isfinite(value)) detail::refuse("a value of bias", std::to_string(value), "finite");
}

SOMA_INLINE void PanelSolver::check_labels(std::size_t row) const {
  std::int64_t before = -1;
  for (std::int64_t i = problem_.label_begins[row]; i < problem_.label_begins[row + 1]; ++i) {
    const std::int64_t label = problem_.labels[static_cast<std::size_t>(i)];
    if (label <= before || label >= problem_.class_count)
      detail::refuse("a label of row " + std::to_string(row), std::to_string(label),
                     "ascending, below " + std::to_string(problem_.class_count));
    before = label;
  }
}

SOMA_INLINE void PanelSolver::pass(const StopFlag* stop) {
  const std::vector<std::uint32_t> order =
      data::shuffled_order(problem_.rows(), options_.seed, passes_);
  const SparseKernels& kernels = *sparse_table(context_, detail::solver_name).kernels;
  const std::size_t width = model_.width, rows = problem_.rows();
  parallel(context_, static_cast<int>(model_.panels), [&](int task) {
    check_stop(stop, detail::solver_name);
    const auto panel = static_cast<std::size_t>(task);
    const auto features = static_cast<std::size_t>(problem_.feature_count);
    kernels.panel_pass(
        {.begins = problem_.begins.data(),
         .features = problem_.features.data(),
         .values = problem_.values.data(),
         .bias_values = options_.bias_values.empty() ? nullptr : options_.bias_values.data(),
         .label_begins = problem_.label_begins.data(),
         .labels = problem_.labels.data(),
         .diagonals = diagonals_.data(),
         .inverses = inverses_.data(),
         .order = order.data(),
         .count = rows,
         .first_class = static_cast<std::int32_t>(panel * width),
         .classes = classes_of(panel),
         .width = width,
         .weights = model_.weights.data() + panel * features * width,
         .bias = model_.bias.data() + panel * width,
         .duals = duals_.data() + panel * rows * width});
  });
  ++passes_;
}

SOMA_INLINE PanelSolver::Objectives PanelSolver::objectives() const {
  const std::size_t width = model_.width, rows = problem_.rows();
  const SparseKernels& kernels = *sparse_table(context_, detail::solver_name).kernels;
  std::vector<Objectives> parts(model_.panels);
  parallel(context_, static_cast<int>(model_.panels), [&](int task) {
    const auto panel = static_cast<std::size_t>(task);
    const std::size_t size = static_cast<std::size_t>(problem_.feature_count) * width;
    const float* weights = model_.weights.data() + panel * size;
    const float* bias = model_.bias.data() + panel * width;
    const float* duals = duals_.data() + panel * rows * width;
    double squares = 0;
    for (std::size_t i = 0; i < size + width; ++i) {
      const double w = static_cast<double>(i < size ? weights[i] : bias[i - size]);
      squares += w * w;
    }
    Objectives& part = parts[panel];
    part = {squares / 2, -squares / 2};
    std::vector<float> scores(width);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto begin = static_cast<std::size_t>(problem_.begins[row]);
      kernels.panel_scores(
          {.features = problem_.features.data() + begin,
           .values = problem_.values.data() + begin,
           .count = static_cast<std::size_t>(problem_.begins[row + 1]) - begin,
           .bias_value = options_.bias_values.empty() ? 1.0f : options_.bias_values[row],
           .panels = 1,
           .width = width,
           .weights = weights,
           .bias = bias,
           .y = scores.data()});
      const double weight =
          options_.row_weights.empty() ? 1 : static_cast<double>(options_.row_weights[row]);
      const double c = options_.c * weight;
      const auto of_row = problem_.labels.subspan(
          static_cast<std::size_t>(problem_.label_begins[row]),
          static_cast<std::size_t>(problem_.label_begins[row + 1] - problem_.label_begins[row]));
      for (std::size_t k = 0; k < classes_of(panel); ++k) {
        const bool own = std::binary_search(of_row.begin(), of_row.end(),
                                            static_cast<std::int32_t>(panel * width + k));
        const double s = static_cast<double>(scores[k]);
        const double miss = (std::max)(0.0, 1 - (own ? s : -s));
        const double a = static_cast<double>(duals[row * width + k]);
        part.primal += c * miss * miss;
        part.dual += a - a * a / (4 * c);
      }
    }
  });
  Objectives sum;
  for (const Objectives& part : parts) {
    sum.primal += part.primal;
    sum.dual += part.dual;
  }
  return sum;
}

SOMA_INLINE std::span<const float> PanelSolver::duals() const {
  return {duals_.data(), duals_.size()};
}

SOMA_INLINE PanelModel PanelSolver::take() {
  HeapVector<float> none(context_.heap());
  duals_ = std::move(none);
  return std::move(model_);
}

SOMA_INLINE void PanelSolver::restore(std::uint64_t passes, std::span<const float> weights,
                                      std::span<const float> bias, std::span<const float> duals) {
  const auto check_size = [](const char* what, std::size_t got, std::size_t wanted) {
    if (got != wanted) detail::refuse(what, std::to_string(got), std::to_string(wanted));
  };
  check_size("weights", weights.size(), model_.weights.size());
  check_size("bias", bias.size(), model_.bias.size());
  check_size("dual values", duals.size(), duals_.size());
  for (const float a : duals)
    if (!(a >= 0)) detail::refuse("a dual value", std::to_string(a), "at least 0");
  model_.weights.assign(weights);
  model_.bias.assign(bias);
  duals_.assign(duals);
  passes_ = passes;
}

}  // namespace SOMA_NAMESPACE::optim

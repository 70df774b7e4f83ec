#pragma once
// FastLinear: the linear part of a FastClassifier. It has counted features of texts
// (text::CountedFeatures), weights of optim::PanelSolver, and probabilities that held-out rows have
// calibrated: the logits of a text are its scores times a factor, plus (1 - m) ln(base rate), where
// m is the known share of the text. A text of unseen words has the base rates of the classes.
//
// Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/data/labels.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/ops/fields.hpp>
#include <soma/optim/panel_solver.hpp>
#include <soma/text/counted_features.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

// A number below 0 and a 0 leave the choice to the rules (fast_fit_rules()).
struct FastFitOptions {
  double c = 0;                  // for the solver; rule: 1
  double strength = -1;          // the exponent of g; rule: 0.5 up to 16 classes, else 0.35
  std::int64_t parts = -1;       // parts of words of up to so many characters; 0: none; rule: 5 for
                                 // texts of at most 400 bytes on average, else none
  std::int64_t parts_from = -1;  // rule: 2 for two classes, else 3
  std::uint64_t ngrams = 0;      // rule: 2
  std::uint64_t passes = 0;      // rule: 6
  double held_out = 0.1;         // the share of rows that calibrates, at most 5,000; 0 to 0.5
  std::uint64_t seed = 0;
  std::uint64_t memory_limit = 0;  // bytes; 0: half of the machine's
};
void fields(FieldVisitor& visitor, FastFitOptions& options);

// The settings and results of a fit, to be printed.
struct FastFitted {
  std::uint64_t rows = 0, held_out_rows = 0, features = 0, passes = 0;
  double c = 0, strength = 0, factor = 0, held_out_accuracy = 0, held_out_loss = 0, seconds = 0;
  std::uint64_t ngrams = 0, parts_from = 0, parts = 0, memory_bytes = 0;
  bool drops_single = false;
};
std::string to_string(const FastFitted& fitted);

// Texts and their classes, which belong to the caller.
struct FastLinearData {
  std::span<const std::string_view> texts{};
  std::span<const std::int64_t> label_begins{};  // [texts + 1]
  std::span<const std::int32_t> labels{};        // ascending in a text
  std::size_t classes = 0;
  data::LabelKind kind = data::LabelKind::one;  // or several
  std::span<const float> row_weights{};         // C of each text is multiplied by it; empty: 1
};

class FastLinear {
 public:
  // Calibrates with a held-out share, then fits all rows. Errors models.config_value (an option
  // outside its range, fewer than two classes), data.empty, data.labels (no row has a label),
  // memory.exhausted (before the memory is taken), runtime.stopped, context.no_sparse.
  FastLinear(Context& context, const FastLinearData& data, const FastFitOptions& options = {},
             const StopFlag* stop = nullptr);

  // Reads what save() wrote. Errors state.missing_name, state.shape, state.dtype, text.features,
  // record.missing, record.type, models.config_value.
  FastLinear(Context& context, const Record& record, const StateDict& state, std::size_t classes,
             std::string_view folder);
  void save(Record& record, StateDict& state) const;

  // The probability of each class; with several labels each alone. Thread-safe.
  std::vector<float> probabilities(std::string_view text) const;

  data::LabelKind kind() const;
  const text::CountedFeatures& features() const;
  const FastFitted& fitted() const;

 private:
  struct Part;  // rows and labels of some of the texts
  optim::PanelModel solve(const Part& part, std::uint64_t passes, double c, std::uint64_t seed,
                          const StopFlag* stop) const;
  // The logits' part that does not change with the factor stands apart from the scores.
  void scores_of(std::span<const std::int32_t> features, std::span<const float> values, float known,
                 std::vector<float>& scores) const;
  double loss_at(double factor, const std::vector<float>& scores, const std::vector<float>& known,
                 const Part& part) const;
  void calibrate(const Part& part);
  std::vector<double> shares(const float* scores, float known, double factor) const;

  Context& context_;
  std::size_t classes_ = 0;
  data::LabelKind kind_ = data::LabelKind::one;
  text::CountedFeatures features_;
  optim::PanelModel model_;
  std::vector<float> base_;  // ln(share of rows); several: ln(share / (1 - share))
  double factor_ = 1;
  FastFitted fitted_;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/fast_linear.ipp>
#endif

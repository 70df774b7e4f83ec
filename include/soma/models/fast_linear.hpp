#pragma once
// FastLinear: the classifier that FastClassifier::fit() makes. It has counted features of texts
// (text::CountedFeatures), weights of optim::PanelSolver, for many classes also an embedding bag
// (FastBag), and probabilities that held-out rows have calibrated: the scores of a text are the
// solver's plus a share of the bag's, and its logits are the scores times a factor, plus
// (1 - m) ln(base rate), where m is the known share of the text. A text of unseen words has the
// base rates of the classes.
//
// Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/data/point_source.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/fast_bag.hpp>
#include <soma/ops/fields.hpp>
#include <soma/optim/panel_solver.hpp>
#include <soma/text/counted_features.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

// The defaults of numbers with a rule leave the choice to the rule.
struct FastFitOptions {
  double c = 0;                  // C of the solver's loss (PanelOptions); rule: 1
  double strength = -1;          // the exponent of g, 0 to 4; rule: 0.5 up to 16 classes, else 0.35
  std::int64_t parts = -1;       // parts of words of up to so many characters, at most 16; 0: none;
                                 // rule: 5 for texts of at most 400 bytes on average, else none
  std::int64_t parts_from = -1;  // characters of the shortest part; rule: 2 for two classes, else 3
  std::uint64_t ngrams = 0;      // runs of up to so many words, at most 8; rule: 2
  std::uint64_t passes = 0;      // rule: 6, of a stream 3
  std::int64_t bag_width = -1;   // columns of the embedding bag; 0: none; rule: none up to 16
                                 // classes and with several labels, 32 up to 64, else 64
  std::uint64_t bag_passes = 0;  // rule: 3
  double held_out = 0.1;         // the share of rows that calibrates, at most 5,000; 0 to 0.5
  std::uint64_t seed = 0;
  std::uint64_t memory_limit = 0;  // bytes beside the texts; 0: half of the machine's
  // C of a row is multiplied by the weight of its class, above 0; empty: by 1. Probabilities and
  // base rates are then those of rows that are counted by these weights. Not for several labels.
  std::vector<float> class_weights{};
};
void fields(FieldVisitor& visitor, FastFitOptions& options);

// The settings and results of a fit, to be printed.
struct FastFitted {
  std::uint64_t rows = 0, held_out_rows = 0, features = 0, passes = 0;
  double c = 0, strength = 0, factor = 0, held_out_accuracy = 0, held_out_loss = 0, seconds = 0;
  std::uint64_t ngrams = 0, parts_from = 0, parts = 0;
  std::uint64_t memory_bytes = 0, memory_limit = 0;  // for all rows; 0: no limit is known
  bool streams = false;                              // memory_bytes are above the limit
  std::uint64_t sampled_rows = 0;                    // in a stream: the features are theirs
  std::uint64_t bag_width = 0, bag_passes = 0;
  double held_out_f1 = 0;  // with several labels, over all labels together
  bool drops_single = false, class_weights = false;
  data::LabelKind kind = data::LabelKind::one;
};
std::string to_string(const FastFitted& fitted);

// The parts of a fitted classifier that a folder keeps.
struct FastSaveOptions {
  bool fp32 = false;  // all rows as they were trained; else rows in 8 bits with a scale each,
                      // without those that have no weight
  double keep = 1;    // this share of the rows, those with the largest weights; above 0
};
void fields(FieldVisitor& visitor, FastSaveOptions& options);

// Texts and their classes, which belong to the caller.
struct FastLinearData {
  std::span<const std::string_view> texts{};
  std::span<const std::int64_t> label_begins{};  // [texts + 1]
  std::span<const std::int32_t> labels{};        // ascending in a text
  std::size_t classes = 0;
  data::LabelKind kind = data::LabelKind::one;  // or several
};

class FastLinear {
 public:
  // Calibrates with a held-out share, then fits all rows. Where options.memory_limit is too small
  // for that, rows are streamed: features come from a sample of the texts, drawn by the seed, and
  // row-wise Adagrad trains the weights, without C and an embedding bag; fitted() says so. Errors
  // models.config_value (an option outside its range, fewer than two classes), data.empty,
  // data.labels (no row has a label), memory.exhausted (even the features and weights of a small
  // sample are too large), runtime.stopped, context.no_sparse.
  FastLinear(Context& context, const FastLinearData& data, const FastFitOptions& options = {},
             const StopFlag* stop = nullptr);

  // Reads what save() wrote. Errors state.missing_name, state.shape, state.dtype, text.features,
  // record.missing, record.type, models.config_value.
  FastLinear(Context& context, const Record& record, const StateDict& state, std::size_t classes,
             std::string_view folder);
  // A compact folder (FastSaveOptions) answers nearly as this classifier does, one in fp32 to the
  // bit. Error models.config_value: keep is 0 or out of range.
  void save(Record& record, StateDict& state, const FastSaveOptions& options = {}) const;

  // The probability of each class; with several labels each alone. Thread-safe. Error
  // models.not_finite: broken weights.
  std::vector<float> probabilities(std::string_view text) const;

  data::LabelKind kind() const;
  const text::CountedFeatures& features() const;
  const FastFitted& fitted() const;

 private:
  struct Part;    // rows and labels of some of the texts
  struct Scored;  // the scores of a part's rows
  struct Stored;  // the tensors of a folder
  // The texts from which features are learnt: all of them, or a stream's sample.
  struct Learned {
    text::FeatureCounts counts{};
    bool streams = false;
    std::vector<std::uint32_t> texts{};  // the sample, ascending; empty: all texts
    std::vector<std::int64_t> label_begins{0};
    std::vector<std::int32_t> labels{};
  };
  void set_rules(const FastLinearData& data, const FastFitOptions& options);
  Learned learn(const FastLinearData& data, const FastFitOptions& options, const StopFlag* stop);
  Learned learn_sample(const FastLinearData& data, std::span<const std::uint32_t> order,
                       const FastFitOptions& options, const StopFlag* stop);
  // The bytes that a stream takes at most, beside texts and labels.
  std::uint64_t stream_bytes(const text::FeatureCounts& counts) const;
  std::size_t most_held_out(const Learned& learned) const;
  void weigh(const FastLinearData& data, const Learned& learned,
             std::span<const std::uint8_t> training);
  text::FeatureRows rows_of(std::span<const std::string_view> texts) const;
  data::SparsePoints stream_points(const FastLinearData& data,
                                   std::span<const std::uint32_t> texts) const;
  void stream(const FastLinearData& data, const Learned& learned,
              std::span<const std::uint8_t> training, const FastFitOptions& options,
              const StopFlag* stop);
  void set_base_rates(const FastLinearData& data, std::span<const float> class_weights);
  // Fits both parts of the model.
  void solve(const Part& part, std::uint64_t seed, const StopFlag* stop);
  void scores_of(std::span<const std::int32_t> features, std::span<const float> values, float known,
                 std::vector<float>& scores) const;
  void calibrate(const Part& part);
  // The factor with the least loss.
  double best_factor(const Scored& scored) const;
  void set_offsets(std::span<const float> class_weights, double share);
  double loss_at(double factor, const Scored& scored) const;
  // The probabilities of scores.
  void shares(const float* scores, float known, double factor, std::vector<double>& p) const;
  std::vector<std::size_t> kept_rows(const std::vector<float>& weights,
                                     const FastSaveOptions& options) const;
  std::size_t columns() const;  // classes of the solver's problem

  Context& context_;
  std::size_t classes_ = 0;
  data::LabelKind kind_ = data::LabelKind::one;
  text::CountedFeatures features_;
  optim::PanelModel model_;
  std::optional<FastBag> bag_;
  std::vector<float> base_;  // ln(share of rows); several: ln(share / (1 - share))
  // With class weights: a share of ln(weight), which the held-out rows choose, times m.
  std::vector<float> offsets_;
  double factor_ = 1, bag_share_ = 0;
  FastFitted fitted_;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/fast_linear.ipp>
#include <soma/models/impl/fast_linear_files.ipp>
#include <soma/models/impl/fast_stream.ipp>
#endif

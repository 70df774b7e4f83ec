#pragma once
// The functions of fast_linear.hpp.

#include <soma/models/fast_linear.hpp>

#include <soma/base/error.hpp>
#include <soma/base/fixed.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/machine.hpp>
#include <soma/text/labelled_text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

inline constexpr std::string_view linear_name = "FastClassifier::fit";
// The base rate of a class without a row: it is never predicted.
inline constexpr float never = -1e30f;

}  // namespace detail

struct FastLinear::Part {
  text::FeatureRows rows;
  std::vector<std::int64_t> label_begins{0};
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  std::size_t columns = 0;  // classes of the problem: 1 for two classes of one label

  Part(const FastLinearData& data, text::FeatureRows counted, std::span<const std::uint8_t> used,
       std::uint8_t wanted, std::size_t problem_columns)
      : rows(std::move(counted)), columns(problem_columns) {
    for (std::size_t text = 0; text < data.texts.size(); ++text) {
      if (used[text] != wanted) continue;
      for (auto i = data.label_begins[text]; i < data.label_begins[text + 1]; ++i)
        labels.push_back(data.labels[static_cast<std::size_t>(i)]);
      label_begins.push_back(static_cast<std::int64_t>(labels.size()));
      if (!data.row_weights.empty()) weights.push_back(data.row_weights[text]);
    }
  }
  std::size_t count() const { return label_begins.size() - 1; }
};

SOMA_INLINE void fields(FieldVisitor& visitor, FastFitOptions& options) {
  visitor.option("c", options.c, NumberRange::at_least(0));
  visitor.option("strength", options.strength, NumberRange::within(-1, 4));
  visitor.option("parts", options.parts, NumberRange::within(-1, 16));
  visitor.option("parts_from", options.parts_from, NumberRange::within(-1, 16));
  visitor.option("ngrams", options.ngrams, NumberRange::within(0, 8));
  visitor.option("passes", options.passes, NumberRange::within(0, 1e6));
  visitor.option("held_out", options.held_out, NumberRange::within(0, 0.5));
  visitor.option("seed", options.seed);
  visitor.option("memory_limit", options.memory_limit);
}

SOMA_INLINE std::string to_string(const FastFitted& fitted) {
  std::string text = "linear: " + std::to_string(fitted.features) + " features of " +
                     std::to_string(fitted.rows) + " rows (words, runs of up to " +
                     std::to_string(fitted.ngrams);
  if (fitted.parts != 0)
    text += ", parts of " + std::to_string(fitted.parts_from) + " to " +
            std::to_string(fitted.parts) + " characters";
  if (fitted.drops_single) text += ", none that one text has alone";
  text += "), C " + fixed(fitted.c, 2) + ", exponent " + fixed(fitted.strength, 2) + ", " +
          std::to_string(fitted.passes) + " passes";
  if (fitted.held_out_rows != 0)
    text += "; held out " + std::to_string(fitted.held_out_rows) + " rows: accuracy " +
            fixed(fitted.held_out_accuracy, 4) + ", loss " + fixed(fitted.held_out_loss, 4);
  return text + ", factor " + fixed(fitted.factor, 2) + "; " + fixed(fitted.seconds, 2) + " s";
}

SOMA_INLINE FastLinear::FastLinear(Context& context, const FastLinearData& data,
                                   const FastFitOptions& options, const StopFlag* stop)
    : context_(context), classes_(data.classes), kind_(data.kind), model_(context.heap()) {
  const FloatEnvironment environment;
  const std::int64_t start = monotonic_nanoseconds();
  check_ranges(detail::linear_name, options, error_id::config_value);
  if (classes_ < 2)
    fail(error_id::config_value, detail::linear_name, "classes", std::to_string(classes_),
         "at least 2");
  const std::size_t count = data.texts.size();
  if (count == 0) fail(error_id::data_empty, detail::linear_name, "rows", "none", "at least one");
  if (data.labels.empty())
    fail(error_id::data_labels, detail::linear_name, "labels", "none in any row",
         "a row with a label");
  std::uint64_t bytes = 0;
  for (const std::string_view text : data.texts) bytes += text.size();
  const bool brief = bytes <= 400 * std::uint64_t{count};
  text::CountedFeatureOptions counting;
  if (options.ngrams != 0) counting.ngrams = options.ngrams;
  counting.parts = options.parts >= 0 ? static_cast<std::size_t>(options.parts) : brief ? 5u : 0u;
  counting.parts_from = options.parts_from > 0 ? static_cast<std::size_t>(options.parts_from)
                        : classes_ == 2        ? 2u
                                               : 3u;
  counting.parts_from = (std::min)(counting.parts_from, counting.parts);
  counting.strength = options.strength >= 0 ? options.strength : classes_ <= 16 ? 0.5 : 0.35;
  counting.drop_single = !brief;
  fitted_ = {.rows = count,
             .passes = options.passes != 0 ? options.passes : 6,
             .c = options.c > 0 ? options.c : 1,
             .strength = counting.strength,
             .ngrams = counting.ngrams,
             .parts_from = counting.parts_from,
             .parts = counting.parts,
             .drops_single = counting.drop_single};

  features_ = text::CountedFeatures(counting);
  const text::FeatureCounts counts = features_.learn(context, data.texts);
  check_stop(stop, detail::linear_name);
  fitted_.features = features_.rows();
  const std::size_t columns = classes_ == 2 && kind_ == data::LabelKind::one ? 1 : classes_;
  fitted_.memory_bytes = optim::PanelSolver::memory_bytes(count, features_.rows(), columns) +
                         std::uint64_t{counts.rows.size()} * 16;
  const std::uint64_t limit =
      options.memory_limit != 0 ? options.memory_limit : physical_memory_bytes() / 2;
  if (limit != 0 && fitted_.memory_bytes > limit)
    fail(error_id::out_of_memory, detail::linear_name,
         "weights and dual values of " + std::to_string(count) + " rows x " +
             std::to_string(classes_) + " classes with " + std::to_string(features_.rows()) +
             " features",
         std::to_string(fitted_.memory_bytes) + " bytes", "at most " + std::to_string(limit));

  std::vector<double> rows_of(classes_);
  for (const std::int32_t label : data.labels) rows_of[static_cast<std::size_t>(label)] += 1;
  base_.resize(classes_);
  for (std::size_t c = 0; c < classes_; ++c) {
    const double share = rows_of[c] / static_cast<double>(count);
    base_[c] = share <= 0 ? detail::never
               : kind_ == data::LabelKind::one
                   ? static_cast<float>(portable_log(share))
                   : static_cast<float>(portable_log(share / (std::max)(1 - share, 1e-6)));
  }

  std::vector<std::uint8_t> training(count, 1);
  std::size_t held = 0;
  for (std::size_t i = 0; i < count && held < 5000; ++i)
    if (options.held_out > 0 &&
        text::is_validation(data.texts[i], options.held_out, options.seed)) {
      training[i] = 0;
      ++held;
    }
  factor_ = 2;  // where too few rows are held out to tell
  if (held >= 20 && held < count) {
    features_.weigh(counts, data.label_begins, data.labels, classes_, training);
    model_ = solve(Part(data, features_.values(counts, training, 1), training, 1, columns),
                   fitted_.passes, fitted_.c, options.seed, stop);
    calibrate(Part(data, features_.values(counts, training, 0), training, 0, columns));
    model_ = optim::PanelModel(context.heap());
  }
  std::fill(training.begin(), training.end(), std::uint8_t{1});
  features_.weigh(counts, data.label_begins, data.labels, classes_, training);
  model_ = solve(Part(data, features_.values(counts, training, 1), training, 1, columns),
                 fitted_.passes, fitted_.c, options.seed, stop);
  fitted_.factor = factor_;
  fitted_.seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
}

SOMA_INLINE optim::PanelModel FastLinear::solve(const Part& part, std::uint64_t passes, double c,
                                                std::uint64_t seed, const StopFlag* stop) const {
  std::vector<std::int64_t> begins = part.label_begins;
  std::vector<std::int32_t> labels = part.labels;
  if (part.columns == 1) {  // the second class against the first
    labels.clear();
    begins.assign(1, 0);
    for (std::size_t row = 0; row < part.count(); ++row) {
      if (part.label_begins[row + 1] > part.label_begins[row] &&
          part.labels[static_cast<std::size_t>(part.label_begins[row])] == 1)
        labels.push_back(0);
      begins.push_back(static_cast<std::int64_t>(labels.size()));
    }
  }
  const optim::PanelProblem problem{.begins = part.rows.begins,
                                    .features = part.rows.features,
                                    .values = part.rows.values,
                                    .label_begins = begins,
                                    .labels = labels,
                                    .feature_count = static_cast<std::int64_t>(features_.rows()),
                                    .class_count = static_cast<std::int64_t>(part.columns)};
  optim::PanelSolver solver(
      context_, problem,
      {.c = c, .row_weights = part.weights, .bias_values = part.rows.known, .seed = seed});
  for (std::uint64_t pass = 0; pass < passes; ++pass) solver.pass(stop);
  return solver.take();
}

SOMA_INLINE void FastLinear::scores_of(std::span<const std::int32_t> features,
                                       std::span<const float> values, float known,
                                       std::vector<float>& scores) const {
  scores.resize((std::max)(model_.panels * model_.width, classes_));
  model_.score(context_, features, values, known, scores);
  if (model_.class_count == 1) {
    scores[1] = scores[0];
    scores[0] = -scores[0];
  }
}

SOMA_INLINE std::vector<double> FastLinear::shares(const float* scores, float known,
                                                   double factor) const {
  std::vector<double> p(classes_);
  const double unknown = 1 - static_cast<double>(known);
  double most = -1e300;
  for (std::size_t c = 0; c < classes_; ++c) {
    p[c] = factor * static_cast<double>(scores[c]) + unknown * static_cast<double>(base_[c]);
    if (base_[c] == detail::never) p[c] = static_cast<double>(detail::never);
    most = (std::max)(most, p[c]);
  }
  double sum = 0;
  for (double& value : p) {
    if (kind_ != data::LabelKind::one)
      value = 1 / (1 + portable_exp((std::min)(-value, 700.0)));
    else
      sum += value = portable_exp(value - most);
  }
  if (kind_ == data::LabelKind::one)
    for (double& value : p) value /= sum;
  return p;
}

SOMA_INLINE double FastLinear::loss_at(double factor, const std::vector<float>& scores,
                                       const std::vector<float>& known, const Part& part) const {
  double loss = 0;
  for (std::size_t row = 0; row < part.count(); ++row) {
    const std::vector<double> p = shares(scores.data() + row * classes_, known[row], factor);
    const auto begin = part.labels.begin() + part.label_begins[row];
    const auto end = part.labels.begin() + part.label_begins[row + 1];
    if (kind_ == data::LabelKind::one) {
      loss -= portable_log((std::max)(p[static_cast<std::size_t>(*begin)], 1e-30));
      continue;
    }
    for (std::size_t c = 0; c < classes_; ++c) {
      const bool own = std::binary_search(begin, end, static_cast<std::int32_t>(c));
      loss -= portable_log((std::max)(own ? p[c] : 1 - p[c], 1e-30));
    }
  }
  return loss / static_cast<double>(part.count());
}

SOMA_INLINE void FastLinear::calibrate(const Part& part) {
  std::vector<float> scores(part.count() * classes_), one;
  std::size_t right = 0;
  for (std::size_t row = 0; row < part.count(); ++row) {
    const auto begin = static_cast<std::size_t>(part.rows.begins[row]);
    const auto size = static_cast<std::size_t>(part.rows.begins[row + 1]) - begin;
    scores_of(std::span(part.rows.features).subspan(begin, size),
              std::span(part.rows.values).subspan(begin, size), part.rows.known[row], one);
    std::copy_n(one.begin(), classes_,
                scores.begin() + static_cast<std::ptrdiff_t>(row * classes_));
  }
  // The loss has one minimum in the factor: golden section over its logarithm.
  constexpr double ratio = 0.6180339887498949;
  double low = portable_log(0.05), high = portable_log(50);
  const auto loss = [&](double x) {
    return loss_at(portable_exp(x), scores, part.rows.known, part);
  };
  double left = high - ratio * (high - low), right_place = low + ratio * (high - low);
  double left_loss = loss(left), right_loss = loss(right_place);
  for (int step = 0; step < 16; ++step) {
    if (left_loss < right_loss) {
      high = right_place;
      right_place = left;
      right_loss = left_loss;
      left_loss = loss(left = high - ratio * (high - low));
    } else {
      low = left;
      left = right_place;
      left_loss = right_loss;
      right_loss = loss(right_place = low + ratio * (high - low));
    }
  }
  factor_ = portable_exp((low + high) / 2);
  for (std::size_t row = 0; row < part.count(); ++row) {
    const std::vector<double> p =
        shares(scores.data() + row * classes_, part.rows.known[row], factor_);
    const auto best = static_cast<std::int32_t>(std::max_element(p.begin(), p.end()) - p.begin());
    const auto begin = part.labels.begin() + part.label_begins[row];
    right += std::binary_search(begin, part.labels.begin() + part.label_begins[row + 1], best);
  }
  fitted_.held_out_rows = part.count();
  fitted_.held_out_accuracy = static_cast<double>(right) / static_cast<double>(part.count());
  fitted_.held_out_loss = loss(portable_log(factor_));
}

SOMA_INLINE std::vector<float> FastLinear::probabilities(std::string_view text) const {
  const FloatEnvironment environment;
  text::FeatureRows row;
  features_.add(text, row);
  std::vector<float> scores;
  scores_of(row.features, row.values, row.known.front(), scores);
  const std::vector<double> p = shares(scores.data(), row.known.front(), factor_);
  std::vector<float> result(classes_);
  for (std::size_t c = 0; c < classes_; ++c) {
    if (!std::isfinite(p[c]))
      fail(error_id::model_not_finite, "FastClassifier::predict", "scores of a text",
           std::to_string(p[c]), "finite numbers: broken weights?");
    result[c] = static_cast<float>(p[c]);
  }
  return result;
}

SOMA_INLINE data::LabelKind FastLinear::kind() const { return kind_; }
SOMA_INLINE const text::CountedFeatures& FastLinear::features() const { return features_; }
SOMA_INLINE const FastFitted& FastLinear::fitted() const { return fitted_; }

SOMA_INLINE void FastLinear::save(Record& record, StateDict& state) const {
  const text::CountedFeatures::Table& table = features_.table();
  record.set("linear.ngrams", features_.options().ngrams);
  record.set("linear.parts_from", features_.options().parts_from);
  record.set("linear.parts", features_.options().parts);
  record.set("linear.part_weight", features_.options().part_weight);
  record.set("linear.strength", features_.options().strength);
  record.set("linear.bits", table.bits);
  record.set("linear.unknown_idf", static_cast<double>(table.unknown_idf));
  record.set("linear.factor", factor_);
  record.set("linear.several", kind_ != data::LabelKind::one);
  const std::size_t rows = features_.rows();
  const auto columns = static_cast<std::size_t>(model_.class_count);
  const auto put = [&](const char* name, const auto& values, const Shape& shape) {
    using T = typename std::remove_cvref_t<decltype(values)>::value_type;
    state.set(name,
              Tensor::from(context_, std::span<const T>(values.data(), values.size()), shape));
  };
  put("linear.places", table.places, Shape{rows});
  const std::vector<std::int32_t> fingerprints(table.fingerprints.begin(),
                                               table.fingerprints.end());
  put("linear.fingerprints", fingerprints, Shape{rows});
  put("linear.idf", table.idf, Shape{rows});
  put("linear.g", table.g, Shape{rows});
  const std::vector<std::int32_t> of_part(table.of_part.begin(), table.of_part.end());
  put("linear.of_part", of_part, Shape{rows});
  std::vector<float> weights(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t c = 0; c < columns; ++c) weights[row * columns + c] = model_.weight(row, c);
  put("linear.weight", weights, Shape{rows, columns});
  put("linear.bias", std::vector<float>(model_.bias.begin(), model_.bias.begin() + columns),
      Shape{columns});
  put("linear.base", base_, Shape{classes_});
}

SOMA_INLINE FastLinear::FastLinear(Context& context, const Record& record, const StateDict& state,
                                   std::size_t classes, std::string_view folder)
    : context_(context), classes_(classes), model_(context.heap()) {
  constexpr std::string_view operation = "FastClassifier::from_folder";
  static_cast<void>(sparse_table(context, operation));
  const auto entry = [&]<class T>(const char* name, DType dtype, const Shape& shape,
                                  std::vector<T>& to) {
    const Tensor* found = state.find(name);
    if (found == nullptr)
      fail(error_id::missing_name, operation, "model.safetensors of " + soma::quoted(folder),
           "without " + soma::quoted(name), "a model that was saved whole");
    if (found->dtype() != dtype)
      fail(error_id::state_dtype, operation, soma::quoted(name), found->describe(),
           to_string(dtype));
    if (found->shape() != shape)
      fail(error_id::state_shape, operation, soma::quoted(name), found->describe(),
           to_string(shape));
    const auto span = found->span<T>();
    to.assign(span.begin(), span.end());
  };
  const auto in_range = [&](bool fits, const char* what, const std::string& got,
                            const std::string& wanted) {
    if (!fits)
      fail(error_id::config_value, operation,
           std::string(what).append(" of ").append(soma::quoted(folder)), got, wanted);
  };
  kind_ = record.boolean("linear.several") ? data::LabelKind::several : data::LabelKind::one;
  factor_ = record.number("linear.factor");
  in_range(std::isfinite(factor_) && factor_ > 0, "linear.factor", std::to_string(factor_),
           "above 0");
  text::CountedFeatureOptions counting;
  counting.ngrams = record.count("linear.ngrams");
  counting.parts_from = record.count("linear.parts_from");
  counting.parts = record.count("linear.parts");
  counting.part_weight = record.number("linear.part_weight");
  counting.strength = record.number("linear.strength");
  const Tensor* places = state.find("linear.places");
  const std::size_t rows = places == nullptr ? 0 : places->elements();
  text::CountedFeatures::Table table;
  table.bits =
      static_cast<std::int32_t>((std::min)(record.count("linear.bits"), std::uint64_t{99}));
  table.unknown_idf = static_cast<float>(record.number("linear.unknown_idf"));
  std::vector<std::int32_t> fingerprints, of_part;
  entry("linear.places", DType::int32, Shape{rows}, table.places);
  entry("linear.fingerprints", DType::int32, Shape{rows}, fingerprints);
  entry("linear.idf", DType::fp32, Shape{rows}, table.idf);
  entry("linear.g", DType::fp32, Shape{rows}, table.g);
  entry("linear.of_part", DType::int32, Shape{rows}, of_part);
  for (const std::int32_t one : fingerprints) {
    in_range(one >= 0 && one <= 0xFFFF, "linear.fingerprints", std::to_string(one), "0 to 65535");
    table.fingerprints.push_back(static_cast<std::uint16_t>(one));
  }
  for (const std::int32_t one : of_part) {
    in_range(one == 0 || one == 1, "linear.of_part", std::to_string(one), "0 or 1");
    table.of_part.push_back(static_cast<std::uint8_t>(one));
  }
  features_ = text::CountedFeatures(counting, std::move(table));
  const std::size_t columns = classes == 2 && kind_ == data::LabelKind::one ? 1 : classes;
  std::vector<float> weights, bias;
  entry("linear.weight", DType::fp32, Shape{rows, columns}, weights);
  entry("linear.bias", DType::fp32, Shape{columns}, bias);
  entry("linear.base", DType::fp32, Shape{classes}, base_);
  model_ = optim::PanelModel::of_rows(context.heap(), rows, columns, weights, bias);
  fitted_.factor = factor_;
  fitted_.features = rows;
}

}  // namespace SOMA_NAMESPACE::models

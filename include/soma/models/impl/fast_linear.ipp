#pragma once
// The functions of fast_linear.hpp.

#include <soma/models/fast_linear.hpp>

#include <soma/base/error.hpp>
#include <soma/base/fixed.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/system/clock.hpp>
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
  std::vector<float> weights;  // one for each row; empty: 1
  std::span<const float> class_weights;

  Part(const FastLinearData& data, std::span<const float> of_classes, text::FeatureRows counted,
       std::span<const std::uint8_t> used, std::uint8_t wanted)
      : rows(std::move(counted)), class_weights(of_classes) {
    for (std::size_t text = 0; text < data.texts.size(); ++text) {
      if (used[text] != wanted) continue;
      for (auto i = data.label_begins[text]; i < data.label_begins[text + 1]; ++i)
        labels.push_back(data.labels[static_cast<std::size_t>(i)]);
      label_begins.push_back(static_cast<std::int64_t>(labels.size()));
      if (!of_classes.empty())
        weights.push_back(of_classes[static_cast<std::size_t>(labels.back())]);
    }
  }
  std::size_t count() const { return label_begins.size() - 1; }
  std::span<const std::int32_t> labels_of(std::size_t row) const {
    return std::span(labels).subspan(
        static_cast<std::size_t>(label_begins[row]),
        static_cast<std::size_t>(label_begins[row + 1] - label_begins[row]));
  }
};

struct FastLinear::Scored {
  const Part& part;
  std::vector<float> scores;  // [rows, classes]
};

SOMA_INLINE void fields(FieldVisitor& visitor, FastFitOptions& options) {
  visitor.option("c", options.c, NumberRange::at_least(0));
  visitor.option("strength", options.strength, NumberRange::within(-1, 4));
  visitor.option("parts", options.parts, NumberRange::within(-1, 16));
  visitor.option("parts_from", options.parts_from, NumberRange::within(-1, 16));
  visitor.option("ngrams", options.ngrams, NumberRange::within(0, 8));
  visitor.option("passes", options.passes, NumberRange::within(0, 1e6));
  visitor.option("bag_width", options.bag_width, NumberRange::within(-1, 4096));
  visitor.option("bag_passes", options.bag_passes, NumberRange::within(0, 1e6));
  visitor.option("held_out", options.held_out, NumberRange::within(0, 0.5));
  visitor.option("seed", options.seed);
  visitor.option("memory_limit", options.memory_limit);
}

SOMA_INLINE std::string to_string(const FastFitted& fitted) {
  std::string text =
      "linear: " + std::to_string(fitted.features) + " features of " +
      (fitted.streams ? std::to_string(fitted.sampled_rows) + " sampled rows of " : std::string()) +
      std::to_string(fitted.rows) + " rows (words, runs of up to " + std::to_string(fitted.ngrams);
  if (fitted.parts != 0)
    text += ", parts of " + std::to_string(fitted.parts_from) + " to " +
            std::to_string(fitted.parts) + " characters";
  if (fitted.drops_single) text += ", none that one text has alone";
  text += "), ";
  if (!fitted.streams) text += "C " + fixed(fitted.c, 2) + ", ";
  text +=
      "exponent " + fixed(fitted.strength, 2) + ", " + std::to_string(fitted.passes) + " passes";
  if (fitted.streams)
    text += " of a stream by row-wise Adagrad, without C and bag: all rows in memory take " +
            std::to_string(fitted.memory_bytes) + " bytes, the limit is " +
            std::to_string(fitted.memory_limit);
  if (fitted.bag_width != 0)
    text += ", an embedding bag of width " + std::to_string(fitted.bag_width) + " in " +
            std::to_string(fitted.bag_passes) + " passes";
  if (fitted.class_weights) text += ", rows counted by class weights, also in probabilities";
  if (fitted.held_out_rows != 0)
    text += "; held out " + std::to_string(fitted.held_out_rows) + " rows: " +
            (fitted.kind == data::LabelKind::one ? "accuracy " + fixed(fitted.held_out_accuracy, 4)
                                                 : "micro F1 " + fixed(fitted.held_out_f1, 4)) +
            ", loss " + fixed(fitted.held_out_loss, 4);
  return text + ", factor " + fixed(fitted.factor, 2) + "; " + fixed(fitted.seconds, 2) + " s";
}

SOMA_INLINE std::size_t FastLinear::columns() const {
  return classes_ == 2 && kind_ == data::LabelKind::one ? 1 : classes_;
}

SOMA_INLINE void FastLinear::set_rules(const FastLinearData& data, const FastFitOptions& options) {
  const std::size_t count = data.texts.size();
  std::uint64_t bytes = 0;
  for (const std::string_view text : data.texts) bytes += text.size();
  const bool brief = text::are_short(bytes, count);
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
             .bag_width = options.bag_width >= 0 ? static_cast<std::uint64_t>(options.bag_width)
                          : kind_ == data::LabelKind::one ? fast_bag_width_for(classes_)
                                                          : 0,
             .bag_passes = options.bag_passes != 0 ? options.bag_passes : 3,
             .drops_single = counting.drop_single,
             .class_weights = !options.class_weights.empty(),
             .kind = kind_};
  features_ = text::CountedFeatures(counting);
}

SOMA_INLINE void FastLinear::set_base_rates(const FastLinearData& data,
                                            std::span<const float> class_weights) {
  std::vector<double> of_class(classes_);
  for (const std::int32_t label : data.labels) of_class[static_cast<std::size_t>(label)] += 1;
  auto all = static_cast<double>(data.texts.size());
  if (!class_weights.empty()) {
    all = 0;
    for (std::size_t c = 0; c < classes_; ++c)
      all += of_class[c] *= static_cast<double>(class_weights[c]);
  }
  base_.resize(classes_);
  for (std::size_t c = 0; c < classes_; ++c) {
    const double share = of_class[c] / all;
    base_[c] = share <= 0 ? detail::never
               : kind_ == data::LabelKind::one
                   ? static_cast<float>(portable_log(share))
                   : static_cast<float>(portable_log(share / (std::max)(1 - share, 1e-6)));
  }
}

namespace detail {

inline void check_fast_data(const FastLinearData& data, const FastFitOptions& options) {
  check_ranges(linear_name, options, error_id::config_value);
  if (data.classes < 2)
    fail(error_id::config_value, linear_name, "classes", std::to_string(data.classes),
         "at least 2");
  if (data.texts.empty()) fail(error_id::data_empty, linear_name, "rows", "none", "at least one");
  if (data.labels.empty())
    fail(error_id::data_labels, linear_name, "labels", "none in any row", "a row with a label");
  if (options.class_weights.empty()) return;
  if (data.kind != data::LabelKind::one)
    fail(error_id::config_value, linear_name, "class_weights", "with several labels a row",
         "rows with one label each");
  if (options.class_weights.size() != data.classes)
    fail(error_id::config_value, linear_name, "class_weights",
         std::to_string(options.class_weights.size()),
         std::to_string(data.classes) + ", one for each class");
  for (const std::int32_t label : data.labels) {
    const float weight = options.class_weights[static_cast<std::size_t>(label)];
    if (!(weight > 0) || !std::isfinite(weight))
      fail(error_id::config_value, linear_name,
           "weight of class " + std::to_string(label) + ", which has rows", std::to_string(weight),
           "above 0");
  }
}

}  // namespace detail

SOMA_INLINE FastLinear::FastLinear(Context& context, const FastLinearData& data,
                                   const FastFitOptions& options, const StopFlag* stop)
    : context_(context), classes_(data.classes), kind_(data.kind), model_(context.heap()) {
  const FloatEnvironment environment;
  const std::int64_t start = monotonic_nanoseconds();
  detail::check_fast_data(data, options);
  set_rules(data, options);
  const Learned learned = learn(data, options, stop);
  set_base_rates(data, options.class_weights);

  const std::size_t count = data.texts.size(), most_held = most_held_out(learned);
  std::vector<std::uint8_t> training(count, 1);
  std::vector<std::string_view> held_out;
  for (std::size_t i = 0; i < count && held_out.size() < most_held; ++i)
    if (options.held_out > 0 &&
        text::is_validation(data.texts[i], options.held_out, options.seed)) {
      training[i] = 0;
      held_out.push_back(data.texts[i]);
    }
  const auto part = [&](std::uint8_t wanted) {
    return Part(
        data, options.class_weights,
        learned.streams ? rows_of(held_out) : features_.values(learned.counts, training, wanted),
        training, wanted);
  };
  const auto fit = [&] {
    weigh(data, learned, training);
    if (learned.streams)
      stream(data, learned, training, options, stop);
    else
      solve(part(1), options.seed, stop);
  };
  // Where too few rows are held out to tell:
  factor_ = learned.streams ? 1 : 2;
  bag_share_ = fitted_.bag_width != 0 ? 0.1 : 0;
  set_offsets(options.class_weights, 0.5);
  if (held_out.size() >= 20 && held_out.size() < count) {
    fit();
    calibrate(part(0));
    model_ = optim::PanelModel(context.heap());
    bag_.reset();
  }
  std::fill(training.begin(), training.end(), std::uint8_t{1});
  fit();
  fitted_.factor = factor_;
  fitted_.seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
}

SOMA_INLINE void FastLinear::solve(const Part& part, std::uint64_t seed, const StopFlag* stop) {
  std::vector<std::int64_t> begins = part.label_begins;
  std::vector<std::int32_t> labels = part.labels;
  if (columns() == 1) {  // the second class against the first
    labels.clear();
    begins.assign(1, 0);
    for (std::size_t row = 0; row < part.count(); ++row) {
      const auto own = part.labels_of(row);
      if (!own.empty() && own.front() == 1) labels.push_back(0);
      begins.push_back(static_cast<std::int64_t>(labels.size()));
    }
  }
  const optim::PanelProblem problem{.begins = part.rows.begins,
                                    .features = part.rows.features,
                                    .values = part.rows.values,
                                    .label_begins = begins,
                                    .labels = labels,
                                    .feature_count = static_cast<std::int64_t>(features_.rows()),
                                    .class_count = static_cast<std::int64_t>(columns())};
  optim::PanelSolver solver(
      context_, problem,
      {.c = fitted_.c, .row_weights = part.weights, .bias_values = part.rows.known, .seed = seed});
  for (std::uint64_t pass = 0; pass < fitted_.passes; ++pass) solver.pass(stop);
  model_ = solver.take();
  if (fitted_.bag_width == 0) return;
  bag_ =
      FastBag::fit(context_,
                   {.texts = part.rows,
                    .features = features_.rows(),
                    .label_begins = part.label_begins,
                    .labels = part.labels,
                    .classes = classes_,
                    .kind = kind_,
                    .class_weights = part.class_weights},
                   {.width = fitted_.bag_width, .passes = fitted_.bag_passes, .seed = seed}, stop);
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
  if (bag_) bag_->add(features, values, known, static_cast<float>(bag_share_), scores.data());
}

SOMA_INLINE void FastLinear::shares(const float* scores, float known, double factor,
                                    std::vector<double>& p) const {
  p.resize(classes_);
  const double unknown = 1 - static_cast<double>(known);
  double most = -1e300;
  for (std::size_t c = 0; c < classes_; ++c) {
    p[c] = factor * static_cast<double>(scores[c]) + unknown * static_cast<double>(base_[c]);
    if (!offsets_.empty()) p[c] += static_cast<double>(known) * static_cast<double>(offsets_[c]);
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
}

SOMA_INLINE double FastLinear::loss_at(double factor, const Scored& scored) const {
  const Part& part = scored.part;
  std::vector<double> losses(part.count());
  // 64 bytes of reading a class, or so: exponentials take the time.
  soma::detail::for_ranges(
      context_, part.count(), 64 * classes_, [&](std::size_t begin, std::size_t end) {
        std::vector<double> p;
        for (std::size_t row = begin; row < end; ++row) {
          shares(scored.scores.data() + row * classes_, part.rows.known[row], factor, p);
          const auto own = part.labels_of(row);
          if (kind_ == data::LabelKind::one) {
            losses[row] =
                -portable_log((std::max)(p[static_cast<std::size_t>(own.front())], 1e-30));
            continue;
          }
          for (const std::int32_t label : own) {
            double& one = p[static_cast<std::size_t>(label)];
            one = 1 - one;
          }
          for (const double miss : p) losses[row] -= portable_log((std::max)(1 - miss, 1e-30));
        }
      });
  double loss = 0, weights = 0;
  for (std::size_t row = 0; row < part.count(); ++row) {
    const double weight = part.weights.empty() ? 1 : static_cast<double>(part.weights[row]);
    loss += weight * losses[row];
    weights += weight;
  }
  return loss / weights;
}

SOMA_INLINE double FastLinear::best_factor(const Scored& scored) const {
  // The loss has one minimum in the factor: golden section over its logarithm, to 2 %.
  constexpr double ratio = 0.6180339887498949;
  double low = portable_log(0.05), high = portable_log(50);
  const auto loss = [&](double x) { return loss_at(portable_exp(x), scored); };
  double left = high - ratio * (high - low), right = low + ratio * (high - low);
  double left_loss = loss(left), right_loss = loss(right);
  for (int step = 0; step < 12; ++step) {
    if (left_loss < right_loss) {
      high = right;
      right = left;
      right_loss = left_loss;
      left_loss = loss(left = high - ratio * (high - low));
    } else {
      low = left;
      left = right;
      left_loss = right_loss;
      right_loss = loss(right = low + ratio * (high - low));
    }
  }
  return portable_exp((low + high) / 2);
}

SOMA_INLINE void FastLinear::set_offsets(std::span<const float> class_weights, double share) {
  offsets_.clear();
  for (const float weight : class_weights)
    offsets_.push_back(
        weight > 0 ? static_cast<float>(share * portable_log(static_cast<double>(weight))) : 0.0f);
}

SOMA_INLINE void FastLinear::calibrate(const Part& part) {
  const auto scored = [&](bool linear, bool bag) {
    Scored result{part, std::vector<float>(part.count() * classes_)};
    soma::detail::for_ranges(
        context_, part.count(), 64 * classes_, [&](std::size_t first, std::size_t last) {
          std::vector<float> one;
          for (std::size_t row = first; row < last; ++row) {
            const auto begin = static_cast<std::size_t>(part.rows.begins[row]);
            const auto size = static_cast<std::size_t>(part.rows.begins[row + 1]) - begin;
            const auto features = std::span(part.rows.features).subspan(begin, size);
            const auto values = std::span(part.rows.values).subspan(begin, size);
            float* to = result.scores.data() + row * classes_;
            if (linear) {
              scores_of(features, values, part.rows.known[row], one);
              std::copy_n(one.begin(), classes_, to);
            } else if (bag) {
              bag_->add(features, values, part.rows.known[row], 1, to);
            }
          }
        });
    return result;
  };
  offsets_.clear();
  if (bag_) {
    // Half of the bag's calibrated logits are added to those of the linear part.
    bag_share_ = 0;
    const double linear = best_factor(scored(true, false));
    bag_share_ = 0.5 * best_factor(scored(false, true)) / linear;
  }
  const Scored both = scored(true, true);
  factor_ = best_factor(both);
  // C alone hardly moves the border where texts are far apart: the logits of a class move as well.
  double least = loss_at(factor_, both), chosen = 0;
  for (int step = 1; step <= 8 && !part.class_weights.empty(); ++step) {
    set_offsets(part.class_weights, step * 0.25);
    const double factor = best_factor(both);
    const double loss = loss_at(factor, both);
    if (!(loss < least)) continue;
    least = loss;
    chosen = step * 0.25;
    factor_ = factor;
  }
  set_offsets(part.class_weights, chosen);
  std::uint64_t right = 0, hits = 0, labels = 0, answers = 0;
  std::vector<double> p;
  for (std::size_t row = 0; row < part.count(); ++row) {
    shares(both.scores.data() + row * classes_, part.rows.known[row], factor_, p);
    const auto own = part.labels_of(row);
    const auto has = [&](std::size_t c) {
      return std::binary_search(own.begin(), own.end(), static_cast<std::int32_t>(c));
    };
    right += has(static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin()));
    labels += own.size();
    for (std::size_t c = 0; c < classes_; ++c)
      if (p[c] > 0.5) {
        ++answers;
        hits += has(c);
      }
  }
  fitted_.held_out_rows = part.count();
  fitted_.held_out_accuracy = static_cast<double>(right) / static_cast<double>(part.count());
  if (labels + answers != 0)
    fitted_.held_out_f1 = 2 * static_cast<double>(hits) / static_cast<double>(labels + answers);
  fitted_.held_out_loss = loss_at(factor_, both);
}

SOMA_INLINE std::vector<float> FastLinear::probabilities(std::string_view text) const {
  const FloatEnvironment environment;
  text::FeatureRows row;
  features_.add(text, row);
  std::vector<float> scores;
  scores_of(row.features, row.values, row.known.front(), scores);
  std::vector<double> p;
  shares(scores.data(), row.known.front(), factor_, p);
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

}  // namespace SOMA_NAMESPACE::models

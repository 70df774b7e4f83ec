// One run of a study, and its measurements beside the loss.

#include "bert_classifier/train/reviews.hpp"
#include "study.hpp"

#include <soma/data/content_hash.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/soma.hpp>
#include <soma/text/train_vocabulary.hpp>
#include <soma/train/trainer.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace {

using soma::models::TextClassifier;

constexpr std::size_t curve_points = 60;

// Samples every `every` steps: counts the effects of conversions, and the weights that an update
// left unchanged.
class Watch final : public soma::train::Callback {
 public:
  Watch(soma::Context& context, const soma::Parameters& parameters, soma::PrecisionState& state,
        std::uint64_t every)
      : context_(context), state_(state), every_(every) {
    // Embeddings are left out: most of their rows do not change because their token did not occur.
    for (const soma::Parameter& parameter : parameters)
      if (parameter.value().rank() == 2 && parameter.name.find("embeddings") == std::string::npos)
        weights_.push_back(parameter);
  }

  void on_step(const soma::train::StepInfo& step) override {
    losses.push_back(step.loss);
    const bool sampled = !before_.empty();
    if (sampled) compare();
    if (!sampled && step.step > 1) {
      tokens_ += static_cast<double>(step.tokens);
      seconds_ += step.seconds;
    }
    const bool next = every_ != 0 && step.step % every_ == every_ / 2;
    state_.collect_statistics(next);
    if (!next) return;
    for (const soma::Parameter& weight : weights_)
      before_.push_back(soma::clone(context_, numbers(weight)));
  }

  // Leaves out sampled steps, which are slower, and the first step.
  double tokens_per_second() const { return seconds_ == 0 ? 0 : tokens_ / seconds_; }
  double unmoved_share() const {
    return compared_ == 0 ? -1 : static_cast<double>(unmoved_) / static_cast<double>(compared_);
  }
  std::vector<double> losses;

 private:
  soma::Tensor numbers(const soma::Parameter& weight) const {
    return soma::run(context_, *context_.built_in().cast, soma::CastSetting{}, {weight.value()})[0];
  }
  void compare() {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const soma::Tensor after = numbers(weights_[i]);
      unmoved_ += soma::numeric::unmoved(before_[i].span<float>(), after.span<float>());
      compared_ += after.elements();
    }
    before_.clear();
  }

  soma::Context& context_;
  soma::PrecisionState& state_;
  std::uint64_t every_, unmoved_ = 0, compared_ = 0;
  double tokens_ = 0, seconds_ = 0;
  soma::Parameters weights_;
  std::vector<soma::Tensor> before_;
};

double mean(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += values[i];
  return end == begin ? 0 : sum / static_cast<double>(end - begin);
}

TextClassifier make_model(soma::Context& context, const StudyOptions& options,
                          const StudyData& data, std::uint64_t seed) {
  const soma::models::TextClassifierOptions settings{.labels = data.labels,
                                                     .max_length = options.max_length,
                                                     .seed = seed,
                                                     .dropout = options.dropout};
  if (!options.pretrained.empty())
    return TextClassifier::from_pretrained(context, options.pretrained, settings);
  soma::text::VocabularyTrainer trainer;
  for (const auto& row : data.train) trainer.add(row.text);
  soma::text::Tokenizer tokenizer(trainer.train({.size = options.data.empty() ? 1000u : 8000u}),
                                  {});
  soma::models::BertConfig config = soma::models::BertConfig::tiny();
  config.vocabulary = tokenizer.vocabulary().size();
  config.deviation = 0.05f;
  return TextClassifier(context, std::move(tokenizer), config, settings);
}

StudyData made_up(std::size_t count) {
  StudyData data;
  data.labels = {"negative", "positive"};
  const auto add = [](std::vector<soma::text::LabelledRow>& rows,
                      std::vector<reviews::Review> all) {
    for (reviews::Review& review : all) rows.push_back({std::move(review.text), review.label});
  };
  add(data.train, reviews::generate(count, 1, reviews::Split::train));
  add(data.held_out, reviews::generate(2000, 2, reviews::Split::held_out));
  return data;
}

}  // namespace

StudyData study_data(const StudyOptions& options) {
  if (options.data.empty()) return made_up(options.reviews);
  soma::text::DataFiles files = soma::text::find_data_files(options.data);
  if (!options.dev.empty()) files.held_out = {options.dev};
  const soma::text::LabelledText text = soma::text::read_labelled(files, {});
  return {{text.train().begin(), text.train().end()},
          {text.held_out().begin(), text.held_out().end()},
          text.labels()};
}

std::string conditions_of(const StudyOptions& options, const StudyData& data) {
  soma::data::ContentHash hash;
  for (const auto* rows : {&data.train, &data.held_out})
    for (const auto& row : *rows) hash.add_text(row.text);
  char text[160];
  std::snprintf(text, sizeof text,
                "data %016llx, %llu epochs, %llu steps, batch %zu, length %zu, "
                "rate %g, dropout %g, model ",
                static_cast<unsigned long long>(hash.value()),
                static_cast<unsigned long long>(options.epochs),
                static_cast<unsigned long long>(options.max_steps), options.batch_size,
                options.max_length, options.learning_rate, static_cast<double>(options.dropout));
  return text + (options.pretrained.empty() ? std::string("tiny") : options.pretrained);
}

RunResult run_once(const StudyOptions& options, const StudyData& data,
                   const soma::Precision& precision, std::uint64_t seed) {
  soma::Context context = soma::make_context({.threads = options.threads});
  TextClassifier model = make_model(context, options, data, seed);
  const double otherwise = options.pretrained.empty() ? 5e-4 : 1e-4;
  soma::train::Trainer trainer(
      context, model,
      {.epochs = options.epochs,
       .max_steps = options.max_steps,
       .batch_size = options.batch_size,
       .learning_rate = options.learning_rate < 0 ? otherwise : options.learning_rate,
       .seed = seed,
       .precision = precision,
       .non_finite = soma::train::NonFinite::skip});
  Watch watch(context, model.parameters(), trainer.precision(),
              seed == 1 ? options.statistics_every : 0);
  trainer.add(watch);
  const soma::train::Report report = trainer.fit(data.train, data.held_out);

  RunResult result;
  result.policy = precision.name;
  result.formats = to_string(precision);
  result.conditions = conditions_of(options, data);
  result.seed = seed;
  result.accuracy = report.metrics.accuracy();
  result.evaluation_loss = report.evaluation_loss;
  const std::size_t steps = watch.losses.size();
  result.train_loss = mean(watch.losses, steps - (steps + 9) / 10, steps);
  result.peak_bytes = static_cast<double>(context.memory_use().peak_bytes);
  result.tokens_per_second = watch.tokens_per_second();
  result.skipped = static_cast<double>(report.skipped_steps);
  result.unmoved = watch.unmoved_share();
  soma::numeric::Inspection all;
  for (const auto& [path, operands] : trainer.precision().statistics())
    for (const soma::numeric::Inspection& operand : operands) all += operand;
  if (all.count != 0) {
    result.underflow = all.share(all.underflow);
    result.saturated = all.share(all.saturated);
    result.signal_to_noise = all.signal_to_noise();
  }
  const std::size_t points = (std::min)(curve_points, steps);
  for (std::size_t i = 0; i < points; ++i)
    result.curve.push_back(mean(watch.losses, steps * i / points, steps * (i + 1) / points));
  return result;
}

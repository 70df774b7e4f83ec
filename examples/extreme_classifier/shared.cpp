// Functions that the commands of extreme_classifier share.

#include "extreme_classifier/options.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <iostream>
#include <vector>

std::string text_of(const soma::metrics::Ranking& ranking) {
  // PSP@k in one word: a search for P@1 in a log finds P@1 alone.
  std::string text, weighted;
  for (const soma::metrics::Value& value : ranking.values()) {
    const std::string number = soma::metrics::shown(value.value);
    if (value.name.starts_with("psp"))
      weighted.append(weighted.empty() ? ", PSP@1,3,5 " : " ").append(number);
    else
      text.append(text.empty() ? "" : ", ").append(value.title).append(" ").append(number);
  }
  return text + weighted + " of " + std::to_string(ranking.points()) + " points";
}

soma::metrics::Ranking ranking_of(const soma::models::ExtremeClassifier& model,
                                  const soma::metrics::PropensityOptions& propensity) {
  const soma::models::LabelCounts& counts = model.label_counts();
  return soma::metrics::Ranking(
      soma::metrics::inverse_propensities(counts.points_of_class, counts.points, propensity));
}

void add(soma::metrics::Ranking& ranking, std::span<const soma::nn::FoundClass> best,
         std::span<const std::int32_t> labels) {
  std::vector<std::int32_t> ids;
  for (const soma::nn::FoundClass& one : best) ids.push_back(one.id);
  ranking.add(ids, labels);
}

soma::metrics::Ranking measure(const soma::models::ExtremeClassifier& model, soma::Context& context,
                               const soma::data::SparsePoints& points, std::size_t batch_size,
                               const soma::metrics::PropensityOptions& propensity) {
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = batch_size, .shuffle = false});
  soma::metrics::Ranking ranking = ranking_of(model, propensity);
  for (soma::data::Batch batch; source.next(batch);) {
    soma::check_stop(&stop_requested, "evaluate");
    const auto best = model.top(batch, 5);
    for (std::size_t i = 0; i < best.size(); ++i) add(ranking, best[i], batch.label_lists.list(i));
  }
  return ranking;
}

std::string Latencies::text() {
  std::sort(times_.begin(), times_.end());
  const auto at = [&](double share) {
    return times_[static_cast<std::size_t>(share * static_cast<double>(times_.size() - 1))];
  };
  return soma::fixed(at(0.5), 0) + " us (p50), " + soma::fixed(at(0.99), 0) + " us (p99)";
}

void print_measured(const soma::models::ExtremeClassifier& model, soma::Context& context,
                    const soma::data::SparsePoints& points,
                    const soma::metrics::PropensityOptions& propensity) {
  soma::metrics::Ranking ranking = ranking_of(model, propensity);
  soma::models::ExtremeLinear::Scratch scratch;
  Latencies latencies;
  std::vector<soma::nn::FoundClass> best;
  for (std::size_t i = 0; i < points.count(); ++i) {
    soma::check_stop(&stop_requested, "evaluate");
    const std::size_t first = points.offsets[i], count = points.offsets[i + 1] - first;
    latencies.measure([&] {
      best = model.linear_model()->top(context, std::span(points.ids).subspan(first, count),
                                       points.values.empty()
                                           ? std::span<const float>()
                                           : std::span(points.values).subspan(first, count),
                                       5, scratch);
    });
    add(ranking, best, points.labels.list(i));
  }
  std::cout << text_of(ranking) << "\na point took " << latencies.text() << std::endl;
}

soma::data::SparsePoints read_points(const std::string& file, soma::text::XmcOptions options) {
  std::vector<std::string> notes;
  options.notes = &notes;
  soma::data::SparsePoints points = soma::text::read_xmc(file, options);
  for (const std::string& note : notes) std::cerr << note << '\n';
  return points;
}

soma::models::ExtremeOptions model_options(const TrainOptions& options,
                                           const soma::data::SparsePoints& points) {
  using soma::nn::sampler_names;
  const auto* const known = std::begin(sampler_names);
  const auto* const found = std::find(known, std::end(sampler_names), options.sampler);
  const soma::nn::Sampler kind = found == std::end(sampler_names)
                                     ? soma::nn::sampler_for(points.classes)
                                     : static_cast<soma::nn::Sampler>(found - known);
  soma::models::ExtremeOptions chosen{.features = points.features,
                                      .classes = points.classes,
                                      .width = options.width,
                                      .seed = options.seed};
  chosen.sampler = soma::nn::sampler_options_for(points.classes, options.width,
                                                 options.index_mib << 20, kind, options.seed);
  if (options.set != 0) chosen.sampler.set = options.set;
  if (options.tables != 0) chosen.sampler.index.tables = options.tables;
  if (options.codes != 0) chosen.sampler.index.codes = options.codes;
  chosen.sampler.refresh_every = options.refresh_every;
  return chosen;
}

// Functions that the commands of extreme_classifier share.

#include "extreme_classifier/options.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <ctime>

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

namespace {
constexpr std::size_t ranks[3] = {1, 3, 5};
}

void Precision::add(std::span<const soma::nn::FoundClass> best,
                    std::span<const std::int32_t> labels) {
  for (std::size_t k = 0; k < best.size(); ++k)
    if (std::binary_search(labels.begin(), labels.end(), best[k].id))
      for (std::size_t r = 0; r < 3; ++r) right_[r] += k < ranks[r] ? 1 : 0;
  ++count_;
}

std::string Precision::text() const {
  std::string text;
  for (std::size_t r = 0; r < 3; ++r)
    text.append(r == 0 ? "P@" : ", P@")
        .append(std::to_string(ranks[r]))
        .append(" ")
        .append(soma::fixed(right_[r] / count_ / static_cast<double>(ranks[r]), 4));
  return text + " of " + soma::fixed(count_, 0) + " points";
}

Precision precision_of(const soma::models::ExtremeClassifier& model, soma::Context& context,
                       const soma::data::SparsePoints& points, std::size_t batch_size) {
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = batch_size, .shuffle = false});
  Precision precision;
  for (soma::data::Batch batch; source.next(batch);) {
    soma::check_stop(&stop_requested, "evaluate");
    const auto best = model.top(batch, 5);
    for (std::size_t i = 0; i < best.size(); ++i) precision.add(best[i], batch.label_lists.list(i));
  }
  return precision;
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

// extreme_classifier train --tune.

#include "extreme_classifier/options.hpp"

#include <soma/base/fixed.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace {

double seconds_since(std::int64_t start) {
  return static_cast<double>(soma::monotonic_nanoseconds() - start) * 1e-9;
}

struct Trial {
  soma::nn::SamplerOptions sampler{};
  double rate = 0;  // points per second
};

// The set that is worth its time: the largest with at least seven tenths of the fastest set's rate.
const Trial* worthwhile(const std::vector<Trial>& trials, soma::nn::Sampler kind) {
  double most = 0;
  for (const Trial& trial : trials)
    if (trial.sampler.kind == kind) most = std::max(most, trial.rate);
  const Trial* best = nullptr;
  for (const Trial& trial : trials) {
    if (trial.sampler.kind != kind || trial.rate < 0.7 * most) continue;
    if (best == nullptr || trial.sampler.set > best->sampler.set ||
        (trial.sampler.set == best->sampler.set &&
         trial.sampler.index.tables > best->sampler.index.tables))
      best = &trial;
  }
  return best;
}

std::string words_of(const Trial& trial) {
  const soma::nn::SamplerOptions& sampler = trial.sampler;
  std::string text = "--sampler ";
  text += soma::nn::sampler_names[static_cast<std::size_t>(sampler.kind)];
  if (sampler.kind != soma::nn::Sampler::full) text += " --set " + std::to_string(sampler.set);
  if (soma::nn::uses_index(sampler.kind))
    text += " --tables " + std::to_string(sampler.index.tables) + " --codes " +
            std::to_string(sampler.index.codes);
  return text;
}

}  // namespace

void tune(soma::Context& context, const TrainOptions& options,
          const soma::data::SparsePoints& points) {
  constexpr double seconds = 2;
  const soma::models::ExtremeOptions base = model_options(options, points);
  std::vector<Trial> trials;
  const auto add = [&](soma::nn::Sampler kind, std::size_t set, std::size_t tables,
                       std::size_t codes) {
    soma::nn::SamplerOptions sampler = base.sampler;
    sampler.kind = kind;
    sampler.set = std::min(set, points.classes);
    sampler.index.tables = tables;
    sampler.index.codes = codes;
    const bool fits =
        !soma::nn::uses_index(kind) ||
        soma::nn::class_index_bytes(points.classes, tables, codes) <= options.index_mib << 20;
    // With few classes several sizes are equal.
    const bool known = std::any_of(trials.begin(), trials.end(), [&](const Trial& other) {
      return other.sampler.kind == kind && other.sampler.set == sampler.set &&
             other.sampler.index.tables == tables && other.sampler.index.codes == codes;
    });
    if (fits && !known) trials.push_back({sampler});
  };
  using soma::nn::Sampler;
  const std::size_t codes = soma::nn::class_index_codes(points.classes);
  add(Sampler::full, points.classes, 1, codes);
  for (const std::size_t set : {1024u, 2048u, 4096u}) add(Sampler::uniform, set, 1, codes);
  for (const std::size_t set : {2048u, 4096u})
    for (const std::size_t tables : {16u, 32u}) add(Sampler::lsh_shared, set, tables, codes);
  if (codes > 1) add(Sampler::lsh_shared, 2048, 32, codes - 1);

  soma::models::ExtremeClassifier model(context, base);
  soma::optim::RowAdam optimizer(context, model.parameters());
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = options.batch_size, .seed = options.seed});
  soma::Tape tape(context);
  const auto step = [&](std::uint64_t number) {
    soma::data::Batch batch;
    while (!source.next(batch)) continue;
    soma::clear_gradients(model.parameters());
    tape.reset(static_cast<std::uint32_t>(number));
    tape.backward(model.forward(tape, batch).loss);
    optimizer.step({.rate = options.learning_rate});
    return static_cast<double>(batch.inputs.sequences.count());
  };
  // The first step that needs the optimizer's states makes them.
  model.use_sampler(trials[1].sampler);
  step(0);
  const double share = seconds / static_cast<double>(trials.size());
  for (Trial& trial : trials) {
    soma::check_stop(&stop_requested, "train --tune");
    model.use_sampler(trial.sampler);
    // This step builds an index: its time is that of a refresh, which is shared by other steps.
    const std::uint64_t first = trial.sampler.refresh_every;
    if (soma::nn::uses_index(trial.sampler.kind)) step(first);
    const double refresh = model.sampler().times().refreshing;
    double count = 0, used = 0, steps = 0;
    const std::int64_t start = soma::monotonic_nanoseconds();
    do {
      count += step(first + 1 +
                    static_cast<std::uint64_t>(steps) % std::max<std::uint64_t>(first - 1, 1));
      ++steps;
      used = seconds_since(start);
    } while (used < share);
    trial.rate = count / (used + steps * refresh / static_cast<double>(first));
    std::cout << words_of(trial) << ": " << soma::fixed(trial.rate, 0) << " points a second"
              << std::endl;
  }
  // A point teaches the exact loss more, so half of the rate is enough; hashes must be chosen
  // explicitly.
  const Trial* const full = worthwhile(trials, Sampler::full);
  const Trial* const uniform = worthwhile(trials, Sampler::uniform);
  std::cout << "recommended: " << words_of(full->rate >= 0.5 * uniform->rate ? *full : *uniform)
            << '\n';
  if (const Trial* const hashed = worthwhile(trials, Sampler::lsh_shared))
    std::cout << "recommended with hashes: " << words_of(*hashed) << '\n';
}

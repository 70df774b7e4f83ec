// extreme_classifier train --tune.

#include "extreme_classifier/options.hpp"

#include <soma/metrics/ranking.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using soma::data::SparsePoints;
using soma::models::ExtremeClassifier;
using soma::models::ExtremeFitOptions;
using soma::models::ExtremeKind;

struct Split {
  SparsePoints train, held_out;
};

// A tenth of the points, at most 2,000, by their numbers.
Split split_of(const SparsePoints& points, std::uint64_t seed) {
  const SparsePoints none{.features = points.features, .classes = points.classes};
  Split split{none, none};
  split.train.labels.offsets.push_back(0);
  split.held_out.labels.offsets.push_back(0);
  const double share = std::min(0.1, 2000.0 / static_cast<double>(points.count()));
  soma::DrawSequence draws({.seed = seed, .stream = soma::stream_id("extreme_classifier", "tune")});
  for (std::size_t i = 0; i < points.count(); ++i) {
    SparsePoints& to = draws.unit() < share ? split.held_out : split.train;
    const auto first = static_cast<std::ptrdiff_t>(points.offsets[i]);
    const auto end = static_cast<std::ptrdiff_t>(points.offsets[i + 1]);
    to.ids.insert(to.ids.end(), points.ids.begin() + first, points.ids.begin() + end);
    if (!points.values.empty())
      to.values.insert(to.values.end(), points.values.begin() + first, points.values.begin() + end);
    to.offsets.push_back(to.ids.size());
    to.labels.add(points.labels.list(i));
  }
  return split;
}

struct Tuning {
  soma::Context& context;
  const TrainOptions& options;
  const Split& split;
  std::uint64_t passes;

  // P@1 of the held-out points and the time of an answer.
  template <class Answer>
  tuning::Result measured(std::uint64_t bytes, const Answer& answer) const {
    const SparsePoints& points = split.held_out;
    std::vector<std::int64_t> times;
    std::size_t right = 0;
    for (std::size_t i = 0; i < points.count(); ++i) {
      const std::int64_t start = soma::monotonic_nanoseconds();
      const std::vector<soma::nn::FoundClass> best = answer(i);
      times.push_back(soma::monotonic_nanoseconds() - start);
      const auto labels = points.labels.list(i);
      right += !best.empty() && std::binary_search(labels.begin(), labels.end(), best[0].id);
    }
    std::sort(times.begin(), times.end());
    return {static_cast<double>(right) / static_cast<double>(points.count()), bytes,
            static_cast<double>(times[times.size() / 2]) * 1e-3};
  }

  tuning::Result linear(const ExtremeFitOptions& settings) const {
    const auto model = ExtremeClassifier::fit(context, split.train, settings);
    ExtremeClassifier& one = *model;
    soma::models::ExtremeLinear::Scratch scratch;
    const SparsePoints& points = split.held_out;
    return measured(one.linear_model()->bytes(), [&](std::size_t i) {
      const std::size_t first = points.offsets[i], count = points.offsets[i + 1] - first;
      const auto values = points.values.empty() ? std::span<const float>()
                                                : std::span(points.values).subspan(first, count);
      return one.linear_model()->top(context, std::span(points.ids).subspan(first, count), values,
                                     1, scratch);
    });
  }

  tuning::Result network(std::size_t width, const soma::StopFlag& stop) const {
    TrainOptions own = options;
    own.width = width;
    ExtremeClassifier model(context, model_options(own, split.train));
    soma::optim::RowAdam optimizer(context, model.parameters());
    soma::data::PointSource source(context, split.train,
                                   {.batch_sequences = own.batch_size, .seed = own.seed});
    const std::uint64_t epochs = passes != 0 ? passes : own.epochs != 0 ? own.epochs : 3;
    soma::Tape tape(context);
    soma::data::Batch batch;
    const std::uint64_t steps = source.batches(0) * epochs;
    for (std::uint64_t step = 0; step < steps; ++step) {
      soma::check_stop(&stop, "train --tune");
      while (!source.next(batch)) continue;
      soma::clear_gradients(model.parameters());
      tape.reset(static_cast<std::uint32_t>(step));
      tape.backward(model.forward(tape, batch).loss);
      optimizer.step({.rate = own.learning_rate});
    }
    std::uint64_t bytes = 0;
    for (const soma::Parameter& parameter : model.parameters())
      bytes += parameter.var.value().bytes();
    soma::data::PointSource one(context, split.held_out, {.batch_sequences = 1, .shuffle = false});
    return measured(bytes, [&](std::size_t) {
      soma::check_stop(&stop, "train --tune");
      while (!one.next(batch)) continue;
      return model.top(batch, 1).front();
    });
  }
};

std::string command_of(const TrainOptions& options) {
  if (options.data.empty())
    return "extreme_classifier train --classes " + std::to_string(options.classes) +
           " --features " + std::to_string(options.features) + " --points " +
           std::to_string(options.points);
  return "extreme_classifier train --data '" + options.data + "'" +
         (options.texts.multi_label ? " --multi-label" : "");
}

}  // namespace

int tune(soma::Context& context, const TrainOptions& options, const SparsePoints& points,
         const soma::text::CountedFeatures* features) {
  const Split split = split_of(points, options.seed);
  if (split.held_out.count() < 20 || split.train.labels.ids.empty())
    soma::fail(soma::error_id::data_empty, "train --tune", "points held out",
               std::to_string(split.held_out.count()), "at least 20, a tenth of the points");
  const Tuning trying{context, options, split, options.tune_passes};
  const bool texts = features != nullptr;
  ExtremeFitOptions base{.kind = ExtremeKind::automatic,
                         .c = options.c == 0 && texts ? 1 : options.c,
                         .passes = static_cast<std::size_t>(
                             options.tune_passes != 0 ? options.tune_passes : options.epochs),
                         .raw_values = options.raw_values || texts,
                         .seed = options.seed,
                         .beam = options.beam,
                         .memory = std::uint64_t{options.memory_mib} << 20};
  const auto name_of = [](ExtremeKind kind) {
    return std::string(soma::models::extreme_kind_names[static_cast<std::size_t>(kind)]);
  };
  std::vector<tuning::Trial> trials;
  const auto add = [&](const std::string& words, ExtremeFitOptions settings) {
    const ExtremeKind kind = settings.kind == ExtremeKind::automatic
                                 ? soma::models::extreme_kind_for(split.train, settings.memory)
                                 : settings.kind;
    trials.push_back({name_of(kind), words, [&trying, settings](const soma::StopFlag& stop) {
                        ExtremeFitOptions own = settings;
                        own.stop = &stop;
                        return trying.linear(own);
                      }});
  };
  add("", base);
  // Other kinds first: they differ most.
  const ExtremeKind rule = soma::models::extreme_kind_for(split.train, base.memory);
  const ExtremeKind other = rule == ExtremeKind::linear ? ExtremeKind::tree : ExtremeKind::linear;
  ExtremeFitOptions changed = base;
  changed.kind = other;
  add("--kind " + name_of(other), changed);
  // The network takes points, not texts.
  if (!texts)
    for (const std::size_t width : {64u, 128u})
      trials.push_back(
          {"network", "--kind network --width " + std::to_string(width) + " --epochs 3",
           [&trying, width](const soma::StopFlag& stop) { return trying.network(width, stop); }});
  for (const ExtremeKind kind : {rule, other})
    for (const double c : {0.25, 1.0, 4.0}) {
      changed.kind = kind;
      changed.c = c;
      if (options.c == 0)
        add((kind == rule ? "" : "--kind " + name_of(kind) + " ") + "--c " + soma::to_text(c),
            changed);
    }
  tuning::run(trials,
              {.seconds = options.tune >= 0 ? options.tune : 20, .passes = options.tune_passes},
              "P@1", command_of(options), stop_requested, std::cout);
  return 0;
}

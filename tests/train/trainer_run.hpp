// Options of a run that takes 30 steps over 160 sequences, and the whole of it: what tests of the
// trainer share.
#pragma once

#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include "train/small_run.hpp"

#include <cstdint>

namespace soma_test {

inline soma::train::TrainerOptions options_of(soma::Precision precision = {}) {
  return {.epochs = 3,
          .learning_rate = 2e-3,
          .schedule = {.decay = soma::optim::Decay::linear, .warmup = 3},
          .seed = 5,
          .precision = precision};
}

inline soma::data::BatchOptions batching() {
  return {.batch_sequences = 16, .shuffle = true, .seed = 3};
}

struct Run {
  std::uint64_t bits = 0;
  soma::train::Report report{};
};

inline Run run_whole(soma::Context& context, const soma::train::TrainerOptions& options) {
  SmallModel small(context);
  soma::data::TokenSource source(context, token_lists(160), batching());
  soma::data::TokenSource held_out(context, token_lists(64),
                                   {.batch_sequences = 32, .shuffle = false});
  soma::train::Trainer trainer(context, small.task, options);
  Run run;
  run.report = trainer.fit(source, &held_out);
  run.bits = bits_of(context, small.task.parameters());
  return run;
}

}  // namespace soma_test

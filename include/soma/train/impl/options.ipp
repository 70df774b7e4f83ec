#pragma once
// The functions of options.hpp.

#include <soma/train/options.hpp>

#include <soma/ops/fields.hpp>
#include <soma/train/pipeline_options.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, AverageOptions& options) {
  visitor.option("decay", options.decay,
                 {.least = 0, .most = 1, .open_least = true, .open_most = true});
  visitor.option("from", options.from);
  visitor.option("every", options.every, NumberRange::at_least(1));
}

SOMA_INLINE void fields(FieldVisitor& visitor, TrainerOptions& options) {
  // The batches of all epochs are counted before the first step.
  visitor.option("epochs", options.epochs, NumberRange::within(0, 0x1p24));
  visitor.option("max_steps", options.max_steps);
  visitor.option("batch_size", options.batch_size, NumberRange::at_least(1));
  visitor.option("accumulate", options.accumulate, NumberRange::at_least(1));
  visitor.option("learning_rate", options.learning_rate, NumberRange::at_least(0));
  visitor.option("weight_decay", options.weight_decay, NumberRange::at_least(0));
  visitor.option("clip", options.clip, {.least = 0, .infinite = true});
  visitor.option("seed", options.seed);
  visitor.option("evaluate_every", options.evaluate_every);
  visitor.option("patience", options.patience);
  visitor.option("checkpoint_every", options.checkpoint_every);
  visitor.option("price_per_hour", options.price_per_hour, NumberRange::at_least(0));
  visitor.option("reduce_bucket_bytes", options.reduce_bucket_bytes);
  visitor.option("stop_patience", options.stop_patience, {.least = 0, .infinite = true});
  visitor.option("pipeline", options.pipeline);
  visitor.option("average", options.average, any_number);
}

}  // namespace SOMA_NAMESPACE::train

// merge: adds an adapter to the weights of its model.

#include "language_model/commands.hpp"
#include "language_model/rows.hpp"
#include "training/compute.hpp"

#include <soma/models/language_model.hpp>
#include <soma/soma.hpp>

#include <cstdio>
#include <optional>

int merge(const MergeOptions& options) {
  soma::models::check_decoder_folder("merge", options.output);
  Compute compute(options.compute);
  soma::models::LanguageModel model = soma::models::LanguageModel::from_pretrained(
      compute.context(), options.model, {.adapter = options.adapter});
  const std::optional<soma::DType> type = weights_type(options.save_dtype);
  const double difference = model.merge(type);
  model.save(options.output, {.weights = type, .shard_bytes = options.shard_bytes});
  std::printf(
      "merged into %s: of a layer's weights at most %.2g (norm of the difference by norm) is "
      "rounding\n",
      options.output.c_str(), difference);
  return 0;
}

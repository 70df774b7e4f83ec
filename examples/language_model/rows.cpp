#include "language_model/rows.hpp"

#include "training/arguments.hpp"
#include "training/stop.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

soma::text::DocumentOptions document_options(const TextOptions& options) {
  return {.divider = options.divider,
          .text_column = options.text_column,
          .prompt_column = options.prompt_column,
          .answer_column = options.answer_column,
          .stop = &stop_requested};
}

TrainingRows training_rows(const TrainOptions& options) {
  const soma::text::DocumentOptions how = document_options(options.text);
  TrainingRows rows{.train = soma::text::read_documents(options.data, how, "train")};
  if (!options.dev.empty()) rows.held_out = soma::text::read_documents(options.dev, how, "train");
  if (!options.held_out_share) return rows;
  const auto count =
      static_cast<std::size_t>(*options.held_out_share * static_cast<double>(rows.train.size()));
  if (count == 0)
    throw UsageError("--held-out-share leaves none of " + std::to_string(rows.train.size()) +
                     " documents for validation");
  const auto first = rows.train.end() - static_cast<std::ptrdiff_t>(count);
  rows.held_out.assign(std::make_move_iterator(first), std::make_move_iterator(rows.train.end()));
  rows.train.erase(first, rows.train.end());
  return rows;
}

soma::models::TrainedTokens trained_tokens(const std::string& name) {
  using namespace soma::models;
  return name == "all" ? TrainedTokens::all : TrainedTokens::answers;
}

namespace {

std::optional<soma::nn::LoraOptions> lora_options(const LoraCommand& given) {
  if (given.rank == 0) return std::nullopt;
  soma::nn::LoraOptions lora{.rank = given.rank};
  if (given.alpha) lora.alpha = *given.alpha;
  if (given.dropout) lora.dropout = *given.dropout;
  if (!given.targets.empty()) lora.targets = given.targets;
  return lora;
}

}  // namespace

soma::models::LanguageModel training_model(soma::Context& context, const TrainOptions& options,
                                           soma::nn::InitialStore* later) {
  return soma::models::LanguageModel::from_pretrained(context, options.model,
                                                      {.length = options.text.length,
                                                       .overlap = options.overlap,
                                                       .trained = trained_tokens(options.trained),
                                                       .seed = options.seed,
                                                       .dropout = options.dropout,
                                                       .recompute = options.recompute,
                                                       .adapter = options.adapter,
                                                       .lora = lora_options(options.lora),
                                                       .later = later});
}

std::optional<soma::DType> weights_type(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "bf16") return soma::DType::bf16;
  return name == "fp16" ? soma::DType::fp16 : soma::DType::fp32;
}

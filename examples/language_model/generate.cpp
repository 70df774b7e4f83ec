// generate: texts that continue prompts.

#include "language_model/commands.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/ending.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/models/decoder/generator.hpp>
#include <soma/models/language_model.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/soma.hpp>
#include <soma/text/text_lines.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace soma::models;

std::vector<std::string> read_prompts(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  for (const std::string& file : options.files) {
    std::string_view name = file;
    if (name.ends_with(".gz")) name.remove_suffix(3);
    const bool json = name.ends_with(".jsonl") || name.ends_with(".ndjson");
    soma::text::TextLines lines(file, "generate", {.stop = &stop_requested});
    for (std::string line; lines.next(line);) {
      if (!json) {
        prompts.push_back(line);
        continue;
      }
      const nlohmann::json object = json_object(line, lines.place());
      const auto prompt = object.find(options.prompt_column);
      if (prompt == object.end() || !prompt->is_string())
        throw UsageError(lines.place() + " has no text " + soma::quoted(options.prompt_column));
      prompts.push_back(prompt->get<std::string>());
    }
  }
  if (prompts.empty()) throw UsageError("there is no prompt: --prompt TEXT, or --prompts FILE");
  return prompts;
}

// The settings of the folder, but for those that the command line gives.
GenerationConfig with_options(GenerationConfig config, const GenerateOptions& options) {
  SamplingOptions& sampling = config.sampling;
  if (options.temperature) sampling.temperature = *options.temperature;
  if (options.top_k) sampling.top_k = *options.top_k;
  if (options.top_p) sampling.top_p = *options.top_p;
  if (options.min_p) sampling.min_p = *options.min_p;
  if (options.repetition_penalty) sampling.repetition_penalty = *options.repetition_penalty;
  const bool narrows = options.top_k || options.top_p || options.min_p;
  if (narrows && sampling.temperature == 0)
    throw UsageError(
        "--top-k, --top-p and --min-p need a --temperature above 0: the folder's settings are "
        "greedy");
  if (!options.stop_texts.empty()) config.stop_texts = options.stop_texts;
  return config;
}

// Refuses before the weights are read.
void check_memory(const GenerateOptions& options, const std::vector<std::string>& prompts,
                  const GeneratorOptions& settings, soma::DType weights) {
  if (options.memory_limit == 0) return;
  const DecoderConfig config = load_decoder_config(options.model).config;
  const auto tokenizer = soma::text::ByteTokenizer::from_files(options.model);
  const std::size_t most_new = most_new_tokens(settings, generation_config_of(options.model));
  std::vector<std::size_t> rows;
  for (const std::string& prompt : prompts)
    rows.push_back((std::min)(most_text_rows(config),
                              tokenizer.encode(prompt, {.special_tokens = false}).ids.size() +
                                  tokenizer.before().size() + most_new));
  const GeneratorBytes bytes = generator_bytes(config, settings, weights, rows);
  if (bytes.total() > options.memory_limit)
    throw UsageError("--memory-limit " + std::to_string(options.memory_limit) +
                     ": weights, keys and values, and hidden states take about " +
                     std::to_string(bytes.weights) + ", " + std::to_string(bytes.cache) + " and " +
                     std::to_string(bytes.workspace) +
                     " bytes; fewer with --batch-size, --max-new or --precision bf16_sr");
}

nlohmann::json json_line(const std::string& prompt, const GeneratedText& text) {
  nlohmann::json line = {{"prompt", prompt},
                         {"text", text.text},
                         {"end", text_end_names[static_cast<std::size_t>(text.end)]},
                         {"prompt_tokens", text.prompt_tokens},
                         {"ids", text.ids}};
  if (!text.log_probabilities.empty()) line["log_probabilities"] = text.log_probabilities;
  return line;
}

void say_rates(const TextGenerator& generator) {
  const GeneratorStatistics counts = generator.statistics();
  std::cerr << counts.prompt_tokens << " tokens of prompts and " << counts.new_tokens
            << " of texts";
  if (counts.steps != 0) {
    const double steps = static_cast<double>(counts.steps) / counts.step_seconds;
    const double tokens =
        counts.step_tokens == 0 ? 0 : static_cast<double>(counts.step_tokens) / counts.step_seconds;
    std::cerr << ", " << soma::fixed(tokens, 1) << " tokens a second, "
              << soma::fixed(steps * static_cast<double>(generator.step_bytes()) * 1e-9, 1)
              << " GB/s of weights";
  }
  std::cerr << '\n';
}

}  // namespace

int generate(const GenerateOptions& options) {
  const std::vector<std::string> prompts = read_prompts(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  const soma::Precision precision = soma::find_precision(options.precision);
  soma::PrecisionState formats(context, precision, options.seed);
  const soma::DType weights = soma::find_dtype(precision.weights.format);
  GeneratorOptions settings{.max_new = options.max_new,
                            .seed = options.seed,
                            .at_once = options.batch_size,
                            .part = options.part,
                            .precision = &formats,
                            .packed = options.packed,
                            .log_probabilities = options.log_probabilities,
                            .stop = &stop_requested};
  check_memory(options, prompts, settings, weights);
  const LanguageModel model = LanguageModel::from_pretrained(
      context, options.model, {.weights = weights, .in_place = true, .adapter = options.adapter});
  settings.config = with_options(generation_config_of(model), options);
  const TextGenerator generator(context, model, settings);
  if (prompts.size() == 1 && !options.json) {
    const auto show = [](const GeneratedPiece& piece) { std::cout << piece.text << std::flush; };
    const GeneratedText text = generator.generate(prompts.front(), show);
    std::cout << '\n';
    if (text.end == TextEnd::last_position)
      std::cerr << "the text ends at the model's last position\n";
  } else {
    // A line for each prompt, in their order.
    const std::vector<GeneratedText> texts = generator.generate(prompts);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      std::cout << json_line(prompts[i], texts[i]).dump() << '\n';
  }
  if (!options.quiet) say_rates(generator);
  compute.report(std::cerr);
  if (stop_requested.requested()) throw Interrupted("generate: ended by a signal");
  return 0;
}

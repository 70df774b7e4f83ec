#include "language_model/options.hpp"

#include "training/validators.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace {

const std::string data_group = "Data";

// The words of this program in options that others have, too.
const RunWords words{
    .epochs = "passes over the documents; default: 1",
    .batch_size = "documents, or windows of long ones, per batch; default: 8",
    .learning_rate = "default: 5e-5",
    .warmup =
        "steps in which the learning rate rises; default: 0, or those of the checkpoint with "
        "--resume",
    .metric = "validation metric that decides the best weights and an improvement",
    .metrics = {"loss", "perplexity", "accuracy", "bits_per_byte"},
    .precision =
        "formats of weights, activations and operands of products: a preset, or your own file "
        "(docs/precision.md)",
    .memory_limit =
        "bytes (or 900MiB, 8GiB) that the process of a rank may need, as estimated before the "
        "run; 0: any",
    .plot =
        "write the curves of loss, metrics and learning rate as an SVG picture, updated during "
        "the run; --resume continues the curves"};

void add_text(CLI::App& command, TextOptions& options) {
  command
      .add_option("--divider", options.divider,
                  "the line that divides plain text into documents; default: a file is a document")
      ->type_name("LINE")
      ->group(data_group);
  for (const auto& [name, value, help] :
       {std::tuple<const char*, std::string*, const char*>{"--text-column", &options.text_column,
                                                           "column or key of texts"},
        {"--prompt-column", &options.prompt_column, "column or key of prompts"},
        {"--answer-column", &options.answer_column, "column or key of their answers"}})
    command.add_option(name, *value, help)
        ->type_name("NAME")
        ->capture_default_str()
        ->group(data_group);
  command
      .add_option("--length", options.length,
                  "most rows of a sequence; longer documents are cut into windows; default: the "
                  "model's positions, at most 1024")
      ->check(some)
      ->type_name("N")
      ->group(data_group);
}

CLI::Option* add_data(CLI::App& command, const char* name, std::vector<std::string>& files,
                      const char* help) {
  return command.add_option(name, files, help)
      ->take_all()
      ->type_name("FILE ...")
      ->group(data_group);
}

void add_trained(CLI::App& command, std::string& trained) {
  command
      .add_option("--trained", trained,
                  "the tokens of rows with a prompt and an answer that count: answers, or all")
      ->check(CLI::IsMember({"answers", "all"}))
      ->capture_default_str()
      ->group(data_group);
}

CLI::Option* add_model(CLI::App& command, std::string& model, std::string& adapter) {
  command
      .add_option("--model", model,
                  "folder of a model: config.json, weights as .safetensors, the tokenizer's files")
      ->required()
      ->type_name("DIR")
      ->group(model_group);
  return command
      .add_option("--adapter", adapter,
                  "folder of an adapter of that model: adapter_config.json, "
                  "adapter_model.safetensors")
      ->type_name("DIR")
      ->group(model_group);
}

void add_weights_files(CLI::App& command, std::string& save_dtype, std::size_t& shard_bytes) {
  command
      .add_option("--save-dtype", save_dtype,
                  "type of the weights in --output; default: that of the model's files")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->group(output_group);
  command
      .add_option("--shard-bytes", shard_bytes,
                  "most bytes (or 500MiB, 5GiB) of a file of weights in --output; 0: one file")
      ->check(count_from(0, std::uint64_t{1} << 50))
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str()
      ->type_name("BYTES")
      ->group(output_group);
}

void add_lora(CLI::App& command, LoraCommand& lora) {
  const auto number = [&](const char* name, auto& value, const char* type, const char* help) {
    return command.add_option(name, value, help)->type_name(type)->group(model_group);
  };
  CLI::Option* rank = number("--lora", lora.rank, "RANK",
                             "train adapters (LoRA) of that rank in place of the model's own "
                             "weights; --output is then an adapter's folder");
  rank->check(some);
  number("--lora-alpha", lora.alpha, "X", "their factor is alpha / rank; default: 16")
      ->check(between(1e-6, 1e6))
      ->needs(rank);
  number("--lora-dropout", lora.dropout, "X", "dropout of their inputs; default: 0")
      ->check(between(0, 0.99))
      ->needs(rank);
  number("--lora-targets", lora.targets, "NAME ...",
         "names of layers, such as c_attn, or q_proj v_proj; default: all-linear")
      ->take_all()
      ->needs(rank);
}

}  // namespace

void add_options(CLI::App& command, TrainOptions& options) {
  add_data(command, "--data", options.data,
           "plain text, JSON lines or tables (.csv, .tsv) with a text, or with a prompt and an "
           "answer; also .gz and UTF-16")
      ->required();
  add_data(command, "--dev", options.dev, "files of validation rows");
  command
      .add_option("--held-out-share", options.held_out_share,
                  "share of the documents to hold out for validation, the last ones, if there is "
                  "no --dev; default: none")
      ->check(between(0.001, 0.9))
      ->excludes("--dev")
      ->type_name("X")
      ->group(data_group);
  add_text(command, options.text);
  command
      .add_option("--overlap", options.overlap,
                  "rows at the beginning of a later window that repeat the window before, and are "
                  "not learnt twice")
      ->check(count_from(0, std::uint64_t{1} << 24))
      ->capture_default_str()
      ->type_name("N")
      ->group(data_group);
  add_trained(command, options.trained);
  CLI::Option* const adapter = add_model(command, options.model, options.adapter);
  add_lora(command, options.lora);
  adapter->excludes("--lora");
  command
      .add_option("--dropout", options.dropout,
                  "dropout of hidden states, attention and embeddings; default: config.json's")
      ->check(between(0, 0.99))
      ->type_name("X")
      ->group(model_group);
  command
      .add_flag("--recompute", options.recompute,
                "keep only each layer's input for backward: needs less memory and more time; the "
                "bits are the same")
      ->group(model_group);
  options.batch_size = 8;
  add_loop(command, options, words);
  add_outputs(command, options, words);
  add_weights_files(command, options.save_dtype, options.shard_bytes);
}

void add_options(CLI::App& command, PlanCommand& options) {
  add_options(command, options.train);
  add_plan(command, options.plan);
}

void add_options(CLI::App& command, EvaluateOptions& options) {
  add_data(command, "--data", options.data, "as of train")->required();
  add_text(command, options.text);
  command
      .add_option("--stride", options.stride,
                  "rows that each later window of a long document adds: the others before them "
                  "are seen again and not counted twice; default: --length")
      ->check(some)
      ->type_name("N")
      ->group(data_group);
  add_trained(command, options.trained);
  add_model(command, options.model, options.adapter);
  command.add_option("--batch-size", options.batch_size, "windows per batch")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  command.add_flag("--json", options.json, "print a JSON object instead of lines")
      ->group(output_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, GenerateOptions& options) {
  const std::string text_group = "Text";
  command
      .add_option("--prompt", options.prompts,
                  "a text to continue; several are written together. One alone is shown while it "
                  "is being written; of several each gets a JSON line")
      ->take_all()
      ->type_name("TEXT ...")
      ->group(data_group);
  add_data(command, "--prompts", options.files,
           "files of prompts: a prompt a line, or JSON lines; - is standard input; also .gz");
  command.add_option("--prompt-column", options.prompt_column, "key of prompts in JSON lines")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(data_group);
  add_model(command, options.model, options.adapter);
  command
      .add_flag("--packed", options.packed,
                "pack the weights once: tokens come sooner, and weights that are not used as "
                "the files have them are in memory twice")
      ->group(compute_group);
  add_number(command, "--max-new", options.max_new,
             "most tokens of a text; 0: the folder's max_new_tokens, or 256", text_group,
             any_count);
  add_real(command, "--temperature", options.temperature,
           "scores are divided by it before a draw; 0: always the likeliest token; default: the "
           "folder's generation_config.json, as for the next four",
           0, 1e6, text_group);
  command.add_option("--top-k", options.top_k, "draw among the k likeliest tokens; 0: all")
      ->check(any_count)
      ->type_name("N")
      ->group(text_group);
  add_real(command, "--top-p", options.top_p,
           "draw among the fewest tokens whose probabilities reach p together", 0, 1, text_group);
  add_real(command, "--min-p", options.min_p,
           "draw among tokens at least p times as likely as the likeliest", 0, 1, text_group);
  add_real(command, "--repetition-penalty", options.repetition_penalty,
           "makes tokens less likely that are there already, if above 1", 1e-3, 1e3, text_group);
  add_number(command, "--seed", options.seed, "of draws", text_group, any_count);
  command
      .add_option("--stop", options.stop_texts,
                  "a text ends before any of these; default: the folder's stop_strings")
      ->take_all()
      ->type_name("TEXT ...")
      ->group(text_group);
  add_number(command, "--batch-size", options.batch_size, "most prompts at work together",
             compute_group, some);
  add_number(command, "--part", options.part,
             "most rows of a step: longer prompts are read in parts", compute_group, some);
  command.add_option("--precision", options.precision, words.precision)
      ->type_name("NAME|FILE.json")
      ->capture_default_str()
      ->group(compute_group);
  command
      .add_option("--memory-limit", options.memory_limit,
                  "bytes (or 900MiB, 8GiB) that weights, keys and values, and hidden states may "
                  "take, as estimated before the weights are read; 0: any")
      ->check(count_from(0, std::uint64_t{1} << 50))
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES")
      ->group(compute_group);
  command
      .add_flag("--log-probabilities", options.log_probabilities,
                "also the logarithm of each token's probability, in JSON lines")
      ->group(output_group);
  command.add_flag("--json", options.json, "a JSON line also for a single prompt")
      ->group(output_group);
  command.add_flag("--quiet", options.quiet, "no counts and rates at the end")->group(output_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, DescribeOptions& options) {
  add_model(command, options.model, options.adapter);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, MergeOptions& options) {
  add_model(command, options.model, options.adapter)->required();
  command.add_option("--output", options.output, "folder to write the merged model to")
      ->required()
      ->type_name("DIR")
      ->group(output_group);
  add_weights_files(command, options.save_dtype, options.shard_bytes);
  add_compute(command, options.compute);
}

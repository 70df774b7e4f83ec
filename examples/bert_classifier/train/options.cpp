#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/row_options.hpp"
#include "training/validators.hpp"

#include <soma/models/bert.hpp>
#include <soma/optim/schedule.hpp>
#include <soma/runtime/executor.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace {

CLI::Option* add_model(CLI::App& command, std::string& model) {
  return command.add_option("--model", model, "a folder that train wrote")
      ->required()
      ->type_name("DIR")
      ->group(model_group);
}

// The words of this program in options that others have, too.
const RunWords words{
    .epochs =
        "passes over the rows; default: 1 with --pretrained or generated reviews, 6 for a new "
        "model and other rows, and with --model-kind fast (2 or 3 if it has a trainer)",
    .batch_size = "texts per batch",
    .learning_rate =
        "default: 1e-4 with --pretrained, 5e-4 for a new model, 0.2 with --model-kind fast",
    .warmup =
        "steps in which the learning rate rises; default: 0 with --pretrained, a twentieth of all "
        "steps for a new model, the steps of the checkpoint with --resume",
    .metric =
        "validation metric that decides the best weights and an improvement: loss; for "
        "classes also accuracy, macro_f1, and for two classes auc; for several labels "
        "micro_f1, macro_f1; for numbers mse, mae, r2",
    .metrics = {"loss", "accuracy", "macro_f1", "auc", "micro_f1", "mse", "mae", "r2"},
    .precision =
        "formats of weights, activations and operands of products: a preset, or your own "
        "file (docs/precision.md; describe --precision NAME prints a file to start with); "
        "with --model-kind fast, fp32 keeps all weights as they are",
    .memory_limit =
        "bytes (or 900MiB, 8GiB) that the process of a rank may need, as estimated before the "
        "run; 0: any, or half of the machine's memory with --model-kind fast",
    .plot =
        "write the curves of loss, metrics and learning rate as an SVG picture, updated during the "
        "run; --resume continues the curves"};

constexpr const char* fast_group = "Model kind fast";

// Settings that rules choose where they are not given.
void add_fast(CLI::App& command, TrainOptions& options) {
  FastTrainOptions& fast = options.fast;
  const auto add = [&](const char* name, auto& value, const char* help, double least, double most) {
    return add_real(command, name, value, help, least, most, fast_group);
  };
  add("--c", fast.c, "C of the squared hinge; default: 1", 1e-6, 1e6);
  add("--strength", fast.strength,
      "exponent of how much a feature tells about the classes; default: 0.5 up to 16 classes, else "
      "0.35",
      0, 4);
  add("--ngrams", fast.ngrams, "runs of up to so many words; default: 2", 1, 8);
  add("--parts", fast.parts,
      "parts of words of up to so many characters, 0: none; default: 5 for texts of at most 400 "
      "bytes on average",
      0, 16);
  add("--bag-width", fast.bag_width,
      "columns of the embedding bag, 0: none; default: none up to 16 classes and with several "
      "labels, 32 up to 64, else 64",
      0, 4096);
  add("--tune", options.tune,
      "try other settings by held-out rows for so many seconds of the processor, and print a "
      "table and the best command line; nothing is written",
      0, 1e7)
      ->expected(0, 1)
      ->default_str("20");
  add("--tune-passes", options.tune_passes,
      "trials have so many passes instead of a time: the same table every time", 1, 1000)
      ->default_str("");
  add("--keep", fast.keep, "share of the features that --output keeps, those with large weights", 0,
      1);
}

}  // namespace

const char* first_fast_option(const TrainOptions& options) {
  const FastTrainOptions usual, &fast = options.fast;
  for (const auto& [name, given] : {std::pair("--c", fast.c != usual.c),
                                    {"--strength", fast.strength != usual.strength},
                                    {"--ngrams", fast.ngrams != usual.ngrams},
                                    {"--parts", fast.parts != usual.parts},
                                    {"--bag-width", fast.bag_width != usual.bag_width},
                                    {"--keep", fast.keep != usual.keep}})
    if (given) return name;
  return nullptr;
}

void add_options(CLI::App& command, TrainOptions& options) {
  const auto path = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command.add_option(name, value, help)->type_name(type)->group(output_group);
  };

  CLI::Option* data =
      command
          .add_option("--data", options.data.data,
                      "TSV, CSV, fastText or JSON lines, also .gz and UTF-16; - is standard input; "
                      "or a folder with train, dev and test. Default: generated reviews")
          ->type_name("PATH")
          ->group(data_group);
  add_rows(command, options.data);
  CLI::Option* multi_label =
      command
          .add_flag("--multi-label", options.data.multi_label,
                    "a row may have several labels, or none: several __label__, a cell such as "
                    "a,b or ['a', 'b'], or a JSON list")
          ->needs(data)
          ->group(data_group);
  command.add_option("--dev", options.data.dev, "file of validation rows")
      ->needs(data)
      ->type_name("PATH")
      ->group(data_group);
  command
      .add_flag("--regression", options.data.regression,
                "labels are numbers, and the model predicts a number (mean squared error)")
      ->needs(data)
      ->excludes(multi_label)
      ->group(data_group);
  add_real(command, "--held-out-share", options.data.held_out_share,
           "share of rows to hold out for validation if there is no --dev, chosen by a hash of the "
           "text; by default 0 with --model-kind fast",
           0.001, 0.9, data_group)
      ->default_str("0.1");
  add_number(
      command, "--stream", options.stream,
      "read a file that is larger than memory in every epoch, and shuffle its rows in a buffer "
      "of this many rows; validation rows need --dev",
      data_group, CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->default_str("");
  add_number(command, "--reviews", options.reviews, "number of generated reviews to train on",
             data_group, CLI::Range(std::size_t{100}, std::size_t{10'000'000}))
      ->excludes(data);
  add_real(command, "--label-noise", options.label_noise,
           "share of generated training reviews with a wrong label", 0, 0.5, data_group)
      ->capture_default_str()
      ->excludes(data);

  command
      .add_option("--model-kind", options.kind,
                  "bert; or fast: hashed words and word pairs, trains in seconds, chooses its "
                  "options by the rows (docs/sparse_training.md)")
      ->check(CLI::IsMember({"bert", "fast"}))
      ->capture_default_str()
      ->group(model_group);
  add_fast(command, options);
  CLI::Option* pretrained = command
                                .add_option("--pretrained", options.pretrained,
                                            "folder of a pretrained model to start from: "
                                            "config.json, model.safetensors, vocab.txt")
                                ->type_name("DIR")
                                ->group(model_group);
  command.add_option("--preset", options.preset, "size of a new model without --pretrained")
      ->check(CLI::IsMember({"base", "minilm", "small", "tiny"}))
      ->capture_default_str()
      ->excludes(pretrained)
      ->group(model_group);
  add_number(
      command, "--vocab-size", options.vocab_size,
      "number of word pieces of a new model, learnt from the training text; default: 8000, or "
      "1000 for generated reviews",
      model_group, CLI::Range(std::size_t{100}, std::size_t{1'000'000}))
      ->default_str("")
      ->excludes(pretrained);
  add_number(command, "--max-length", options.max_length,
             "most tokens of a text, longer texts are cut; default: 128, or fewer if a pretrained "
             "model has fewer positions",
             model_group, CLI::Range(std::size_t{3}, std::size_t{512}))
      ->default_str("");
  add_real(
      command, "--dropout", options.dropout,
      "dropout of hidden states and attention; default: the pretrained model's value, 0 for a new "
      "model",
      0, 0.99, model_group);
  command
      .add_flag("--recompute", options.recompute,
                "keep only each layer's input and last sum for backward: needs less memory and "
                "more time; the bits are the same")
      ->group(model_group);

  command
      .add_option("--pooling", options.pooling,
                  "what the classifier reads of a text: its first token, the mean or the largest "
                  "elements of all; other programs know first only; default: as the pretrained "
                  "model has it, first for a new one")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(soma::models::pooling_names),
                                                     std::end(soma::models::pooling_names))))
      ->group(model_group);
  add_number(command, "--freeze-layers", options.freeze_layers,
             "the embeddings and the first N layers keep their weights; needs --pretrained",
             model_group, CLI::Range(std::size_t{1}, std::size_t{1000}))
      ->default_str("")
      ->needs(pretrained);

  add_loop(command, options, words);
  command
      .add_option("--class-weights", options.class_weights,
                  "weights of classes in the loss, for rare classes: balanced (the rows of each "
                  "class have the same total weight), or a JSON file {\"class\": weight}")
      ->type_name("balanced|FILE")
      ->group(loop_group);

  add_outputs(command, options, words);
  path("--confusion", options.confusion, "write the confusion matrix of the validation rows as CSV",
       "FILE");
  path("--report", options.report,
       "write an HTML page of the run: curves, results, confusion matrix, and the validation texts "
       "with the most confident wrong predictions",
       "FILE");
}

void add_options(CLI::App& command, PlanCommand& options) {
  add_options(command, options.train);
  add_plan(command, options.plan);
}

void add_options(CLI::App& command, EvaluateOptions& options) {
  add_model(command, options.model);
  command
      .add_option(
          "--data", options.files,
          "TSV, CSV, fastText or JSON lines, also .gz and UTF-16; - is standard input; or a "
          "folder with test, or dev; several are read one after the other")
      ->required()
      ->take_all()
      ->type_name("PATH ...")
      ->group(data_group);
  add_rows(command, options.data);
  command.add_option("--batch-size", options.batch_size, "texts per batch")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  command.add_flag("--json", options.json, "print a JSON object instead of a table")
      ->group(output_group);
  command.add_option("--confusion", options.confusion, "write the confusion matrix as CSV")
      ->type_name("FILE")
      ->group(output_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, PredictOptions& options) {
  add_model(command, options.model);
  command
      .add_option("file", options.files,
                  "files with one text per line, also .gz and UTF-16; - is standard input")
      ->take_all()
      ->type_name("FILE ...")
      ->default_str("-");
  command.add_flag("--pairs", options.pairs,
                   "each line has two texts separated by a tab; the default for a model that was "
                   "trained with --pair-column");
  command.add_option("--batch-size", options.batch_size, "most texts per batch")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, EmbedOptions& options) {
  command
      .add_option("--model", options.model,
                  "folder of an encoder of sentences (modules.json), of a BERT, or of a trained "
                  "classifier, whose encoder is used")
      ->required()
      ->type_name("FOLDER");
  command
      .add_option("file", options.files,
                  "files with one text per line, also .gz and UTF-16; - is standard input")
      ->take_all()
      ->type_name("FILE ...")
      ->default_str("-");
  command
      .add_option("--output", options.output,
                  "a .npy file for all vectors, fp32 [lines, width]; default: a JSON list a line "
                  "on standard output")
      ->type_name("FILE");
  command
      .add_option("--pooling", options.pooling,
                  "the vector of a text: of its first token, the mean or the largest elements; "
                  "default: as the folder says, or the mean")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(soma::models::pooling_names),
                                                     std::end(soma::models::pooling_names))));
  command.add_flag("--normalise", options.normalise,
                   "vectors of length 1, also where the folder does not say so");
  command
      .add_option("--max-length", options.max_length,
                  "most tokens of a text; longer texts are cut; default: as the folder says")
      ->check(some)
      ->type_name("N");
  command.add_option("--batch-size", options.batch_size, "most texts that are read at a time")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, ServeOptions& options) {
  add_model(command, options.model);
  command.add_option("--host", options.host, "address to listen on; 0.0.0.0: all addresses")
      ->capture_default_str();
  command.add_option("--port", options.port, "0: any free port; the program prints its number")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--max-body", options.max_body,
                  "most bytes of a request; a larger request gets status 413, and so does a "
                  "request with more texts than one per 16 bytes of this limit")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  command
      .add_option("--read-timeout", options.read_timeout,
                  "time limit of a request in seconds; an answer has the same limit, and a second "
                  "more for each 64 KiB that the client has read")
      ->check(between(0.1, 3600.0))
      ->capture_default_str();
  command
      .add_option("--batch-size", options.batch_size, "most texts per batch, from several requests")
      ->check(some)
      ->capture_default_str();
  command
      .add_option("--lanes", options.lanes,
                  "batches that are computed at once, each in memory of its own; --threads serve "
                  "all of them in turn")
      ->check(CLI::Range(std::size_t{1}, std::size_t{64}))
      ->capture_default_str();
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, DescribeOptions& options) {
  command
      .add_option("--precision", options.precision,
                  "print only this precision as JSON, as a start for your own file")
      ->type_name("NAME|FILE.json");
  add_compute(command, options.compute);
}

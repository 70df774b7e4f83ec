#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rank_options.hpp"
#include "bert_classifier/train/row_options.hpp"
#include "bert_classifier/train/validators.hpp"

#include <soma/runtime/executor.hpp>

#include <limits>

namespace {

const std::string model_group = "Model", loop_group = "Training", output_group = "What is written",
                  compute_group = "Computation";

void add_compute(CLI::App& command, ComputeOptions& options) {
  command
      .add_option("--math", options.math,
                  "fast, or portable: the same bits on every CPU with fused multiply-add")
      ->check(CLI::IsMember({"fast", "portable"}))
      ->capture_default_str()
      ->group(compute_group);
  command
      .add_option("--device", options.device,
                  "host, or neuroncore: every operator as a program of the accelerator's core")
      ->check(CLI::IsMember({"host", "neuroncore"}))
      ->capture_default_str()
      ->group(compute_group);
  command
      .add_option("--run-mode", options.run_mode,
                  "of --device neuroncore: eager, jit or lazy (docs/run_modes.md); the same bits")
      ->check(CLI::IsMember({"eager", "jit", "lazy"}))
      ->capture_default_str()
      ->group(compute_group);
  command
      .add_flag("--predict", options.predict,
                "of --device neuroncore: estimate the accelerator's time, which the summary, "
                "--tensorboard and --publish show")
      ->group(compute_group);
  command
      .add_option("--threads", options.threads,
                  "0: the cores this process may use; results do not depend on it")
      ->check(CLI::Range(0, soma::max_threads))
      ->capture_default_str()
      ->group(compute_group);
}

CLI::Option* add_model(CLI::App& command, std::string& model) {
  return command.add_option("--model", model, "a folder that train wrote")
      ->required()
      ->type_name("DIR")
      ->group(model_group);
}

const CLI::Validator any_count = count_from(0, (std::numeric_limits<std::uint64_t>::max)() / 2);
const CLI::Range some(std::size_t{1}, std::size_t{1} << 24);

}  // namespace

void add_options(CLI::App& command, TrainOptions& options) {
  const auto number = [&](const char* name, auto& value, const char* help, const std::string& group,
                          const CLI::Validator& range) {
    return command.add_option(name, value, help)
        ->check(range)
        ->capture_default_str()
        ->type_name("N")
        ->group(group);
  };
  const auto real = [&](const char* name, auto& value, const char* help, double least, double most,
                        const std::string& group = loop_group) {
    return command.add_option(name, value, help)
        ->check(between(least, most))
        ->type_name("X")
        ->group(group);
  };
  const auto path = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command.add_option(name, value, help)->type_name(type)->group(output_group);
  };

  CLI::Option* data = add_rows(command, options.data, "with train and perhaps dev");
  data->description(
      "TSV, CSV, fastText or JSON lines, also .gz; or a folder with train, dev and test. "
      "Without "
      "it: reviews that the program makes up");
  CLI::Option* multi_label =
      command
          .add_flag("--multi-label", options.data.multi_label,
                    "a row may have several labels, or none: several __label__, a cell such as "
                    "a,b, or a JSON list")
          ->needs(data)
          ->group(data_group);
  command.add_option("--dev", options.data.dev, "held-out rows in a file of their own")
      ->needs(data)
      ->type_name("PATH")
      ->group(data_group);
  command
      .add_flag("--regression", options.data.regression,
                "labels are numbers, which the model is to give (mean squared error)")
      ->needs(data)
      ->excludes(multi_label)
      ->group(data_group);
  real("--held-out-share", options.data.held_out_share,
       "of rows that are held out where there is no --dev, chosen by a hash of the text; none with "
       "--model-kind fast unless it is given",
       0.001, 0.9, data_group)
      ->default_str("0.1");
  number("--stream", options.stream,
         "for a file beyond memory: leave its rows there and shuffle them through a buffer of so "
         "many; held-out rows need --dev",
         data_group, CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->default_str("");
  number("--reviews", options.reviews, "how many made-up reviews to train on", data_group,
         CLI::Range(std::size_t{100}, std::size_t{10'000'000}))
      ->excludes(data);
  real("--label-noise", options.label_noise,
       "share of made-up reviews to train on whose label is wrong", 0, 0.5, data_group)
      ->capture_default_str()
      ->excludes(data);

  command
      .add_option(
          "--model-kind", options.kind,
          "bert; or fast: hashed words and pairs of words, trained in seconds, with options "
          "chosen from the rows (docs/sparse_training.md)")
      ->check(CLI::IsMember({"bert", "fast"}))
      ->capture_default_str()
      ->group(model_group);
  CLI::Option* pretrained =
      command
          .add_option("--pretrained", options.pretrained,
                      "start from this folder: config.json, model.safetensors, vocab.txt")
          ->type_name("DIR")
          ->group(model_group);
  command.add_option("--preset", options.preset, "or from nothing, in one of these sizes")
      ->check(CLI::IsMember({"base", "minilm", "small", "tiny"}))
      ->capture_default_str()
      ->excludes(pretrained)
      ->group(model_group);
  number(
      "--vocab-size", options.vocab_size,
      "word pieces, learnt from the training text, of a model from nothing; default: 8000, 1000 of "
      "made-up reviews",
      model_group, CLI::Range(std::size_t{100}, std::size_t{1'000'000}))
      ->default_str("")
      ->excludes(pretrained);
  number("--max-length", options.max_length,
         "tokens that a text is cut to; default: 128, or as many as a pretrained model has "
         "positions for",
         model_group, CLI::Range(std::size_t{3}, std::size_t{512}))
      ->default_str("");
  real("--dropout", options.dropout,
       "of hidden states and attention; default: the pretrained model's, 0 from nothing", 0, 0.99,
       model_group);
  command
      .add_flag("--recompute", options.recompute,
                "keep only each layer's input and last sum for backward: less memory, more time, "
                "the same bits")
      ->group(model_group);

  number("--epochs", options.epochs,
         "passes over the rows; default: 1 with --pretrained and of made-up reviews, 6 of "
         "other rows from nothing; 2 or 3 of --model-kind fast",
         loop_group, CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->default_str("");
  number("--max-steps", options.max_steps, "end after as many steps; 0: never before the epochs",
         loop_group, any_count);
  number("--batch-size", options.batch_size, "texts in a batch", loop_group, some);
  number("--batch-tokens", options.batch_tokens,
         "instead: as many texts as have this many tokens together", loop_group, some)
      ->excludes("--batch-size")
      ->default_str("");
  number("--accumulate", options.accumulate, "batches that make one step", loop_group, some);
  real("--learning-rate", options.learning_rate,
       "default: 1e-4 with --pretrained, 5e-4 from nothing, 0.2 with --model-kind fast", 0, 1e3);
  command.add_option("--schedule", options.schedule, "of the learning rate")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str()
      ->group(loop_group);
  number("--warmup-steps", options.warmup_steps,
         "in which the rate rises; default: 0 with --pretrained, a twentieth of all from nothing",
         loop_group, count_from(0, std::uint64_t{1} << 40))
      ->default_str("");
  real("--weight-decay", options.weight_decay, "decoupled, of matrices", 0, 1e3)
      ->capture_default_str();
  command.add_flag("--decay-all", options.decay_all, "of biases and norms as well")
      ->group(loop_group);
  real("--clip", options.clip, "largest norm of all gradients; 0: any", 0, 1e9)
      ->capture_default_str();
  number("--seed", options.seed, "of first weights, order, dropout and rounding", loop_group,
         any_count);
  command.add_flag("--no-shuffle", options.no_shuffle, "rows in their order")->group(loop_group);
  number("--evaluate-every", options.evaluate_every, "steps; 0: after each epoch", loop_group,
         any_count);
  number("--patience", options.patience,
         "evaluations of held-out rows without a gain after which training ends; 0: never",
         loop_group, any_count);
  command.add_flag("--keep-best", options.keep_best, "end with the weights that evaluated best")
      ->group(loop_group);
  command
      .add_option("--metric", options.metric,
                  "of the held-out rows: what tells the best weights, and a gain; loss, or of "
                  "classes accuracy, macro_f1, and of two auc; of several labels micro_f1, "
                  "macro_f1; of numbers mse, mae, r2")
      ->check(
          CLI::IsMember({"loss", "accuracy", "macro_f1", "auc", "micro_f1", "mse", "mae", "r2"}))
      ->capture_default_str()
      ->group(loop_group);
  command
      .add_option("--class-weights", options.class_weights,
                  "in the loss: balanced, where each class counts as much as the others together "
                  "with all its rows, or a JSON file {\"class\": weight}; for rare classes")
      ->type_name("balanced|FILE")
      ->group(loop_group);

  command
      .add_option(
          "--precision", options.precision,
          "formats of weights, activations and what products read: a preset, or a file of "
          "one's own (docs/precision.md; describe --precision NAME prints one to begin with)")
      ->type_name("NAME|FILE.json")
      ->capture_default_str()
      ->group(compute_group);
  number("--shards", options.shards,
         "parts of a batch whose sums meet in a fixed tree, a power of two", compute_group,
         CLI::Range(std::size_t{1}, std::size_t{1024}));
  add_compute(command, options.compute);
  add_ranks(command, options.ranks);

  path(
      "--output", options.output,
      "the trained model, as Python's usual libraries load it; a new folder, an empty one, or that "
      "of an earlier model, with nothing else in it",
      "DIR");
  path("--checkpoint", options.checkpoint,
       "all that is needed to go on; a folder without checkpoints, unless --resume goes on", "DIR");
  command.add_option("--checkpoint-every", options.checkpoint_every, "steps; 0: at the end")
      ->check(any_count)
      ->needs("--checkpoint")
      ->type_name("N")
      ->group(output_group);
  command.add_option("--keep-checkpoints", options.keep_checkpoints, "how many of the newest")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}))
      ->capture_default_str()
      ->type_name("N")
      ->group(output_group);
  command.add_flag("--resume", options.resume, "go on from the newest checkpoint, if there is one")
      ->needs("--checkpoint")
      ->group(output_group);
  path("--tensorboard", options.tensorboard,
       "event files; a folder for each run, which --resume goes on in", "DIR");
  path("--log-json", options.log_json, "an object a step, one at the end", "FILE");
  path("--confusion", options.confusion, "held-out rows by class and prediction, as CSV", "FILE");
  path("--plot", options.plot,
       "curves of loss, metrics and learning rate as an SVG picture, which grows with the run and "
       "goes on with --resume",
       "FILE");
  path("--report", options.report,
       "one HTML page of the run: curves, results, confusion matrix, and the held-out texts that "
       "the model got wrong most confidently",
       "FILE");
  path("--profile", options.profile,
       "print where the time of a step goes, write its trace for ui.perfetto.dev", "FILE");
  real("--price-per-hour", options.price_per_hour, "of the machine, for the cost in the report", 0,
       1e6, output_group);
  command.add_flag("--quiet", options.quiet, "no progress")->group(output_group);
  command.add_flag("--publish", options.publish, "show soma-top how the run is doing")
      ->group(output_group);
}

void add_options(CLI::App& command, EvaluateOptions& options) {
  add_model(command, options.model);
  add_rows(command, options.data, "with test, or dev")->required();
  command.add_option("--batch-size", options.batch_size, "texts in a batch")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  command.add_flag("--json", options.json, "one JSON object instead of a table")
      ->group(output_group);
  command.add_option("--confusion", options.confusion, "rows by class and prediction, as CSV")
      ->type_name("FILE")
      ->group(output_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, PredictOptions& options) {
  add_model(command, options.model);
  command.add_option("file", options.file, "a text a line; - is standard input")
      ->capture_default_str()
      ->type_name("FILE");
  command.add_flag("--pairs", options.pairs,
                   "two texts a line, with a tab between them, of a model that was trained with "
                   "--pair-column");
  command
      .add_option("--batch-size", options.batch_size, "texts in a batch, where they are at hand")
      ->check(some)
      ->capture_default_str()
      ->type_name("N")
      ->group(compute_group);
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, ServeOptions& options) {
  add_model(command, options.model);
  command.add_option("--host", options.host, "address to listen on; 0.0.0.0: all of them")
      ->capture_default_str();
  command.add_option("--port", options.port, "0: any that is free, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command
      .add_option("--max-body", options.max_body,
                  "bytes of a request, more is status 413, as are more texts than one for 16 bytes")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->capture_default_str();
  command
      .add_option(
          "--read-timeout", options.read_timeout,
          "seconds for a request to arrive; an answer has as long, and a second more for each "
          "64 KiB that the client has read")
      ->check(between(0.1, 3600.0))
      ->capture_default_str();
  command.add_option("--batch-size", options.batch_size, "texts of several requests in one batch")
      ->check(some)
      ->capture_default_str();
  add_compute(command, options.compute);
}

void add_options(CLI::App& command, DescribeOptions& options) {
  command
      .add_option("--precision", options.precision,
                  "print a precision as JSON, to begin one's own with, and nothing else")
      ->type_name("NAME|FILE.json");
  add_compute(command, options.compute);
}

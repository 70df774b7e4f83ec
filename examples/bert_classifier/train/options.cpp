#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rank_options.hpp"
#include "bert_classifier/train/row_options.hpp"
#include "bert_classifier/train/validators.hpp"

#include <soma/models/bert.hpp>
#include <soma/optim/schedule.hpp>
#include <soma/runtime/executor.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

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
      .add_option(
          "--device", options.device,
          "host, or neuroncore: run every operator as a program of the modelled accelerator")
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

constexpr const char* fast_group = "Model kind fast";

// Settings that rules choose where they are not given.
void add_fast(CLI::App& command, TrainOptions& options) {
  FastTrainOptions& fast = options.fast;
  const auto add = [&](const char* name, auto& value, const char* help, double least, double most) {
    return command.add_option(name, value, help)
        ->check(between(least, most))
        ->type_name("X")
        ->group(fast_group);
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

const CLI::Validator any_count = count_from(0, (std::numeric_limits<std::uint64_t>::max)() / 2);
const CLI::Range some(std::size_t{1}, std::size_t{1} << 24);

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
  command.add_option("--dev", options.data.dev, "file of held-out rows (validation)")
      ->needs(data)
      ->type_name("PATH")
      ->group(data_group);
  command
      .add_flag("--regression", options.data.regression,
                "labels are numbers, and the model predicts a number (mean squared error)")
      ->needs(data)
      ->excludes(multi_label)
      ->group(data_group);
  real("--held-out-share", options.data.held_out_share,
       "share of rows to hold out for validation if there is no --dev, chosen by a hash of the "
       "text; by default 0 with --model-kind fast",
       0.001, 0.9, data_group)
      ->default_str("0.1");
  number("--stream", options.stream,
         "read a file that is larger than memory in every epoch, and shuffle its rows in a buffer "
         "of this many rows; held-out rows need --dev",
         data_group, CLI::Range(std::size_t{1}, std::size_t{1} << 30))
      ->default_str("");
  number("--reviews", options.reviews, "number of generated reviews to train on", data_group,
         CLI::Range(std::size_t{100}, std::size_t{10'000'000}))
      ->excludes(data);
  real("--label-noise", options.label_noise,
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
  number("--vocab-size", options.vocab_size,
         "number of word pieces of a new model, learnt from the training text; default: 8000, or "
         "1000 for generated reviews",
         model_group, CLI::Range(std::size_t{100}, std::size_t{1'000'000}))
      ->default_str("")
      ->excludes(pretrained);
  number("--max-length", options.max_length,
         "most tokens of a text, longer texts are cut; default: 128, or fewer if a pretrained "
         "model has fewer positions",
         model_group, CLI::Range(std::size_t{3}, std::size_t{512}))
      ->default_str("");
  real("--dropout", options.dropout,
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
  number("--freeze-layers", options.freeze_layers,
         "the embeddings and the first N layers keep their weights; needs --pretrained",
         model_group, CLI::Range(std::size_t{1}, std::size_t{1000}))
      ->default_str("")
      ->needs(pretrained);

  number("--epochs", options.epochs,
         "passes over the rows; default: 1 with --pretrained or generated reviews, 6 for a new "
         "model and other rows, and with --model-kind fast (2 or 3 if it has a trainer)",
         loop_group, CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->default_str("");
  number("--max-steps", options.max_steps, "end after this many steps; 0: after all epochs",
         loop_group, any_count);
  number("--batch-size", options.batch_size, "texts per batch", loop_group, some);
  number("--batch-tokens", options.batch_tokens, "tokens per batch, instead of --batch-size",
         loop_group, some)
      ->excludes("--batch-size")
      ->default_str("");
  number("--accumulate", options.accumulate, "batches per step", loop_group, some);
  real("--learning-rate", options.learning_rate,
       "default: 1e-4 with --pretrained, 5e-4 for a new model, 0.2 with --model-kind fast", 0, 1e3);
  command
      .add_option(
          "--schedule", options.schedule,
          "schedule of the learning rate: constant; linear or cosine, down to a share; step "
          "or exponential, by a factor; plateau, by a factor where --metric no longer "
          "improves; milestones, by a factor at each; one_cycle, up over the warm-up and down over "
          "the rest; warm_restarts, cosines that start anew")
      // The last one is a function, which a command line cannot give.
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(soma::optim::decay_names),
                                                     std::end(soma::optim::decay_names) - 1)))
      ->capture_default_str()
      ->group(loop_group);
  ScheduleOptions& schedule = options.schedule_options;
  real("--schedule-factor", schedule.factor,
       "of step, exponential, plateau, milestones: what the rate is multiplied by; default: 0.1",
       1e-6, 1);
  number("--schedule-every", schedule.every,
         "of step, exponential: the steps after which the factor counts once; of warm_restarts: "
         "the steps of the first cosine; default: 1",
         loop_group, count_from(1, std::uint64_t{1} << 40))
      ->default_str("");
  number("--schedule-patience", schedule.patience,
         "of plateau: evaluations without an improvement before the rate falls; default: 2",
         loop_group, any_count)
      ->default_str("");
  real("--schedule-threshold", schedule.threshold,
       "of plateau: the share of the best by which an evaluation has to be better; default: 1e-4",
       0, 0.999);
  number("--schedule-growth", schedule.growth,
         "of warm_restarts: how many times the steps of the one before each cosine has; default: 1",
         loop_group, count_from(1, 1000))
      ->default_str("");
  command
      .add_option("--schedule-milestones", schedule.milestones,
                  "of milestones: steps since the warm-up, with commas between them")
      ->delimiter(',')
      ->group(loop_group);
  real("--start-ratio", schedule.start_ratio,
       "of one_cycle: the share of the rate at its beginning; default: 0.04", 0, 1);
  real("--final-ratio", schedule.final_ratio,
       "of linear, cosine, plateau, one_cycle, warm_restarts: the least share of the rate; "
       "default: 0",
       0, 1);
  number("--warmup-steps", options.warmup_steps,
         "steps in which the learning rate rises; default: 0 with --pretrained, a twentieth of all "
         "steps for a new model, the steps of the checkpoint with --resume",
         loop_group, count_from(0, std::uint64_t{1} << 40))
      ->default_str("");
  command
      .add_option("--optimizer", options.optimizer.name,
                  "adamw, adam, radam, lamb, sgd, rmsprop, adagrad, adadelta or adafactor; an "
                  "option that the optimizer does not have is refused")
      ->check(CLI::IsMember(std::vector<std::string>{
          "adamw", "adam", "radam", "lamb", "sgd", "rmsprop", "adagrad", "adadelta", "adafactor"}))
      ->capture_default_str()
      ->group(loop_group);
  OptimizerOptions& optimizer = options.optimizer;
  real("--beta1", optimizer.beta1, "of adamw, adam, radam, lamb; default: 0.9", 0, 1);
  real("--beta2", optimizer.beta2, "of adamw, adam, radam, lamb; default: 0.999", 0, 1);
  real("--epsilon", optimizer.epsilon,
       "of adamw, adam, radam, rmsprop; default: 1e-8; of lamb, adadelta: 1e-6; of adagrad: 1e-10",
       0, 1);
  real("--momentum", optimizer.momentum, "of sgd, rmsprop; default: 0", 0, 1);
  real("--dampening", optimizer.dampening, "of sgd, for its momentum; default: 0", 0, 1);
  command.add_flag("--nesterov", optimizer.nesterov, "of sgd: Nesterov's momentum")
      ->group(loop_group);
  real("--alpha", optimizer.alpha,
       "of rmsprop: share of the old mean of squares that a step keeps; default: 0.99", 0, 1);
  real("--rho", optimizer.rho,
       "of adadelta: share of the old means that a step keeps; default: 0.9", 0, 1);
  real("--rate-decay", optimizer.rate_decay, "of adagrad: decay of its rate; default: 0", 0, 1e6);
  real("--initial-square", optimizer.initial_square,
       "of adagrad: first value of the sums of squares; default: 0", 0, 1e6);
  real("--beta2-decay", optimizer.beta2_decay,
       "of adafactor: power of the step by which its means forget; default: -0.8", -1e3, 0);
  real("--floor", optimizer.floor, "of adafactor: least mean of squares; default: 1.2e-7", 0, 1);
  real("--least-scale", optimizer.least_scale,
       "of adafactor: least root mean square of weights; default: 1e-3", 0, 1e6);
  real("--update-clip", optimizer.update_clip,
       "of adafactor: largest root mean square of an update; default: 1", 0, 1e6);
  real("--weight-decay", options.weight_decay,
       "weight decay of matrices: apart from the gradient in adamw, lamb and adafactor (default: "
       "0.01), added to it in the others (default: 0)",
       0, 1e3);
  command.add_flag("--decay-all", options.decay_all, "also decay biases and norms")
      ->group(loop_group);
  real("--clip", options.clip, "clip the norm of all gradients to this value; 0: no clipping", 0,
       1e9)
      ->capture_default_str();
  real("--average", options.average.decay,
       "evaluate, keep and end with a moving average of the weights, which keeps this share of "
       "itself at an update, for example 0.999",
       0, 1);
  number("--average-from", options.average.from,
         "the step whose weights begin the average; default: the first", loop_group, any_count)
      ->needs("--average")
      ->default_str("");
  number("--average-every", options.average.every,
         "steps between updates of the average; default: 1", loop_group,
         count_from(1, std::uint64_t{1} << 40))
      ->needs("--average")
      ->default_str("");
  number("--seed", options.seed, "seed of initial weights, order, dropout and rounding", loop_group,
         any_count);
  command.add_flag("--no-shuffle", options.no_shuffle, "keep the order of the rows")
      ->group(loop_group);
  number("--evaluate-every", options.evaluate_every,
         "steps between evaluations; 0: evaluate after each epoch", loop_group, any_count);
  number("--patience", options.patience,
         "end after this many evaluations of held-out rows without an improvement; 0: never",
         loop_group, any_count);
  command.add_flag("--keep-best", options.keep_best, "keep the weights with the best evaluation")
      ->group(loop_group);
  command
      .add_option("--metric", options.metric,
                  "validation metric that decides the best weights and an improvement: loss; for "
                  "classes also accuracy, macro_f1, and for two classes auc; for several labels "
                  "micro_f1, macro_f1; for numbers mse, mae, r2")
      ->check(
          CLI::IsMember({"loss", "accuracy", "macro_f1", "auc", "micro_f1", "mse", "mae", "r2"}))
      ->capture_default_str()
      ->group(loop_group);
  command
      .add_option("--class-weights", options.class_weights,
                  "weights of classes in the loss, for rare classes: balanced (the rows of each "
                  "class have the same total weight), or a JSON file {\"class\": weight}")
      ->type_name("balanced|FILE")
      ->group(loop_group);

  command
      .add_option("--precision", options.precision,
                  "formats of weights, activations and operands of products: a preset, or your own "
                  "file (docs/precision.md; describe --precision NAME prints a file to start "
                  "with); with --model-kind fast, fp32 keeps all weights as they are")
      ->type_name("NAME|FILE.json")
      ->default_str("fp32")
      ->group(compute_group);
  number("--shards", options.shards,
         "parts of a batch, a power of two; a fixed tree adds their gradients", compute_group,
         CLI::Range(std::size_t{1}, std::size_t{1024}));
  add_compute(command, options.compute);
  add_ranks(command, options.ranks);

  path("--output", options.output,
       "folder for the trained model, in the format of the usual Python libraries: a new folder, "
       "an empty folder, or the folder of an earlier model without other files",
       "DIR");
  path("--checkpoint", options.checkpoint,
       "folder for checkpoints; without --resume the folder must not have checkpoints", "DIR");
  command
      .add_option("--checkpoint-every", options.checkpoint_every,
                  "steps between checkpoints; 0: one checkpoint at the end")
      ->check(any_count)
      ->needs("--checkpoint")
      ->type_name("N")
      ->group(output_group);
  command
      .add_option("--keep-checkpoints", options.keep_checkpoints,
                  "number of newest checkpoints to keep")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}))
      ->capture_default_str()
      ->type_name("N")
      ->group(output_group);
  command
      .add_flag("--resume", options.resume, "resume from the newest checkpoint, if there is one")
      ->needs("--checkpoint")
      ->group(output_group);
  path("--tensorboard", options.tensorboard,
       "folder for event files; use one folder per run, --resume continues the same folder", "DIR");
  path("--log-json", options.log_json, "write a JSON object for each step and for the end", "FILE");
  path("--confusion", options.confusion, "write the confusion matrix of the held-out rows as CSV",
       "FILE");
  path("--plot", options.plot,
       "write the curves of loss, metrics and learning rate as an SVG picture, updated during the "
       "run; --resume continues the curves",
       "FILE");
  path("--report", options.report,
       "write an HTML page of the run: curves, results, confusion matrix, and the held-out texts "
       "with the most confident wrong predictions",
       "FILE");
  path("--profile", options.profile,
       "print the time of each operator in a step, and write a trace for ui.perfetto.dev", "FILE");
  real("--price-per-hour", options.price_per_hour,
       "price of the machine, for the cost in the report", 0, 1e6, output_group);
  command.add_flag("--quiet", options.quiet, "no progress")->group(output_group);
  command.add_flag("--publish", options.publish, "publish the progress of the run for soma-top")
      ->group(output_group);
}

void add_options(CLI::App& command, PlanCommand& options) {
  add_options(command, options.train);
  const std::string group = "Plan";
  command.add_option("--ranks", options.ranks, "processes of the training")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  command.add_flag("--json", options.json, "print the table as JSON")->group(group);
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

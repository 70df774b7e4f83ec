#include "training/run_options.hpp"
#include "training/rank_options.hpp"
#include "training/validators.hpp"

#include <soma/optim/schedule.hpp>
#include <soma/runtime/executor.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

void RunOptions::silence() {
  for (std::string* path : {&output, &profile, &log_json, &tensorboard, &plot}) path->clear();
  quiet = true;
}

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

void add_loop(CLI::App& command, RunOptions& options, const RunWords& words) {
  add_number(command, "--epochs", options.epochs, words.epochs, loop_group,
             CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->default_str("");
  add_number(command, "--max-steps", options.max_steps,
             "end after this many steps; 0: after all epochs", loop_group, any_count);
  add_number(command, "--batch-size", options.batch_size, words.batch_size, loop_group, some);
  add_number(command, "--batch-tokens", options.batch_tokens,
             "tokens per batch, instead of --batch-size", loop_group, some)
      ->excludes("--batch-size")
      ->default_str("");
  add_number(command, "--accumulate", options.accumulate, "batches per step", loop_group, some);
  add_real(command, "--learning-rate", options.learning_rate, words.learning_rate, 0, 1e3);
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
  add_real(
      command, "--schedule-factor", schedule.factor,
      "of step, exponential, plateau, milestones: the learning rate is multiplied by it; default: "
      "0.1",
      1e-6, 1);
  add_number(
      command, "--schedule-every", schedule.every,
      "of step, exponential: the steps after which the factor counts once; of warm_restarts: "
      "the steps of the first cosine; default: 1",
      loop_group, count_from(1, std::uint64_t{1} << 40))
      ->default_str("");
  add_number(command, "--schedule-patience", schedule.patience,
             "of plateau: evaluations without an improvement before the learning rate falls; "
             "default: 2",
             loop_group, any_count)
      ->default_str("");
  add_real(
      command, "--schedule-threshold", schedule.threshold,
      "of plateau: the share of the best by which an evaluation has to be better; default: 1e-4", 0,
      0.999);
  add_number(
      command, "--schedule-growth", schedule.growth,
      "of warm_restarts: each cosine has this many times the steps of the one before; default: 1",
      loop_group, count_from(1, 1000))
      ->default_str("");
  command
      .add_option("--schedule-milestones", schedule.milestones,
                  "of milestones: steps since the warm-up, with commas between them")
      ->delimiter(',')
      ->group(loop_group);
  add_real(command, "--start-ratio", schedule.start_ratio,
           "of one_cycle: the share of the learning rate at its beginning; default: 0.04", 0, 1);
  add_real(command, "--final-ratio", schedule.final_ratio,
           "of linear, cosine, plateau, one_cycle, warm_restarts: the least share of the learning "
           "rate; default: 0",
           0, 1);
  add_number(command, "--warmup-steps", options.warmup_steps, words.warmup, loop_group,
             count_from(0, std::uint64_t{1} << 40))
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
  add_real(command, "--beta1", optimizer.beta1, "of adamw, adam, radam, lamb; default: 0.9", 0, 1);
  add_real(command, "--beta2", optimizer.beta2, "of adamw, adam, radam, lamb; default: 0.999", 0,
           1);
  add_real(
      command, "--epsilon", optimizer.epsilon,
      "of adamw, adam, radam, rmsprop; default: 1e-8; of lamb, adadelta: 1e-6; of adagrad: 1e-10",
      0, 1);
  add_real(command, "--momentum", optimizer.momentum, "of sgd, rmsprop; default: 0", 0, 1);
  add_real(command, "--dampening", optimizer.dampening, "of sgd, for its momentum; default: 0", 0,
           1);
  command.add_flag("--nesterov", optimizer.nesterov, "of sgd: Nesterov's momentum")
      ->group(loop_group);
  add_real(command, "--alpha", optimizer.alpha,
           "of rmsprop: share of the old mean of squares that a step keeps; default: 0.99", 0, 1);
  add_real(command, "--rho", optimizer.rho,
           "of adadelta: share of the old means that a step keeps; default: 0.9", 0, 1);
  add_real(command, "--rate-decay", optimizer.rate_decay,
           "of adagrad: decay of its learning rate; default: 0", 0, 1e6);
  add_real(command, "--initial-square", optimizer.initial_square,
           "of adagrad: first value of the sums of squares; default: 0", 0, 1e6);
  add_real(command, "--beta2-decay", optimizer.beta2_decay,
           "of adafactor: power of the step by which its means forget; default: -0.8", -1e3, 0);
  add_real(command, "--floor", optimizer.floor,
           "of adafactor: least mean of squares; default: 1.2e-7", 0, 1);
  add_real(command, "--least-scale", optimizer.least_scale,
           "of adafactor: least root mean square of weights; default: 1e-3", 0, 1e6);
  add_real(command, "--update-clip", optimizer.update_clip,
           "of adafactor: largest root mean square of an update; default: 1", 0, 1e6);
  add_real(
      command, "--weight-decay", options.weight_decay,
      "weight decay of matrices: apart from the gradient in adamw, lamb and adafactor (default: "
      "0.01), added to it in the others (default: 0)",
      0, 1e3);
  command.add_flag("--decay-all", options.decay_all, "also decay biases and norms")
      ->group(loop_group);
  add_real(command, "--clip", options.clip,
           "clip the norm of all gradients to this value; 0: no clipping", 0, 1e9)
      ->capture_default_str();
  command
      .add_flag("--step-early", options.step_early,
                "step each parameter as soon as its gradient is complete, and give the gradient "
                "back: the same bits in less memory; needs --clip 0, and one process")
      ->group(loop_group);
  add_real(command, "--average", options.average.decay,
           "evaluate, keep and end with a moving average of the weights, which keeps this share of "
           "itself at an update, for example 0.999",
           0, 1);
  add_number(command, "--average-from", options.average.from,
             "the step whose weights begin the average; default: the first", loop_group, any_count)
      ->needs("--average")
      ->default_str("");
  add_number(command, "--average-every", options.average.every,
             "steps between updates of the average; default: 1", loop_group,
             count_from(1, std::uint64_t{1} << 40))
      ->needs("--average")
      ->default_str("");
  add_number(command, "--seed", options.seed,
             "seed of initial weights, order, dropout and rounding", loop_group, any_count);
  command.add_flag("--no-shuffle", options.no_shuffle, "keep the order of the rows")
      ->group(loop_group);
  add_number(command, "--evaluate-every", options.evaluate_every,
             "steps between evaluations; 0: evaluate after each epoch", loop_group, any_count);
  add_number(command, "--patience", options.patience,
             "end after this many evaluations of validation rows without an improvement; 0: never",
             loop_group, any_count);
  command.add_flag("--keep-best", options.keep_best, "keep the weights with the best evaluation")
      ->group(loop_group);
  command.add_option("--metric", options.metric, words.metric)
      ->check(CLI::IsMember(words.metrics))
      ->capture_default_str()
      ->group(loop_group);
  command.add_option("--precision", options.precision, words.precision)
      ->type_name("NAME|FILE.json")
      ->default_str("fp32")
      ->group(compute_group);
  add_number(command, "--shards", options.shards,
             "parts of a batch, a power of two; a fixed tree adds their gradients", compute_group,
             CLI::Range(std::size_t{1}, std::size_t{1024}));
  add_compute(command, options.compute);
  add_ranks(command, options.ranks, words.memory_limit);
}

void add_outputs(CLI::App& command, RunOptions& options, const RunWords& words) {
  const auto path = [&](const char* name, std::string& value, const char* help, const char* type) {
    return command.add_option(name, value, help)->type_name(type)->group(output_group);
  };
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
  path("--plot", options.plot, words.plot, "FILE");
  path("--profile", options.profile,
       "print the time of each operator in a step, and write a trace for ui.perfetto.dev", "FILE");
  command
      .add_option("--price-per-hour", options.price_per_hour,
                  "price of the machine, for the cost in the report")
      ->check(between(0, 1e6))
      ->type_name("X")
      ->group(output_group);
  command.add_flag("--quiet", options.quiet, "no progress")->group(output_group);
  command.add_flag("--publish", options.publish, "publish the progress of the run for soma-top")
      ->group(output_group);
}

void add_plan(CLI::App& command, PlanSettings& settings) {
  const std::string group = "Plan";
  command.add_option("--ranks", settings.ranks, "processes of the training")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}))
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  command.add_flag("--json", settings.json, "print the table as JSON")->group(group);
}

// soma-profile: estimates the time of an operator, or of a training step of BERT, on a core of the
// accelerator by published rules, and its bottlenecks. It is a dry run: nothing is computed.
//   soma-profile matmul 512x512 512x512 --type bf16
//   soma-profile bert-base --batch 16 --length 128 --mode lazy --instance trn1.32xlarge
//   0 done, 1 it failed, 2 wrong usage. Errors are one line that ends with an id.

#include "neuron_tools/program.hpp"
#include "neuron_tools/tables.hpp"

#include <soma/base/fixed.hpp>
#include <soma/models/bert.hpp>
#include <soma/neuroncore/instances/predict.hpp>
#include <soma/neuroncore_clock.hpp>
#ifdef SOMA_PROFILE_TENSORBOARD
#include <soma/tensorboard.hpp>
#endif
#include <soma/testing/samples.hpp>
#include <soma/train.hpp>

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace nc = soma::neuroncore;
using tools::Usage;

struct Options {
  std::string what;
  std::vector<std::string> shapes;
  std::string type = "fp32", mode = "eager", precision = "bf16", instance, trace, page, tensorboard;
  std::size_t batch = 16, length = 128, ranks = 0;
  bool json = false;
};

std::optional<soma::models::BertConfig> model_of(std::string_view name) {
  using soma::models::BertConfig;
  if (name == "bert-base") return BertConfig::base();
  if (name == "bert-large")
    return BertConfig{.width = 1024, .layers = 24, .heads = 16, .inner = 4096};
  if (name == "bert-minilm") return BertConfig::minilm();
  if (name == "bert-small") return BertConfig::small();
  if (name == "bert-tiny") return BertConfig::tiny();
  return std::nullopt;
}

soma::Shape shape_of(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t end = text.find('x', begin);
    if (end == std::string::npos) end = text.size();
    const std::string part = text.substr(begin, end - begin);
    if (part.empty() || part.size() > 9 ||
        part.find_first_not_of("0123456789") != std::string::npos)
      throw Usage{"a shape is " + soma::quoted(text) + ", wanted sizes such as 128x512"};
    sizes.push_back(std::stoul(part));
    begin = end + 1;
  }
  return soma::Shape(std::span<const std::size_t>(sizes));
}

soma::RunMode mode_of(const std::string& name) {
  return name == "lazy"  ? soma::RunMode::lazy
         : name == "jit" ? soma::RunMode::jit
                         : soma::RunMode::eager;
}

#ifdef SOMA_PROFILE_TENSORBOARD
// One point a curve: this tool runs one step.
void write_events(const nc::Report& report, const soma::NeuronCoreDevice& device,
                  soma::DeviceScalars& scalars, const std::string& folder) {
  soma::EventFile file(folder);
  scalars.write([&](const std::string& name, double value) { file.scalar(name, 1, value); });
  for (const nc::OperatorUse& use : report.summary().operators)
    file.scalar("operators/" + use.name + "_ms", 1, use.ns * 1e-6);
  for (const soma::RunCounts::Cut& cut : device.runs().cuts)
    file.scalar("cuts/" + cut.cause, 1, static_cast<double>(cut.count));
}
#endif

void write_files(const soma::NeuronCoreDevice& device, soma::DeviceScalars& scalars,
                 const nc::Report& report, const Options& options) {
  if (options.json)
    std::cout << report.json() << '\n';
  else
    std::cout << report.text();
  if (!options.trace.empty()) nc::write_trace(options.trace, report);
  if (!options.page.empty()) nc::write_page(options.page, report);
#ifdef SOMA_PROFILE_TENSORBOARD
  if (!options.tensorboard.empty()) write_events(report, device, scalars, options.tensorboard);
#else
  (void)device, (void)scalars;
#endif
}

// Settings are those of the operator's first sample, which the tests use.
void profile_operator(soma::Context& context, nc::Core& core, soma::NeuronCoreDevice& device,
                      const Options& options) {
  const soma::Operator* op = context.operators().find(options.what);
  if (op == nullptr)
    throw Usage{"there is no operator " + soma::quoted(options.what) +
                ", wanted bert-base, bert-large, bert-minilm, bert-small, bert-tiny, or a name of "
                "docs/neuroncore_tables.md"};
  if (!options.instance.empty()) throw Usage{"--instance needs a model, such as bert-base"};
  std::optional<soma::DType> dtype;
  for (const soma::DType known : soma::dtypes)
    if (soma::to_string(known) == options.type) dtype = known;
  if (!dtype) throw Usage{"there is no type " + soma::quoted(options.type)};
  std::vector<soma::Tensor> inputs;
  for (const std::string& shape : options.shapes)
    inputs.push_back(soma::Tensor::zeros(context, shape_of(shape), *dtype));
  soma::Attributes attributes;
  const soma::OperatorSamples samples = soma::testing::samples_of(*op);
  if (!samples.samples.empty()) attributes = samples.samples.front().attributes;
  const soma::Sequences sequences = inputs.empty() || inputs[0].rank() == 0
                                        ? soma::Sequences()
                                        : soma::Sequences::uniform(context, inputs[0].size(0));
  soma::DeviceScalars scalars(device);
  context.set_device(&device);
  (void)soma::run(context, *op, attributes, inputs, sequences);
  device.mark_step();
  context.set_device(nullptr);
  if (core.recorded().empty())
    throw Usage{soma::quoted(options.what) + " has no program on the core: the host runs it"};
  write_files(device, scalars, nc::report(core), options);
}

// One training step in the trainer's form, with the time at which backward has each gradient.
struct Step {
  double ns = 0, backward_ns = 0;
  std::vector<nc::GradientReady> gradients;
};

// The vendor's fine-tuning beside the prediction of the same step.
void print_published(const nc::StepPrediction& predicted) {
  const nc::PublishedRun &trn1 = nc::published_trn1, &p4d = nc::published_p4d;
  const auto whole = [](double value) { return soma::fixed(value, 0); };
  // 3.6 million texts in steps of 8 x 32: one version of the vendor's example reads them once,
  // another twice.
  const double epoch = 3.6e6 / (8 * 32) / trn1.steps_per_second;
  std::cout << "\npublished fine-tuning of bert-base, 8 a core, 128 tokens, 32 cores: "
            << soma::fixed(trn1.steps_per_second, 2)
            << " steps a second; predicted here: " << soma::fixed(predicted.steps_per_second(), 2)
            << ", which is " << soma::fixed(predicted.steps_per_second() / trn1.steps_per_second, 2)
            << " times that. No agreement is claimed.\n"
            << "of its " << whole(trn1.seconds) << " s, " << whole(trn1.seconds - epoch)
            << " are no steps if it reads its texts once, " << whole(trn1.seconds - 2 * epoch)
            << " if twice; what they are is not published\n"
            << tools::table({{"INSTANCE", "STEPS/S", "ACCURACY", "SECONDS", "DOLLARS"},
                             {std::string(trn1.instance), "6.64", "0.984", "6033", "41.47"},
                             {std::string(p4d.instance), "5.44", "0.984", "6553", "68.60"}})
            << "said of it: 22 % faster, up to 50 % cheaper; its own figures give "
            << whole((trn1.steps_per_second / p4d.steps_per_second - 1) * 100) << " and "
            << whole((1 - trn1.dollars / p4d.dollars) * 100) << " %; price times seconds gives "
            << soma::fixed(trn1.computed_dollars(), 2) << " dollars\n";
}

void print_instance(const Step& step, const Options& options) {
  const nc::Instance& instance = nc::instance_of(options.instance);
  const std::size_t ranks = options.ranks != 0 ? options.ranks : instance.cores();
  const nc::StepPrediction predicted = nc::predict_step(
      {.backward_ns = step.backward_ns, .ns = step.ns, .gradients = step.gradients}, ranks,
      instance);
  const auto ms = [](double seconds) { return soma::fixed(seconds * 1e3, 2) + " ms"; };
  std::cout << "\ndata parallel on " << ranks << " cores of " << instance.name << ", an estimate\n"
            << "  a core's step      " << ms(predicted.core_seconds) << '\n'
            << "  gradients          " << ms(predicted.reduce_seconds) << " in "
            << predicted.buckets << " buckets, of which backward does not hide "
            << ms(predicted.exposed_seconds) << '\n'
            << "  steps a second     " << soma::fixed(predicted.steps_per_second(), 2) << '\n';
  if (instance.dollars_per_hour.given())
    std::cout << "  dollars, 1000 steps "
              << soma::fixed(instance.dollars_per_hour.value * predicted.seconds() / 3.6, 4)
              << '\n';
  if (ranks > 1)
    std::cout << "  times of gradients are " << nc::collective_source(ranks, instance) << '\n';
  std::cout
      << "  left out: the host and its part of launches, the input, evaluation, compilation\n";
  if (options.what == "bert-base" && options.batch == 8 && options.length == 128 && ranks == 32 &&
      instance.name == nc::published_trn1.instance)
    print_published(predicted);
}

void profile_model(soma::Context& context, nc::Core& core, soma::NeuronCoreDevice& device,
                   const soma::models::BertConfig& config, const Options& options) {
  if (options.length > config.positions)
    throw Usage{"--length is " + std::to_string(options.length) + ", wanted at most " +
                std::to_string(config.positions)};
  const soma::models::BertClassifier model({context}, config, 2);
  soma::nn::ClassificationTask<soma::models::BertClassifier> task(model, 2);
  soma::data::TokenLists lists;
  for (std::size_t i = 0; i < options.batch; ++i) {
    std::vector<std::int32_t> ids(options.length);
    for (std::size_t j = 0; j < ids.size(); ++j)
      ids[j] = static_cast<std::int32_t>(1 + (i * 131 + j * 7) % (config.vocabulary - 1));
    lists.add(ids, 1);
  }
  soma::data::TokenSource source(context, lists, {.batch_sequences = options.batch});
  // Collects, launch by launch, the work so far and the gradients that exist.
  Step step;
  std::vector<bool> there(task.parameters().size());
  soma::DeviceScalars scalars(device);
  device.after_program([&](std::string_view) {
    step.ns = device.runs().predicted.ns;
    std::size_t i = 0;
    for (const soma::Parameter& parameter : task.parameters()) {
      const soma::Gradient& gradient = parameter.var.gradient();
      if (gradient.defined() && !there[i]) {
        there[i] = true;
        step.gradients.push_back({static_cast<double>(gradient.values.bytes()), step.ns});
        step.backward_ns = step.ns;
      }
      ++i;
    }
  });
  context.set_device(&device);
  soma::train::Trainer trainer(
      context, task, {.max_steps = 1, .precision = soma::Precision::named(options.precision)});
  trainer.fit(source);
  device.mark_step();
  context.set_device(nullptr);
  write_files(device, scalars, nc::report(core), options);
  if (options.json) return;
  const soma::RunCounts runs = device.runs();
  std::cout << "\n" << runs.launches << " launches in mode " << options.mode;
  if (runs.removed != 0) std::cout << ", " << runs.removed << " calls removed";
  std::cout << '\n';
  for (const soma::RunCounts::Cut& cut : runs.cuts)
    std::cout << "  cut by " << cut.cause << ": " << cut.count << '\n';
  if (!options.instance.empty()) print_instance(step, options);
}

void run(const Options& options) {
  if (!options.instance.empty()) (void)nc::instance_of(options.instance);
  auto context = soma::make_context({.threads = 1});
  const nc::Machine& machine =
      options.instance.empty() ? nc::machines[0] : *nc::instance_of(options.instance).machine;
  auto core = nc::make_core(context, machine, {.record = true, .compute = false});
  auto device =
      nc::make_device(core, {.mode = mode_of(options.mode), .predict = &nc::predict_time});
  if (const auto config = model_of(options.what))
    return profile_model(context, core, device, *config, options);
  profile_operator(context, core, device, options);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Estimates by published rules how long an operator or a training step of BERT takes on a "
      "NeuronCore, and which resource limits it.",
      "soma-profile");
  Options options;
  app.add_option("what", options.what, "an operator, or bert-base, bert-large, bert-tiny ...")
      ->required();
  app.add_option("shapes", options.shapes, "shapes of the operator's inputs, such as 128x512");
  app.add_option("--type", options.type, "type of the operator's inputs")->capture_default_str();
  app.add_option("--batch", options.batch, "texts per step of a model")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--length", options.length, "tokens per text")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--precision", options.precision, "precision of a model's step")
      ->capture_default_str();
  app.add_option("--mode", options.mode, "run mode: eager, jit or lazy")
      ->check(CLI::IsMember({"eager", "jit", "lazy"}))
      ->capture_default_str();
  app.add_option("--instance", options.instance,
                 "predict the step of a data-parallel run on this instance, such as trn1.32xlarge");
  app.add_option("--ranks", options.ranks,
                 "cores of the data-parallel run; default: all cores of the instance");
  app.add_option("--trace", options.trace, "write a trace for ui.perfetto.dev");
  app.add_option("--page", options.page, "write a page for a browser");
#ifdef SOMA_PROFILE_TENSORBOARD
  app.add_option("--tensorboard", options.tensorboard,
                 "write predicted times, busy shares and counts to an event file in this folder");
#endif
  app.add_flag("--json", options.json, "the report as JSON");
  return tools::run_program(app, argc, argv, [&] { run(options); });
}

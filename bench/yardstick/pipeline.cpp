// Steps of a model as a pipeline of two stages, threads of this process, beside those of one
// process with one thread: seconds, CPU seconds, heap. Rounds alternate; medians are printed.
//
// Usage: soma_pipeline [--rounds N] [--bert-base]

#include <soma/parallel/in_process.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace {

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Case {
  bool bert = false;
  soma::models::BertConfig config{};
  std::vector<std::size_t> sizes{};  // layer sizes of an Mlp
  std::size_t rows = 1536, length = 1, steps = 4;
  std::size_t partitions = 1, microbatches = 1;
  std::vector<std::string> cuts{};
};

struct Measured {
  double step = 0;       // seconds, median of all but the first
  double predicted = 0;  // forward and backward, by the simulator
  double passes = 0;     // the same, measured
  double cpu = 0;        // seconds of a step, all ranks
  double heap = 0;       // bytes of the largest rank's context
};

struct Times final : soma::train::Callback {
  void on_step(const soma::train::StepInfo& step) override {
    if (seconds.empty()) cpu = cpu_seconds();  // the first step warms up
    seconds.push_back(step.seconds);
    end = cpu_seconds();
  }
  std::vector<double> seconds{};
  double cpu = 0, end = 0;
};

template <class Model>
Measured train(soma::Context& context, const Model& model, const Case& what,
               soma::data::BatchSource& source, soma::Communicator* ranks, soma::nn::Later& later) {
  soma::nn::ClassificationTask task(model, 2);
  soma::train::TrainerOptions options{.epochs = 0, .max_steps = what.steps};
  options.schedule.decay = soma::optim::Decay::constant;
  Times times;
  Measured result;
  if (ranks == nullptr) {
    soma::train::Trainer trainer(context, task, options);
    trainer.add(times);
    trainer.fit(source);
  } else {
    options.communicator = ranks;
    options.pipeline = {.partitions = what.partitions,
                        .microbatches = what.microbatches,
                        .cuts = what.cuts,
                        .later = &later};
    soma::train::PipelineTrainer trainer(context, task, options);
    trainer.add(times);
    trainer.fit(source);
    result.predicted = trainer.predicted_seconds();
    result.passes = trainer.measured_seconds();
  }
  times.seconds.erase(times.seconds.begin());
  result.step = median(times.seconds);
  result.cpu = (times.end - times.cpu) / static_cast<double>(times.seconds.size());
  result.heap = static_cast<double>(context.memory_use().peak_bytes);
  return result;
}

Measured run_rank(const Case& what, soma::Communicator* ranks) {
  auto context = soma::make_context({.threads = 1});
  soma::nn::Later later;
  const soma::nn::Scope scope{context, 1, "", ranks == nullptr ? nullptr : &later};
  soma::data::BatchOptions batching{.batch_sequences = what.rows, .shuffle = false};
  if (!what.bert) {
    const soma::models::Mlp model(scope, what.sizes, soma::Activation::gelu);
    const soma::Tensor x =
        soma::nn::normal(context, {what.rows, what.sizes.front()}, 1, {.seed = 3, .stream = 1});
    const std::vector<std::int64_t> labels(what.rows, 1);
    soma::data::ArraySource source(context, x, soma::Tensor::from(context, labels, {what.rows}),
                                   batching);
    return train(context, model, what, source, ranks, later);
  }
  const soma::models::BertClassifier model(scope, what.config, 2);
  soma::data::TokenLists lists;
  for (std::size_t i = 0; i < what.rows; ++i) {
    std::vector<std::int32_t> ids;
    for (std::size_t j = 0; j < what.length; ++j)
      ids.push_back(static_cast<std::int32_t>((i * 131 + j * 17) % 1000));
    lists.add(ids, i % 2 == 0 ? 1 : 0);
  }
  soma::data::TokenSource source(context, lists, batching);
  return train(context, model, what, source, ranks, later);
}

// nullptr ranks: one process.
Measured run(const Case& what, bool alone) {
  if (alone) return run_rank(what, nullptr);
  soma::InProcessGroup group(static_cast<int>(what.partitions));
  std::vector<Measured> results(what.partitions);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] {
      soma::InProcessCommunicator communicator(group, rank);
      results[static_cast<std::size_t>(rank)] = run_rank(what, &communicator);
    });
  for (std::thread& thread : threads) thread.join();
  Measured all = results.front();
  for (const Measured& each : results) {
    all.step = std::max(all.step, each.step);
    all.passes = std::max(all.passes, each.passes);
    all.heap = std::max(all.heap, each.heap);
  }
  return all;
}

// The median of ratios of one member, of rounds that alternate.
template <class Number>
double ratio(const Case& above, bool above_alone, const Case& below, bool below_alone, int rounds,
             const Number& number) {
  std::vector<double> ratios;
  for (int i = 0; i < rounds; ++i) {
    const double a = number(run(above, above_alone)), b = number(run(below, below_alone));
    ratios.push_back(a / b);
  }
  return median(ratios);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  bool base = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--rounds" && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else if (option == "--bert-base")
      base = true;
    else
      return std::fprintf(stderr, "usage: soma_pipeline [--rounds N] [--bert-base]\n"), 2;
  }
  Case net{.sizes = {1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 2},
           .partitions = 2,
           .microbatches = 4};
  const auto step = [](const Measured& measured) { return measured.step; };
  std::printf("two stages, 4 micro-batches of 384 rows: a step by that of one thread   %.3f\n",
              ratio(net, false, net, true, rounds, step));
  std::vector<double> errors;
  for (int i = 0; i < rounds; ++i) {
    const Measured measured = run(net, false);
    errors.push_back(measured.passes / measured.predicted);
  }
  std::printf("forward and backward by the simulated ones                             %.3f\n",
              median(errors));
  Case whole = net;
  whole.microbatches = 1;
  std::printf("CPU seconds of 4 micro-batches by those of 1                           %.3f\n",
              ratio(net, false, whole, false, rounds,
                    [](const Measured& measured) { return measured.cpu; }));
  Case text{.bert = true,
            .config = soma::models::BertConfig::minilm(),
            .rows = 32,
            .length = 48,
            .partitions = 2,
            .microbatches = 4,
            .cuts = {"layer.3"}};
  Case again = text;
  again.config.recompute = true;
  std::printf("MiniLM, recomputed, by not                                             %.3f\n",
              ratio(again, false, text, false, rounds, step));
  if (!base) return 0;
  Case bert{.bert = true,
            .config = soma::models::BertConfig::base(),
            .rows = 16,
            .length = 128,
            .steps = 2,
            .partitions = 2,
            .microbatches = 2,
            .cuts = {"layer.4"}};
  std::printf("BERT-base, 16 x 128, 2 micro-batches: heap of a rank by one process's  %.3f\n",
              run(bert, false).heap / run(bert, true).heap);
}

// How much slower than the host's kernels the model of the accelerator is, each pair alternated:
// `times_host` is the median of the ratios. A product of 512 x 512 x 512 in bf16, and a training
// step of BERT tiny (8 sequences of 5 to 60 tokens). And how long it takes to record a training
// step of BERT-base (16 sequences of 128 tokens) without computing it, and to time it by the clock
// (`clock_s`, in CPU seconds).
//
//   build/release/bin/soma_bench --benchmark_filter=neuroncore

#include <soma/neuroncore_clock.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

namespace {

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// work() on the host and on the device, in turns.
template <class Work>
void alternate(benchmark::State& state, soma::Context& context, const Work& work) {
  auto core = soma::neuroncore::make_core(context);
  auto device = soma::neuroncore::make_device(core);
  std::vector<double> ratios;
  for (auto _ : state) {
    context.set_device(nullptr);
    const double host = seconds(work);
    context.set_device(&device);
    const double on_core = seconds(work);
    context.set_device(nullptr);
    state.SetIterationTime(on_core);
    ratios.push_back(on_core / host);
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2),
                   ratios.end());
  state.counters["times_host"] = ratios[ratios.size() / 2];
}

void matmul(benchmark::State& state) {
  auto context = soma::make_context({.threads = static_cast<int>(state.range(0))});
  const auto x = soma::Tensor::empty(context, {512, 512});
  soma::fill_normal(context, x.mutable_span<float>(), {.seed = 1});
  soma::Tape tape(context, {.record = false});
  const soma::Var a = soma::cast(tape, tape.constant(x), soma::DType::bf16);
  alternate(state, context, [&] { benchmark::DoNotOptimize(soma::matmul(tape, a, a)); });
}

void bert_step(benchmark::State& state) {
  auto context = soma::make_context({.threads = static_cast<int>(state.range(0))});
  const soma::models::BertClassifier model({context}, soma::models::BertConfig::tiny(), 2);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  std::vector<std::vector<std::int64_t>> lists;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 8; ++i) {
    lists.emplace_back(5 + i * 31 % 56);
    for (std::size_t j = 0; j < lists.back().size(); ++j)
      lists.back()[j] = static_cast<std::int64_t>((i * 7919 + j * 104729) % 30522);
    labels.push_back(static_cast<std::int64_t>(i % 2));
  }
  soma::Tape tape(context);
  std::uint32_t step = 0;
  alternate(state, context, [&] {
    tape.reset(++step);
    const soma::Var tokens = tape.constant(soma::make_ragged<std::int64_t>(context, lists));
    const soma::Var loss = soma::cross_entropy(tape, model(tape, tokens),
                                               tape.constant(soma::Tensor::from<std::int64_t>(
                                                   context, labels, soma::Shape{labels.size()})));
    tape.backward(loss);
    optimizer.step({.rate = 1e-4});
    soma::clear_gradients(parameters);
  });
}

void clock_bert_base(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  const soma::models::BertClassifier model({context}, soma::models::BertConfig::base(), 2);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  auto core = soma::neuroncore::make_core(context, soma::neuroncore::trn1(),
                                          {.record = true, .compute = false});
  auto device = soma::neuroncore::make_device(core);
  const std::vector<std::vector<std::int64_t>> lists(16, std::vector<std::int64_t>(128, 7));
  const std::vector<std::int64_t> labels(16, 1);
  soma::Tape tape(context);
  std::uint32_t step = 0;
  for (auto _ : state) {
    context.set_device(&device);
    tape.reset(++step);
    const soma::Var tokens = tape.constant(soma::make_ragged<std::int64_t>(context, lists));
    const soma::Var loss = soma::cross_entropy(tape, model(tape, tokens),
                                               tape.constant(soma::Tensor::from<std::int64_t>(
                                                   context, labels, soma::Shape{labels.size()})));
    tape.backward(loss);
    optimizer.step({.rate = 1e-4});
    soma::clear_gradients(parameters);
    context.set_device(nullptr);
    const soma::neuroncore::Record record = core.take_recorded();
    const std::clock_t begin = std::clock();
    const soma::neuroncore::Timeline timeline = soma::neuroncore::timeline(
        {record.instructions.data(), record.instructions.size()}, core.machine());
    state.counters["clock_s"] = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    state.counters["instructions"] = static_cast<double>(record.instructions.size());
    state.counters["estimate_ms"] = timeline.ns * 1e-6;
  }
}

BENCHMARK(matmul)->Name("neuroncore/matmul_512_bf16/threads")->Arg(1)->Arg(2)->UseManualTime();
BENCHMARK(bert_step)->Name("neuroncore/bert_tiny_step/threads")->Arg(1)->Arg(2)->UseManualTime();
BENCHMARK(clock_bert_base)
    ->Name("neuroncore/clock_bert_base")
    ->Unit(benchmark::kSecond)
    ->Iterations(1);

}  // namespace

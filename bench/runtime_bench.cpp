// The runtime's own costs: a fork-join over the default pool, with workers that wait for it or
// sleep, the draws, and the answer of a small net to one row.
//
//   build/release/bin/soma_bench --benchmark_filter='fork_join|draw|answer'

#include <soma/soma.hpp>
#include <soma/system/clock.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <vector>

namespace {

void fork_join(benchmark::State& state) {
  auto context = soma::make_context({.threads = static_cast<int>(state.range(0))});
  for (auto _ : state) soma::parallel(context, context.executor().width, [](int) {});
}
BENCHMARK(fork_join)->Arg(1)->Arg(2)->UseRealTime();

void fork_join_asleep(benchmark::State& state) {
  auto context = soma::make_context({.threads = 2});
  for (auto _ : state) {
    // Waits until the worker sleeps, but keeps this core busy.
    for (const std::int64_t start = soma::monotonic_nanoseconds();
         soma::monotonic_nanoseconds() - start < 500'000;)
      continue;
    const std::int64_t start = soma::monotonic_nanoseconds();
    soma::parallel(context, 2, [](int) {});
    state.SetIterationTime(static_cast<double>(soma::monotonic_nanoseconds() - start) * 1e-9);
  }
}
BENCHMARK(fork_join_asleep)->UseManualTime();

template <void (*fill)(soma::Context&, std::span<float>, const soma::Draw&)>
void draw(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  std::vector<float> out(4096);
  for (auto _ : state) {
    fill(context, out, {.seed = 1});
    benchmark::ClobberMemory();
  }
  state.counters["elements/ns"] = benchmark::Counter(
      static_cast<double>(out.size()) * static_cast<double>(state.iterations()) * 1e-9,
      benchmark::Counter::kIsRate);
}
BENCHMARK_TEMPLATE(draw, soma::fill_uniform)->Name("draw/uniform")->UseRealTime();
BENCHMARK_TEMPLATE(draw, soma::fill_normal)->Name("draw/normal")->UseRealTime();

// A policy net as a game asks it: one state in, four values out.
void answer(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  const std::size_t sizes[] = {8, 64, 64, 4};
  const soma::models::Mlp net({context, 1}, sizes);
  const soma::Tensor x = soma::Tensor::zeros(context, {1, 8});
  soma::Tape tape(context, {.record = false, .training = false});
  for (auto _ : state) {
    tape.reset(0);
    benchmark::DoNotOptimize(net(tape, tape.constant(x)).value().span<float>()[0]);
  }
}
BENCHMARK(answer)->Name("answer/mlp")->UseRealTime();

}  // namespace

// The cost of a custom operator beside its kernel: the same small call through a tape and without.
//
//   build/release/bin/soma_bench --benchmark_filter=custom --benchmark_repetitions=7

#include <soma/processors.hpp>
#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <span>

namespace {

struct Scale {
  float factor = 2;
};

constexpr soma::CustomOperator<Scale> scale{
    .shape =
        [](const soma::ShapeCall& call, const Scale&) {
          call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
        },
    .host =
        [](const soma::OperatorCall& call, const Scale& attributes) {
          const std::span<const float> x = call.inputs[0].span<float>();
          const std::span<float> y = call.outputs[0].mutable_span<float>();
          for (std::size_t i = 0; i < x.size(); ++i) y[i] = attributes.factor * x[i];
        },
    .gradient = [](const soma::GradientCall& call,
                   const Scale&) { call.input_gradients[0].values = call.output_gradients[0]; }};

// The host kernel alone, called as run() calls it.
void kernel(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  const auto op = register_operator(context.operators(), "bench::scale", scale);
  const soma::Tensor x = soma::Tensor::full(context, {16}, 1.0f);
  soma::Tensor y = soma::Tensor::empty(context, {16});
  for (auto _ : state)
    op.record().host({context, Scale{}, {&x, 1}, {&y, 1}, {}, op.record().state});
}
BENCHMARK(kernel)->Name("custom/kernel");

// On a tape: of a constant (nothing is recorded), of a parameter, and by name.
template <bool recorded, bool by_name>
void on_tape(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  const auto op = register_operator(context.operators(), "bench::scale", scale);
  soma::Tape tape(context);
  const soma::Tensor value = soma::Tensor::full(context, {16}, 1.0f);
  const soma::Var x = recorded ? soma::Var::parameter(context, value) : tape.constant(value);
  for (auto _ : state) {
    benchmark::DoNotOptimize(by_name ? soma::apply(tape, "bench::scale", {x}, Scale{})
                                     : op(tape, x));
    tape.reset();
  }
}
BENCHMARK(on_tape<false, false>)->Name("custom/tape");
BENCHMARK(on_tape<true, false>)->Name("custom/tape, recorded");
BENCHMARK(on_tape<false, true>)->Name("custom/tape, by name");

// An empty kernel of a GPSIMD processor, with its shape function: the overhead of a call.
void processor(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  soma::load_operators(context, SOMA_BENCH_KERNELS);
  const soma::Operator& op = context.operators().at("bench::nothing");
  const soma::Tensor x = soma::Tensor::full(context, {16}, 1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(soma::run(context, op, {}, {x}));
}
BENCHMARK(processor)->Name("custom/empty kernel of a processor");

// A built-in operator with equally little work.
void built_in(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  soma::Tape tape(context);
  const soma::Var x = tape.constant(soma::Tensor::full(context, {16}, 1.0f));
  for (auto _ : state) {
    benchmark::DoNotOptimize(square(tape, x));
    tape.reset();
  }
}
BENCHMARK(built_in)->Name("custom/built-in on a tape");

}  // namespace

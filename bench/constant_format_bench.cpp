// Measures how much faster loops would be if the format were known at compile time: the same vector
// code with constant parameters, beside the library's loop, which takes them at run time. The
// result is the reason that the library has no such specialised loops.
//
//   build/release/bin/soma_bench --benchmark_filter='constant|run_time' --benchmark_repetitions=9
//       --benchmark_enable_random_interleaving=true
//
// Compiled with -march=native and without dispatch, so that both sides are for the same target.

#undef SOMA_DISPATCH
#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

namespace {

namespace target = soma::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t count = 4096;

template <soma::FloatFormat format>
HWY_NOINLINE void encode_constant(const float* from, std::byte* to) {
  constexpr soma::CodecParams params = soma::make_codec_params(format);
  const target::Lanes32 d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto bits = target::load_bytes(d, from + i);
    const auto codes = target::encode_lanes<target::RoundingClass::nearest_even, false>(
        d, params, bits, hn::Zero(d));
    target::store_codes<1>(d, params, codes, to + i);
  }
}

std::vector<float> values() {
  auto context = soma::make_context({.threads = 1});
  std::vector<float> out(count);
  soma::fill_normal(context, out, {.seed = 1});
  return out;
}

void report(benchmark::State& state) {
  const auto elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["elements/ns"] = benchmark::Counter(elements * 1e-9, benchmark::Counter::kIsRate);
}

template <soma::FloatFormat format>
void constant(benchmark::State& state) {
  const std::vector<float> from = values();
  std::vector<std::byte> to(count);
  for (auto _ : state) {
    encode_constant<format>(from.data(), to.data());
    benchmark::ClobberMemory();
  }
  report(state);
}

template <soma::FloatFormat format>
void run_time(benchmark::State& state) {
  auto context = soma::make_context({.threads = 1});
  const std::vector<float> from = values();
  std::vector<std::byte> to(count);
  const auto source = soma::code_span(soma::formats::fp32, std::as_bytes(std::span(from)));
  for (auto _ : state) {
    soma::convert(context, source, soma::code_span(format, std::span(to)));
    benchmark::ClobberMemory();
  }
  report(state);
}

constexpr soma::FloatFormat moved = soma::formats::fp8_e4m3.with_bias(10);

BENCHMARK_TEMPLATE(constant, soma::formats::fp8_e4m3)->Name("constant/fp8_e4m3");
BENCHMARK_TEMPLATE(run_time, soma::formats::fp8_e4m3)->Name("run_time/fp8_e4m3");
BENCHMARK_TEMPLATE(constant, soma::formats::fp8_e5m2)->Name("constant/fp8_e5m2");
BENCHMARK_TEMPLATE(run_time, soma::formats::fp8_e5m2)->Name("run_time/fp8_e5m2");
BENCHMARK_TEMPLATE(constant, moved)->Name("constant/cfp8_e4m3_bias_10");
BENCHMARK_TEMPLATE(run_time, moved)->Name("run_time/cfp8_e4m3_bias_10");

}  // namespace

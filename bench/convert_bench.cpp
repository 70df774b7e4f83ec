// Conversion speed: elements a nanosecond, and the share of memcpy's bandwidth where memory is the
// limit.
//
//   build/release/bin/soma_bench --benchmark_filter='convert|copy' --benchmark_repetitions=7
//
// In cache: 4096 elements. In memory: 32 Mi elements, far beyond any cache. One thread throughout.
// Bytes a second count what is read and what is written, as the copy does.

#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t in_cache = 4096, in_memory = std::size_t{32} << 20;

std::vector<float> gaussian(soma::Context& context, std::size_t count) {
  std::vector<float> values(count);
  soma::fill_normal(context, values, {.seed = 1});
  return values;
}

void report(benchmark::State& state, std::size_t count, std::size_t bytes_each) {
  const auto elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["elements/ns"] = benchmark::Counter(elements * 1e-9, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<std::int64_t>(elements * static_cast<double>(bytes_each)));
}

void encode(benchmark::State& state, soma::FloatFormat format, soma::Rounding rounding,
            std::size_t count) {
  auto context = soma::make_context({.threads = 1});
  const std::vector<float> values = gaussian(context, count);
  const auto width = static_cast<std::size_t>(format.bytes());
  std::vector<std::byte> codes(count * width);
  const auto from = soma::code_span(soma::formats::fp32, std::as_bytes(std::span(values)));
  for (auto _ : state) {
    soma::convert(context, from, soma::code_span(format, std::span(codes)),
                  {.rounding = rounding, .draw = {.seed = 7}});
    benchmark::ClobberMemory();
  }
  report(state, count, 4 + width);
}

void decode(benchmark::State& state, soma::FloatFormat format, std::size_t count) {
  auto context = soma::make_context({.threads = 1});
  const auto width = static_cast<std::size_t>(format.bytes());
  std::vector<std::byte> codes(count * width);
  std::vector<float> values = gaussian(context, count);
  soma::convert(context, soma::code_span(soma::formats::fp32, std::as_bytes(std::span(values))),
                soma::code_span(format, std::span(codes)));
  for (auto _ : state) {
    soma::convert(context, soma::ConstCodeSpan(soma::code_span(format, std::span(codes))),
                  soma::code_span(soma::formats::fp32, std::as_writable_bytes(std::span(values))));
    benchmark::ClobberMemory();
  }
  report(state, count, 4 + width);
}

void copy(benchmark::State& state, std::size_t count) {
  std::vector<float> from(count, 1.0f), to(count);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), count * sizeof(float));
    benchmark::ClobberMemory();
  }
  report(state, count, 8);
}

void register_all() {
  const auto add = [](const std::string& name, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), arguments...)->UseRealTime();
  };
  add("copy/cache", copy, in_cache);
  add("copy/memory", copy, in_memory);
  // A bias that no ready-made format has: chosen at run time, through the same kernel.
  const soma::NamedFormat custom{"cfp8_e4m3_bias_10", soma::formats::fp8_e4m3.with_bias(10)};
  std::vector<soma::NamedFormat> all(soma::named_formats.begin() + 1, soma::named_formats.end());
  all.push_back(custom);
  for (const auto& [name, format] : all) {
    const std::string base = "convert/fp32_to_" + std::string(name);
    add(base + "/nearest/cache", encode, format, soma::Rounding::nearest_even, in_cache);
    add(base + "/stochastic/cache", encode, format, soma::Rounding::stochastic, in_cache);
    add(base + "/stochastic by ars/cache", encode, format,
        soma::Rounding::stochastic.drawn_by(soma::DrawMapping::ars), in_cache);
    add("convert/" + std::string(name) + "_to_fp32/cache", decode, format, in_cache);
  }
  for (const auto& format : {soma::formats::bf16, soma::formats::fp8_e4m3}) {
    const std::string name = to_string(format);
    add("convert/fp32_to_" + name + "/nearest/memory", encode, format, soma::Rounding::nearest_even,
        in_memory);
    add("convert/" + name + "_to_fp32/memory", decode, format, in_memory);
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  register_all();
  benchmark::RunSpecifiedBenchmarks();
}

// Quantizing speed: elements a nanosecond, of one thread.
//
//   build/release/bin/soma_bench --benchmark_filter='quantize|bf16_copy'
//
// A batch of 1024 rows of 3072 bf16 numbers, whose scaling blocks are found and rounded; and 4 rows
// of 1024, which stay in a first-level cache, beside copying them through fp32.

#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

struct Case {
  const char* name;
  soma::FloatFormat format;
  soma::Scaling scaling;
  std::size_t group_rows, group_columns;
  bool codes;
  soma::Rounding rounding{};
};

using soma::ScaleFormat;
using soma::ScalePolicy;

constexpr soma::Scaling current(ScaleFormat format) {
  return {.policy = ScalePolicy::current, .format = format};
}

const Case cases[] = {
    {"tensor_codes", soma::formats::fp8_e4m3fn, current(ScaleFormat::fp32), 0, 0, true},
    {"1x128_bf16", soma::formats::fp8_e4m3fn, current(ScaleFormat::power_of_two), 1, 128, false},
    {"128x128_bf16", soma::formats::fp8_e4m3fn, current(ScaleFormat::power_of_two), 128, 128,
     false},
    {"1x32_mx_bf16", soma::formats::fp8_e4m3fn, current(ScaleFormat::mx), 1, 32, false},
    {"32x1_mx_bf16", soma::formats::fp8_e4m3fn, current(ScaleFormat::mx), 32, 1, false},
    {"1x128_fp32_scale", soma::formats::fp8_e4m3fn, current(ScaleFormat::fp32), 1, 128, false},
    {"tensor_codes_stochastic", soma::formats::fp8_e5m2, current(ScaleFormat::fp32), 0, 0, true,
     soma::Rounding::stochastic},
};

struct Matrix {
  std::size_t rows, columns;
  std::vector<soma::bf16> values;
  Matrix(soma::Context& context, std::size_t row_count, std::size_t column_count)
      : rows(row_count), columns(column_count), values(rows * columns) {
    std::vector<float> wide(values.size());
    soma::fill_normal(context, wide, {.seed = 1});
    soma::convert(context, wide, values);
  }
  soma::MatrixOperand operand() const {
    return {.data = values.data(), .dtype = soma::DType::bf16, .row_stride = columns};
  }
};

void report(benchmark::State& state, std::size_t count) {
  const auto elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["elements/ns"] = benchmark::Counter(elements * 1e-9, benchmark::Counter::kIsRate);
}

void quantize(benchmark::State& state, const Case& how, std::size_t rows, std::size_t columns) {
  auto context = soma::make_context({.threads = 1});
  const soma::FloatEnvironment environment;
  const Matrix x(context, rows, columns);
  const soma::DType type = !how.codes                              ? soma::DType::bf16
                           : how.format == soma::formats::fp8_e5m2 ? soma::DType::fp8_e5m2
                                                                   : soma::DType::fp8_e4m3fn;
  std::vector<std::byte> y(x.values.size() * size_of(type));
  std::vector<float> scales(x.values.size());
  const soma::QuantizeArgs args{
      .rows = rows,
      .columns = columns,
      .x = x.operand(),
      .y = {.data = y.data(),
            .dtype = type,
            .row_stride = columns,
            .rounding = how.rounding,
            .draw_row_stride = columns},
      .format = how.format,
      .scaling = how.scaling,
      .group_rows = how.group_rows,
      .group_columns = how.group_columns,
      .codes = how.codes,
      .scales = scales.data(),
      .group_stride = how.group_columns == 0 ? 1 : columns / how.group_columns};
  for (auto _ : state) {
    context.kernels().quantize(args);
    benchmark::ClobberMemory();
  }
  report(state, x.values.size());
}

void copy(benchmark::State& state, std::size_t rows, std::size_t columns) {
  auto context = soma::make_context({.threads = 1});
  const soma::FloatEnvironment environment;
  const Matrix x(context, rows, columns);
  std::vector<soma::bf16> y(x.values.size());
  for (auto _ : state) {
    context.kernels().element.unary(
        {.function = soma::Unary::copy,
         .rows = rows,
         .columns = columns,
         .x = x.operand(),
         .y = {.data = y.data(), .dtype = soma::DType::bf16, .row_stride = columns}});
    benchmark::ClobberMemory();
  }
  report(state, x.values.size());
}

const bool registered = [] {
  const auto add = [](const std::string& name, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), arguments...)->UseRealTime();
  };
  add("bf16_copy/cache", copy, 4u, 1024u);
  add("bf16_copy/batch", copy, 1024u, 3072u);
  for (const Case& how : cases) {
    const std::string name = std::string("quantize/") + how.name;
    if (how.group_rows < 32) add(name + "/cache", quantize, how, 4u, 1024u);
    add(name + "/batch", quantize, how, 1024u, 3072u);
  }
  return true;
}();

}  // namespace

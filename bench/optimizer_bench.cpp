// AdamW over a parameter in memory: weights a nanosecond.
//
//   build/release/bin/soma_bench --benchmark_filter=adamw --benchmark_repetitions=7
//
// 4 Mi weights: dense gradients, and sparse ones of a table that has used a tenth of its rows, or
// all of them, where 1 in 40 has a gradient; and the latter where moments have shrunk to the
// smallest numbers there are. In fp32, and in bf16 by each mapping of draws.

#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace {

constexpr std::size_t rows = 32768, columns = 128;

soma::Gradient every(soma::Context& context, std::size_t distance, float size = 1) {
  std::vector<std::int64_t> numbers;
  for (std::size_t row = 0; row < rows; row += distance)
    numbers.push_back(static_cast<std::int64_t>(row));
  const soma::Shape shape{numbers.size()};
  const auto values = soma::Tensor::empty(context, {numbers.size(), columns});
  soma::fill_normal(context, values.mutable_span<float>(), {.seed = 1});
  for (float& value : values.mutable_span<float>()) value *= size;
  return {values, soma::Tensor::from(context, std::span<const std::int64_t>(numbers), shape)};
}

struct Storage {
  const char* name;
  soma::DType dtype;
  soma::Rounding rounding;
};
constexpr Storage storages[] = {
    {"fp32", soma::DType::fp32, {}},
    {"bf16_sr", soma::DType::bf16, {soma::RoundingMode::stochastic, 0, soma::DrawMapping::ars}},
    {"bf16_sr, philox",
     soma::DType::bf16,
     {soma::RoundingMode::stochastic, 0, soma::DrawMapping::philox}}};

// `used`: 1 in so many rows has had a gradient before; 0: gradients are dense.
void adamw(benchmark::State& state, const Storage& storage, int threads, std::size_t used,
           bool faded) {
  auto context = soma::make_context({.threads = threads});
  const auto& [name, dtype, rounding] = storage;
  const soma::Var weight =
      soma::Var::parameter(context, soma::Tensor::zeros(context, {rows, columns}, dtype));
  soma::optim::AdamW optimizer(
      context, soma::Parameters{{"table", weight}}, 0.01f,
      {.storage = {.state = dtype, .state_rounding = rounding, .weight_rounding = rounding}});
  const soma::Gradient gradient = every(context, used == 0 ? 1 : used, faded ? 1e-38f : 1.0f);
  weight.set_gradient(used == 0 ? soma::Gradient{gradient.values, {}} : gradient);
  optimizer.step({.rate = 1e-4});
  if (used != 0) weight.set_gradient(every(context, 40, faded ? 0.0f : 1.0f));
  for (auto _ : state) optimizer.step({.rate = 1e-4});
  const double weights =
      static_cast<double>(rows * columns) * static_cast<double>(state.iterations());
  state.counters["weights/ns"] = benchmark::Counter(weights * 1e-9, benchmark::Counter::kIsRate);
}

const int registered = [] {
  struct RowPattern {
    const char* name;
    std::size_t used;
    bool faded;
  };
  for (const Storage& storage : storages)
    for (const int threads : {1, 2})
      for (const RowPattern& kind :
           {RowPattern{"dense", 0, false}, RowPattern{"sparse, all rows used", 1, false},
            RowPattern{"sparse, all rows faded", 1, true},
            RowPattern{"sparse, a tenth used", 10, false}}) {
        const std::string name = std::string("adamw/") + storage.name + "/" + kind.name +
                                 "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), adamw, storage, threads, kind.used, kind.faded)
            ->UseRealTime();
      }
  return 0;
}();

}  // namespace

// Attention of one head from the definition to the library's kernel, one idea a rung: 512 queries
// and keys of width 64, fp32, forward, one thread. All rungs are compared with the definition in
// double before they are timed.
//
//   build/release/bin/soma_bench --benchmark_filter=ladder/attention --benchmark_repetitions=7
//
// Beside it, causal attention and the full one: 1,024 tokens, 4 heads of 64, forward and backward.
//
//   build/release/bin/soma_bench --benchmark_filter=attention_1024 --benchmark_repetitions=7
//
// This file is compiled for this machine alone (-march=native).

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

constexpr std::size_t length = 512, width = 64;
constexpr float scale = 0.125f;  // 1 / sqrt(width)

soma::Context& context() {
  static soma::Context one = soma::make_context({.threads = 1});
  return one;
}

struct Head {
  std::vector<float> q, k, v, out, scores;
  Head() : q(length * width), k(q), v(q), out(q), scores(length * length) {
    soma::fill_normal(context(), q, {.seed = 1});
    soma::fill_normal(context(), k, {.seed = 2});
    soma::fill_normal(context(), v, {.seed = 3});
  }
};

// The definition: scores, softmax and the sum of values, element by element.
template <class Real>
void definition(const Head& head, std::vector<Real>& out) {
  std::vector<Real> scores(length);
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t j = 0; j < length; ++j) {
      Real sum = 0;
      for (std::size_t c = 0; c < width; ++c)
        sum += Real{head.q[i * width + c]} * Real{head.k[j * width + c]};
      scores[j] = sum * Real{scale};
    }
    const Real largest = *std::max_element(scores.begin(), scores.end());
    Real total = 0;
    for (Real& score : scores) total += score = std::exp(score - largest);
    for (std::size_t c = 0; c < width; ++c) {
      Real sum = 0;
      for (std::size_t j = 0; j < length; ++j) sum += scores[j] * Real{head.v[j * width + c]};
      out[i * width + c] = sum / total;
    }
  }
}

// c = a b, or a b^T, by the library's product.
void product(const float* a, const float* b, bool turned, std::size_t n, std::size_t depth,
             float* c) {
  soma::GemmArgs args{.m = length, .n = n, .k = depth};
  args.a = {.data = a, .row_stride = depth};
  args.b = {.data = b, .row_stride = turned ? 1 : n, .column_stride = turned ? depth : 1};
  args.c = {.data = c, .row_stride = n};
  soma::multiply(context(), args);
}

// Products as matrices; the softmax between them with the C library's exponential.
void products(Head& head) {
  product(head.q.data(), head.k.data(), true, length, width, head.scores.data());
  for (std::size_t i = 0; i < length; ++i) {
    float* row = head.scores.data() + i * length;
    const float largest = *std::max_element(row, row + length);
    float total = 0;
    for (std::size_t j = 0; j < length; ++j) total += row[j] = std::exp((row[j] - largest) * scale);
    for (std::size_t j = 0; j < length; ++j) row[j] /= total;
  }
  product(head.scores.data(), head.v.data(), false, width, length, head.out.data());
}

// The softmax in vectors, too: three passes over the matrix of scores, which is as large as all
// else together and is written and read again.
void vectors(Head& head) {
  static const soma::Tensor scores = soma::Tensor::empty(context(), soma::Shape{length, length});
  std::vector<float> scaled(head.q);
  for (float& value : scaled) value *= scale;
  product(scaled.data(), head.k.data(), true, length, width, scores.mutable_data<float>());
  const soma::Tensor softmax =
      soma::run(context(), soma::ops::softmax, soma::SoftmaxSetting{}, {scores})[0];
  product(softmax.data<float>(), head.v.data(), false, width, length, head.out.data());
}

// The library's: blocks of keys pass by a panel of queries, and neither scores nor probabilities
// leave the cache (arXiv 2205.14135).
void library(Head& head) {
  const soma::AttentionKernels& kernels = context().kernels().attention;
  soma::AttentionArgs args{.queries = length, .keys = length, .width = width};
  static std::vector<std::byte> memory(kernels.workspace_bytes(args) + 64);
  static std::vector<float> log_sum_exp(length);
  args.q = {.data = head.q.data(), .row_stride = width};
  args.k = {.data = head.k.data(), .row_stride = width};
  args.v = {.data = head.v.data(), .row_stride = width};
  args.out = {.data = head.out.data(), .row_stride = width};
  args.scale = scale;
  args.log_sum_exp = log_sum_exp.data();
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  args.workspace = memory.data() + (64 - at % 64) % 64;
  kernels.forward(args);
}

struct Rung {
  const char* name;
  void (*run)(Head&);
};
constexpr Rung rungs[] = {{"1_definition", [](Head& head) { definition(head, head.out); }},
                          {"2_products", products},
                          {"3_vectors", vectors},
                          {"4_library", library}};

void climb(benchmark::State& state, const Rung& rung) {
  Head head;
  std::vector<double> wanted(head.out.size());
  definition(head, wanted);
  rung.run(head);
  // Scores are sums of 64 products below 64 in size, outputs averages of numbers below 5.
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!(std::fabs(head.out[i] - wanted[i]) < 5 * 2 * 64 * 64 * 0x1p-24))
      return state.SkipWithError("far from the definition");
  for (auto _ : state) rung.run(head);
  state.counters["GFLOP/s"] =
      benchmark::Counter(4e-9 * length * length * width * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

// One sequence through the operators, forward and backward.
void attend(benchmark::State& state, const soma::AttentionSetting& setting) {
  constexpr std::size_t tokens = 1024, channels = 256;
  soma::Context& one = context();
  const soma::Tensor qkv = soma::Tensor::empty(one, soma::Shape{tokens, 3 * channels}),
                     dout = soma::Tensor::empty(one, soma::Shape{tokens, channels});
  soma::fill_normal(one, {qkv.mutable_data<float>(), qkv.elements()}, {.seed = 1});
  soma::fill_normal(one, {dout.mutable_data<float>(), dout.elements()}, {.seed = 2});
  const std::size_t lengths[] = {tokens};
  const soma::Sequences sequences = soma::Sequences::from_lengths(one, lengths);
  for (auto _ : state) {
    const soma::Outputs y = soma::run(one, soma::ops::attention, setting, {qkv}, sequences);
    benchmark::DoNotOptimize(
        soma::run(one, soma::ops::attention_backward, setting, {qkv, y[0], y[1], dout}, sequences));
  }
}

const int registered = [] {
  benchmark::RegisterBenchmark("attention_1024/full", attend, soma::AttentionSetting{.heads = 4});
  benchmark::RegisterBenchmark("attention_1024/causal", attend,
                               soma::AttentionSetting{.heads = 4, .causal = true});
  for (const Rung& rung : rungs)
    benchmark::RegisterBenchmark((std::string("ladder/attention/") + rung.name).c_str(), climb,
                                 rung);
  return 0;
}();

}  // namespace

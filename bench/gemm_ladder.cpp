// A matrix product from the definition to the library's kernel, one idea per rung: c = a b with a
// 1024 x 768, b 768 x 768, fp32, row-major, one thread. Every rung adds products along k in order,
// one fused multiply-add at a time. All rungs therefore have the same bits, which is checked before
// the measurement. The last rung is an exception: it uses tiles if the CPU has them, and is checked
// against its error bound.
//
//   build/release/bin/soma_bench --benchmark_filter=ladder/gemm --benchmark_repetitions=7
//
// This file is compiled for this machine alone (-march=native).

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t rows = 1024, columns = 768, depth = 768;

struct Matrices {
  const float *a, *b;
  float* c;
};

// The definition.
void definition(const Matrices& x) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < depth; ++k)
        sum = std::fma(x.a[i * depth + k], x.b[k * columns + j], sum);
      x.c[i * columns + j] = sum;
    }
}

// c[row] += a[row][k] * b[k] for a run of columns: neighbours in memory, which a compiler turns
// into vectors.
void add_row(float a, const float* b, float* c, std::size_t count) {
  for (std::size_t j = 0; j < count; ++j) c[j] = std::fma(a, b[j], c[j]);
}

// Loops exchanged: the innermost runs along a row of b and of c.
void whole_rows(const Matrices& x) {
  std::fill_n(x.c, rows * columns, 0.0f);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < depth; ++k)
      add_row(x.a[i * depth + k], x.b + k * columns, x.c + i * columns, columns);
}

// A block of b (64 x 256 floats, 64 KiB) serves all rows while it is in the second-level cache.
void cache_blocks(const Matrices& x) {
  constexpr std::size_t k_block = 64, j_block = 256;
  std::fill_n(x.c, rows * columns, 0.0f);
  for (std::size_t j = 0; j < columns; j += j_block)
    for (std::size_t first = 0; first < depth; first += k_block)
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t k = first; k < first + k_block; ++k)
          add_row(x.a[i * depth + k], x.b + k * columns + j, x.c + i * columns + j, j_block);
}

// A block of c that stays in registers while k passes: this machine's vectors, as many rows as fit
// beside the operands. `a_row` and `a_step` are the distances from a row and a step of a to the
// next.
#if defined(__AVX512F__)
constexpr std::size_t lanes = 16, tile_rows = 12;
#elif defined(__AVX__)
constexpr std::size_t lanes = 8, tile_rows = 6;
#elif defined(__aarch64__)
constexpr std::size_t lanes = 4, tile_rows = 12;
#else
constexpr std::size_t lanes = 4, tile_rows = 6;
#endif
constexpr std::size_t tile_columns = 2 * lanes;
using Vector [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(4)]] = float;

[[gnu::noinline]] void register_tile(const float* a, std::size_t a_row, std::size_t a_step,
                                     const float* b, std::size_t b_step, std::size_t steps,
                                     float* c, bool first) {
  Vector sums[tile_rows][2];
  for (std::size_t i = 0; i < tile_rows; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      sums[i][j] = Vector{};
      if (!first) std::memcpy(&sums[i][j], c + i * columns + j * lanes, sizeof(Vector));
    }
  for (std::size_t k = 0; k < steps; ++k) {
    Vector left, right;
    std::memcpy(&left, b + k * b_step, sizeof left);
    std::memcpy(&right, b + k * b_step + lanes, sizeof right);
    for (std::size_t i = 0; i < tile_rows; ++i) {
      const float value = a[i * a_row + k * a_step];
      sums[i][0] += value * left;  // contracted: this file is compiled with -ffp-contract=fast
      sums[i][1] += value * right;
    }
  }
  for (std::size_t i = 0; i < tile_rows; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      std::memcpy(c + i * columns + j * lanes, &sums[i][j], sizeof(Vector));
}

constexpr std::size_t whole_tiles = rows / tile_rows * tile_rows;

// Rows that fill no tile.
void last_rows(const Matrices& x) {
  for (std::size_t i = whole_tiles; i < rows; ++i) {
    std::fill_n(x.c + i * columns, columns, 0.0f);
    for (std::size_t k = 0; k < depth; ++k)
      add_row(x.a[i * depth + k], x.b + k * columns, x.c + i * columns, columns);
  }
}

void registers(const Matrices& x) {
  for (std::size_t j = 0; j < columns; j += tile_columns)
    for (std::size_t i = 0; i < whole_tiles; i += tile_rows)
      register_tile(x.a + i * depth, depth, 1, x.b + j, columns, depth, x.c + i * columns + j,
                    true);
  last_rows(x);
}

// Operands packed in the order in which they are read, in blocks that stay in caches: a panel of b
// (192 steps of two vectors, 24 KiB where they are of 512 bits) in the first level, a block of a
// (120 x 192, 90 KiB) in the second.
void packed(const Matrices& x) {
  constexpr std::size_t k_block = 192, i_block = 120;
  static std::vector<float> a(i_block * k_block), b(k_block * columns);
  for (std::size_t first = 0; first < depth; first += k_block) {
    for (std::size_t j = 0; j < columns; j += tile_columns)
      for (std::size_t k = 0; k < k_block; ++k)
        std::copy_n(x.b + (first + k) * columns + j, tile_columns,
                    &b[j * k_block + k * tile_columns]);
    for (std::size_t block = 0; block < whole_tiles; block += i_block) {
      const std::size_t end = std::min(block + i_block, whole_tiles);
      for (std::size_t i = block; i < end; i += tile_rows)
        for (std::size_t row = 0; row < tile_rows; ++row)
          for (std::size_t k = 0; k < k_block; ++k)
            a[(i - block) * k_block + k * tile_rows + row] = x.a[(i + row) * depth + first + k];
      for (std::size_t j = 0; j < columns; j += tile_columns)
        for (std::size_t i = block; i < end; i += tile_rows)
          register_tile(&a[(i - block) * k_block], 1, tile_rows, &b[j * k_block], tile_columns,
                        k_block, x.c + i * columns + j, first == 0);
    }
  }
  last_rows(x);
}

soma::Context& context() {
  static soma::Context one = soma::make_context({.threads = 1, .math = soma::Math::portable});
  return one;
}
soma::Context& fast_context() {
  static soma::Context one = soma::make_context({.threads = 1});
  return one;
}

// The library's further measures: a tile of sums apart from c, whose rows share no cache sets,
// written through the epilogue; panels transposed by vectors; prefetching.
void multiply(soma::Context& context, const Matrices& x) {
  soma::GemmArgs args{.m = rows, .n = columns, .k = depth};
  args.a = {.data = x.a, .row_stride = depth};
  args.b = {.data = x.b, .row_stride = columns};
  args.c = {.data = x.c, .row_stride = columns};
  soma::multiply(context, args);
}
void library(const Matrices& x) { multiply(context(), x); }
// Numbers as three bf16 numbers each.
void tiles(const Matrices& x) { multiply(fast_context(), x); }

struct Rung {
  const char* name;
  void (*run)(const Matrices&);
};
constexpr Rung rungs[] = {{"1_definition", definition},
                          {"2_whole_rows", whole_rows},
                          {"3_cache_blocks", cache_blocks},
                          {"4_registers", registers},
                          {"5_packed", packed},
                          {"6_library", library},
                          {"7_tiles", tiles}};

// True if the results differ by no more than the error bounds of both (kernels/gemm/args.hpp).
bool within_bounds(const Matrices& x, const std::vector<float>& chain) {
  std::vector<float> a(x.a, x.a + rows * depth), b(x.b, x.b + depth * columns), sums(chain.size());
  for (float& value : a) value = std::fabs(value);
  for (float& value : b) value = std::fabs(value);
  library({a.data(), b.data(), sums.data()});
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (!(std::fabs(x.c[i] - chain[i]) <= (1.2f * depth + 27) * 0x1p-24f * sums[i])) return false;
  return true;
}

void climb(benchmark::State& state, const Rung& rung) {
  std::vector<float> a(rows * depth), b(depth * columns), c(rows * columns), wanted(c.size());
  soma::fill_normal(context(), a, {.seed = 1});
  soma::fill_normal(context(), b, {.seed = 2});
  library({a.data(), b.data(), wanted.data()});
  const Matrices matrices{a.data(), b.data(), c.data()};
  rung.run(matrices);
  if (rung.run == tiles ? !within_bounds(matrices, wanted)
                        : std::memcmp(c.data(), wanted.data(), c.size() * sizeof(float)) != 0)
    return state.SkipWithError("other results than the library's");
  for (auto _ : state) rung.run(matrices);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * rows * columns * depth * static_cast<double>(state.iterations()),
                         benchmark::Counter::kIsRate);
}

const int registered = [] {
  for (const Rung& rung : rungs)
    if (rung.run != tiles || fast_context().fp32_products() == soma::Fp32Products::split_tiles)
      benchmark::RegisterBenchmark((std::string("ladder/gemm/") + rung.name).c_str(), climb, rung);
  return 0;
}();

}  // namespace

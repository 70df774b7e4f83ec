// Calls of the gemm entry with a workspace of exactly the size that was asked for, and what tests
// of it share.
#pragma once

#include <soma/kernels/reference/gemm.hpp>
#include <soma/kernels/table.hpp>
#include <soma/runtime/cpu.hpp>

#include "support/every_target.hpp"
#include "support/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace soma_test {

// Aligned bytes with a guard behind them.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::size_t size)
      : size_(size), bytes_(new (std::align_val_t{64}) std::byte[size + guard]) {
    // Not-a-number everywhere: what is read before it is written shows.
    std::fill_n(bytes_, size, std::byte{0xFF});
    std::fill_n(bytes_ + size, guard, std::byte{0x5A});
  }
  GuardedWorkspace(const GuardedWorkspace&) = delete;
  GuardedWorkspace& operator=(const GuardedWorkspace&) = delete;
  ~GuardedWorkspace() { ::operator delete[](bytes_, std::align_val_t{64}); }

  std::byte* data() const { return bytes_; }
  bool intact() const {
    return std::all_of(bytes_ + size_, bytes_ + size_ + guard,
                       [](std::byte b) { return b == std::byte{0x5A}; });
  }

 private:
  static constexpr std::size_t guard = 256;
  std::size_t size_;
  std::byte* bytes_;
};

// Targets with bf16 instructions, where this CPU has them.
template <class Test>
void on_every_bf16_target(const Test& test) {
  const soma::CpuIdentity cpu = soma::cpu_identity();
  bool dot = false, tiles = false;
  on_every_target([&](const soma::Context& context) {
    if (cpu.bf16_dot && context.target().bf16_dot_rate != nullptr) {
      dot = true;
      test(context, soma::Bf16Products::dot_instruction);
    }
    if (cpu.bf16_tiles && context.target().bf16_tile_rate != nullptr) {
      tiles = true;
      test(context, soma::Bf16Products::tiles);
    }
  });
  if (!dot) WARN("not tested: this CPU has no bf16 dot instruction");
  if (!tiles) WARN("not tested: this CPU has no bf16 tiles");
}

template <class Test>
void on_every_target_with_tiles(const Test& test) {
  on_every_bf16_target([&](const soma::Context& context, soma::Bf16Products products) {
    if (products == soma::Bf16Products::tiles) test(context);
  });
}

inline void multiply(const soma::Context& context, soma::GemmArgs args) {
  const soma::GemmKernels& gemm = context.kernels().gemm;
  const GuardedWorkspace workspace(gemm.workspace_bytes(args));
  args.workspace = workspace.data();
  gemm.multiply(args);
  CHECK(workspace.intact());
}

// A product of stored matrices, and its sums as the definition has them.
struct Product {
  std::size_t m, n, k;
  StoredMatrix a, b;
  std::vector<std::size_t> bounds;

  Product(std::size_t rows, std::size_t columns, std::size_t depth, std::vector<std::size_t> cuts,
          StoredMatrix left, StoredMatrix right)
      : m(rows),
        n(columns),
        k(depth),
        a(std::move(left)),
        b(std::move(right)),
        bounds(cuts.empty() ? std::vector<std::size_t>{0, depth} : std::move(cuts)) {}

  soma::GemmArgs args() const {
    soma::GemmArgs args;
    args.m = m, args.n = n, args.k = k;
    args.a = a.operand, args.b = b.operand;
    if (bounds.size() > 2) args.segments = {bounds.data(), bounds.size() - 1};
    return args;
  }

  // In float this is what a target with fused multiply-add has to give, bit by bit.
  template <class T, class Sum = soma::reference::FusedChain<T>>
  std::vector<T> sums(const Sum& sum = {}) const {
    const std::vector<T> left(a.values.begin(), a.values.end()),
        right(b.values.begin(), b.values.end());
    std::vector<T> c(m * n);
    soma::reference::multiply<T>(m, n, k, left.data(), right.data(), bounds, c.data(), sum);
    return c;
  }

  // The error bound of each element: a chain of k sums, each wrong by half a spacing of at most the
  // sum of magnitudes, twice that if the product is rounded by itself; segments add a few
  // roundings.
  std::vector<double> bounds_of_error() const {
    Product magnitudes = *this;
    for (float& x : magnitudes.a.values) x = std::fabs(x);
    for (float& x : magnitudes.b.values) x = std::fabs(x);
    std::vector<double> sums = magnitudes.sums<double>();
    const auto steps = static_cast<double>(2 * k + 16);
    // Products below the smallest normal number lose digits of their own.
    for (double& sum : sums) sum = steps * (0x1p-24 * sum + 0x1p-149);
    return sums;
  }
};

inline Product random_product(std::size_t m, std::size_t n, std::size_t k,
                              std::vector<std::size_t> bounds = {},
                              Layout a_layout = Layout::contiguous,
                              Layout b_layout = Layout::contiguous,
                              soma::DType a_type = soma::DType::fp32,
                              soma::DType b_type = soma::DType::fp32) {
  const auto matrix = [](std::size_t rows, std::size_t columns, soma::DType dtype, Layout layout,
                         std::uint64_t seed) {
    const bool integer = !soma::is_floating(dtype);
    const bool positive = dtype == soma::DType::e8m0;
    return store_matrix(
        rows, columns, dtype, layout,
        [random = RandomFloats(seed), positive]() mutable {
          return positive ? std::fabs(random()) : random();
        },
        integer ? 0.037f : 1, integer ? 3 : 0);
  };
  return Product(m, n, k, std::move(bounds), matrix(m, k, a_type, a_layout, 1),
                 matrix(k, n, b_type, b_layout, 2));
}

// True if c holds the product: the same bits with fused multiply-add, otherwise within the error
// bound.
inline bool holds_product(const soma::Context& context, const Product& product,
                          const std::vector<float>& exact_chain, const std::vector<float>& c) {
  if (context.target().fused_multiply_add) return same_bits(c, exact_chain);
  const std::vector<double> wanted = product.sums<double>(), bounds = product.bounds_of_error();
  for (std::size_t i = 0; i < c.size(); ++i)
    if (std::isnan(wanted[i]) ? !std::isnan(c[i]) : !(std::fabs(c[i] - wanted[i]) <= bounds[i]))
      return false;
  return true;
}

// Calls test(context, args) for every target, with the args of the product in each way in which
// soma may form it on this CPU.
template <class Test>
void on_every_way(const Product& product, const Test& test) {
  on_every_target([&](const soma::Context& context) {
    soma::GemmArgs args = product.args();
    args.bf16_products = context.bf16().products;
    test(context, args);
    if (args.a.dtype == soma::DType::bf16 && args.b.dtype == soma::DType::bf16) return;
    args.fp32_products = context.fp32_products();
    if (args.fp32_products != soma::Fp32Products::multiply_add) test(context, args);
  });
}

}  // namespace soma_test

#pragma once
// The functions of tensor_engine.hpp.

#include <soma/neuroncore/engines/tensor_engine.hpp>

#include <soma/neuroncore/engines/microscaling.hpp>
#include <soma/neuroncore/engines/sequencer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE TensorEngine& TensorEngine::matmul(const Tile& dst, const Tile& stationary,
                                               const Tile& moving, Accumulate accumulate,
                                               ProductUse use, const Rounded& rounded,
                                               SourceLine source) {
  const CallSite call{"matmul", source};
  check_inputs(call, stationary, moving);
  const Product product{.dst = dst,
                        .stationary = stationary,
                        .moving = moving,
                        .m = stationary.free_size(),
                        .n = moving.free_size(),
                        .accumulate = accumulate,
                        .rounded = rounded};
  check_product(call, product);
  check_pair(call, stationary, moving);
  return run(call, Opcode::matmul, use, product);
}

SOMA_INLINE TensorEngine& TensorEngine::matmul_double_row(const Tile& dst, const Tile& stationary,
                                                          const Tile& moving, Accumulate accumulate,
                                                          const Rounded& rounded,
                                                          SourceLine source) {
  const CallSite call{"matmul_double_row", source};
  core_.check_has(call, Feature::double_row);
  check_inputs(call, stationary, moving);
  const std::size_t rows = core_.machine.fp8_rows;
  for (const Operand& operand : {Operand{"stationary", stationary}, Operand{"moving", moving}}) {
    const DType dtype = operand.tile.dtype();
    if (dtype != DType::fp8_e4m3 && dtype != DType::fp8_e5m2 && dtype != DType::fp8_e4m3fn)
      rule_broken(call, operand, operand.tile.describe(), "fp8_e4m3, fp8_e5m2 or fp8_e4m3fn");
    if (operand.tile.rank() < 2 || operand.tile.dimension(0).size != rows)
      rule_broken(call, operand, operand.tile.describe(),
                  "[K, " + std::to_string(rows) + " x columns]");
  }
  const Product product{.dst = dst,
                        .stationary = stationary,
                        .moving = moving,
                        .m = stationary.free_size() / rows,
                        .n = moving.free_size() / rows,
                        .accumulate = accumulate,
                        .rounded = rounded,
                        .rows = rows};
  check_product(call, product);
  check_pair(call, stationary, moving);
  return run(call, Opcode::matmul, ProductUse::product, product);
}

SOMA_INLINE TensorEngine& TensorEngine::matmul_mx(const Tile& dst, const Tile& stationary,
                                                  const Tile& moving, const Tile& stationary_scales,
                                                  const Tile& moving_scales, Accumulate accumulate,
                                                  const Rounded& rounded, SourceLine source) {
  const CallSite call{"matmul_mx", source};
  core_.check_has(call, Feature::matmul_mx);
  check_inputs(call, stationary, moving);
  detail::check_packed(call, {"stationary", stationary});
  detail::check_packed(call, {"moving", moving});
  const Product product{.dst = dst,
                        .stationary = stationary,
                        .moving = moving,
                        .m = stationary.dimension(0).size,
                        .n = moving.dimension(0).size,
                        .accumulate = accumulate,
                        .rounded = rounded,
                        .rows = core_.machine.mx_rows,
                        .stationary_scales = &stationary_scales,
                        .moving_scales = &moving_scales};
  check_product(call, product);
  if (product.m % 2 != 0)
    layout_broken(call, Operand{"stationary", stationary}.text(),
                  std::to_string(product.m) + " columns", "an even number of columns");
  detail::check_scales(core_, call, {"stationary_scales", stationary_scales}, stationary);
  detail::check_scales(core_, call, {"moving_scales", moving_scales}, moving);
  return run(call, Opcode::matmul_mx, ProductUse::product, product);
}

SOMA_INLINE void TensorEngine::check_product(const CallSite& call, const Product& product) {
  const Machine& machine = core_.machine;
  const Operand stationary{"stationary", product.stationary}, moving{"moving", product.moving},
      dst{"dst", product.dst};
  if (stationary.tile.partitions() != moving.tile.partitions())
    rule_broken(call, moving, moving.tile.describe(),
                "the " + std::to_string(stationary.tile.partitions()) +
                    " partitions of stationary: the contraction runs over them");
  at_most(call, stationary, product.m, machine.matmul_stationary_free, "elements a partition");
  const bool narrow = dst.tile.dtype() == DType::bf16;
  at_most(call, moving, product.n,
          narrow && machine.has(Feature::bf16_sums) ? machine.matmul_moving_free_bf16
                                                    : machine.matmul_moving_free,
          "elements a partition");
  check_destination(call, dst.tile);
  if (narrow) core_.check_has(call, Feature::bf16_sums);
  if (!narrow && dst.tile.dtype() != DType::fp32)
    rule_broken(call, dst, dst.tile.describe(), "fp32");
  if (dst.tile.partitions() != product.m || dst.tile.free_size() != product.n)
    rule_broken(call, dst, dst.tile.describe(),
                "[" + std::to_string(product.m) + ", " + std::to_string(product.n) +
                    "], the free sizes of the inputs");
}

SOMA_INLINE void TensorEngine::check_pair(const CallSite& call, const Tile& stationary,
                                          const Tile& moving) {
  const DType a = stationary.dtype(), b = moving.dtype();
  const auto wide = [](DType dtype) { return dtype == DType::fp32 || dtype == DType::tf32; };
  if (wide(a) != wide(b))
    rule_broken(call, {"moving", moving}, moving.describe(),
                "fp32 or tf32 with each other, the narrower types with each other (stationary is " +
                    std::string(to_string(a)) + ")");
  const auto either = [&](DType dtype) { return a == dtype || b == dtype; };
  if (either(DType::fp8_e4m3) && either(DType::fp8_e4m3fn))
    layout_broken(
        call, Operand{"moving", moving}.text(), moving.describe(),
        "fp8_e4m3 or fp8_e4m3fn, not both (stationary is " + std::string(to_string(a)) + ")");
}

SOMA_INLINE TensorEngine& TensorEngine::run(const CallSite& call, Opcode opcode, ProductUse use,
                                            const Product& product) {
  const Tile& dst = product.dst;
  CostFields cost;
  cost.stationary = static_cast<std::uint32_t>(product.m);
  cost.contraction = static_cast<std::uint32_t>(product.stationary.partitions());
  cost.rows = static_cast<std::uint32_t>(product.rows);
  cost.transposes = use == ProductUse::transpose;
  detail::ScaleTiles a, b;
  if (product.is_mx()) {
    a = detail::scale_tiles(*product.stationary_scales, product.stationary);
    b = detail::scale_tiles(*product.moving_scales, product.moving);
  }
  const Running running = core_.begin(call.source, opcode, lane,
                                      {{"stationary", product.stationary},
                                       {"moving", product.moving},
                                       {"stationary_scales", a[0]},
                                       {"stationary_scales", a[1]},
                                       {"stationary_scales", a[2]},
                                       {"stationary_scales", a[3]},
                                       {"moving_scales", b[0]},
                                       {"moving_scales", b[1]},
                                       {"moving_scales", b[2]},
                                       {"moving_scales", b[3]}},
                                      {{"dst", dst}}, cost);
  const bool adds = product.accumulate == Accumulate::yes;
  if (adds && !core_.machine.rules.adds_to_any_psum && !core_.psum.written_by_matmul(dst))
    undefined(call, {"dst", dst}, dst.describe() + " that no matmul wrote last",
              "an accumulation group that began with Accumulate::no");
  if (core_.dry(dst, Written::matmul)) return *this;
  if (adds) core_.show_kept(dst);
  multiply(product);
  core_.end(dst, Written::matmul);
  return *this;
}

SOMA_INLINE TensorEngine& TensorEngine::transpose(const Tile& dst, const Tile& src,
                                                  SourceLine source) {
  const CallSite call{"transpose", source};
  core_.check(call, {"src", src});
  CoreState::check_memory(call, {"src", src}, Memory::sbuf, "Tensor");
  CoreState::check_floating(call, {"src", src});
  check_destination(call, dst);
  at_most(call, {"src", src}, src.free_size(), core_.machine.matmul_stationary_free,
          "elements a partition");
  at_most(call, {"src", src}, src.partitions(), core_.machine.matmul_stationary_free, "partitions");
  if (dst.dtype() != src.dtype())
    rule_broken(call, {"dst", dst}, dst.describe(), "the type of src, " + src.describe());
  if (dst.partitions() != src.free_size() || dst.free_size() != src.partitions())
    rule_broken(call, {"dst", dst}, dst.describe(),
                "[" + std::to_string(src.free_size()) + ", " + std::to_string(src.partitions()) +
                    "], src turned");
  CostFields cost;
  cost.stationary = static_cast<std::uint32_t>(src.partitions());
  cost.contraction = cost.stationary;
  cost.transposes = true;
  const Running running =
      core_.begin(source, Opcode::transpose, lane, {{"src", src}}, {{"dst", dst}}, cost);
  if (core_.dry(dst)) return *this;
  turn(dst, src);
  core_.end(dst);
  return *this;
}

SOMA_INLINE void TensorEngine::check_inputs(const CallSite& call, const Tile& stationary,
                                            const Tile& moving) {
  for (const Operand& operand : {Operand{"stationary", stationary}, Operand{"moving", moving}}) {
    core_.check(call, operand);
    CoreState::check_memory(call, operand, Memory::sbuf, "Tensor");
    if (!is_floating(operand.tile.dtype()))
      not_implemented(call, operand, operand.tile.describe(),
                      "a floating type (the core lists int8, its front end does not offer it)");
  }
}

SOMA_INLINE void TensorEngine::check_destination(const CallSite& call, const Tile& dst) {
  core_.check(call, {"dst", dst});
  CoreState::check_memory(call, {"dst", dst}, Memory::psum, "Tensor");
  const Region bytes = region_of(dst);
  const std::size_t bank = core_.machine.psum_bank_bytes;
  const std::size_t most = core_.machine.matmul_banks;
  if ((bytes.last_byte - 1) / bank - bytes.first_byte / bank >= most)
    rule_broken(call, {"dst", dst},
                "bytes " + std::to_string(bytes.first_byte) + " to " +
                    std::to_string(bytes.last_byte) + " of a partition",
                most == 1 ? "within one PSUM bank of " + std::to_string(bank) + " bytes"
                          : "within " + std::to_string(most) + " PSUM banks of " +
                                std::to_string(bank) + " bytes");
}

SOMA_INLINE void TensorEngine::widen(const Tile& tile, std::size_t count, std::size_t rows,
                                     float* to, std::size_t padded) {
  const PartitionReader reader(core_.kernels, core_.sbuf, tile);
  std::vector<float> all(rows == 1 ? 0 : count * rows);
  for (std::size_t p = 0; p < tile.partitions(); ++p) {
    if (rows != 1) reader.copy(p, all.data());
    for (std::size_t row = 0; row < rows; ++row, to += padded) {
      if (rows == 1)
        reader.copy(p, to);
      else
        std::copy_n(&all[row * count], count, to);
      std::fill(to + count, to + padded, 0.0f);
    }
  }
}

SOMA_INLINE bool TensorEngine::widen_mx(const Tile& tile, const Tile& scales, std::size_t count,
                                        float* to, std::size_t padded) {
  bool fits = true;
  detail::for_mx_rows(core_, tile, scales, [&](std::size_t row, const double* numbers) {
    float* out = to + row * padded;
    for (std::size_t j = 0; j < count; ++j) {
      out[j] = static_cast<float>(numbers[j]);
      fits = fits && std::isfinite(out[j]) == std::isfinite(numbers[j]);
    }
    std::fill(out + count, out + padded, 0.0f);
  });
  return fits;
}

SOMA_INLINE void TensorEngine::multiply(const Product& product) {
  const Tile& dst = product.dst;
  const std::size_t k = product.depth(), m = product.m, n = product.n;
  const std::size_t m_padded = (m + 15) / 16 * 16, n_padded = (n + 31) / 32 * 32;
  const Storage memory = Storage::allocate(
      core_.context.heap(), (k * m_padded + k * n_padded + m * n_padded) * sizeof(float));
  auto* a = reinterpret_cast<float*>(memory.data());
  float *b = a + k * m_padded, *sums = b + k * n_padded;
  bool fits = true;
  if (product.is_mx()) {
    fits = widen_mx(product.stationary, *product.stationary_scales, m, a, m_padded);
    fits = widen_mx(product.moving, *product.moving_scales, n, b, n_padded) && fits;
  } else {
    widen(product.stationary, m, product.rows, a, m_padded);
    widen(product.moving, n, product.rows, b, n_padded);
  }
  if (!fits) multiply_wide(product, sums, n_padded);
  const PartitionReader reader(core_.kernels, core_.psum, dst);
  const PartitionWriter writer(core_.kernels, core_.psum, dst, product.rounded,
                               core_.options.overflow);
  // Six rows are the array kernel's block.
  constexpr std::size_t block = 6;
  const std::size_t blocks = (m + block - 1) / block;
  core_.for_partitions(
      blocks, 2 * n_padded, block * k * n_padded / 8, [&](std::size_t i, float* old) {
        const std::size_t first = i * block, rows = (std::min)(block, m - first);
        if (fits && core_.options.sum_order == SumOrder::ascending)
          core_.kernels.multiply({.m = rows,
                                  .n = n_padded,
                                  .k = k,
                                  .a = a + first,
                                  .b = b,
                                  .sums = sums + first * n_padded,
                                  .a_stride = m_padded,
                                  .b_stride = n_padded,
                                  .sums_stride = n_padded});
        else if (fits)
          multiply_slowly(rows, n, k, a + first, m_padded, b, n_padded, sums + first * n_padded);
        for (std::size_t row = first; row < first + rows; ++row) {
          float* sum = sums + row * n_padded;
          if (product.accumulate == Accumulate::yes) {
            reader.copy(row, old);
            core_.kernels.alu(Alu::add, old, sum, sum, n);
          }
          writer.write(row, sum, old + n_padded);
        }
      });
}

SOMA_INLINE void TensorEngine::multiply_wide(const Product& product, float* sums,
                                             std::size_t padded) {
  const std::size_t k = product.depth(), m = product.m, n = product.n;
  std::vector<double> a(k * m), b(k * n);
  const auto keep = [](std::vector<double>& to, std::size_t count) {
    return [&to, count](std::size_t row, const double* numbers) {
      std::copy_n(numbers, count, &to[row * count]);
    };
  };
  detail::for_mx_rows(core_, product.stationary, *product.stationary_scales, keep(a, m));
  detail::for_mx_rows(core_, product.moving, *product.moving_scales, keep(b, n));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p) sum += a[p * m + i] * b[p * n + j];
      sums[i * padded + j] = static_cast<float>(sum);
    }
}

SOMA_INLINE void TensorEngine::multiply_slowly(std::size_t m, std::size_t n, std::size_t k,
                                               const float* a, std::size_t a_stride, const float* b,
                                               std::size_t b_stride, float* sums) {
  std::vector<float> products(k);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double wide = 0;
      for (std::size_t p = 0; p < k; ++p) {
        // A product of two floats is exact in double.
        const double product =
            static_cast<double>(a[p * a_stride + i]) * static_cast<double>(b[p * b_stride + j]);
        wide += product;
        products[p] = static_cast<float>(product);
      }
      if (core_.options.sum_order == SumOrder::pairwise)
        for (std::size_t count = k; count > 1; count = (count + 1) / 2)
          for (std::size_t p = 0; p < (count + 1) / 2; ++p)
            products[p] =
                2 * p + 1 < count ? products[2 * p] + products[2 * p + 1] : products[2 * p];
      sums[i * b_stride + j] =
          core_.options.sum_order == SumOrder::pairwise ? products[0] : static_cast<float>(wide);
    }
}

SOMA_INLINE void TensorEngine::turn_bits(const Tile& dst, const Tile& src) {
  const std::size_t k = src.partitions(), n = src.free_size(), width = src.width();
  std::vector<std::byte> from(k * n * width), row(k * width);
  for (std::size_t p = 0; p < k; ++p) read_codes(core_.sbuf, src, p, &from[p * n * width]);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t p = 0; p < k; ++p)
      std::copy_n(&from[(p * n + j) * width], width, &row[p * width]);
    write_codes(core_.psum, dst, j, row.data());
  }
}

SOMA_INLINE void TensorEngine::turn(const Tile& dst, const Tile& src) {
  if (core_.machine.rules.exact_transposes && dst.bias_offset() == src.bias_offset())
    return turn_bits(dst, src);
  const bool moves = dst.bias_offset() == src.bias_offset() && dst.adjacent() && src.adjacent();
  switch (src.width()) {
    case 1:
      if (moves && turn_codes<std::uint8_t>(dst, src)) return;
      break;
    case 2:
      if (moves && turn_codes<std::uint16_t>(dst, src)) return;
      break;
    default:
      if (moves && turn_codes<std::uint32_t>(dst, src)) return;
  }
  turn_numbers(dst, src);
}

SOMA_INLINE void TensorEngine::turn_numbers(const Tile& dst, const Tile& src) {
  const std::size_t k = src.partitions(), n = src.free_size();
  std::vector<float> from(k * n), to(n * k);
  const PartitionReader reader(core_.kernels, core_.sbuf, src);
  for (std::size_t p = 0; p < k; ++p) reader.copy(p, &from[p * n]);
  for (std::size_t j = 0; j < n; ++j) {
    std::size_t special = 0;
    for (std::size_t p = 0; p < k; ++p) special += std::isfinite(from[p * n + j]) ? 0u : 1u;
    for (std::size_t p = 0; p < k; ++p) {
      const float value = from[p * n + j];
      const bool spoilt = special > (std::isfinite(value) ? 0u : 1u);
      // + 0: the product adds zero products, which turn -0 into +0.
      to[j * k + p] = spoilt ? std::nanf("") : value + 0.0f;
    }
  }
  static constexpr Rounded nearest{};
  const PartitionWriter writer(core_.kernels, core_.psum, dst, nearest, core_.options.overflow);
  std::vector<float> scratch(k + 16);
  for (std::size_t j = 0; j < n; ++j) writer.write(j, &to[j * k], scratch.data());
}

}  // namespace SOMA_NAMESPACE::neuroncore

#pragma once
// The functions of tensor_engine.hpp.

#include <soma/neuroncore/engines/tensor_engine.hpp>

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
                                               ProductUse use, SourceLine source) {
  const CallSite call{"matmul", source};
  check_inputs(call, stationary, moving);
  const Machine& machine = core_.machine;
  if (stationary.partitions() != moving.partitions())
    rule_broken(call, {"moving", moving}, moving.describe(),
                "the " + std::to_string(stationary.partitions()) +
                    " partitions of stationary: the contraction runs over them");
  at_most(call, {"stationary", stationary}, stationary.free_size(), machine.matmul_stationary_free,
          "elements a partition");
  const bool narrow = dst.dtype() == DType::bf16;
  if (narrow) core_.check_has(call, Feature::bf16_sums);
  if (!narrow && dst.dtype() != DType::fp32)
    rule_broken(call, {"dst", dst}, dst.describe(), "fp32");
  at_most(call, {"moving", moving}, moving.free_size(),
          narrow ? machine.matmul_moving_free_bf16 : machine.matmul_moving_free,
          "elements a partition");
  check_destination(call, dst);
  if (dst.partitions() != stationary.free_size() || dst.free_size() != moving.free_size())
    rule_broken(call, {"dst", dst}, dst.describe(),
                "[" + std::to_string(stationary.free_size()) + ", " +
                    std::to_string(moving.free_size()) + "], the free sizes of the inputs");
  const auto wide = [](DType dtype) { return dtype == DType::fp32 || dtype == DType::tf32; };
  if (wide(stationary.dtype()) != wide(moving.dtype()))
    rule_broken(call, {"moving", moving}, moving.describe(),
                "fp32 or tf32 with each other, the narrower types with each other (stationary is " +
                    std::string(to_string(stationary.dtype())) + ")");
  CostFields cost;
  cost.stationary = static_cast<std::uint32_t>(stationary.free_size());
  cost.contraction = static_cast<std::uint32_t>(stationary.partitions());
  cost.transposes = use == ProductUse::transpose;
  const Running running =
      core_.begin(source, Opcode::matmul, lane, {{"stationary", stationary}, {"moving", moving}},
                  {{"dst", dst}}, cost);
  if (accumulate == Accumulate::yes && !core_.machine.rules.adds_to_any_psum &&
      !core_.psum.written_by_matmul(dst))
    undefined(call, {"dst", dst}, dst.describe() + " that no matmul wrote last",
              "an accumulation group that began with Accumulate::no");
  if (core_.dry(dst, Written::matmul)) return *this;
  if (accumulate == Accumulate::yes) core_.show_kept(dst);
  multiply(dst, stationary, moving, accumulate);
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

SOMA_INLINE void TensorEngine::widen(const Tile& tile, float* to, std::size_t padded) {
  const PartitionReader reader(core_.kernels, core_.sbuf, tile);
  const std::size_t count = tile.free_size();
  for (std::size_t p = 0; p < tile.partitions(); ++p, to += padded) {
    reader.copy(p, to);
    std::fill(to + count, to + padded, 0.0f);
  }
}

SOMA_INLINE void TensorEngine::multiply(const Tile& dst, const Tile& stationary, const Tile& moving,
                                        Accumulate accumulate) {
  const std::size_t k = stationary.partitions(), m = stationary.free_size();
  const std::size_t n = moving.free_size();
  const std::size_t m_padded = (m + 15) / 16 * 16, n_padded = (n + 31) / 32 * 32;
  const Storage memory = Storage::allocate(
      core_.context.heap(), (k * m_padded + k * n_padded + m * n_padded) * sizeof(float));
  auto* a = reinterpret_cast<float*>(memory.data());
  float *b = a + k * m_padded, *sums = b + k * n_padded;
  widen(stationary, a, m_padded);
  widen(moving, b, n_padded);
  // Six rows are the array kernel's block.
  constexpr std::size_t block = 6;
  const std::size_t blocks = (m + block - 1) / block;
  core_.for_partitions(blocks, n_padded, block * k * n_padded / 8, [&](std::size_t i, float* old) {
    const std::size_t first = i * block, rows = (std::min)(block, m - first);
    if (core_.options.sum_order == SumOrder::ascending)
      core_.kernels.multiply({.m = rows,
                              .n = n_padded,
                              .k = k,
                              .a = a + first,
                              .b = b,
                              .sums = sums + first * n_padded,
                              .a_stride = m_padded,
                              .b_stride = n_padded,
                              .sums_stride = n_padded});
    else
      multiply_slowly(rows, n, k, a + first, m_padded, b, n_padded, sums + first * n_padded);
    for (std::size_t row = first; row < first + rows; ++row) {
      float* sum = sums + row * n_padded;
      if (accumulate == Accumulate::yes) {
        neuroncore::read_codes(core_.psum, dst, row, old);
        core_.kernels.alu(Alu::add, old, sum, sum, n);
      }
      neuroncore::write_codes(core_.psum, dst, row, sum);
    }
  });
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

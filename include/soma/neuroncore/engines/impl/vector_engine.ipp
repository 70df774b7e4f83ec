#pragma once
// The Vector engine's selection, batch statistics, dropout and small transposes.

#include <soma/neuroncore/engines/vector_engine.hpp>

#include <soma/neuroncore/engines/bit_operators.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE VectorEngine& VectorEngine::select(const Tile& dst, const Tile& predicate,
                                               const Tile& on_true, const ScalarOperand& on_false,
                                               const Rounded& rounded, SourceLine source) {
  const CallSite call{"select", source};
  check_pair(call, {"on_true", on_true}, {"predicate", predicate}, dst);
  check_types(call, {"predicate", predicate},
              {DType::int8, DType::uint8, DType::int16, DType::uint16, DType::boolean});
  if (on_true.dtype() == DType::tf32 || on_true.dtype() == DType::int32 ||
      on_true.dtype() == DType::uint32)
    rule_broken(call, {"on_true", on_true}, on_true.describe(),
                "a type other than tf32, int32 and uint32");
  check_constant(call, "on_false", on_false);
  if (on_false.tile.defined()) check_column(call, {"on_false", on_false.tile}, on_true);
  const Running running =
      core_.begin(source, Opcode::select, lane,
                  {{"predicate", predicate}, {"on_true", on_true}, {"on_false", on_false.tile}},
                  {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(on_true), on_true);
  const PartitionReader chooser(core_.kernels, core_.memory_of(predicate), predicate);
  const std::vector<float> other = column(on_false, on_true);
  map(dst, rounded, 2, [&](std::size_t p, float* buffer, std::size_t count) {
    float* chosen = buffer + padded(count);
    reader.copy(p, buffer);
    chooser.copy(p, chosen);
    for (std::size_t i = 0; i < count; ++i)
      if (chosen[i] == 0) buffer[i] = other[p];
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::copy_predicated(const Tile& dst, const Tile& src,
                                                        const Tile& predicate, SourceLine source) {
  const CallSite call{"copy_predicated", source};
  check_pair(call, {"src", src}, {"predicate", predicate}, dst);
  check_types(call, {"predicate", predicate},
              {DType::uint8, DType::uint16, DType::uint32, DType::boolean, DType::int32});
  check_same_type(call, dst, src);
  const Running running = core_.begin(source, Opcode::copy_predicated, lane,
                                      {{"src", src}, {"predicate", predicate}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  core_.show_kept(dst);
  const std::size_t count = dst.free_size(), width = dst.width();
  std::vector<std::byte> from(count * width), to(count * width);
  std::vector<std::uint32_t> chosen(count);
  bool all = true;
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    read_codes(core_.memory_of(src), src, p, from.data());
    read_codes(core_.memory_of(dst), dst, p, to.data());
    detail::read_bits(core_.memory_of(predicate), predicate, p, chosen);
    for (std::size_t i = 0; i < count; ++i)
      if (chosen[i] != 0) std::memcpy(&to[i * width], &from[i * width], width);
    write_codes(core_.memory_of(dst), dst, p, to.data());
    all = core_.memory_of(dst).mark_written_where(dst, p, chosen) && all;
  }
  all ? core_.end(dst) : core_.show(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::bn_stats(const Tile& dst, const Tile& data,
                                                 SourceLine source) {
  const CallSite call{"bn_stats", source};
  core_.check_free(call, {"data", data});
  core_.check_free(call, {"dst", dst});
  CoreState::check_same_partitions(call, {"data", data}, {"dst", dst});
  at_most(call, {"data", data}, data.free_size(), core_.machine.bn_stats_free,
          "elements a partition");
  if (dst.free_size() != 6)
    rule_broken(call, {"dst", dst}, dst.describe(), "6 elements a partition");
  const Running running = core_.begin(source, Opcode::bn_stats, lane, {{"data", data}},
                                      {{"dst", dst}}, CoreState::cost_of(data));
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const std::size_t count = data.free_size();
  static constexpr Rounded nearest{};
  const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, nearest,
                               core_.options.overflow);
  core_.for_partitions(data.partitions(), 2 * padded(count) + 64, count * 8,
                       [&](std::size_t p, float* buffer) {
                         const float* x = reader.read(p, buffer);
                         float *half = buffer + padded(count), *out = half + padded(count);
                         for (std::size_t odd = 0; odd < 2; ++odd) {
                           std::size_t n = 0;
                           for (std::size_t i = odd; i < count; i += 2) half[n++] = x[i];
                           statistics(half, n, out + 3 * odd);
                         }
                         writer.write(p, out, out + 32);
                       });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::bn_aggr(const Tile& dst, const Tile& data,
                                                SourceLine source) {
  const CallSite call{"bn_aggr", source};
  core_.check_free(call, {"data", data});
  core_.check_free(call, {"dst", dst});
  CoreState::check_same_partitions(call, {"data", data}, {"dst", dst});
  if (data.free_size() % 3 != 0)
    rule_broken(call, {"data", data}, data.describe(), "a multiple of 3 elements a partition");
  if (dst.free_size() != 2)
    rule_broken(call, {"dst", dst}, dst.describe(), "2 elements a partition");
  const Running running = core_.begin(source, Opcode::bn_aggr, lane, {{"data", data}},
                                      {{"dst", dst}}, CoreState::cost_of(data));
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  map(dst, {}, 1 + (data.free_size() + 1) / 2, [&](std::size_t p, float* buffer, std::size_t) {
    const float* x = reader.read(p, buffer);
    double count = 0, total = 0, spread = 0;
    for (std::size_t i = 0; i < data.free_size(); i += 3) {
      count += static_cast<double>(x[i]);
      total += static_cast<double>(x[i]) * static_cast<double>(x[i + 1]);
    }
    const double mean = count == 0 ? 0 : total / count;
    for (std::size_t i = 0; i < data.free_size(); i += 3) {
      const double off = static_cast<double>(x[i + 1]) - mean;
      // rounded() gives one result even if the compiler fuses the product with the sum.
      spread +=
          static_cast<double>(x[i + 2]) + rounded(rounded(static_cast<double>(x[i]) * off) * off);
    }
    buffer[0] = static_cast<float>(mean);
    buffer[1] = static_cast<float>(count == 0 ? 0 : spread / count);
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::dropout(const Tile& dst, const Tile& src,
                                                std::uint64_t threshold,
                                                const DrawPosition& position, SourceLine source) {
  check_same({"dropout", source}, dst, src);
  const Running running =
      core_.begin(source, Opcode::dropout, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  if (threshold == 0) {
    copy_elements(dst, src, {});
  } else {
    const PartitionReader reader(core_.kernels, core_.memory_of(src), src);
    map(dst, {}, 2, [&, this](std::size_t p, float* buffer, std::size_t count) {
      reader.copy(p, buffer);
      auto* words = reinterpret_cast<std::uint32_t*>(buffer + padded(count));
      core_.kernels.words(position.of_partition(p), count, words);
      for (std::size_t i = 0; i < count; ++i)
        if (words[i] < threshold) buffer[i] = 0;
      return buffer;
    });
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::transpose(const Tile& dst, const Tile& src,
                                                  SourceLine source) {
  const CallSite call{"transpose", source};
  core_.check_free(call, {"src", src});
  core_.check_free(call, {"dst", dst});
  at_most(call, {"src", src}, src.partitions(), core_.machine.transpose_vector, "partitions");
  at_most(call, {"src", src}, src.free_size(), core_.machine.transpose_vector,
          "elements a partition");
  check_same_type(call, dst, src);
  if (dst.partitions() != src.free_size() || dst.free_size() != src.partitions())
    rule_broken(call, {"dst", dst}, dst.describe(), src.describe() + " turned");
  const Running running =
      core_.begin(source, Opcode::transpose, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const std::size_t rows = src.partitions(), columns = src.free_size();
  const std::size_t width = src.width();
  std::vector<std::byte> from(rows * columns * width), row(rows * width);
  for (std::size_t p = 0; p < rows; ++p)
    read_codes(core_.memory_of(src), src, p, &from[p * columns * width]);
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t p = 0; p < rows; ++p)
      std::memcpy(&row[p * width], &from[(p * columns + c) * width], width);
    write_codes(core_.memory_of(dst), dst, c, row.data());
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE void VectorEngine::statistics(float* x, std::size_t n, float* out) const {
  const EngineKernels& kernels = core_.kernels;
  const float mean = n == 0 ? 0 : reduce(Alu::add, x, n) / static_cast<float>(n);
  kernels.alu_scalar(Alu::subtract, x, mean, false, x, n);
  kernels.alu(Alu::multiply, x, x, x, n);
  out[0] = static_cast<float>(n);
  out[1] = mean;
  out[2] = n == 0 ? 0 : reduce(Alu::add, x, n);
}

}  // namespace SOMA_NAMESPACE::neuroncore

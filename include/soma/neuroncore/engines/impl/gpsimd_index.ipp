#pragma once
// The GpSimd engine's instructions that compute with positions: index patterns, gathers, and moves
// between partitions.

#include <soma/neuroncore/engines/gpsimd_engine.hpp>

#include <soma/neuroncore/engines/bit_operators.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE GpsimdEngine& GpsimdEngine::iota(const Tile& dst, const Affine& affine,
                                             const Rounded& rounded, SourceLine source) {
  const CallSite call{"iota", source};
  core_.check_free(call, {"dst", dst});
  check_reached(call, {{"dst", dst}});
  check_affine(call, affine, dst);
  const Running running = core_.begin(source, Opcode::iota, lane, {}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const std::vector<std::int32_t> first = pattern(affine);
  std::vector<std::int32_t> values(first.size());
  const auto of_partition = [&](std::size_t p) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = wrapped(first[i], affine.channel_multiplier, p);
  };
  if (dst.dtype() == DType::int32 || dst.dtype() == DType::uint32) {
    for (std::size_t p = 0; p < dst.partitions(); ++p) {
      of_partition(p);
      if (dst.dtype() == DType::uint32)
        for (std::int32_t& value : values) value = (std::max)(value, 0);
      write_codes(core_.sbuf, dst, p, values.data());
    }
  } else {
    map(dst, rounded, 1, [&](std::size_t p, float* buffer, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i)
        buffer[i] = static_cast<float>(wrapped(first[i], affine.channel_multiplier, p));
      return buffer;
    });
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::affine_select(const Tile& dst, const Tile& data,
                                                      const Affine& affine,
                                                      const Constant& on_false, Alu compare,
                                                      const Rounded& rounded, SourceLine source) {
  const CallSite call{"affine_select", source};
  check_same(call, dst, data);
  check_reached(call, {{"data", data}, {"dst", dst}});
  check_affine(call, affine, dst);
  check_constant(call, "on_false", on_false);
  if (compare < Alu::equal || compare > Alu::less)
    rule_broken(call, "compare", std::string(to_string(compare)), "a comparison");
  const Running running =
      core_.begin(source, Opcode::affine_select, lane, {{"data", data}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const std::vector<std::int32_t> first = pattern(affine);
  const PartitionReader reader(core_.kernels, core_.sbuf, data);
  const PartitionWriter writer(core_.kernels, core_.sbuf, dst, rounded, core_.options.overflow);
  const bool same = dst.dtype() == data.dtype() && dst.bias_offset() == data.bias_offset();
  const std::size_t count = dst.free_size(), width = dst.width();
  std::vector<float> x(padded(count)), scratch(padded(count));
  std::vector<std::byte> from(count * width), to(count * width);
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    const auto chosen = [&](std::size_t i) {
      return holds(compare, wrapped(first[i], affine.channel_multiplier, p));
    };
    reader.copy(p, x.data());
    if (same) read_codes(core_.sbuf, data, p, from.data());
    for (std::size_t i = 0; i < count; ++i)
      if (!chosen(i)) x[i] = on_false.value;
    writer.write(p, x.data(), scratch.data());
    if (!same) continue;
    read_codes(core_.sbuf, dst, p, to.data());
    for (std::size_t i = 0; i < count; ++i)
      if (chosen(i)) std::memcpy(&to[i * width], &from[i * width], width);
    write_codes(core_.sbuf, dst, p, to.data());
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::local_gather(const Tile& dst, const Tile& src,
                                                     const Tile& indices, std::size_t pieces,
                                                     std::size_t piece, SourceLine source) {
  const CallSite call{"local_gather", source};
  check_local_gather(call, dst, src, indices, pieces, piece);
  CoreState::check_apart(call, {"src", src}, {"dst", dst});
  const Running running =
      core_.begin(source, Opcode::local_gather, lane, {{"src", src}, {"indices", indices}},
                  {{"dst", dst}}, {.piece = static_cast<std::uint32_t>(piece)});
  if (core_.dry(dst)) return *this;
  const std::size_t width = src.width(), count = src.free_size();
  std::vector<std::uint32_t> slice(16 * indices.free_size()), row(indices.free_size());
  std::vector<std::byte> from(count * width), to(dst.free_size() * width);
  for (std::size_t p = 0; p < src.partitions(); ++p) {
    if (p % 16 == 0)
      for (std::size_t q = 0; q < 16; ++q) {
        detail::read_bits(core_.sbuf, indices, p + q, row);
        for (std::size_t i = 0; i < row.size(); ++i) slice[16 * i + q] = row[i];
      }
    read_codes(core_.sbuf, src, p, from.data());
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t at = checked_index(call, indices, slice[i], piece, src);
      std::memcpy(&to[i * piece * width], &from[at * width], piece * width);
    }
    write_codes(core_.sbuf, dst, p, to.data());
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::n_gather(const Tile& dst, const Tile& src,
                                                 const Tile& indices, SourceLine source) {
  const CallSite call{"n_gather", source};
  core_.check_free(call, {"src", src});
  check_same(call, dst, indices);
  CoreState::check_same_partitions(call, {"dst", dst}, {"src", src});
  check_reached(call, {{"src", src}, {"indices", indices}, {"dst", dst}});
  check_same_type(call, dst, src);
  check_types(call, {"indices", indices}, {DType::uint32, DType::int32});
  CoreState::check_apart(call, {"src", src}, {"dst", dst});
  const Running running = core_.begin(source, Opcode::n_gather, lane,
                                      {{"src", src}, {"indices", indices}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const std::size_t width = src.width(), count = dst.free_size();
  std::vector<std::byte> from(src.free_size() * width), to(count * width);
  std::vector<std::uint32_t> chosen(count);
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    read_codes(core_.sbuf, src, p, from.data());
    detail::read_bits(core_.sbuf, indices, p, chosen);
    for (std::size_t j = 0; j < count; ++j)
      std::memcpy(&to[j * width], &from[checked_index(call, indices, chosen[j], 1, src) * width],
                  width);
    write_codes(core_.sbuf, dst, p, to.data());
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::partition_reduce(const Tile& dst, const Tile& data, Alu op,
                                                         const Rounded& rounded,
                                                         SourceLine source) {
  const CallSite call{"partition_reduce", source};
  check_one_partition(call, {"dst", dst}, {"data", data});
  if (op != Alu::add && op != Alu::maximum && op != Alu::bitwise_or && op != Alu::bitwise_and)
    rule_broken(call, "op", std::string(to_string(op)), "add, maximum, bitwise_or or bitwise_and");
  const bool bits = is_bitwise(op);
  if (bits) {
    CoreState::check_integer(call, {"data", data});
    check_same_type(call, dst, data);
  }
  const Running running = core_.begin(source, Opcode::partition_reduce, lane, {{"data", data}},
                                      {{"dst", dst}}, CoreState::cost_of(data, op));
  if (core_.dry(dst)) return *this;
  const bool whole = data.dtype() == DType::int32 || data.dtype() == DType::uint32;
  if (bits || (whole && dst.dtype() == data.dtype()))
    reduce_integers(dst, data, op);
  else
    reduce_floats(dst, data, op, rounded);
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::partition_broadcast(const Tile& dst, const Tile& src,
                                                            SourceLine source) {
  const CallSite call{"partition_broadcast", source};
  check_one_partition(call, {"src", src}, {"dst", dst});
  check_same_type(call, dst, src);
  const Running running =
      core_.begin(source, Opcode::partition_broadcast, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  std::vector<std::byte> row(src.free_size() * src.width());
  read_codes(core_.sbuf, src, 0, row.data());
  for (std::size_t p = 0; p < dst.partitions(); ++p) write_codes(core_.sbuf, dst, p, row.data());
  core_.end(dst);
  return *this;
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::sequence_bounds(const Tile& dst, const Tile& ids,
                                                        SourceLine source) {
  const CallSite call{"sequence_bounds", source};
  for (const Operand& operand : {Operand{"ids", ids}, Operand{"dst", dst}}) {
    core_.check_free(call, operand);
    check_reached(call, {operand});
    if (operand.tile.partitions() != 1)
      rule_broken(call, operand, operand.tile.describe(), "one partition");
    if (operand.tile.dtype() != DType::fp32 && operand.tile.dtype() != DType::int32)
      rule_broken(call, operand, operand.tile.describe(), "fp32 or int32");
  }
  const std::size_t count = ids.free_size();
  if (dst.free_size() != 2 * count)
    rule_broken(call, {"dst", dst}, dst.describe(), std::to_string(2 * count) + " elements");
  const Running running = core_.begin(source, Opcode::sequence_bounds, lane, {{"ids", ids}},
                                      {{"dst", dst}}, CoreState::cost_of(ids));
  if (core_.dry(dst)) return *this;
  std::vector<float> id(count), bounds(padded(2 * count)), scratch(padded(2 * count));
  PartitionReader(core_.kernels, core_.sbuf, ids).copy(0, id.data());
  for (std::size_t first = 0, end = 0; first < count; first = end) {
    while (end < count && id[end] == id[first]) ++end;
    end = (std::max)(end, first + 1);  // NaN equals nothing
    const bool padding = id[first] == 0;
    std::fill(&bounds[first], &bounds[end], static_cast<float>(padding ? count : first));
    std::fill(&bounds[count + first], &bounds[count + end],
              padding ? -1.0f : static_cast<float>(end));
  }
  static constexpr Rounded nearest{};
  PartitionWriter(core_.kernels, core_.sbuf, dst, nearest, core_.options.overflow)
      .write(0, bounds.data(), scratch.data());
  core_.end(dst);
  return *this;
}

SOMA_INLINE void GpsimdEngine::check_reached(const CallSite& call,
                                             std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands)
    CoreState::check_memory(call, operand, Memory::sbuf, "GpSimd");
}

SOMA_INLINE void GpsimdEngine::check_affine(const CallSite& call, const Affine& affine,
                                            const Tile& dst) {
  std::size_t values = 1;
  for (const AffineStep& loop : affine.loops) values *= loop.size;
  if (affine.loops.size() == 0 || affine.loops.size() > 4 || values != dst.free_size())
    rule_broken(
        call, "affine",
        std::to_string(affine.loops.size()) + " loops with " + std::to_string(values) + " values",
        "1 to 4 loops with the " + std::to_string(dst.free_size()) + " elements a partition of " +
            dst.describe());
}

SOMA_INLINE void GpsimdEngine::check_local_gather(const CallSite& call, const Tile& dst,
                                                  const Tile& src, const Tile& indices,
                                                  std::size_t pieces, std::size_t piece) {
  for (const Operand& operand :
       {Operand{"src", src}, Operand{"indices", indices}, Operand{"dst", dst}}) {
    core_.check_free(call, operand);
    CoreState::check_same_partitions(call, {"src", src}, operand);
  }
  check_reached(call, {{"src", src}, {"indices", indices}, {"dst", dst}});
  if (src.partitions() % 16 != 0)
    rule_broken(call, {"src", src}, src.describe(), "a multiple of 16 partitions");
  check_types(call, {"indices", indices}, {DType::uint16, DType::int32});
  check_same_type(call, dst, src);
  if (piece == 0 || piece > 32 || (piece & (piece - 1)) != 0)
    rule_broken(call, "piece", std::to_string(piece), "1, 2, 4, 8, 16 or 32 elements");
  at_most(call, "pieces", pieces, 4096, "indices a processor");
  at_most(call, "pieces", pieces, 16 * indices.free_size(), "of the indices of 16 partitions");
  if (dst.free_size() != pieces * piece)
    rule_broken(call, {"dst", dst}, dst.describe(),
                std::to_string(pieces * piece) + " elements a partition");
}

SOMA_INLINE void GpsimdEngine::check_one_partition(const CallSite& call, const Operand& one,
                                                   const Operand& many) {
  core_.check_free(call, one);
  core_.check_free(call, many);
  check_reached(call, {one, many});
  if (one.tile.partitions() != 1) rule_broken(call, one, one.tile.describe(), "one partition");
  if (one.tile.free_size() != many.tile.free_size())
    rule_broken(call, one, one.tile.describe(),
                std::to_string(many.tile.free_size()) + " elements, as a partition of " +
                    std::string(many.name));
}

SOMA_INLINE std::size_t GpsimdEngine::checked_index(const CallSite& call, const Tile& indices,
                                                    std::uint32_t bits, std::size_t size,
                                                    const Tile& tile) {
  const std::size_t count = tile.free_size();
  const std::int64_t index = indices.dtype() == DType::int32
                                 ? std::int64_t{static_cast<std::int32_t>(bits)}
                                 : std::int64_t{bits};
  if (index < 0 || size > count || static_cast<std::size_t>(index) > count - size)
    undefined(call, {"indices", indices}, std::to_string(index),
              "elements within " + tile.describe());
  return static_cast<std::size_t>(index);
}

SOMA_INLINE std::vector<std::int32_t> GpsimdEngine::pattern(const Affine& affine) {
  std::vector<std::int32_t> values{affine.offset};
  for (const AffineStep& loop : affine.loops) {
    std::vector<std::int32_t> inner;
    inner.reserve(values.size() * loop.size);
    for (const std::int32_t value : values)
      for (std::size_t i = 0; i < loop.size; ++i) inner.push_back(wrapped(value, loop.step, i));
    values = std::move(inner);
  }
  return values;
}

SOMA_INLINE std::int32_t GpsimdEngine::wrapped(std::int32_t start, std::int32_t step,
                                               std::size_t times) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(start) +
                                   static_cast<std::uint32_t>(step) *
                                       static_cast<std::uint32_t>(times));
}

SOMA_INLINE bool GpsimdEngine::holds(Alu compare, std::int32_t value) {
  switch (compare) {
    case Alu::equal:
      return value == 0;
    case Alu::not_equal:
      return value != 0;
    case Alu::greater_equal:
      return value >= 0;
    case Alu::greater:
      return value > 0;
    case Alu::less_equal:
      return value <= 0;
    default:
      return value < 0;
  }
}

SOMA_INLINE void GpsimdEngine::reduce_integers(const Tile& dst, const Tile& data, Alu op) {
  std::vector<std::uint32_t> total(data.free_size()), row(data.free_size());
  detail::read_bits(core_.sbuf, data, 0, total);
  for (std::size_t p = 1; p < data.partitions(); ++p) {
    detail::read_bits(core_.sbuf, data, p, row);
    for (std::size_t i = 0; i < total.size(); ++i)
      if (op == Alu::add)
        total[i] += row[i];
      else if (op != Alu::maximum)
        total[i] = detail::bits("partition_reduce", op, total[i], row[i], 32);
      else if (data.dtype() == DType::uint32)
        total[i] = (std::max)(total[i], row[i]);
      else
        total[i] = static_cast<std::uint32_t>(
            (std::max)(static_cast<std::int32_t>(total[i]), static_cast<std::int32_t>(row[i])));
  }
  detail::write_bits(core_.sbuf, dst, 0, total);
}

SOMA_INLINE void GpsimdEngine::reduce_floats(const Tile& dst, const Tile& data, Alu op,
                                             const Rounded& rounded) {
  const PartitionReader reader(core_.kernels, core_.sbuf, data);
  map(dst, rounded, 2, [&, this](std::size_t, float* total, std::size_t count) {
    float* row = total + padded(count);
    reader.copy(0, total);
    for (std::size_t p = 1; p < data.partitions(); ++p)
      core_.kernels.alu(op, total, reader.read(p, row), total, count);
    return total;
  });
}

SOMA_INLINE GpsimdEngine& GpsimdEngine::nonzero_with_count(const Tile& dst, const Tile& src,
                                                           std::int32_t offset,
                                                           std::int32_t padding,
                                                           SourceLine source) {
  const CallSite call{"nonzero_with_count", source};
  core_.check_has(call, Feature::nonzero_with_count);
  core_.check_free(call, {"src", src});
  core_.check_free(call, {"dst", dst});
  check_reached(call, {{"src", src}, {"dst", dst}});
  CoreState::check_same_partitions(call, {"src", src}, {"dst", dst});
  if (src.dtype() != DType::fp32 && src.dtype() != DType::int32)
    rule_broken(call, {"src", src}, src.describe(), "fp32 or int32");
  check_type(call, {"dst", dst}, DType::int32);
  const std::size_t count = src.free_size();
  if (dst.free_size() != count + 1)
    rule_broken(call, {"dst", dst}, dst.describe(),
                std::to_string(count + 1) + " elements a partition: one more than src");
  // A processor reads and writes the first of its 16 partitions.
  constexpr std::size_t step = 16;
  Tile from[8], to[8];
  for (std::size_t p = 0; p < src.partitions() && p / step < 8; p += step) {
    from[p / step] = src.rows(p, p + 1);
    to[p / step] = dst.rows(p, p + 1);
  }
  const Running running = core_.begin(source, Opcode::nonzero_with_count, lane,
                                      {{"src", from[0]},
                                       {"src", from[1]},
                                       {"src", from[2]},
                                       {"src", from[3]},
                                       {"src", from[4]},
                                       {"src", from[5]},
                                       {"src", from[6]},
                                       {"src", from[7]}},
                                      {{"dst", to[0]},
                                       {"dst", to[1]},
                                       {"dst", to[2]},
                                       {"dst", to[3]},
                                       {"dst", to[4]},
                                       {"dst", to[5]},
                                       {"dst", to[6]},
                                       {"dst", to[7]}},
                                      CoreState::cost_of(src));
  for (std::size_t i = 0; i < 8 && to[i].defined(); ++i) {
    if (core_.options.compute) {
      std::vector<std::uint32_t> bits(count);
      read_codes(core_.sbuf, from[i], 0, bits.data());
      std::vector<std::int32_t> out(count + 1, padding);
      std::int32_t found = 0;
      for (std::size_t j = 0; j < count; ++j)
        if (src.dtype() == DType::int32 ? bits[j] != 0 : bits[j] << 1 != 0)
          out[static_cast<std::size_t>(found++)] = offset + static_cast<std::int32_t>(j);
      out[count] = found;
      write_codes(core_.sbuf, to[i], 0, out.data());
    }
    core_.end(to[i]);
  }
  return *this;
}

}  // namespace SOMA_NAMESPACE::neuroncore

#pragma once
// The Vector engine's instructions along a partition or across a quadrant: scans, the eight largest
// elements and their indices, shuffles, and random numbers.

#include <soma/neuroncore/engines/vector_engine.hpp>

#include <soma/neuroncore/engines/bit_operators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE VectorEngine& VectorEngine::tensor_tensor_scan(const Tile& dst, const Tile& a,
                                                           const Tile& b,
                                                           const ScalarOperand& initial, Alu op0,
                                                           Alu op1, const ScalarOptions& options,
                                                           SourceLine source) {
  const CallSite call{"tensor_tensor_scan", source};
  check_pair(call, {"a", a}, {"b", b}, dst);
  for (const Alu op : {op0, op1}) {
    check_arithmetic(call, op);
    check_binary(call, op);
  }
  check_initial(call, initial, a);
  const Running running = core_.begin(source, Opcode::tensor_tensor_scan, lane,
                                      {{"a", a}, {"b", b}, {"initial", initial.tile}},
                                      {{"dst", dst}}, {.operators = {op0, op1}});
  if (core_.dry(dst)) return *this;
  const std::size_t lanes = a.partitions();
  const std::vector<float> left = turned(a), right = turned(b);
  scan(dst, column(initial, a), options.rounded, [&](std::size_t i, float* state) {
    const float *x = &left[i * lanes], *y = &right[i * lanes];
    options.reverse0 ? core_.kernels.alu(op0, state, x, state, lanes)
                     : core_.kernels.alu(op0, x, state, state, lanes);
    options.reverse1 ? core_.kernels.alu(op1, y, state, state, lanes)
                     : core_.kernels.alu(op1, state, y, state, lanes);
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::tensor_scalar_cumulative(
    const Tile& dst, const Tile& data, Alu op0, const ScalarOperand& s0, Alu op1,
    std::optional<Constant> start, const ScalarOptions& options, SourceLine source) {
  const CallSite call{"tensor_scalar_cumulative", source};
  check_scalar(call, dst, data, op0, s0, Alu::none, {}, options);
  check_arithmetic(call, op0);
  if (!is_reduction(op1) && op1 != Alu::subtract)
    rule_broken(call, "op1", std::string(to_string(op1)),
                "add, subtract, multiply, maximum or minimum");
  for (const Operand& operand : {Operand{"data", data}, Operand{"dst", dst}})
    if (operand.tile.dtype() == DType::int32 || operand.tile.dtype() == DType::uint32)
      rule_broken(call, operand, operand.tile.describe(), "a type other than int32 and uint32");
  if (start) check_constant(call, "start", *start);
  const Running running =
      core_.begin(source, Opcode::tensor_scalar_cumulative, lane, {{"data", data}, {"s0", s0.tile}},
                  {{"dst", dst}}, {.operators = {op0, op1}});
  if (core_.dry(dst)) return *this;
  const std::size_t lanes = data.partitions();
  const std::vector<float> x = turned(data), scalars = column(s0, data);
  std::vector<float> step(lanes);
  scan(dst, std::vector<float>(lanes, start ? start->value : identity_of(op1)), options.rounded,
       [&](std::size_t i, float* state) {
         options.reverse0
             ? core_.kernels.alu(op0, scalars.data(), &x[i * lanes], step.data(), lanes)
             : core_.kernels.alu(op0, &x[i * lanes], scalars.data(), step.data(), lanes);
         options.reverse1 ? core_.kernels.alu(op1, state, step.data(), state, lanes)
                          : core_.kernels.alu(op1, step.data(), state, state, lanes);
       });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::max8(const Tile& dst, const Tile& src, SourceLine source) {
  const CallSite call{"max8", source};
  core_.check_free(call, {"src", src});
  check_eight(call, {"dst", dst}, src);
  const std::size_t count = src.free_size();
  if (count < 8 || count > 16384 || src.rank() > 2)
    rule_broken(call, {"src", src}, src.describe(),
                "8 to 16384 elements a partition in one or two free dimensions");
  const Running running = core_.begin(source, Opcode::max8, lane, {{"src", src}}, {{"dst", dst}},
                                      CoreState::cost_of(src));
  if (core_.dry(dst)) return *this;
  const PartitionReader reader(core_.kernels, core_.memory_of(src), src);
  map(dst, {}, 1 + count / 16, [&](std::size_t p, float* buffer, std::size_t) {
    const float* x = reader.read(p, buffer);
    std::array<float, 8> best;
    best.fill(-HUGE_VALF);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t slot = 0; slot < 8; ++slot)
        if (x[i] > best[slot]) {
          std::move_backward(best.begin() + static_cast<std::ptrdiff_t>(slot), best.end() - 1,
                             best.end());
          best[slot] = x[i];
          break;
        }
    std::copy(best.begin(), best.end(), buffer);
    return buffer;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::find_index8(const Tile& dst, const Tile& data,
                                                    const Tile& values, SourceLine source) {
  const CallSite call{"find_index8", source};
  core_.check_free(call, {"data", data});
  check_eight(call, {"values", values}, data);
  check_eight(call, {"dst", dst}, data);
  check_types(call, {"dst", dst}, {DType::uint16, DType::uint32, DType::int32});
  const Running running =
      core_.begin(source, Opcode::find_index8, lane, {{"data", data}, {"values", values}},
                  {{"dst", dst}}, CoreState::cost_of(data));
  if (core_.dry(dst)) return *this;
  search(data, values, [&](std::size_t p, const float* x, const float* wanted) {
    std::array<std::int32_t, 8> found;
    for (std::size_t slot = 0; slot < 8; ++slot)
      found[slot] = find(x, data.free_size(), wanted[slot], &found[0], &found[slot]);
    write_indices(dst, p, found);
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::match_replace8(const Tile& dst, const Tile& data,
                                                       const Tile& values,
                                                       const Constant& replacement,
                                                       const Tile* indices, const Rounded& rounded,
                                                       SourceLine source) {
  const CallSite call{"match_replace8", source};
  core_.check_free(call, {"data", data});
  core_.check_free(call, {"dst", dst});
  CoreState::check_same_size(call, {"data", data}, {"dst", dst});
  check_eight(call, {"values", values}, data);
  check_constant(call, "replacement", replacement);
  if (indices != nullptr) {
    check_eight(call, {"indices", *indices}, data);
    check_types(call, {"indices", *indices}, {DType::uint16, DType::uint32, DType::int32});
  }
  const Running running =
      core_.begin(source, Opcode::match_replace8, lane, {{"data", data}, {"values", values}},
                  {{"dst", dst}, {"indices", indices != nullptr ? *indices : Tile()}});
  if (core_.dry(dst)) {
    if (indices != nullptr) core_.end(*indices);
    return *this;
  }
  const std::size_t count = data.free_size();
  const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, rounded,
                               core_.options.overflow);
  std::vector<float> out(padded(count)), scratch(padded(count));
  search(data, values, [&](std::size_t p, const float* x, const float* wanted) {
    std::array<std::int32_t, 8> found;
    for (std::size_t slot = 8; slot-- > 0;)
      found[slot] = find(x, count, wanted[slot], &found[0] + slot + 1, &found[0] + found.size());
    std::copy_n(x, count, out.begin());
    for (const std::int32_t index : found)
      if (index >= 0) out[static_cast<std::size_t>(index)] = replacement.value;
    writer.write(p, out.data(), scratch.data());
    if (indices != nullptr) write_indices(*indices, p, found);
  });
  core_.end(dst);
  if (indices != nullptr) core_.end(*indices);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::stream_shuffle(const Tile& dst, const Tile& src,
                                                       const ShuffleMask& mask, SourceLine source) {
  const CallSite call{"stream_shuffle", source};
  check_same(call, dst, src);
  check_same_type(call, dst, src);
  const std::size_t count = src.partitions(), bytes = src.free_size() * src.width();
  std::vector<std::size_t> from(count);
  for (std::size_t p = 0; p < count; ++p) {
    const std::size_t entry = mask[p % 32];
    if (entry >= 32 && entry != shuffle_keep)
      rule_broken(call, "mask", std::to_string(entry), "0 to 31, or 255");
    from[p] = entry == shuffle_keep ? count : p / 32 * 32 + entry;
    if (entry != shuffle_keep && from[p] >= count)
      undefined(call, "mask", std::to_string(entry),
                "one of the " + std::to_string(count) + " partitions of " + src.describe());
  }
  const Running running =
      core_.begin(source, Opcode::stream_shuffle, lane, {{"src", src}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  if (std::find(from.begin(), from.end(), count) != from.end()) core_.show_kept(dst);
  std::vector<std::byte> rows(count * bytes);
  for (std::size_t p = 0; p < count; ++p)
    read_codes(core_.memory_of(src), src, p, &rows[p * bytes]);
  bool all = true;
  for (std::size_t p = 0; p < count; ++p) {
    all = all && from[p] != count;
    if (from[p] == count) continue;
    write_codes(core_.memory_of(dst), dst, p, &rows[from[p] * bytes]);
    core_.memory_of(dst).mark_written(dst.rows(p, p + 1), Written::somebody);
  }
  all ? core_.end(dst) : core_.show(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::rng(const Tile& dst, const DrawPosition& position,
                                            SourceLine source) {
  core_.check_free({"rng", source}, {"dst", dst});
  CoreState::check_integer({"rng", source}, {"dst", dst});
  const Running running = core_.begin(source, Opcode::rng, lane, {}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  std::vector<std::uint32_t> words(dst.free_size());
  for (std::size_t p = 0; p < dst.partitions(); ++p) {
    core_.kernels.words(position.of_partition(p), words.size(), words.data());
    detail::write_bits(core_.memory_of(dst), dst, p, words);
  }
  core_.end(dst);
  return *this;
}

SOMA_INLINE void VectorEngine::check_eight(const CallSite& call, const Operand& operand,
                                           const Tile& data) {
  check_columns(call, operand, data, 8);
}

SOMA_INLINE void VectorEngine::write_indices(const Tile& tile, std::size_t p,
                                             const std::array<std::int32_t, 8>& indices) {
  std::vector<std::uint32_t> bits(indices.begin(), indices.end());
  detail::write_bits(core_.memory_of(tile), tile, p, bits);
}

SOMA_INLINE void VectorEngine::check_initial(const CallSite& call, const ScalarOperand& initial,
                                             const Tile& data) {
  check_constant(call, "initial", initial);
  if (!initial.tile.defined()) return;
  check_column(call, {"initial", initial.tile}, data);
  check_type(call, {"initial", initial.tile}, DType::fp32);
}

SOMA_INLINE std::vector<float> VectorEngine::turned(const Tile& tile) {
  const std::size_t lanes = tile.partitions(), count = tile.free_size();
  const PartitionReader reader(core_.kernels, core_.memory_of(tile), tile);
  std::vector<float> row(count), result(count * lanes);
  for (std::size_t p = 0; p < lanes; ++p) {
    const float* x = reader.read(p, row.data());
    for (std::size_t i = 0; i < count; ++i) result[i * lanes + p] = x[i];
  }
  return result;
}

template <class Step>
void VectorEngine::scan(const Tile& dst, std::vector<float> state, const Rounded& rounded,
                        const Step& step) {
  const std::size_t lanes = dst.partitions(), count = dst.free_size();
  std::vector<float> states(count * lanes);
  for (std::size_t i = 0; i < count; ++i) {
    step(i, state.data());
    std::copy(state.begin(), state.end(), &states[i * lanes]);
  }
  map(dst, rounded, 1, [&](std::size_t p, float* buffer, std::size_t) {
    for (std::size_t i = 0; i < count; ++i) buffer[i] = states[i * lanes + p];
    return buffer;
  });
}

template <class Run>
void VectorEngine::search(const Tile& data, const Tile& values, const Run& run) {
  const PartitionReader elements(core_.kernels, core_.memory_of(data), data);
  const PartitionReader eight(core_.kernels, core_.memory_of(values), values);
  std::vector<float> row(data.free_size()), wanted(8);
  for (std::size_t p = 0; p < data.partitions(); ++p) {
    elements.copy(p, row.data());
    eight.copy(p, wanted.data());
    run(p, row.data(), wanted.data());
  }
}

SOMA_INLINE std::int32_t VectorEngine::find(const float* x, std::size_t count, float value,
                                            const std::int32_t* taken,
                                            const std::int32_t* taken_end) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::int32_t>(i);
    if (x[i] == value && std::find(taken, taken_end, index) == taken_end) return index;
  }
  return -1;
}

}  // namespace SOMA_NAMESPACE::neuroncore

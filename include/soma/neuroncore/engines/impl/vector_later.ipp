#pragma once
// The Vector engine's instructions of NeuronCore-v3 and v4.

#include <soma/neuroncore/engines/vector_engine.hpp>

#include <soma/neuroncore/engines/microscaling.hpp>
#include <soma/numeric/scaling.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE VectorEngine& VectorEngine::range_select(const Tile& dst, const Tile& data, Alu op0,
                                                     const Tile& bound0, Alu op1,
                                                     const Tile& bound1, std::int32_t first,
                                                     const Tile* result, const Rounded& rounded,
                                                     SourceLine source) {
  const CallSite call{"range_select", source};
  core_.check_has(call, Feature::range_select);
  check_same(call, dst, data);
  CoreState::check_floating(call, {"data", data});
  for (const Alu op : {op0, op1})
    if (op != Alu::equal && op != Alu::less && op != Alu::less_equal && op != Alu::greater &&
        op != Alu::greater_equal)
      rule_broken(call, "op", std::string(to_string(op)),
                  "equal, less, less_equal, greater or greater_equal");
  for (const Operand& bound : {Operand{"bound0", bound0}, Operand{"bound1", bound1}}) {
    check_column(call, bound, data);
    check_type(call, bound, DType::fp32);
  }
  const std::int64_t last = std::int64_t{first} + static_cast<std::int64_t>(data.free_size());
  if (first < -(1 << 24) || last > 1 << 24)
    rule_broken(call, "first", std::to_string(first),
                "numbers of elements up to 2^24, exact in fp32");
  static const Tile none;
  if (result != nullptr) check_column(call, {"result", *result}, data);
  const Running running = core_.begin(
      source, Opcode::range_select, lane, {{"data", data}, {"bound0", bound0}, {"bound1", bound1}},
      {{"dst", dst}, {"result", result != nullptr ? *result : none}}, {.operators = {op0, op1}});
  if (core_.dry(dst)) {
    if (result != nullptr) core_.end(*result);
    return *this;
  }
  const PartitionReader reader(core_.kernels, core_.memory_of(data), data);
  const std::vector<float> low = column(bound0), high = column(bound1);
  std::vector<float> largest(data.partitions());
  map(dst, rounded, 3, [&](std::size_t p, float* x, std::size_t count) {
    float *number = x + padded(count), *chosen = number + padded(count);
    reader.copy(p, x);
    for (std::size_t i = 0; i < count; ++i)
      number[i] = static_cast<float>(first + static_cast<std::int32_t>(i));
    core_.kernels.alu_scalar(op0, number, low[p], false, chosen, count);
    core_.kernels.alu_scalar(op1, number, high[p], false, number, count);
    for (std::size_t i = 0; i < count; ++i)
      if (chosen[i] == 0 || number[i] == 0) x[i] = std::numeric_limits<float>::lowest();
    if (result != nullptr) largest[p] = reduce(Alu::maximum, x, count);
    return x;
  });
  core_.end(dst);
  if (result != nullptr) write_column(*result, largest);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::exponential(const Tile& dst, const Tile& src,
                                                    const ScalarOperand& largest,
                                                    const Tile* result, const Rounded& rounded,
                                                    SourceLine source) {
  const CallSite call{"exponential", source};
  core_.check_has(call, Feature::exponential);
  check_same(call, dst, src);
  check_constant(call, "largest", largest);
  if (largest.tile.defined()) {
    check_column(call, {"largest", largest.tile}, src);
    check_type(call, {"largest", largest.tile}, DType::fp32);
  }
  static const Tile none;
  if (result != nullptr) check_column(call, {"result", *result}, src);
  const Running running =
      core_.begin(source, Opcode::exponential, lane, {{"src", src}, {"largest", largest.tile}},
                  {{"dst", dst}, {"result", result != nullptr ? *result : none}});
  if (core_.dry(dst)) {
    if (result != nullptr) core_.end(*result);
    return *this;
  }
  const PartitionReader reader(core_.kernels, core_.memory_of(src), src);
  const std::vector<float> largests = column(largest, src);
  std::vector<float> sums(src.partitions());
  map(dst, rounded, 1, [&](std::size_t p, float* x, std::size_t count) {
    reader.copy(p, x);
    core_.kernels.alu_scalar(Alu::subtract, x, largests[p], false, x, count);
    core_.kernels.activate(Function::exp, x, x, count);
    if (result != nullptr) sums[p] = reduce(Alu::add, x, count);
    return x;
  });
  core_.end(dst);
  if (result != nullptr) write_column(*result, sums);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::rand2(const Tile& dst, const ScalarOperand& low,
                                              const ScalarOperand& high,
                                              const DrawPosition& position, const Rounded& rounded,
                                              SourceLine source) {
  const CallSite call{"rand2", source};
  core_.check_has(call, Feature::rand2);
  core_.check_free(call, {"dst", dst});
  for (const ScalarOperand* bound : {&low, &high}) {
    check_constant(call, bound == &low ? "low" : "high", *bound);
    if (bound->tile.defined())
      check_column(call, {bound == &low ? "low" : "high", bound->tile}, dst);
  }
  if (!low.tile.defined() && !high.tile.defined() && !(low.value < high.value))
    rule_broken(call, "low", text_of(low.value), "below high, " + text_of(high.value));
  const Running running = core_.begin(source, Opcode::rand2, lane,
                                      {{"low", low.tile}, {"high", high.tile}}, {{"dst", dst}});
  if (core_.dry(dst)) return *this;
  const std::vector<float> lows = column(low, dst), highs = column(high, dst);
  map(dst, rounded, 2, [&](std::size_t p, float* x, std::size_t count) {
    auto* words = reinterpret_cast<std::uint32_t*>(x + padded(count));
    core_.kernels.words(position.of_partition(p), count, words);
    for (std::size_t i = 0; i < count; ++i) {
      const float share = static_cast<float>(words[i] >> 8) * 0x1p-24f;
      x[i] = lows[p] + share * (highs[p] - lows[p]);
    }
    return x;
  });
  core_.end(dst);
  return *this;
}

SOMA_INLINE VectorEngine& VectorEngine::quantize_mx(const Tile& dst, const Tile& src,
                                                    const Tile& scales, SourceLine source) {
  const CallSite call{"quantize_mx", source};
  core_.check_has(call, Feature::quantize_mx);
  core_.check_free(call, {"src", src});
  core_.check_free(call, {"dst", dst});
  for (const Operand& operand : {Operand{"src", src}, Operand{"dst", dst}})
    CoreState::check_memory(call, operand, Memory::sbuf, "quantize_mx of the Vector");
  if (src.dtype() != DType::bf16 && src.dtype() != DType::fp16)
    rule_broken(call, {"src", src}, src.describe(), "bf16 or fp16");
  detail::check_packed(call, {"dst", dst});
  CoreState::check_same_size(call, {"src", src}, {"dst", dst});
  detail::check_scales(core_, call, {"scales", scales}, dst);
  const detail::ScaleTiles tiles = detail::scale_tiles(scales, dst);
  const Running running = core_.begin(source, Opcode::quantize_mx, lane, {{"src", src}},
                                      {{"dst", dst},
                                       {"scales", tiles[0]},
                                       {"scales", tiles[1]},
                                       {"scales", tiles[2]},
                                       {"scales", tiles[3]}});
  const auto end = [&] {
    core_.end(dst);
    for (const Tile& tile : tiles)
      if (tile.defined()) core_.end(tile);
    return this;
  };
  if (!core_.options.compute) return *end();
  constexpr std::size_t group = detail::group_partitions;
  const std::size_t count = src.free_size(), packs = dst.dimension(0).size;
  const PartitionReader reader(core_.kernels, core_.sbuf, src);
  static constexpr Rounded nearest{};
  const PartitionWriter writer(core_.kernels, core_.sbuf, dst, nearest, core_.options.overflow);
  std::vector<float> x(group * count), scaled(group * count), scratch(padded(count));
  std::vector<std::uint8_t> codes(packs);
  for (std::size_t p = 0; p < src.partitions(); p += group) {
    for (std::size_t i = 0; i < group; ++i) reader.copy(p + i, &x[i * count]);
    quantize_group(x, packs, dst.format(), scaled, codes);
    for (std::size_t i = 0; i < group; ++i) writer.write(p + i, &scaled[i * count], scratch.data());
    detail::write_scales(core_, tiles[p / detail::quadrant_partitions],
                         p % detail::quadrant_partitions / group, codes);
  }
  return *end();
}

// The rows of eight partitions, divided by the scale of each pack.
SOMA_INLINE void VectorEngine::quantize_group(const std::vector<float>& x, std::size_t packs,
                                              FloatFormat format, std::vector<float>& scaled,
                                              std::vector<std::uint8_t>& codes) const {
  constexpr Scaling rule{.policy = ScalePolicy::current,
                         .granularity = Granularity::group_32,
                         .format = ScaleFormat::mx,
                         .rule = ScaleRule::trn3};
  const std::size_t count = packs * detail::pack_size;
  for (std::size_t j = 0; j < packs; ++j) {
    float amax = 0;
    const auto for_group = [&](const auto& run) {
      for (std::size_t i = 0; i < detail::group_partitions; ++i)
        for (std::size_t e = 0; e < detail::pack_size; ++e)
          run(i * count + j * detail::pack_size + e);
    };
    for_group([&](std::size_t at) {
      amax = (std::max)(amax, std::isfinite(x[at]) ? std::fabs(x[at]) : HUGE_VALF);
    });
    const float scale = scale_for(rule, format, amax);
    codes[j] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(scale) >> 23 & 0xFF);
    const double inverse = 1 / static_cast<double>(scale);  // a power of two: exact
    for_group([&](std::size_t at) {
      scaled[at] = static_cast<float>(static_cast<double>(x[at]) * inverse);
    });
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore

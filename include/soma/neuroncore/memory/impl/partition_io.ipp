#pragma once
// The functions of partition_io.hpp.

#include <soma/neuroncore/memory/partition_io.hpp>

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/tile.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Draw DrawPosition::of_partition(std::size_t p) const {
  Draw result = draw;
  result.index += partition_indices != nullptr ? partition_indices[p] : p * partition_step;
  return result;
}

}  // namespace SOMA_NAMESPACE::neuroncore

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE void scale_by_bias(float* values, std::size_t count, int bias_offset) {
  if (bias_offset == 0) return;
  const float factor = std::ldexp(1.0f, bias_offset);
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE void read_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p, void* to) {
  const std::byte* from = memory.at(tile, p);
  const std::size_t width = tile.width();
  if (tile.adjacent())
    std::memcpy(to, from, tile.free_size() * width);
  else if (width == 1)
    detail::collect(tile, from, static_cast<std::uint8_t*>(to));
  else if (width == 2)
    detail::collect(tile, from, static_cast<std::uint16_t*>(to));
  else
    detail::collect(tile, from, static_cast<std::uint32_t*>(to));
  if (tile.dtype() == DType::boolean)
    for (auto *code = static_cast<std::uint8_t*>(to), *end = code + tile.free_size(); code != end;
         ++code)
      *code = *code != 0;
}

SOMA_INLINE void write_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p,
                             const void* from) {
  std::byte* to = memory.at(tile, p);
  const std::size_t width = tile.width();
  if (tile.adjacent())
    std::memcpy(to, from, tile.free_size() * width);
  else if (width == 1)
    detail::spread(tile, static_cast<const std::uint8_t*>(from), to);
  else if (width == 2)
    detail::spread(tile, static_cast<const std::uint16_t*>(from), to);
  else
    detail::spread(tile, static_cast<const std::uint32_t*>(from), to);
}

SOMA_INLINE PartitionReader::PartitionReader(const EngineKernels& kernels,
                                             const OnChipMemory& memory, const Tile& tile)
    : kernels_(kernels), memory_(memory), tile_(tile), count_(tile.free_size()) {
  if (is_floating(tile.dtype())) codec_ = make_codec_params(tile.format());
  direct_ = tile.held() == DType::fp32 && tile.adjacent() && tile.bias_offset() == 0;
}

SOMA_INLINE const float* PartitionReader::read(std::size_t p, float* buffer) const {
  const std::byte* at = memory_.at(tile_, p);
  if (direct_) return reinterpret_cast<const float*>(at);
  copy(p, buffer);
  return buffer;
}

SOMA_INLINE void PartitionReader::copy(std::size_t p, float* buffer) const {
  const std::byte* at = memory_.at(tile_, p);
  if (tile_.held() == DType::fp32) {
    read_codes(memory_, tile_, p, buffer);
    detail::scale_by_bias(buffer, count_, -tile_.bias_offset());
    return;
  }
  if (is_floating(tile_.dtype()) && tile_.adjacent())
    return kernels_.decode(codec_, at, count_, buffer);
  detail::for_each_element(tile_, [&](std::size_t element, std::ptrdiff_t offset) {
    buffer[element] = one(at + offset * static_cast<std::ptrdiff_t>(size_of(tile_.dtype())));
  });
}

SOMA_INLINE float PartitionReader::one(const std::byte* at) const {
  switch (tile_.dtype()) {
    case DType::int8:
      return static_cast<float>(static_cast<std::int8_t>(*at));
    case DType::uint8:
      return static_cast<float>(static_cast<std::uint8_t>(*at));
    case DType::boolean:
      return *at == std::byte{0} ? 0.0f : 1.0f;
    case DType::int16:
      return detail::integer_as_float<std::int16_t>(at);
    case DType::uint16:
      return detail::integer_as_float<std::uint16_t>(at);
    case DType::int32:
      return detail::integer_as_float<std::int32_t>(at);
    case DType::uint32:
      return detail::integer_as_float<std::uint32_t>(at);
    default:
      break;
  }
  float value;
  kernels_.decode(codec_, at, 1, &value);
  return value;
}

SOMA_INLINE PartitionWriter::PartitionWriter(const EngineKernels& kernels,
                                             const OnChipMemory& memory, const Tile& tile,
                                             const Rounded& rounded, Overflow overflow)
    : kernels_(kernels), memory_(memory), tile_(tile), rounded_(rounded) {
  if (is_floating(tile.dtype())) {
    FloatFormat format = tile.format();
    if (format.bytes() == 1) format.overflow = overflow;
    codec_ = make_codec_params(format, rounded.rounding);
  }
}

SOMA_INLINE void PartitionWriter::write(std::size_t p, const float* values, void* scratch) const {
  const std::size_t count = tile_.free_size();
  if (tile_.held() == DType::fp32 && tile_.bias_offset() == 0)
    return write_codes(memory_, tile_, p, values);
  if (tile_.held() == DType::fp32) {
    auto* scaled = static_cast<float*>(scratch);
    std::copy_n(values, count, scaled);
    detail::scale_by_bias(scaled, count, tile_.bias_offset());
    return write_codes(memory_, tile_, p, scaled);
  }
  if (is_floating(tile_.dtype())) {
    auto* codes = tile_.adjacent() ? memory_.at(tile_, p) : static_cast<std::byte*>(scratch);
    kernels_.encode(codec_, values, count, codes, rounded_.position.of_partition(p));
    if (!tile_.adjacent()) write_codes(memory_, tile_, p, codes);
    return;
  }
  switch (tile_.dtype()) {
    case DType::int8:
      return integers<std::int8_t>(p, values, count, scratch);
    case DType::int16:
      return integers<std::int16_t>(p, values, count, scratch);
    case DType::uint16:
      return integers<std::uint16_t>(p, values, count, scratch);
    case DType::int32:
      return integers<std::int32_t>(p, values, count, scratch);
    case DType::uint32:
      return integers<std::uint32_t>(p, values, count, scratch);
    default:
      return integers<std::uint8_t>(p, values, count, scratch);
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore

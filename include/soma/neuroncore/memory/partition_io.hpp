#pragma once
// Reads the elements of one partition as floats, and writes them back. All engines compute in fp32:
// inputs are widened, results are rounded once (guide: "inputs are cast to FP32 on read, FP32 math,
// cast to the destination's type on write").

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

namespace soma::neuroncore {

// The logical place of a tile's elements in their whole tensor. It is the key of random draws, so
// that a draw depends neither on tiling nor on the order of execution. Element f of partition p
// draws at
//     draw.index + (partition_indices ? partition_indices[p] : p * partition_step) + f.
struct Place {
  Draw draw{};
  std::uint64_t partition_step = 0;
  const std::uint64_t* partition_indices = nullptr;

  Draw of_partition(std::size_t p) const {
    Draw result = draw;
    result.index += partition_indices != nullptr ? partition_indices[p] : p * partition_step;
    return result;
  }
};

// The rounding of results, and their place for stochastic rounding.
struct Rounded {
  Rounding rounding{};
  Place place{};
};

namespace detail {

// Calls each(offset) for each element of a partition, in order; offsets are in elements.
template <class Each>
void for_each_element(const Tile& tile, const Each& each) {
  std::size_t at[Tile::max_dimensions] = {};
  const std::size_t inner = tile.rank() - 1;
  const FreeDimension& last = tile.dimension(inner);
  std::size_t element = 0;
  for (std::size_t left = tile.free_size() / (std::max)(last.size, std::size_t{1}); left != 0;
       --left) {
    std::ptrdiff_t offset = 0;
    for (std::size_t d = 0; d < inner; ++d)
      offset += static_cast<std::ptrdiff_t>(at[d]) * tile.dimension(d).stride;
    for (std::size_t i = 0; i < last.size; ++i, offset += last.stride) each(element++, offset);
    for (std::size_t d = inner; d-- > 0;) {
      if (++at[d] != tile.dimension(d).size) break;
      at[d] = 0;
    }
  }
}

template <class T>
void collect(const Tile& tile, const std::byte* from, T* to) {
  for_each_element(tile, [&](std::size_t element, std::ptrdiff_t offset) {
    std::memcpy(to + element, from + offset * static_cast<std::ptrdiff_t>(sizeof(T)), sizeof(T));
  });
}
template <class T>
void spread(const Tile& tile, const T* from, std::byte* to) {
  for_each_element(tile, [&](std::size_t element, std::ptrdiff_t offset) {
    std::memcpy(to + offset * static_cast<std::ptrdiff_t>(sizeof(T)), from + element, sizeof(T));
  });
}

// Applies the exponent bias of a cFP8 tile to numbers that are held as fp32.
inline void scale_by_bias(float* values, std::size_t count, int bias_offset) {
  if (bias_offset == 0) return;
  const float factor = std::ldexp(1.0f, bias_offset);
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

// Rounds to nearest even and saturates; NaN gives 0, which the documents leave open.
template <class Integer>
Integer to_integer(float value) {
  if (value != value) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  constexpr double low = static_cast<double>((std::numeric_limits<Integer>::min)());
  constexpr double high = static_cast<double>((std::numeric_limits<Integer>::max)());
  return static_cast<Integer>((std::min)((std::max)(rounded, low), high));
}

}  // namespace detail

// The stored bytes of a partition, side by side. A boolean reads as 0 or 1 whatever its byte,
// because arithmetic and Tile::as() do not define it.
inline void read_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p, void* to) {
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
inline void write_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p,
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

// Reads a tile, partition by partition.
class PartitionReader {
 public:
  PartitionReader(const EngineKernels& kernels, const OnChipMemory& memory, const Tile& tile)
      : kernels_(kernels), memory_(memory), tile_(tile), count_(tile.free_size()) {
    if (is_floating(tile.dtype())) codec_ = make_codec_params(tile.format());
    direct_ = tile.held() == DType::fp32 && tile.adjacent() && tile.bias_offset() == 0;
  }
  // Elements of partition p: in place, or in the buffer, which holds free_size() floats.
  const float* read(std::size_t p, float* buffer) const {
    const std::byte* at = memory_.at(tile_, p);
    if (direct_) return reinterpret_cast<const float*>(at);
    copy(p, buffer);
    return buffer;
  }
  // The same, always in the buffer.
  void copy(std::size_t p, float* buffer) const {
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

 private:
  float one(const std::byte* at) const {
    switch (tile_.dtype()) {
      case DType::int8:
        return static_cast<float>(static_cast<std::int8_t>(*at));
      case DType::uint8:
        return static_cast<float>(static_cast<std::uint8_t>(*at));
      case DType::boolean:
        return *at == std::byte{0} ? 0.0f : 1.0f;
      case DType::int32: {
        std::int32_t value;
        std::memcpy(&value, at, sizeof value);
        return static_cast<float>(value);
      }
      default:
        break;
    }
    float value;
    kernels_.decode(codec_, at, 1, &value);
    return value;
  }

  const EngineKernels& kernels_;
  const OnChipMemory& memory_;
  const Tile& tile_;
  CodecParams codec_{};
  std::size_t count_;
  bool direct_;
};

// Writes a tile, partition by partition.
class PartitionWriter {
 public:
  PartitionWriter(const EngineKernels& kernels, const OnChipMemory& memory, const Tile& tile,
                  const Rounded& rounded, Overflow overflow)
      : kernels_(kernels), memory_(memory), tile_(tile), rounded_(rounded) {
    if (is_floating(tile.dtype())) {
      FloatFormat format = tile.format();
      if (format.bytes() == 1) format.overflow = overflow;
      codec_ = make_codec_params(format, rounded.rounding);
    }
  }
  // `values` may be read a few floats beyond its end if it is a padded buffer; `scratch` holds
  // free_size() elements of 4 bytes and is not `values`.
  void write(std::size_t p, const float* values, void* scratch) const {
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
      kernels_.encode(codec_, values, count, codes, rounded_.place.of_partition(p));
      if (!tile_.adjacent()) write_codes(memory_, tile_, p, codes);
      return;
    }
    switch (tile_.dtype()) {
      case DType::int8:
        return integers<std::int8_t>(p, values, count, scratch);
      case DType::int32:
        return integers<std::int32_t>(p, values, count, scratch);
      default:
        return integers<std::uint8_t>(p, values, count, scratch);
    }
  }

 private:
  template <class Integer>
  void integers(std::size_t p, const float* values, std::size_t count, void* scratch) const {
    auto* out = static_cast<Integer*>(scratch);
    for (std::size_t i = 0; i < count; ++i) out[i] = detail::to_integer<Integer>(values[i]);
    write_codes(memory_, tile_, p, out);
  }

  const EngineKernels& kernels_;
  const OnChipMemory& memory_;
  const Tile& tile_;
  const Rounded& rounded_;
  CodecParams codec_{};
};

}  // namespace soma::neuroncore

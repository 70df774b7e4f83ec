#pragma once
// The functions of hbm_rows.hpp.

#include <soma/neuroncore/memory/hbm_rows.hpp>

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE void read_codes(const HbmView& view, std::size_t row, void* codes) {
  const std::size_t width = size_of(view.dtype());
  auto* to = static_cast<std::byte*>(codes);
  if (view.adjacent())
    std::memcpy(to, view.data() + row * view.stride(0) * width, view.row_elements() * width);
  else if (width == 1)
    collect_row<1>(view, row, to);
  else if (width == 2)
    collect_row<2>(view, row, to);
  else if (width == 4)
    collect_row<4>(view, row, to);
  else
    collect_row<8>(view, row, to);
}

SOMA_INLINE void write_codes(const HbmView& view, std::size_t row, const void* codes) {
  const std::size_t width = size_of(view.dtype());
  const auto* from = static_cast<const std::byte*>(codes);
  if (view.adjacent())
    std::memcpy(view.mutable_data() + row * view.stride(0) * width, from,
                view.row_elements() * width);
  else if (width == 1)
    spread_row<1>(view, row, from);
  else if (width == 2)
    spread_row<2>(view, row, from);
  else if (width == 4)
    spread_row<4>(view, row, from);
  else
    spread_row<8>(view, row, from);
}

SOMA_INLINE void write_zeros(const HbmView& view) {
  const std::vector<std::byte> zeros(view.row_elements() * size_of(view.dtype()));
  for (std::size_t row = 0; row < view.rows(); ++row) write_codes(view, row, zeros.data());
}

SOMA_INLINE std::int64_t integer_at(DType dtype, const std::byte* at) {
  const auto get = [at]<class T>(T number) {
    std::memcpy(&number, at, sizeof number);
    return static_cast<std::int64_t>(number);
  };
  switch (dtype) {
    case DType::int64:
      return get(std::int64_t{});
    case DType::int32:
      return get(std::int32_t{});
    case DType::int16:
      return get(std::int16_t{});
    case DType::uint16:
      return get(std::uint16_t{});
    case DType::uint32:
      return get(std::uint32_t{});
    case DType::int8:
      return get(std::int8_t{});
    default:
      return get(std::uint8_t{});
  }
}

SOMA_INLINE void put_integer(DType dtype, std::byte* at, float value) {
  const auto put = [at](auto number) { std::memcpy(at, &number, sizeof number); };
  switch (dtype) {
    case DType::int64:
      return put(std::int64_t{to_integer<std::int32_t>(value)});
    case DType::int32:
      return put(to_integer<std::int32_t>(value));
    case DType::int16:
      return put(to_integer<std::int16_t>(value));
    case DType::uint16:
      return put(to_integer<std::uint16_t>(value));
    case DType::uint32:
      return put(to_integer<std::uint32_t>(value));
    case DType::int8:
      return put(to_integer<std::int8_t>(value));
    case DType::boolean:
      return put(to_integer<std::uint8_t>(value) != 0);
    default:
      return put(to_integer<std::uint8_t>(value));
  }
}

SOMA_INLINE void read_floats(CoreState& core, const HbmView& view, std::size_t row, float* to) {
  const std::size_t count = view.row_elements(), width = size_of(view.dtype());
  if (!is_floating(view.dtype())) {
    for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
      to[element] = static_cast<float>(integer_at(view.dtype(), view.data() + offset * width));
    });
  } else if (view.dtype() == DType::fp32) {
    read_codes(view, row, to);
  } else {
    const CodecParams codec = make_codec_params(format_of(view.dtype()));
    if (view.adjacent())
      return core.kernels.decode(codec, view.data() + row * view.stride(0) * width, count, to);
    std::vector<std::byte> codes(count * width);
    read_codes(view, row, codes.data());
    core.kernels.decode(codec, codes.data(), count, to);
  }
}

SOMA_INLINE void write_floats(CoreState& core, const HbmView& view, std::size_t row,
                              const float* values, void* codes) {
  if (!is_floating(view.dtype())) {
    for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
      put_integer(view.dtype(), view.mutable_data() + offset * size_of(view.dtype()),
                  values[element]);
    });
    return;
  }
  FloatFormat format = format_of(view.dtype());
  if (format.bytes() == 1) format.overflow = core.options.overflow;  // as in tiles
  core.kernels.encode(make_codec_params(format), values, view.row_elements(),
                      static_cast<std::byte*>(codes), Draw{});
  write_codes(view, row, codes);
}

SOMA_INLINE PartitionWriter writer_of(CoreState& core, const Tile& tile) {
  static constexpr Rounded nearest{};
  return PartitionWriter(core.kernels, core.sbuf, tile, nearest, core.options.overflow);
}

SOMA_INLINE void load_row(CoreState& core, const CallSite& call, const PartitionWriter& writer,
                          const Tile& tile, std::size_t p, const HbmView& view, std::size_t row,
                          float* buffer) {
  if (view.dtype() == tile.held() && tile.bias_offset() == 0) {
    read_codes(view, row, buffer);
    neuroncore::write_codes(core.sbuf, tile, p, buffer);
  } else if (view.dtype() == DType::int64 && tile.dtype() == DType::int32) {
    // The vendor's compiler narrows 64-bit integers; in this model these are ids and labels.
    auto* narrow = reinterpret_cast<std::int32_t*>(buffer);
    for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
      const std::int64_t value = integer_at(DType::int64, view.data() + 8 * offset);
      if (value > INT32_MAX || value < INT32_MIN)
        undefined(call, "view", std::to_string(value), "a value that fits 32 bits");
      narrow[element] = static_cast<std::int32_t>(value);
    });
    neuroncore::write_codes(core.sbuf, tile, p, narrow);
  } else {
    read_floats(core, view, row, buffer);
    writer.write(p, buffer, buffer + tile.free_size());
  }
}

SOMA_INLINE void store_row(CoreState& core, const Tile& tile, std::size_t p, const HbmView& view,
                           std::size_t row, float* buffer) {
  if (view.dtype() == tile.held() && tile.bias_offset() == 0) {
    neuroncore::read_codes(core.sbuf, tile, p, buffer);
    write_codes(view, row, buffer);
  } else if (view.dtype() == DType::int64 && tile.dtype() == DType::int32) {
    auto* narrow = reinterpret_cast<std::int32_t*>(buffer);
    neuroncore::read_codes(core.sbuf, tile, p, narrow);
    for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
      const std::int64_t value = narrow[element];
      std::memcpy(view.mutable_data() + 8 * offset, &value, sizeof value);
    });
  } else {
    PartitionReader(core.kernels, core.sbuf, tile).copy(p, buffer);
    write_floats(core, view, row, buffer, buffer + tile.free_size());
  }
}

SOMA_INLINE void copy_tile(CoreState& core, const Tile& dst, const Tile& src) {
  const std::size_t from = src.free_size(), to = dst.free_size(), all = src.partitions() * from;
  if (src.dtype() == dst.dtype() && src.bias_offset() == dst.bias_offset()) {
    const std::size_t width = src.width();
    std::vector<std::byte> codes(all * width);
    for (std::size_t p = 0; p < src.partitions(); ++p)
      neuroncore::read_codes(core.sbuf, src, p, &codes[p * from * width]);
    for (std::size_t p = 0; p < dst.partitions(); ++p)
      neuroncore::write_codes(core.sbuf, dst, p, &codes[p * to * width]);
    return;
  }
  constexpr std::size_t padding = 64;  // the writer may read a few floats beyond a row
  std::vector<float> values(all + padding), scratch(to + padding);
  const PartitionReader reader(core.kernels, core.sbuf, src);
  for (std::size_t p = 0; p < src.partitions(); ++p) reader.copy(p, &values[p * from]);
  const PartitionWriter writer = writer_of(core, dst);
  for (std::size_t p = 0; p < dst.partitions(); ++p)
    writer.write(p, &values[p * to], scratch.data());
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

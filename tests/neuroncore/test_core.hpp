// A core to test with, and elements in and out of its tiles by way of plain loads and stores.
#pragma once

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "support/at_once.hpp"
#include "support/errors.hpp"
#include "support/stored_run.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace soma_test {

namespace nc = soma::neuroncore;

struct TestCore {
  soma::Context context;
  nc::Core core;

  explicit TestCore(const nc::CoreOptions& options = {}, int threads = 1,
                    std::string_view target = {}, const nc::Machine& machine = at_once())
      : context(soma::make_context({.threads = threads, .target = target})),
        core(nc::make_core(context, machine, options)) {}

  // Puts stored elements into a tile, bit for bit.
  void put_codes(const nc::Tile& tile, std::span<const std::byte> codes) {
    const soma::Shape shape{tile.partitions(), tile.free_size()};
    soma::Tensor tensor = soma::Tensor::empty(context, shape, tile.dtype());
    REQUIRE(codes.size() == tensor.bytes());
    std::memcpy(tensor.mutable_raw(), codes.data(), codes.size());
    // A view of the same bytes under the type's own exponent bias.
    core.dma.load(tile.bias_offset() == 0 ? tile : tile.as(soma::DType::uint8).as(tile.dtype()),
                  nc::hbm(tensor));
    core.finish();
  }
  void put(const nc::Tile& tile, std::span<const float> values) {
    put_codes(tile, soma_test::stored(tile.dtype(), values));
  }
  void put_integers(const nc::Tile& tile, std::span<const std::int32_t> values) {
    put_codes(tile, std::as_bytes(values));
  }
  // A new tile of SBUF with those values.
  nc::Tile tile(soma::DType dtype, std::size_t partitions, std::span<const float> values) {
    const nc::Tile tile = core.sbuf.tile(dtype, partitions, values.size() / partitions);
    put(tile, values);
    return tile;
  }
  nc::Tile integers(std::size_t partitions, std::span<const std::int32_t> values) {
    const nc::Tile tile =
        core.sbuf.tile(soma::DType::int32, partitions, values.size() / partitions);
    put_integers(tile, values);
    return tile;
  }

  // The stored elements of a tile in SBUF.
  std::vector<std::byte> codes(const nc::Tile& tile) {
    const soma::Shape shape{tile.partitions(), tile.free_size()};
    const soma::Tensor tensor = soma::Tensor::empty(context, shape, tile.dtype());
    core.dma.store(nc::hbm_target(tensor), tile);
    core.finish();
    return {tensor.raw(), tensor.raw() + tensor.bytes()};
  }
  std::vector<std::int32_t> integers_of(const nc::Tile& tile) {
    const std::vector<std::byte> bytes = codes(tile);
    std::vector<std::int32_t> values(bytes.size() / sizeof(std::int32_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::vector<float> values(const nc::Tile& tile) { return core.values(tile); }
};

// The floating types of tiles.
inline constexpr soma::DType tile_floats[] = {
    soma::DType::fp32,     soma::DType::tf32,     soma::DType::fp16,    soma::DType::bf16,
    soma::DType::fp8_e3m4, soma::DType::fp8_e4m3, soma::DType::fp8_e5m2};

// The value of an element after it was stored in a type and read again.
inline float through(soma::DType dtype, float value) {
  const soma::FloatFormat& format = soma::format_of(dtype);
  return soma::decode(format, soma::encode(format, value));
}

// Numbers from -range to range that are multiples of `step`.
inline std::vector<float> steps(std::size_t count, float range, float step, std::uint64_t seed) {
  std::vector<float> values(count);
  const auto levels = static_cast<std::uint32_t>(2 * range / step) + 1;
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(soma::random_word({.seed = seed}, i) % levels) * step - range;
  return values;
}

inline std::vector<float> counting(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

}  // namespace soma_test

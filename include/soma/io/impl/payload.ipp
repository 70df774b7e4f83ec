#pragma once
// The functions of payload.hpp.

#include <soma/io/payload.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::optional<std::size_t> payload_bytes(std::span<const std::size_t> sizes,
                                                     std::size_t width) {
  constexpr std::size_t most = (std::numeric_limits<std::size_t>::max)();
  std::size_t product = width;
  bool empty = false;
  for (const std::size_t size : sizes) {
    if (size == 0) empty = true;
    if (size > 1 && product > most / size) return std::nullopt;
    product *= size > 1 ? size : 1;
  }
  return empty ? 0 : product;
}

SOMA_INLINE void check_numbers(std::string_view operation, const Tensor& tensor) {
  if (tensor.heap().dry())
    fail(error_id::neuroncore_dry_run, operation, "tensor",
         tensor.describe() + " in the context of a dry run", "numbers that were computed");
}

SOMA_INLINE void write_elements(AtomicFile& file, const Tensor& tensor) {
  for_each_piece(tensor, [&](std::span<const std::byte> bytes) { file.write(bytes); });
}

SOMA_INLINE bool are_booleans(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return static_cast<unsigned>(byte) <= 1; });
}

}  // namespace SOMA_NAMESPACE::detail

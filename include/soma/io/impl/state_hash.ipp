#pragma once
// The functions of state_hash.hpp.

#include <soma/io/state_hash.hpp>

#include <soma/io/payload.hpp>
#include <soma/io/safetensors_dtype.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/state/tensor_source.hpp>

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::uint64_t state_hash(TensorSource& tensors) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  const auto add = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) XXH64_update(&state, bytes.data(), bytes.size());
  };
  std::string head;
  const auto append = [&](const void* number, std::size_t bytes) {
    head.append(static_cast<const char*>(number), bytes);
  };
  const std::span<const StateDict::Entry> entries = tensors.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [name, tensor] = entries[i];
    head.assign(name).push_back('\0');
    head.append(detail::safetensors_type("state_hash", name, tensor).name).push_back('\0');
    const auto rank = static_cast<std::uint32_t>(tensor.rank());
    append(&rank, sizeof rank);
    for (const std::uint64_t size : tensor.shape()) append(&size, sizeof size);
    add(std::as_bytes(std::span(head)));
    detail::for_each_piece(tensors.fetch(i), add);
  }
  return XXH64_digest(&state);
}

SOMA_INLINE std::uint64_t state_hash(const StateDict& tensors) {
  StateSource source(tensors);
  return state_hash(source);
}

}  // namespace SOMA_NAMESPACE

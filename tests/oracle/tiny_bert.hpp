// The inputs of tiny_bert.py once more, and its stored gradients: see README.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace soma_test {

// The generator of "Fast splittable pseudorandom number generators" (OOPSLA 2014), after state x.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  std::uint64_t z = x + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

enum class TinyKind { matrix, head, bias, norm_weight, norm_bias };

constexpr TinyKind tiny_kind(std::string_view name) {
  if (name.ends_with("LayerNorm.weight")) return TinyKind::norm_weight;
  if (name.ends_with("LayerNorm.bias")) return TinyKind::norm_bias;
  if (name.ends_with(".bias")) return TinyKind::bias;
  const bool head = name == "bert.pooler.dense.weight" || name == "classifier.weight";
  return head ? TinyKind::head : TinyKind::matrix;
}

// Element `index` of the parameter that is number `parameter` in ascending byte order of the names.
// Every operation is exact: 20 bits leave room for the 1 of a norm's weight.
constexpr float tiny_weight(std::uint64_t parameter, std::uint64_t index, TinyKind kind) {
  const std::uint64_t hash = splitmix64((parameter << 32) + index);
  const float u = static_cast<float>(hash >> 44) / 1048576.0f - 0.5f;
  switch (kind) {
    case TinyKind::matrix:
      return u * 0.25f;
    case TinyKind::bias:
      return u * 0.0625f;
    case TinyKind::norm_weight:
      return 1.0f + u * 0.125f;
    case TinyKind::head:
    case TinyKind::norm_bias:
      break;
  }
  return u * 0.125f;
}

inline constexpr std::size_t tiny_sequences = 8, tiny_tokens = 71;  // in every step

// Steps count from 0; tokens through all sequences of the step.
constexpr std::size_t tiny_length(std::size_t step, std::size_t sequence) {
  constexpr std::size_t lengths[tiny_sequences] = {5, 1, 24, 9, 2, 16, 3, 11};
  return lengths[(sequence + 3 * step) % tiny_sequences];
}
constexpr std::int32_t tiny_id(std::uint64_t step, std::uint64_t token) {
  return static_cast<std::int32_t>(splitmix64(((64 + step) << 32) + token) % 48);
}
constexpr std::int32_t tiny_label(std::uint64_t step, std::uint64_t sequence) {
  return static_cast<std::int32_t>(splitmix64(((128 + step) << 32) + sequence) % 3);
}

// One parameter's gradient out of the bytes of tiny_bert_gradients.bin, with `offset` and `max_abs`
// from tiny_bert.json. At most half a unit, max_abs / (2^24 - 2), from what was computed.
inline std::vector<double> tiny_gradient(std::span<const unsigned char> file, std::size_t offset,
                                         std::size_t count, double max_abs) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bytes = file.subspan(offset + 3 * i, 3);
    const std::int32_t code = bytes[0] | bytes[1] << 8 | bytes[2] << 16;
    values[i] = (code >= 0x800000 ? code - 0x1000000 : code) / 8388607.0 * max_abs;
  }
  return values;
}

inline constexpr std::uint64_t fnv1a64_start = 0xCBF29CE484222325u;

// Goes on from `hash` over more bytes.
constexpr std::uint64_t fnv1a64(std::span<const unsigned char> bytes,
                                std::uint64_t hash = fnv1a64_start) {
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

// The same over the four bytes of a float, lowest first, whatever the machine's order.
constexpr std::uint64_t fnv1a64(float value, std::uint64_t hash) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8)
    hash = (hash ^ (bits >> shift & 0xFFu)) * 0x100000001B3u;
  return hash;
}

}  // namespace soma_test

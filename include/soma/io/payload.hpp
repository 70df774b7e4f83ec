#pragma once
// Moves elements between a tensor and a file.

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

static_assert(std::endian::native == std::endian::little,
              "files hold little-endian elements, which are taken as they lie");

// The number of bytes of a shape's elements; not set if the strides or the bytes do not fit in 64
// bits.
std::optional<std::size_t> payload_bytes(std::span<const std::size_t> sizes, std::size_t width);

// Calls take(bytes) for the elements of a tensor in row-major order, in pieces.
template <class Take>
void for_each_piece(const Tensor& tensor, Take&& take) {
  const std::size_t width = size_of(tensor.dtype());
  if (tensor.contiguous()) {
    take(std::span(tensor.raw(), tensor.bytes()));
    return;
  }
  const std::size_t columns = tensor.shape().columns();
  const std::size_t step = tensor.strides()[tensor.rank() - 1];
  std::array<std::byte, 4096> piece;
  for_each_row(tensor.shape(), tensor.strides(), tensor.strides(),
               [&](std::size_t row, std::size_t) {
                 const std::byte* from = tensor.raw() + row * width;
                 if (step == 1) return take(std::span(from, columns * width));
                 for (std::size_t done = 0; done < columns;) {
                   const std::size_t count = (std::min)(columns - done, piece.size() / width);
                   for (std::size_t i = 0; i < count; ++i, ++done)
                     std::memcpy(piece.data() + i * width, from + done * step * width, width);
                   take(std::span<const std::byte>(piece.data(), count * width));
                 }
               });
}

// Error neuroncore.dry_run: a dry run has written zeros in place of results to its context's
// tensors.
void check_numbers(std::string_view operation, const Tensor& tensor);

void write_elements(AtomicFile& file, const Tensor& tensor);

// True if every byte is a valid bool: reading any other byte as a bool is undefined behaviour.
bool are_booleans(std::span<const std::byte> bytes);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/payload.ipp>
#endif

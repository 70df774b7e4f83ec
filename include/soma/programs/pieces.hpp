#pragma once
// Inputs piece by piece: rows that stay in SBUF if they fit, and are loaded in pieces if they do
// not, repeated rows, columns of numbers.

#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// fp32 tiles for intermediate values; each is allocated at its first use.
class Scratch {
 public:
  Scratch(Core& core, std::size_t partitions, std::size_t elements)
      : core_(core), partitions_(partitions), elements_(elements) {}
  Tile tile(std::size_t number, std::size_t partitions, std::size_t elements);
  // A tile as large as another one.
  Tile like(std::size_t number, const Tile& other);

 private:
  Core& core_;
  std::size_t partitions_, elements_;
  std::array<Tile, 5> tiles_{};
};

// Every element of an output = value.
void fill(Core& core, const Tensor& output, float value);

// ---- rows

inline constexpr std::size_t longest_whole_row = 2 * piece;

// The columns of a piece: all columns if a row fits.
inline std::size_t piece_columns(std::size_t columns) {
  return columns <= longest_whole_row ? columns : piece;
}
std::size_t row_partitions(std::size_t rows);

// The piece that was read last is not loaded again, so a row of one piece is loaded once for all
// passes.
class RowPieces {
 public:
  RowPieces(Core& core, const DeviceRows& rows);
  void start(std::size_t row, std::size_t count);
  Tile read(std::size_t column, std::size_t columns);

 private:
  Core& core_;
  const DeviceRows& rows_;
  Pair tiles_;
  Tile tile_{};
  std::size_t row_ = 0, count_ = 0, column_ = 0;
};

// A vector (gamma, beta ...) in every partition as fp32, in the same pieces.
class RepeatedRow {
 public:
  RepeatedRow(Core& core, const Tensor& vector, std::size_t partitions);
  bool defined() const;
  Tile read(std::size_t partitions, std::size_t column, std::size_t columns);

 private:
  Core& core_;
  Tensor vector_;
  std::size_t partitions_;
  Tile tiles_[2]{};
  std::size_t turn_ = 0, column_ = 0;
  bool loaded_ = false;
};

// ---- one number for each row

// Elements row and following of a contiguous vector, one to a partition.
HbmView column_of(const HbmView& vector, std::size_t row, std::size_t count);
Tile column_tile(Core& core, std::size_t partitions);

}  // namespace SOMA_NAMESPACE::programs

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/pieces.ipp>
#endif

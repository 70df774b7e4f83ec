#pragma once
// The rows of a parameter as a tree of blocks: rows are halved until a block is small. Ranks that
// keep parts of a parameter can split a sum along this tree, and combine the parts with the same
// bits.

#include <soma/tensor/shape.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// The size of the smallest blocks in elements, unless a single row has more. Small enough that
// hundreds of ranks can share the matrices of a model evenly; the biases of a layer stay whole.
inline constexpr std::size_t row_block_elements = 2048;

// The number of rows of a shape, along its first dimension, and the elements of a row. A shape
// without dimensions is one row.
struct RowShape {
  std::size_t rows, elements;

  explicit RowShape(const Shape& shape)
      : rows(shape.rank() == 0 ? 1 : shape[0]), elements(rows == 0 ? 0 : shape.elements() / rows) {}
};

struct RowBlock {
  std::size_t begin = 0, rows = 0;

  std::size_t end() const { return begin + rows; }
  bool splits(std::size_t row_elements) const {
    return rows > 1 && rows * row_elements > row_block_elements;
  }
  // The lower half has one row more if the number of rows is odd.
  RowBlock lower() const;
  RowBlock upper() const;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/row_blocks.ipp>
#endif

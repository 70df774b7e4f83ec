#pragma once
// The functions of row_blocks.hpp.

#include <soma/autograd/row_blocks.hpp>

#include <soma/tensor/shape.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

SOMA_INLINE RowBlock RowBlock::lower() const { return {begin, rows - rows / 2}; }

SOMA_INLINE RowBlock RowBlock::upper() const { return {end() - rows / 2, rows / 2}; }

}  // namespace SOMA_NAMESPACE

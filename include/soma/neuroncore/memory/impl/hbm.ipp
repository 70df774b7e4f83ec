#pragma once
// The functions of hbm.hpp.

#include <soma/neuroncore/memory/hbm.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE HbmView::HbmView(const Tensor& tensor, bool writable)
    : dtype_(tensor.dtype()), writable_(writable) {
  if (!tensor.defined()) rule_broken("hbm", "tensor", "no tensor", "a tensor with elements");
  data_ = writable ? tensor.mutable_raw() : const_cast<std::byte*>(tensor.raw());
  if (tensor.rank() > max_rank)
    rule_broken("hbm", "tensor", tensor.describe(), "rank 4 or less; reshape it");
  const std::size_t skipped = tensor.rank() < 2 ? 1 : 0;
  rank_ = tensor.rank() == 0 ? 2 : tensor.rank() + skipped;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    sizes_[i + skipped] = tensor.size(i);
    strides_[i + skipped] = tensor.strides()[i];
  }
}

SOMA_INLINE std::size_t HbmView::row_elements() const {
  std::size_t elements = 1;
  for (std::size_t i = 1; i < rank_; ++i) elements *= sizes_[i];
  return elements;
}

SOMA_INLINE bool HbmView::adjacent() const {
  std::size_t step = 1;
  for (std::size_t i = rank_; i-- > 1;) {
    if (sizes_[i] != 1 && strides_[i] != step) return false;
    step *= sizes_[i];
  }
  return true;
}

SOMA_INLINE HbmView HbmView::slice(std::size_t dimension, std::size_t begin,
                                   std::size_t end) const {
  if (dimension >= rank_ || begin > end || end > sizes_[dimension])
    rule_broken("HbmView::slice", "range",
                std::to_string(begin) + " to " + std::to_string(end) + " of dimension " +
                    std::to_string(dimension),
                "within " + describe());
  HbmView part = *this;
  part.data_ += begin * strides_[dimension] * size_of(dtype_);
  part.sizes_[dimension] = end - begin;
  return part;
}

SOMA_INLINE HbmView HbmView::rows(std::size_t begin, std::size_t end) const {
  return slice(0, begin, end);
}

SOMA_INLINE HbmView HbmView::columns(std::size_t begin, std::size_t end) const {
  return slice(rank_ - 1, begin, end);
}

SOMA_INLINE HbmView HbmView::swap(std::size_t a, std::size_t b) const {
  if (a >= rank_ || b >= rank_)
    rule_broken("HbmView::swap", "dimensions", std::to_string(a) + " and " + std::to_string(b),
                "dimensions of " + describe());
  HbmView result = *this;
  std::swap(result.sizes_[a], result.sizes_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

SOMA_INLINE HbmView HbmView::broadcast_rows(std::size_t rows) const {
  if (sizes_[0] != 1) rule_broken("HbmView::broadcast_rows", "view", describe(), "one row");
  HbmView result = *this;
  result.sizes_[0] = rows;
  result.strides_[0] = 0;
  return result;
}

SOMA_INLINE HbmView HbmView::with_rows(std::size_t rows, std::size_t stride) const {
  HbmView result = *this;
  result.sizes_[0] = rows;
  result.strides_[0] = stride;
  return result;
}

SOMA_INLINE HbmView HbmView::pattern(std::size_t offset,
                                     std::span<const HbmDimension> dimensions) const {
  if (dimensions.size() < 2 || dimensions.size() > max_rank)
    rule_broken("HbmView::pattern", "dimensions", std::to_string(dimensions.size()), "2 to 4");
  HbmView result = *this;
  result.data_ += offset * size_of(dtype_);
  result.rank_ = dimensions.size();
  for (std::size_t i = 0; i < result.rank_; ++i) {
    result.sizes_[i] = dimensions[i].size;
    result.strides_[i] = dimensions[i].stride;
  }
  return result;
}

SOMA_INLINE HbmView HbmView::as(DType dtype) const {
  const std::size_t parts = size_of(dtype_) / size_of(dtype), last = rank_ - 1;
  const bool adjacent = sizes_[last] == 1 || strides_[last] == 1;
  if (size_of(dtype_) % size_of(dtype) != 0 || (parts != 1 && !adjacent && rank_ == max_rank))
    rule_broken("HbmView::as", "dtype", std::string(to_string(dtype)),
                "a type of a width that divides that of " + describe() +
                    ", which has room for one more dimension");
  HbmView result = *this;
  result.dtype_ = dtype;
  if (parts == 1) return result;
  for (std::size_t i = 0; i < rank_; ++i) result.strides_[i] *= parts;
  if (adjacent) {
    result.sizes_[last] *= parts;
    result.strides_[last] = 1;
  } else {
    result.sizes_[result.rank_] = parts;
    result.strides_[result.rank_++] = 1;
  }
  return result;
}

SOMA_INLINE HbmView HbmView::flat() const {
  std::size_t elements = 1;
  for (std::size_t i = 0; i < rank_; ++i) elements *= sizes_[i];
  return as_rows(elements);
}

SOMA_INLINE HbmView HbmView::as_rows(std::size_t columns) const {
  std::size_t elements = 1;
  bool dense = true;
  for (std::size_t i = rank_; i-- > 0;) {
    dense = dense && (sizes_[i] == 1 || strides_[i] == elements);
    elements *= sizes_[i];
  }
  if (!dense || columns == 0 || elements % columns != 0)
    rule_broken("HbmView::as_rows", "columns", std::to_string(columns),
                "a divisor of the elements of a contiguous view, " + describe());
  HbmView result = *this;
  result.rank_ = 2;
  result.sizes_ = {elements / columns, columns};
  result.strides_ = {columns, 1};
  return result;
}

SOMA_INLINE Region HbmView::region() const {
  const std::size_t width = size_of(dtype_);
  std::array<Step, max_rank> steps;
  for (std::size_t i = 0; i < rank_; ++i)
    steps[i] = {sizes_[i], static_cast<std::ptrdiff_t>(strides_[i] * width)};
  return {Region::Space::hbm, 0,    1, reinterpret_cast<std::uintptr_t>(data_), width,
          steps.data(),       rank_};
}

SOMA_INLINE std::string HbmView::describe() const {
  std::string text(to_string(dtype_));
  text.append(" HBM [");
  for (std::size_t i = 0; i < rank_; ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(sizes_[i]));
  return text.append("]");
}

SOMA_INLINE HbmView hbm(const Tensor& tensor) { return HbmView(tensor, false); }

SOMA_INLINE HbmView hbm_target(const Tensor& tensor) { return HbmView(tensor, true); }

}  // namespace SOMA_NAMESPACE::neuroncore

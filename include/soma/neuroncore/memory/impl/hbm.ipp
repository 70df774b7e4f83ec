#pragma once
// The functions of hbm.hpp.

#include <soma/neuroncore/memory/hbm.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE HbmView::HbmView(Only, const Tensor& tensor, bool writable, SourceLine source)
    : dtype_(tensor.dtype()), writable_(writable) {
  if (!tensor.defined())
    rule_broken({"hbm", source}, "tensor", "no tensor", "a tensor with elements");
  data_ = writable ? tensor.mutable_raw() : const_cast<std::byte*>(tensor.raw());
  behind_ = extent(tensor);
}

SOMA_INLINE HbmView::HbmView(const Tensor& tensor, bool writable, SourceLine source)
    : HbmView(Only::first, tensor, writable, source) {
  if (tensor.rank() > max_rank)
    rule_broken({"hbm", source}, "tensor", tensor.describe(), "rank 4 or less; reshape it");
  const std::size_t skipped = tensor.rank() < 2 ? 1 : 0;
  rank_ = tensor.rank() == 0 ? 2 : tensor.rank() + skipped;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    sizes_[i + skipped] = tensor.size(i);
    strides_[i + skipped] = tensor.strides()[i];
  }
}

SOMA_INLINE std::size_t HbmView::extent(const Tensor& tensor) {
  if (tensor.elements() == 0) return 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i)
    last += (tensor.size(i) - 1) * tensor.strides()[i];
  return (last + 1) * size_of(tensor.dtype());
}

SOMA_INLINE std::size_t HbmView::row_elements() const {
  std::size_t elements = 1;
  for (std::size_t i = 1; i < rank_; ++i) elements *= sizes_[i];
  return elements;
}

SOMA_INLINE bool HbmView::adjacent() const { return run() == row_elements(); }

SOMA_INLINE std::size_t HbmView::run() const {
  std::size_t run = 1;
  for (std::size_t i = rank_; i-- > 1;) {
    if (sizes_[i] == 1) continue;
    if (strides_[i] != run) break;
    run *= sizes_[i];
  }
  return run;
}

SOMA_INLINE HbmView HbmView::slice(std::size_t dimension, std::size_t begin, std::size_t end,
                                   SourceLine source) const {
  if (dimension >= rank_ || begin > end || end > sizes_[dimension])
    rule_broken({"HbmView::slice", source}, "range",
                std::to_string(begin) + " to " + std::to_string(end) + " of dimension " +
                    std::to_string(dimension),
                "within " + describe());
  HbmView part = *this;
  part.sizes_[dimension] = end - begin;
  if (begin != end) {
    const std::size_t bytes = begin * strides_[dimension] * size_of(dtype_);
    part.data_ += bytes;
    part.behind_ -= bytes;
  }
  return part;
}

SOMA_INLINE HbmView HbmView::rows(std::size_t begin, std::size_t end, SourceLine source) const {
  return slice(0, begin, end, source);
}

SOMA_INLINE HbmView HbmView::columns(std::size_t begin, std::size_t end, SourceLine source) const {
  return slice(rank_ - 1, begin, end, source);
}

SOMA_INLINE HbmView HbmView::swap(std::size_t a, std::size_t b, SourceLine source) const {
  if (a >= rank_ || b >= rank_)
    rule_broken({"HbmView::swap", source}, "dimensions",
                std::to_string(a) + " and " + std::to_string(b), "dimensions of " + describe());
  HbmView result = *this;
  std::swap(result.sizes_[a], result.sizes_[b]);
  std::swap(result.strides_[a], result.strides_[b]);
  return result;
}

SOMA_INLINE HbmView HbmView::broadcast_rows(std::size_t rows, SourceLine source) const {
  if (sizes_[0] != 1)
    rule_broken({"HbmView::broadcast_rows", source}, "view", describe(), "one row");
  HbmView result = *this;
  result.sizes_[0] = rows;
  result.strides_[0] = 0;
  return result;
}

SOMA_INLINE HbmView HbmView::with_rows(std::size_t rows, std::size_t stride,
                                       SourceLine source) const {
  HbmView result = *this;
  result.sizes_[0] = rows;
  result.strides_[0] = stride;
  return result.checked({"HbmView::with_rows", source});
}

SOMA_INLINE HbmView HbmView::pattern(std::span<const PatternStep> steps, std::size_t offset,
                                     SourceLine source) const {
  const CallSite call{"HbmView::pattern", source};
  if (steps.size() < 2 || steps.size() > max_rank)
    rule_broken(call, "pattern", std::to_string(steps.size()) + " dimensions", "2 to 4");
  HbmView result = *this;
  result.rank_ = steps.size();
  for (std::size_t i = 0; i < result.rank_; ++i) {
    if (steps[i].stride < 0)
      rule_broken(call, "pattern", steps[i].text(), "a stride of 0 or more in device memory");
    result.sizes_[i] = steps[i].count;
    result.strides_[i] = static_cast<std::size_t>(steps[i].stride);
  }
  if (offset > behind_ / size_of(dtype_))
    rule_broken(call, "offset", std::to_string(offset) + " elements",
                "within the " + std::to_string(behind_ / size_of(dtype_)) + " from " + describe() +
                    " on to the end of its tensor");
  result.data_ += offset * size_of(dtype_);
  result.behind_ -= offset * size_of(dtype_);
  return result.checked(call);
}

SOMA_INLINE HbmView HbmView::pattern(std::initializer_list<PatternStep> steps, std::size_t offset,
                                     SourceLine source) const {
  return pattern({steps.begin(), steps.size()}, offset, source);
}

SOMA_INLINE HbmView HbmView::as(DType dtype, SourceLine source) const {
  const std::size_t parts = size_of(dtype_) / size_of(dtype), last = rank_ - 1;
  const bool adjacent = sizes_[last] == 1 || strides_[last] == 1;
  if (size_of(dtype_) % size_of(dtype) != 0 || (parts != 1 && !adjacent && rank_ == max_rank))
    rule_broken({"HbmView::as", source}, "dtype", std::string(to_string(dtype)),
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

SOMA_INLINE HbmView HbmView::flat(SourceLine source) const {
  std::size_t elements = 1;
  for (std::size_t i = 0; i < rank_; ++i) elements *= sizes_[i];
  return as_rows(elements, source);
}

SOMA_INLINE HbmView HbmView::as_rows(std::size_t columns, SourceLine source) const {
  std::size_t elements = 1;
  bool dense = true;
  for (std::size_t i = rank_; i-- > 0;) {
    dense = dense && (sizes_[i] == 1 || strides_[i] == elements);
    elements *= sizes_[i];
  }
  if (!dense || columns == 0 || elements % columns != 0)
    rule_broken({"HbmView::as_rows", source}, "columns", std::to_string(columns),
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

SOMA_INLINE bool HbmView::overlaps_itself() const {
  std::array<Step, max_rank> steps;
  for (std::size_t i = 0; i < rank_; ++i)
    steps[i] = {sizes_[i], static_cast<std::ptrdiff_t>(strides_[i])};
  return neuroncore::overlaps_itself(1, {steps.data(), rank_});
}

SOMA_INLINE HbmView HbmView::checked(const CallSite& call) const {
  // Sizes and strides may be anything, so no product of them is trusted before it is compared.
  std::size_t room = behind_ / size_of(dtype_);  // elements
  bool inside = true, any = true;
  for (std::size_t i = 0; i < rank_; ++i) any = any && sizes_[i] != 0;
  if (!any) return *this;
  if (room == 0) inside = false;
  for (std::size_t i = 0, left = room - 1; inside && i < rank_; ++i) {
    if (strides_[i] == 0) continue;
    inside = sizes_[i] - 1 <= left / strides_[i];
    if (inside) left -= (sizes_[i] - 1) * strides_[i];
  }
  if (inside) return *this;
  std::string steps;
  for (std::size_t i = 0; i < rank_; ++i)
    steps.append(i == 0 ? "" : ", ").append(std::to_string(strides_[i]));
  rule_broken(call, "view", describe() + " with elements " + steps + " apart",
              "within its tensor, of which " + std::to_string(room) + " elements are left");
}

SOMA_INLINE std::string HbmView::describe() const {
  std::string text(to_string(dtype_));
  text.append(" HBM [");
  for (std::size_t i = 0; i < rank_; ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(sizes_[i]));
  return text.append("]");
}

SOMA_INLINE HbmView hbm(const Tensor& tensor, SourceLine source) {
  return HbmView(tensor, false, source);
}

SOMA_INLINE HbmView hbm_first(const Tensor& tensor, SourceLine source) {
  return HbmView(HbmView::Only::first, tensor, false, source);
}

SOMA_INLINE HbmView hbm_first_target(const Tensor& tensor, SourceLine source) {
  return HbmView(HbmView::Only::first, tensor, true, source);
}

SOMA_INLINE HbmView hbm_target(const Tensor& tensor, SourceLine source) {
  return HbmView(tensor, true, source);
}

}  // namespace SOMA_NAMESPACE::neuroncore

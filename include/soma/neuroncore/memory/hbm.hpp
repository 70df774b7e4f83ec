#pragma once
// HbmView: a tensor in the accelerator's device memory as a transfer sees it. In this model device
// memory is the memory of the host's tensors; making a view copies nothing.

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/pattern_step.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/source_line.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

// The first dimension maps to partitions; the others (up to three) are the free dimensions.
//
// Whatever the steps by which a view was made, its elements are within the tensor. A function below
// that would leave it is Error neuroncore.rule_broken, which names the line of the call.
class HbmView {
 public:
  static constexpr std::size_t max_rank = 4;

  // A view of a tensor of rank 0 to 4. A vector is one row.
  HbmView(const Tensor& tensor, bool writable, SourceLine source = calling_line());  // NOLINT

  const std::byte* data() const { return data_; }
  std::byte* mutable_data() const { return data_; }
  DType dtype() const { return dtype_; }
  bool writable() const { return writable_; }
  std::size_t rank() const { return rank_; }
  std::size_t size(std::size_t i) const { return sizes_[i]; }
  std::size_t stride(std::size_t i) const { return strides_[i]; }
  std::size_t rows() const { return sizes_[0]; }
  std::size_t row_elements() const;
  // True if the elements of a row are adjacent.
  bool adjacent() const;
  // The number of elements side by side from the first element of a row on.
  std::size_t run() const;

  HbmView slice(std::size_t dimension, std::size_t begin, std::size_t end,
                SourceLine source = calling_line()) const;
  HbmView rows(std::size_t begin, std::size_t end, SourceLine source = calling_line()) const;
  HbmView columns(std::size_t begin, std::size_t end, SourceLine source = calling_line()) const;
  // Exchanges two dimensions.
  HbmView swap(std::size_t a, std::size_t b, SourceLine source = calling_line()) const;
  // One row, read by every partition.
  HbmView broadcast_rows(std::size_t rows, SourceLine source = calling_line()) const;
  // The same row pattern `rows` times, `stride` elements apart.
  HbmView with_rows(std::size_t rows, std::size_t stride, SourceLine source = calling_line()) const;
  // The elements of an access pattern of two to four dimensions, the first of which maps to
  // partitions. It begins `offset` elements after the first element; strides are 0 or more.
  HbmView pattern(std::span<const PatternStep> steps, std::size_t offset = 0,
                  SourceLine source = calling_line()) const;
  HbmView pattern(std::initializer_list<PatternStep> steps, std::size_t offset = 0,
                  SourceLine source = calling_line()) const;
  // The same bytes as elements of another type, of the same width or of a width that divides it.
  HbmView as(DType dtype, SourceLine source = calling_line()) const;
  // The elements of adjacent memory as one row.
  HbmView flat(SourceLine source = calling_line()) const;
  // The elements of adjacent memory as rows of `columns` each.
  HbmView as_rows(std::size_t columns, SourceLine source = calling_line()) const;

  Region region() const;
  // True if two elements of the view share a place.
  bool overlaps_itself() const;
  std::string describe() const;

 private:
  friend HbmView hbm_first(const Tensor& tensor, SourceLine source);
  friend HbmView hbm_first_target(const Tensor& tensor, SourceLine source);
  enum class Only { first };
  HbmView(Only first, const Tensor& tensor, bool writable, SourceLine source);

  // The number of bytes from the first element of a tensor to its last.
  static std::size_t extent(const Tensor& tensor);
  // The view, if it is within the tensor.
  HbmView checked(const CallSite& call) const;

  std::byte* data_ = nullptr;
  DType dtype_;
  bool writable_;
  std::size_t rank_ = 2;
  std::array<std::size_t, max_rank> sizes_{1, 1, 1, 1}, strides_{0, 1, 1, 1};
  std::size_t behind_ = 0;  // bytes of the tensor from data_ on
};

// hbm(): a tensor to read; hbm_target(): a tensor to write. Error tensor.read_only. (A view holds
// no reference: the tensor must live until the core has finished with it.)
HbmView hbm(const Tensor& tensor, SourceLine source = calling_line());
HbmView hbm_target(const Tensor& tensor, SourceLine source = calling_line());
// The same for the first element of a tensor of any rank: pattern() reaches all others from it.
HbmView hbm_first(const Tensor& tensor, SourceLine source = calling_line());
HbmView hbm_first_target(const Tensor& tensor, SourceLine source = calling_line());

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/hbm.ipp>
#endif

#pragma once
// TensorSource: named tensors that need not be in memory at once, such as those of a model whose
// stages are on several ranks. Names, types and shapes are known in advance; elements come one
// tensor at a time.

#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE {

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  TensorSource(const TensorSource&) = delete;
  TensorSource& operator=(const TensorSource&) = delete;

  // Ascending by name. Tensors may be outlines, which have no elements.
  virtual std::span<const StateDict::Entry> entries() const = 0;
  // Tensor i with its elements. Holding on to it holds its memory.
  virtual Tensor fetch(std::size_t i) = 0;

 protected:
  TensorSource() = default;
};

// A source of tensors in memory; the state must outlive it.
class StateSource final : public TensorSource {
 public:
  explicit StateSource(const StateDict& state) : entries_(state.begin(), state.end()) {}

  std::span<const StateDict::Entry> entries() const override { return entries_; }
  Tensor fetch(std::size_t i) override { return entries_[i].second; }

 private:
  std::span<const StateDict::Entry> entries_;
};

}  // namespace SOMA_NAMESPACE

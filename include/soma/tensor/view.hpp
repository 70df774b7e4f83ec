#pragma once
// View<T>: typed access to the elements of a tensor, for code that loops over them. A view does not
// keep the storage alive: the tensor must outlive it.

#include <soma/base/contracts.hpp>
#include <soma/tensor/shape.hpp>

#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE {

template <class T>
struct View {
  T* data = nullptr;
  Shape shape;
  Strides strides{};

  // The element at these indices, one for each dimension. Checked: a wrong index ends the program.
  template <class... Index>
  T& operator()(Index... index) const {
    const std::array<std::size_t, sizeof...(index)> at{static_cast<std::size_t>(index)...};
    SOMA_EXPECTS(at.size() == shape.rank());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      SOMA_EXPECTS(at[i] < shape[i]);
      offset += at[i] * strides[i];
    }
    return data[offset];
  }
};

}  // namespace SOMA_NAMESPACE

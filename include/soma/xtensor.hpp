#pragma once
// The bridge to xtensor: its containers and adaptors as code spans, and spans as adaptors, without
// a copy.
//
// Lifetime: nothing here owns anything. A code span taken from a container is valid while the
// container lives and is not resized; an adaptor over a span is valid while the span's memory is.

#include <soma/kernels/convert.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

// xtensor 0.26 moved its headers into folders.
#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#elif __has_include(<xtensor/xadapt.hpp>)
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#else
#error "soma/xtensor.hpp needs xtensor 0.24.3 or newer (Debian: libxtensor-dev)."
#endif

namespace soma::xtensor {

// A container, adaptor or strided view of float or minifloat, of rank 1 or 2 or more, whose last
// dimension is adjacent and whose leading dimensions lie at one regular distance, as a matrix: rows
// are all but the last dimension. Error xtensor.layout for anything else (column-major, transposed,
// every other column): evaluate it first.
template <class Container>
auto code_span(Container&& container) {
  using Element = std::remove_reference_t<decltype(*container.data())>;
  using Byte = std::conditional_t<std::is_const_v<Element>, const std::byte, std::byte>;
  const std::size_t rank = container.dimension();
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::size_t>(container.shape()[axis]);
  };
  // Strides of extents of 1 are 0 in xtensor and say nothing.
  const auto stride = [&](std::size_t axis) {
    return static_cast<std::ptrdiff_t>(container.strides()[axis]);
  };
  const auto refuse = [](const char* what) {
    fail(error_id::xtensor_layout, "xtensor::code_span", "container", what,
         "row-major with an adjacent last dimension");
  };

  const std::size_t columns = rank == 0 ? 1 : extent(rank - 1);
  if (columns > 1 && stride(rank - 1) != 1) refuse("not adjacent along its last dimension");
  std::size_t rows = 1, row_stride = columns;
  bool strided = false;  // whether row_stride came from the container
  for (std::size_t axis = rank <= 1 ? 0 : rank - 1; axis-- > 0;) {
    const std::size_t count = extent(axis);
    if (count != 1 && rows != 0) {
      if (stride(axis) < 0) refuse("reversed along a dimension");
      const auto distance = static_cast<std::size_t>(stride(axis));
      if (!strided) {
        row_stride = distance;
        strided = true;
      } else if (distance != rows * row_stride) {
        refuse("irregular across its leading dimensions");
      }
    }
    rows *= count;
  }
  auto* first = container.data() + container.data_offset();
  return BasicCodeSpan<Byte>{detail::FormatOf<std::remove_const_t<Element>>::value,
                             reinterpret_cast<Byte*>(first), rows, columns,
                             row_stride * sizeof(Element)};
}

// An xtensor adaptor over memory that stays the caller's.
template <class T>
auto adapt(std::span<T> values, const std::vector<std::size_t>& shape) {
  std::size_t size = 1;
  for (const std::size_t extent : shape) size = checked_multiply(size, extent, "xtensor::adapt");
  if (size != values.size())
    fail(error_id::size_mismatch, "xtensor::adapt", "shape", std::to_string(size) + " elements",
         std::to_string(values.size()) + ", the size of the span");
  return xt::adapt(values.data(), values.size(), xt::no_ownership(), shape);
}

}  // namespace soma::xtensor

#pragma once
// How a program reads its inputs: by transfers, so that the order of instructions sees each access
// and the clock counts it. Numbers that the host needs, to check them or to cut the work by them,
// are inputs that the device has finished with (tests/house/programs.py).

#include <soma/neuroncore/core.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/tensor_rows.hpp>
#include <soma/programs/support.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::programs {

// The type in which transfers move bits: an integer that nothing converts.
constexpr DType plain_type(DType dtype) {
  return size_of(dtype) % 4 == 0 ? DType::int32
         : size_of(dtype) == 2   ? DType::uint16
                                 : DType::uint8;
}

// The tensor itself if it is row-major, else a row-major copy in device memory with the same bits.
// copy_elements() makes the copy, which lives until the launch ends.
Tensor row_major(Core& core, const Tensor& tensor);

// to = from, bit for bit, between tensors of one shape and type with any strides. Transfers move
// the elements; where neighbours of the copy are apart in the source, the Vector engine picks or
// turns them, because an element without a neighbour costs a transfer a piece of its own.
void copy_elements(Core& core, const Tensor& from, const Tensor& to);

// An input whose numbers the host reads. The program lists the input in Program::host_inputs.
class HostNumbers {
 public:
  HostNumbers() = default;  // of no tensor
  // Error neuroncore.rule_broken: an instruction of this launch writes the input.
  HostNumbers(Core& core, const Tensor& input);
  // Row-major.
  const Tensor& tensor() const { return numbers_; }
  // The same as a span. Error tensor.dtype.
  template <class T>
  std::span<const T> numbers() const {
    return numbers_.span<T>();
  }

 private:
  Tensor numbers_;
};

// All dimensions but the last are rows (TensorRows). If the dimensions before the last have no
// common stride, the rows are those of a row_major() copy.
class DeviceRows {
 public:
  DeviceRows(Core& core, const Tensor& tensor);
  const HbmView& view() const { return view_; }
  std::size_t rows() const;
  std::size_t columns() const;
  DType dtype() const;
  // A block of the rows.
  HbmView block(std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) const;
  // An output, row-major.
  static HbmView target(const Tensor& output);

 private:
  static HbmView view_of(const soma::detail::TensorRows& rows);
  soma::detail::TensorRows rows_;
  HbmView view_;
};

// The rows of a tensor with the elements of each row side by side: those of a row_major() copy
// where they are not.
DeviceRows adjacent_rows(Core& core, const Tensor& tensor);

// A contiguous tensor as one row.
HbmView flat_view(const Tensor& contiguous);
HbmView flat_target(const Tensor& contiguous);

}  // namespace SOMA_NAMESPACE::programs

#ifndef SOMA_DISPATCH
#include <soma/programs/impl/inputs.ipp>
#endif

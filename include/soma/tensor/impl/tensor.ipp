#pragma once
// The functions of tensor.hpp.

#include <soma/tensor/tensor.hpp>

#include <soma/runtime/context.hpp>
#include <soma/tensor/dtype.hpp>
#include <soma/tensor/shape.hpp>
#include <soma/tensor/storage.hpp>
#include <soma/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Tensor Tensor::empty(Context& context, const Shape& shape, DType dtype) {
  Tensor tensor;
  const std::size_t bytes = checked_multiply(shape.elements(), size_of(dtype), "Tensor");
  tensor.storage_ = Storage::allocate(context.heap(), bytes);
  tensor.data_ = tensor.storage_.data();
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.strides_ = shape.strides();
  return tensor;
}

SOMA_INLINE Tensor Tensor::zeros(Context& context, const Shape& shape, DType dtype) {
  Tensor tensor = empty(context, shape, dtype);
  if (tensor.bytes() != 0) std::memset(tensor.data_, 0, tensor.bytes());
  return tensor;
}

SOMA_INLINE Tensor Tensor::adopt_bytes(Context& context, std::byte* data, const Shape& shape,
                                       DType dtype, Owner owner, bool writable) {
  return adopt_bytes(context, data, shape, shape.strides(), dtype, std::move(owner), writable);
}

SOMA_INLINE Tensor Tensor::adopt_bytes(Context& context, std::byte* data, const Shape& shape,
                                       const Strides& strides, DType dtype, Owner owner,
                                       bool writable) {
  Tensor tensor;
  std::size_t last = 0;  // the highest offset of an element
  for (std::size_t i = 0; i < shape.rank() && shape.elements() != 0; ++i)
    last = checked_add(last, checked_multiply(shape[i] - 1, strides[i], "Tensor::adopt"),
                       "Tensor::adopt");
  const std::size_t elements = shape.elements() == 0 ? 0 : checked_add(last, 1, "Tensor::adopt");
  const std::size_t bytes = checked_multiply(elements, size_of(dtype), "Tensor::adopt");
  tensor.storage_ = Storage::adopt(context.heap(), data, bytes, std::move(owner), writable);
  tensor.data_ = data;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  std::copy_n(strides.begin(), shape.rank(), tensor.strides_.begin());
  return tensor;
}

SOMA_INLINE const Heap& Tensor::heap() const { return storage_.heap(); }

SOMA_INLINE bool Tensor::defined() const { return static_cast<bool>(storage_); }

SOMA_INLINE std::size_t Tensor::rank() const { return shape_.rank(); }

SOMA_INLINE std::size_t Tensor::elements() const { return shape_.elements(); }

SOMA_INLINE std::size_t Tensor::bytes() const { return elements() * size_of(dtype_); }

SOMA_INLINE std::uint64_t Tensor::version() const { return storage_.version(); }

SOMA_INLINE TensorIdentity Tensor::identity() const {
  return {&storage_.heap(), storage_.id(), storage_.version(), data_, dtype_, shape_, strides_};
}

SOMA_INLINE bool Tensor::contiguous() const {
  std::size_t step = 1;
  for (std::size_t i = rank(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != step) return elements() == 0;
    step *= shape_[i];
  }
  return true;
}

SOMA_INLINE const std::byte* Tensor::raw() const {
  storage_.before_read();
  return data_;
}

SOMA_INLINE std::byte* Tensor::mutable_raw() const {
  check_defined("Tensor");
  storage_.before_write();
  if (!storage_.writable())
    fail(error_id::tensor_read_only, "Tensor", "tensor", describe() + " of constant elements",
         "a writable tensor");
  storage_.advance_version();
  return data_;
}

SOMA_INLINE Tensor Tensor::slice(std::size_t dimension, std::size_t begin, std::size_t end,
                                 std::size_t step) const {
  check_dimension("Tensor::slice", dimension);
  const std::size_t size = shape_[dimension];
  const std::size_t stop = end == to_end ? size : end;
  if (begin > stop || stop > size || step == 0)
    fail(error_id::tensor_index, "Tensor::slice", "range",
         std::to_string(begin) + " to " + std::to_string(stop) + " by " + std::to_string(step),
         "0 <= begin <= end <= " + std::to_string(size) + ", step at least 1");
  Tensor result = *this;
  const std::size_t length = stop - begin;
  result.shape_ = shape_.with(dimension, length / step + (length % step != 0 ? 1 : 0));
  if (result.elements() != 0) result.data_ += begin * strides_[dimension] * size_of(dtype_);
  result.strides_[dimension] *= step;
  return result;
}

SOMA_INLINE Tensor Tensor::select(std::size_t dimension, std::size_t index) const {
  check_dimension("Tensor::select", dimension);
  if (index >= shape_[dimension])
    fail(error_id::tensor_index, "Tensor::select", "index", std::to_string(index),
         "below " + std::to_string(shape_[dimension]));
  Tensor result = *this;
  result.shape_ = shape_.without(dimension);
  if (result.elements() != 0) result.data_ += index * strides_[dimension] * size_of(dtype_);
  std::copy(strides_.begin() + static_cast<std::ptrdiff_t>(dimension) + 1, strides_.end(),
            result.strides_.begin() + static_cast<std::ptrdiff_t>(dimension));
  result.strides_.back() = 0;
  return result;
}

SOMA_INLINE Tensor Tensor::reshape(const Shape& shape) const {
  check_count("Tensor::reshape", elements(), shape);
  check_contiguous("Tensor::reshape");
  Tensor result = *this;
  result.shape_ = shape;
  result.strides_ = shape.strides();
  return result;
}

SOMA_INLINE Tensor Tensor::transpose(std::size_t a, std::size_t b) const {
  check_dimension("Tensor::transpose", a);
  check_dimension("Tensor::transpose", b);
  Tensor result = *this;
  std::swap(result.strides_[a], result.strides_[b]);
  result.shape_ = shape_.exchanged(a, b);
  return result;
}

SOMA_INLINE Tensor Tensor::broadcast_to(const Shape& shape) const {
  if (broadcast(shape_, shape, "Tensor::broadcast_to") != shape)
    fail(error_id::tensor_broadcast, "Tensor::broadcast_to", "shape", to_string(shape),
         "a shape that " + to_string(shape_) + " broadcasts to");
  Tensor result = *this;
  result.shape_ = shape;
  const std::size_t added = shape.rank() - rank();
  for (std::size_t i = 0; i < shape.rank(); ++i)
    result.strides_[i] = i < added || shape_[i - added] != shape[i] ? 0 : strides_[i - added];
  return result;
}

SOMA_INLINE Tensor Tensor::outline() const { return outline(dtype_); }

SOMA_INLINE Tensor Tensor::outline_of(const Shape& shape, DType dtype) {
  Tensor result;
  result.dtype_ = dtype;
  result.shape_ = shape;
  result.strides_ = shape.strides();
  return result;
}

SOMA_INLINE Tensor Tensor::outline(DType dtype) const {
  Tensor result;
  result.dtype_ = dtype;
  result.shape_ = shape_;
  result.strides_ = strides_;
  return result;
}

SOMA_INLINE std::string Tensor::describe() const {
  if (!defined() && rank() == 0) return "no tensor";
  return to_string(shape_) + " " + std::string(to_string(dtype_));
}

SOMA_INLINE void Tensor::check_count(std::string_view operation, std::size_t count,
                                     const Shape& shape) {
  if (count != shape.elements())
    fail(error_id::tensor_size, operation, "elements", std::to_string(count),
         std::to_string(shape.elements()) + " for shape " + to_string(shape));
}

SOMA_INLINE void Tensor::check_dimension(std::string_view operation, std::size_t dimension) const {
  if (dimension >= rank())
    fail(error_id::tensor_index, operation, "dimension", std::to_string(dimension),
         "below the rank of " + describe());
}

SOMA_INLINE void Tensor::check_defined(std::string_view operation) const {
  if (!defined())
    fail(error_id::tensor_undefined, operation, "tensor", describe(), "one with elements");
}

SOMA_INLINE void Tensor::check_contiguous(std::string_view operation) const {
  if (!contiguous())
    fail(error_id::tensor_not_contiguous, operation, "tensor", describe() + " with gaps",
         "row-major elements (make a copy with soma::contiguous)");
}

SOMA_INLINE void Tensor::check_dtype(DType dtype) const {
  check_defined("Tensor");
  if (dtype != dtype_)
    fail(error_id::tensor_dtype, "Tensor", "type", to_string(dtype),
         "the element type of " + describe());
}

SOMA_INLINE void copy(const Tensor& from, const Tensor& to) {
  if (!from.defined() || !to.defined())
    fail(error_id::tensor_undefined, "copy", from.defined() ? "to" : "from", "no tensor",
         "one with elements");
  if (from.shape() != to.shape() || from.dtype() != to.dtype())
    fail(error_id::tensor_shape, "copy", "to", to.describe(), from.describe());
  const std::size_t width = size_of(from.dtype()), columns = from.shape().columns();
  const std::size_t last = from.rank() == 0 ? 0 : from.rank() - 1;
  const std::size_t step_from = from.strides()[last] * width, step_to = to.strides()[last] * width;
  const std::byte* source = from.raw();
  std::byte* target = to.mutable_raw();
  detail::for_each_row(from.shape(), from.strides(), to.strides(),
                       [&](std::size_t from_row, std::size_t to_row) {
                         const std::byte* a = source + from_row * width;
                         std::byte* b = target + to_row * width;
                         if (a == b && step_from == step_to) return;
                         if (columns == 1 || (step_from == width && step_to == width)) {
                           std::memcpy(b, a, columns * width);
                           return;
                         }
                         for (std::size_t i = 0; i < columns; ++i)
                           std::memcpy(b + i * step_to, a + i * step_from, width);
                       });
}

SOMA_INLINE Tensor clone(Context& context, const Tensor& tensor) {
  Tensor result = Tensor::empty(context, tensor.shape(), tensor.dtype());
  copy(tensor, result);
  return result;
}

SOMA_INLINE Tensor contiguous(Context& context, const Tensor& tensor) {
  return tensor.contiguous() ? tensor : clone(context, tensor);
}

}  // namespace SOMA_NAMESPACE

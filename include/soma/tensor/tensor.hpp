#pragma once
// Tensor: shared storage with a shape, a dtype and strides. Copying a tensor shares its elements,
// and so do slice, select, reshape, transpose and broadcast_to: a write through one tensor is
// visible through all.
// Not thread-safe while a thread writes. Memory comes from the context's heap, so a tensor must end
// before its context.

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

namespace soma {

// Stands for "to the end" in slices.
inline constexpr std::size_t to_end = ~std::size_t{0};

class Tensor {
 public:
  // An empty tensor: defined() is false.
  Tensor() = default;

  // New tensors: uninitialised, zero, and copied from an array. Errors base.size_overflow,
  // memory.exhausted; tensor.size: the array has another number of elements.
  static Tensor empty(Context& context, const Shape& shape, DType dtype = DType::fp32) {
    Tensor tensor;
    const std::size_t bytes = checked_multiply(shape.elements(), size_of(dtype), "Tensor");
    tensor.storage_ = Storage::allocate(context.heap(), bytes);
    tensor.data_ = tensor.storage_.data();
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    tensor.strides_ = shape.strides();
    return tensor;
  }
  static Tensor zeros(Context& context, const Shape& shape, DType dtype = DType::fp32) {
    Tensor tensor = empty(context, shape, dtype);
    if (tensor.bytes() != 0) std::memset(tensor.data_, 0, tensor.bytes());
    return tensor;
  }
  template <class T>
  static Tensor from(Context& context, std::span<const T> values, const Shape& shape) {
    check_count("Tensor::from", values.size(), shape);
    Tensor tensor = empty(context, shape, detail::dtype_of_elements<T>());
    if (!values.empty()) std::memcpy(tensor.data_, values.data(), values.size_bytes());
    return tensor;
  }
  template <class T>
  static Tensor from(Context& context, std::initializer_list<T> values, const Shape& shape) {
    return from(context, std::span<const T>(values.begin(), values.size()), shape);
  }
  // Copies any other contiguous container: a std::vector, a std::array.
  template <class Container>
  requires requires(const Container& values) { std::span(std::data(values), std::size(values)); }
  static Tensor from(Context& context, const Container& values, const Shape& shape) {
    using T = std::remove_cvref_t<decltype(*std::data(values))>;
    return from(context, std::span<const T>(std::data(values), std::size(values)), shape);
  }
  template <class T>
  static Tensor full(Context& context, const Shape& shape, T value) {
    Tensor tensor = empty(context, shape, detail::dtype_of_elements<T>());
    std::fill_n(reinterpret_cast<T*>(tensor.data_), shape.elements(), value);
    return tensor;
  }
  template <class T>
  static Tensor scalar(Context& context, T value) {
    return full(context, Shape{}, value);
  }

  // Shares row-major elements of another owner; nothing is copied. `owner` keeps the elements
  // alive. Without an owner, the caller must keep them longer than every tensor that shares them.
  // Constant elements make a read-only tensor.
  template <class T>
  static Tensor adopt(Context& context, std::span<T> values, const Shape& shape, Owner owner = {}) {
    check_count("Tensor::adopt", values.size(), shape);
    auto* bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data()));
    return adopt_bytes(context, bytes, shape, detail::dtype_of_elements<std::remove_const_t<T>>(),
                       std::move(owner), !std::is_const_v<T>);
  }
  // The same for a dtype known at run time; `data` holds shape.elements() elements.
  static Tensor adopt_bytes(Context& context, std::byte* data, const Shape& shape, DType dtype,
                            Owner owner, bool writable) {
    return adopt_bytes(context, data, shape, shape.strides(), dtype, std::move(owner), writable);
  }
  // The same for elements with any strides.
  static Tensor adopt_bytes(Context& context, std::byte* data, const Shape& shape,
                            const Strides& strides, DType dtype, Owner owner, bool writable) {
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

  // The heap that the elements belong to; each context has one heap.
  const Heap& heap() const { return storage_.heap(); }
  bool defined() const { return static_cast<bool>(storage_); }
  const Shape& shape() const { return shape_; }
  std::size_t rank() const { return shape_.rank(); }
  std::size_t size(std::size_t dimension) const { return shape_[dimension]; }  // error tensor.index
  std::size_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return elements() * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  const Strides& strides() const { return strides_; }
  const Storage& storage() const { return storage_; }
  // Error tensor.undefined.
  std::uint64_t version() const { return storage_.version(); }

  // True if elements lie row-major without gaps.
  bool contiguous() const {
    std::size_t step = 1;
    for (std::size_t i = rank(); i-- > 0;) {
      if (shape_[i] != 1 && strides_[i] != step) return elements() == 0;
      step *= shape_[i];
    }
    return true;
  }

  // The first element, to read, or to write, which advances the version. Both first run the calls
  // of a lazy device that are pending for this tensor; calls that are recorded later do not run for
  // a pointer taken earlier. Errors tensor.undefined, tensor.read_only (adopted constants).
  const std::byte* raw() const {
    storage_.before_read();
    return data_;
  }
  std::byte* mutable_raw() const {
    check_defined("Tensor");
    storage_.before_write();
    if (!storage_.writable())
      fail(error_id::tensor_read_only, "Tensor", "tensor", describe() + " of constant elements",
           "a writable tensor");
    storage_.advance_version();
    return data_;
  }
  // The same with a type. Errors tensor.undefined, tensor.dtype: T is not the element type.
  template <class T>
  const T* data() const {
    check_dtype(detail::dtype_of_elements<T>());
    return reinterpret_cast<const T*>(raw());
  }
  // The address of the first element, to compare; no pending call runs. nullptr: not defined().
  const std::byte* address() const { return data_; }
  template <class T>
  T* mutable_data() const {
    check_dtype(detail::dtype_of_elements<T>());
    return reinterpret_cast<T*>(mutable_raw());
  }
  // All elements, row-major. Errors tensor.dtype, tensor.not_contiguous.
  template <class T>
  std::span<const T> span() const {
    check_contiguous("Tensor::span");
    return {data<T>(), elements()};
  }
  template <class T>
  std::span<T> mutable_span() const {
    check_contiguous("Tensor::mutable_span");
    return {mutable_data<T>(), elements()};
  }
  template <class T>
  View<const T> view() const {
    return {data<T>(), shape_, strides_};
  }
  template <class T>
  View<T> mutable_view() const {
    return {mutable_data<T>(), shape_, strides_};
  }
  // The element of a tensor with exactly one element. Errors tensor.dtype, tensor.size.
  template <class T>
  T item() const {
    if (elements() != 1)
      fail(error_id::tensor_size, "Tensor::item", "tensor", describe(), "one of one element");
    return *data<T>();
  }

  // A view of elements begin, begin + step ... below end of a dimension. Error tensor.index.
  Tensor slice(std::size_t dimension, std::size_t begin, std::size_t end = to_end,
               std::size_t step = 1) const {
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
  // A view without that dimension, at one index of it. Error tensor.index.
  Tensor select(std::size_t dimension, std::size_t index) const {
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
  // A view with another shape of the same number of elements. It never copies. Errors tensor.size,
  // tensor.not_contiguous.
  Tensor reshape(const Shape& shape) const {
    check_count("Tensor::reshape", elements(), shape);
    check_contiguous("Tensor::reshape");
    Tensor result = *this;
    result.shape_ = shape;
    result.strides_ = shape.strides();
    return result;
  }
  // A view with two dimensions exchanged. Error tensor.index.
  Tensor transpose(std::size_t a, std::size_t b) const {
    check_dimension("Tensor::transpose", a);
    check_dimension("Tensor::transpose", b);
    Tensor result = *this;
    std::swap(result.strides_[a], result.strides_[b]);
    result.shape_ = shape_.exchanged(a, b);
    return result;
  }
  // A view repeated along dimensions of size 1 and new leading dimensions, as in NumPy. Only read
  // the result: its elements share memory. Error tensor.broadcast.
  Tensor broadcast_to(const Shape& shape) const {
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

  // Shape and dtype without elements: the remains of a tensor whose elements are not needed.
  Tensor outline() const { return outline(dtype_); }
  static Tensor outline_of(const Shape& shape, DType dtype) {
    Tensor result;
    result.dtype_ = dtype;
    result.shape_ = shape;
    result.strides_ = shape.strides();
    return result;
  }
  // The outline of a tensor with another type.
  Tensor outline(DType dtype) const {
    Tensor result;
    result.dtype_ = dtype;
    result.shape_ = shape_;
    result.strides_ = strides_;
    return result;
  }

  // "[2, 3] fp32"
  std::string describe() const {
    if (!defined() && rank() == 0) return "no tensor";
    return to_string(shape_) + " " + std::string(to_string(dtype_));
  }

 private:
  static void check_count(std::string_view operation, std::size_t count, const Shape& shape) {
    if (count != shape.elements())
      fail(error_id::tensor_size, operation, "elements", std::to_string(count),
           std::to_string(shape.elements()) + " for shape " + to_string(shape));
  }
  void check_dimension(std::string_view operation, std::size_t dimension) const {
    if (dimension >= rank())
      fail(error_id::tensor_index, operation, "dimension", std::to_string(dimension),
           "below the rank of " + describe());
  }
  void check_defined(std::string_view operation) const {
    if (!defined())
      fail(error_id::tensor_undefined, operation, "tensor", describe(), "one with elements");
  }
  void check_contiguous(std::string_view operation) const {
    if (!contiguous())
      fail(error_id::tensor_not_contiguous, operation, "tensor", describe() + " with gaps",
           "row-major elements (make a copy with soma::contiguous)");
  }
  void check_dtype(DType dtype) const {
    check_defined("Tensor");
    if (dtype != dtype_)
      fail(error_id::tensor_dtype, "Tensor", "type", to_string(dtype),
           "the element type of " + describe());
  }

  Storage storage_;
  std::byte* data_ = nullptr;
  DType dtype_ = DType::fp32;
  Shape shape_;
  Strides strides_{};
};

namespace detail {

// Calls row(offset_a, offset_b) for each row along the last dimension; the arguments are element
// offsets into two tensors of that shape.
template <class Row>
void for_each_row(const Shape& shape, const Strides& a, const Strides& b, Row&& row) {
  if (shape.elements() == 0) return;
  std::array<std::size_t, max_rank> index{};
  const std::size_t outer = shape.rank() == 0 ? 0 : shape.rank() - 1;
  for (std::size_t left = shape.rows(); left-- > 0;) {
    std::size_t offset_a = 0, offset_b = 0;
    for (std::size_t i = 0; i < outer; ++i) {
      offset_a += index[i] * a[i];
      offset_b += index[i] * b[i];
    }
    row(offset_a, offset_b);
    for (std::size_t i = outer; i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace detail

// Copies elements into a tensor of the same shape and dtype; both may have any strides. The two
// share no bytes, or are the same elements in the same order. Errors tensor.undefined,
// tensor.shape, tensor.read_only.
inline void copy(const Tensor& from, const Tensor& to) {
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

// A row-major copy with a storage of its own. Error tensor.undefined.
inline Tensor clone(Context& context, const Tensor& tensor) {
  Tensor result = Tensor::empty(context, tensor.shape(), tensor.dtype());
  copy(tensor, result);
  return result;
}

// The tensor itself if its elements lie row-major, else a copy.
inline Tensor contiguous(Context& context, const Tensor& tensor) {
  return tensor.contiguous() ? tensor : clone(context, tensor);
}

}  // namespace soma

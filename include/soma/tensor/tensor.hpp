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

namespace SOMA_NAMESPACE {

// Stands for "to the end" in slices.
inline constexpr std::size_t to_end = ~std::size_t{0};

// Which elements a tensor has, and since which write: what a memory of results knows their source
// by. Addresses and versions return, ids do not, so a memory that outlives its source never takes
// another tensor for it. The default is the identity of no tensor.
struct TensorIdentity {
  const Heap* heap = nullptr;
  std::uint64_t storage = 0, version = 0;
  const std::byte* first = nullptr;
  DType dtype = DType::fp32;
  Shape shape{};
  Strides strides{};
  friend bool operator==(const TensorIdentity&, const TensorIdentity&) = default;
};

class Tensor {
 public:
  // An empty tensor: defined() is false.
  Tensor() = default;

  // New tensors: uninitialised, zero, and copied from an array. Errors base.size_overflow,
  // memory.exhausted; tensor.size: the array has another number of elements.
  static Tensor empty(Context& context, const Shape& shape, DType dtype = DType::fp32);
  static Tensor zeros(Context& context, const Shape& shape, DType dtype = DType::fp32);
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
                            Owner owner, bool writable);
  // The same for elements with any strides.
  static Tensor adopt_bytes(Context& context, std::byte* data, const Shape& shape,
                            const Strides& strides, DType dtype, Owner owner, bool writable);

  // The heap that the elements belong to; each context has one heap.
  const Heap& heap() const;
  bool defined() const;
  const Shape& shape() const { return shape_; }
  std::size_t rank() const;
  std::size_t size(std::size_t dimension) const { return shape_[dimension]; }  // error tensor.index
  std::size_t elements() const;
  std::size_t bytes() const;
  DType dtype() const { return dtype_; }
  const Strides& strides() const { return strides_; }
  const Storage& storage() const { return storage_; }
  // Error tensor.undefined.
  std::uint64_t version() const;
  // No pending call runs. Error tensor.undefined.
  TensorIdentity identity() const;

  // True if elements lie row-major without gaps.
  bool contiguous() const;

  // The first element, to read, or to write, which advances the version. Both first run the calls
  // of a lazy device that are pending for this tensor; calls that are recorded later do not run for
  // a pointer taken earlier. Errors tensor.undefined, tensor.read_only (adopted constants).
  const std::byte* raw() const;
  std::byte* mutable_raw() const;
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
               std::size_t step = 1) const;
  // A view without that dimension, at one index of it. Error tensor.index.
  Tensor select(std::size_t dimension, std::size_t index) const;
  // A view with another shape of the same number of elements. It never copies. Errors tensor.size,
  // tensor.not_contiguous.
  Tensor reshape(const Shape& shape) const;
  // A view with two dimensions exchanged. Error tensor.index.
  Tensor transpose(std::size_t a, std::size_t b) const;
  // A view repeated along dimensions of size 1 and new leading dimensions, as in NumPy. Only read
  // the result: its elements share memory. Error tensor.broadcast.
  Tensor broadcast_to(const Shape& shape) const;

  // Shape and dtype without elements: the remains of a tensor whose elements are not needed.
  Tensor outline() const;
  static Tensor outline_of(const Shape& shape, DType dtype);
  // The outline of a tensor with another type.
  Tensor outline(DType dtype) const;

  // "[2, 3] fp32"
  std::string describe() const;

 private:
  static void check_count(std::string_view operation, std::size_t count, const Shape& shape);
  void check_dimension(std::string_view operation, std::size_t dimension) const;
  void check_defined(std::string_view operation) const;
  void check_contiguous(std::string_view operation) const;
  void check_dtype(DType dtype) const;

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
void copy(const Tensor& from, const Tensor& to);

// A row-major copy with a storage of its own. Error tensor.undefined.
Tensor clone(Context& context, const Tensor& tensor);

// The tensor itself if its elements lie row-major, else a copy.
Tensor contiguous(Context& context, const Tensor& tensor);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/tensor.ipp>
#endif

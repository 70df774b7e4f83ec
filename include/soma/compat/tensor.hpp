#pragma once
// Tensor: a handle of a tensor in device memory, and the functions that make tensors. A handle is
// valid only during the call of the kernel in which it was made.

#include <soma/compat/accessors.hpp>
#include <soma/compat/array_ref.hpp>
#include <soma/compat/scalar_types.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace soma_compat {
inline namespace v2 {

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : record_(other.record_) {
    if (record_ != nullptr) ++record_->references;
  }
  Tensor(Tensor&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Tensor& operator=(const Tensor& other) & {
    Tensor copy(other);
    std::swap(record_, copy.record_);
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~Tensor() {
    if (record_ != nullptr && --record_->references == 0 && detail::current != nullptr)
      detail::current->services->release(detail::current, record_);
  }

  bool defined() const { return record_ != nullptr; }
  IntArrayRef sizes() const { return {record().sizes, static_cast<std::size_t>(record().rank)}; }
  // Negative dimensions count from the end.
  std::int64_t size(std::int64_t dimension) const {
    const std::int64_t rank = record().rank;
    if (dimension < -rank || dimension >= rank)
      detail::refuse("size", "a dimension beyond the rank of the tensor",
                     "a dimension of the tensor");
    return record().sizes[dimension < 0 ? dimension + rank : dimension];
  }
  std::int64_t dim() const { return record().rank; }
  std::int64_t ndimension() const { return record().rank; }
  std::int64_t numel() const { return record().elements; }
  ScalarType scalar_type() const { return static_cast<ScalarType>(record().dtype); }
  ScalarType dtype() const { return scalar_type(); }
  TensorOptions options() const { return scalar_type(); }
  bool is_contiguous() const { return true; }

  template <class T, std::size_t N>
  TensorAccessor<T, N, true> accessor() const& {
    open<T, N>(0);
    return {record_, 0};
  }
  template <class T, std::size_t N>
  TensorAccessor<T, N, false> accessor() & {
    open<T, N>(1);
    return {record_, 0};
  }
  template <class T>
  TensorReadStreamAccessor<T> read_stream_accessor() const& {
    return TensorReadStreamAccessor<T>(&record());
  }
  template <class T>
  TensorWriteStreamAccessor<T> write_stream_accessor() & {
    return TensorWriteStreamAccessor<T>(&record());
  }
  TensorTcmAccessor<true> tcm_accessor() const& { return TensorTcmAccessor<true>(&record()); }
  TensorTcmAccessor<false> tcm_accessor() & { return TensorTcmAccessor<false>(&record()); }

  CoherencyEnforcer::Policy get_accessor_coherence_policy() const {
    return static_cast<CoherencyEnforcer::Policy>(record().coherence);
  }
  void set_accessor_coherence_policy(CoherencyEnforcer::Policy policy) const {
    record().coherence = policy;
  }
  const Tensor& fill_(const Scalar& value) const { return fill(value), *this; }
  Tensor& fill_(const Scalar& value) { return fill(value), *this; }

  // For the functions of this folder.
  static Tensor adopt(soma_processor_tensor* record) {
    Tensor tensor;
    tensor.record_ = detail::expect(record);
    return tensor;
  }
  static Tensor share(soma_processor_tensor* record) {
    ++record->references;
    return adopt(record);
  }
  soma_processor_tensor* give() { return std::exchange(record_, nullptr); }
  soma_processor_tensor& record() const {
    if (record_ == nullptr) detail::refuse("tensor", "not defined", "a defined tensor");
    return *record_;
  }
  soma_processor_operand operand() const { return {&record(), 0, 0, 0}; }

 private:
  template <class T, std::size_t N>
  void open(int writes) const {
    detail::expect(detail::services().open_elements(&detail::processor(), &record(),
                                                    detail::dtype_of<T>(),
                                                    static_cast<std::int32_t>(N), writes));
  }
  void fill(const Scalar& value) const {
    const soma_processor_operand operand = value.operand();
    detail::expect(detail::services().fill(&detail::processor(), &record(), &operand));
  }

  soma_processor_tensor* record_ = nullptr;
};

// ---- new tensors. The element type is required.

inline Tensor empty(IntArrayRef size, TensorOptions options) {
  if (!options.has_dtype()) detail::refuse("a new tensor", "without a type", "a dtype");
  return Tensor::adopt(
      detail::services().make(&detail::processor(), static_cast<std::int32_t>(options.dtype()),
                              static_cast<std::int32_t>(size.size()), size.data()));
}
inline Tensor full(IntArrayRef size, const Scalar& fill_value, TensorOptions options) {
  Tensor tensor = empty(size, options);
  tensor.fill_(fill_value);
  return tensor;
}
inline Tensor zeros(IntArrayRef size, TensorOptions options) { return full(size, 0, options); }
inline Tensor ones(IntArrayRef size, TensorOptions options) { return full(size, 1, options); }

inline Tensor eye(std::int64_t n, std::int64_t m, TensorOptions options) {
  Tensor tensor = zeros({n, m}, options);
  if (tensor.record().data == nullptr) return tensor;  // a shape function gets no memory
  soma_processor_tensor& record = tensor.record();
  const auto put = [&](auto one) {
    auto* elements = static_cast<decltype(one)*>(record.data);
    for (std::int64_t i = 0; i < n && i < m; ++i) elements[i * m + i] = one;
    record.element_accesses += static_cast<std::uint64_t>(n < m ? n : m);
  };
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      put(1.0f);
      break;
    case ScalarType::Half:
      put(Half(1.0f));
      break;
    case ScalarType::BFloat16:
      put(BFloat16(1.0f));
      break;
    case ScalarType::Int:
      put(std::int32_t{1});
      break;
    case ScalarType::Short:
      put(std::int16_t{1});
      break;
    default:
      put(std::int8_t{1});
      break;
  }
  return tensor;
}
inline Tensor eye(std::int64_t n, TensorOptions options) { return eye(n, n, options); }

// ---- the processor

// The operator's output: the elements written there are the result, and the kernel's return value
// is ignored.
inline Tensor get_dst_tensor() {
  return Tensor::adopt(detail::services().output(&detail::processor()));
}
// This processor's number, below get_cpu_count(), which is 1 unless the library is a multicore one.
inline std::uint32_t get_cpu_id() { return detail::processor().id; }
inline std::uint32_t get_cpu_count() { return detail::processor().count; }

namespace neuron {

// nullptr if the pool of 16 KB, of which each open stream takes 4 KB, has no room.
inline void* tcm_malloc(std::size_t nbytes) {
  soma_processor& processor = detail::processor();
  void* pointer = processor.services->pool_allocate(&processor, nbytes);
  if (pointer == nullptr && processor.failed != 0) detail::stop();
  return pointer;
}
inline void tcm_free(void* ptr) {
  detail::expect(detail::services().pool_free(&detail::processor(), ptr));
}

}  // namespace neuron

}  // namespace v2
}  // namespace soma_compat

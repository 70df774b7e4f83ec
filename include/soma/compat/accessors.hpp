#pragma once
// Accessors: a kernel's access to the elements of a tensor.

#include <soma/compat/array_ref.hpp>
#include <soma/compat/scalar_types.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace soma_compat {
inline namespace v2 {

// The reaction to accessors of one tensor that may not see each other's writes.
class CoherencyEnforcer {
 public:
  enum Policy {
    COHERENT = SOMA_COHERENT,
    INCOHERENT_VERBOSE = SOMA_INCOHERENT_VERBOSE,
    INCOHERENT_QUIET = SOMA_INCOHERENT_QUIET
  };
};

// Takes one index after the other; the last index gives a reference, and counts the access.
template <class T, std::size_t N, bool read_only = false>
class TensorAccessor {
 public:
  static_assert(N >= 1 && N <= SOMA_PLUGIN_MAX_RANK, "tensors have 1 to 8 dimensions here");
  using Element = std::conditional_t<read_only, const T, T>;
  using Result =
      std::conditional_t<N == 1, Element&, TensorAccessor<T, N == 1 ? 1 : N - 1, read_only>>;

  TensorAccessor(soma_processor_tensor* tensor, std::int64_t offset)
      : tensor_(tensor), offset_(offset) {}

  Result operator[](std::int64_t index) const {
    const std::int32_t dimension = tensor_->rank - static_cast<std::int32_t>(N);
    if (index < 0 || index >= tensor_->sizes[dimension]) bad_index(dimension, index);
    const std::int64_t at = offset_ * tensor_->sizes[dimension] + index;
    if constexpr (N == 1) {
      if (tensor_->open_streams != 0) incoherent();
      ++tensor_->element_accesses;
      if constexpr (!read_only)
        if (tensor_->written != nullptr) tensor_->written[at] = 1;
      return static_cast<Element*>(tensor_->data)[at];
    } else {
      return {tensor_, at};
    }
  }
  std::int64_t size(std::int64_t dimension) const {
    return sizes().at(static_cast<std::size_t>(dimension));
  }
  IntArrayRef sizes() const {
    return {tensor_->sizes + tensor_->rank - static_cast<std::int32_t>(N), N};
  }

 private:
  [[noreturn, gnu::cold, gnu::noinline]] void bad_index(std::int32_t dimension,
                                                        std::int64_t index) const {
    detail::services().bad_index(&detail::processor(), tensor_, dimension, index);
    detail::stop();
  }
  [[gnu::cold, gnu::noinline]] void incoherent() const {
    detail::expect(detail::services().incoherent(&detail::processor(), tensor_));
  }

  soma_processor_tensor* tensor_;
  std::int64_t offset_;  // in units of what the remaining dimensions span
};

namespace detail {

template <class T>
class Stream {
 public:
  Stream(soma_processor_tensor* tensor, bool writes)
      : processor_(&processor()),
        stream_(expect(services().open_stream(processor_, tensor, dtype_of<T>(), writes ? 1 : 0))) {
  }
  Stream(Stream&& other) noexcept
      : processor_(other.processor_), stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(processor_, other.processor_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) processor_->services->end_stream(processor_, stream_);
  }
  unsigned char* element() {
    if (stream_->next == stream_->end) expect(processor_->services->advance(processor_, stream_));
    unsigned char* at = stream_->next;
    stream_->next += sizeof(T);
    return at;
  }
  int close() {
    expect(processor_->services->close_stream(processor_, stream_));
    return 0;
  }

 private:
  soma_processor* processor_;
  soma_processor_stream* stream_;
};

}  // namespace detail

template <class T>
class TensorReadStreamAccessor {
 public:
  explicit TensorReadStreamAccessor(soma_processor_tensor* tensor) : stream_(tensor, false) {}
  T read() {
    T value;
    std::memcpy(&value, stream_.element(), sizeof value);
    return value;
  }
  int close() { return stream_.close(); }

 private:
  detail::Stream<T> stream_;
};

// Written elements are in the tensor once the stream is closed or destroyed.
template <class T>
class TensorWriteStreamAccessor {
 public:
  explicit TensorWriteStreamAccessor(soma_processor_tensor* tensor) : stream_(tensor, true) {}
  void write(T value) { std::memcpy(stream_.element(), &value, sizeof value); }
  int close() { return stream_.close(); }

 private:
  detail::Stream<T> stream_;
};

// Copies between a tensor, seen as one dimension, and the processor's local memory.
template <bool read_only>
class TensorTcmAccessor {
 public:
  explicit TensorTcmAccessor(soma_processor_tensor* tensor) : tensor_(tensor) {}
  template <class T>
  void tensor_to_tcm(T* tcm_ptr, std::size_t tensor_offset, std::size_t num_elem) const {
    copy(tcm_ptr, tensor_offset, num_elem, 0);
  }
  template <class T>
  void tcm_to_tensor(T* tcm_ptr, std::size_t tensor_offset, std::size_t num_elem) const {
    static_assert(!read_only || detail::dependent_false<T>,
                  "the accessor of a const tensor only reads");
    copy(tcm_ptr, tensor_offset, num_elem, 1);
  }

 private:
  template <class T>
  void copy(T* local, std::size_t first, std::size_t count, int to_tensor) const {
    detail::expect(detail::services().copy(&detail::processor(), tensor_, detail::dtype_of<T>(),
                                           const_cast<std::remove_const_t<T>*>(local), first, count,
                                           to_tensor));
  }
  soma_processor_tensor* tensor_;
};

}  // namespace v2
}  // namespace soma_compat

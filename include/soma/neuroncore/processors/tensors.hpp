#pragma once
// The objects of a processor's kernel: tensors, streams, blocks of local memory. And the record of
// a tensor's touched elements.

#include <soma/plugin.h>
#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/machine.hpp>
#include <soma/tensor/storage.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace soma::neuroncore {

struct ElementRange {
  std::uint64_t begin = 0, end = 0;
};

// Adjoining ranges are merged.
class TouchedElements {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return;
    if (!ranges_.empty() && ranges_.back().end == begin)
      ranges_.back().end = end;
    else
      ranges_.push_back({begin, end});
  }
  const std::vector<ElementRange>& ranges() const { return ranges_; }

 private:
  std::vector<ElementRange> ranges_;
};

// The types in the vendor's documentation.
constexpr bool processors_have(DType dtype) {
  constexpr std::uint32_t known = dtype_bit(DType::fp32) | dtype_bit(DType::bf16) |
                                  dtype_bit(DType::fp16) | dtype_bit(DType::int32) |
                                  dtype_bit(DType::int8) | dtype_bit(DType::int16) |
                                  dtype_bit(DType::uint8);
  return (known & dtype_bit(dtype)) != 0;
}
inline constexpr std::string_view processor_types = "one of fp32 bf16 fp16 int32 int8 int16 uint8";

inline std::string describe(std::span<const std::int64_t> sizes, std::int32_t dtype) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(sizes[i]));
  text.append("] ");
  return text.append(to_string(static_cast<DType>(dtype)));
}

// Error neuroncore.rule_broken: a tensor that no operator may have ("Library Limitations").
inline void check_processor_tensor(std::string_view operation, std::string_view argument,
                                   std::int32_t dtype, std::span<const std::int64_t> sizes) {
  if (dtype < 0 || dtype >= static_cast<std::int32_t>(dtypes.size()) ||
      !processors_have(static_cast<DType>(dtype)))
    rule_broken(operation, argument,
                dtype < 0 || dtype >= static_cast<std::int32_t>(dtypes.size())
                    ? "of type number " + std::to_string(dtype)
                    : describe(sizes, dtype),
                processor_types);
  constexpr std::int64_t most_of_many = 65535, most_of_few = 4294967295;
  constexpr std::size_t few = 4;
  if (sizes.size() > max_rank)
    rule_broken(operation, argument, "of rank " + std::to_string(sizes.size()), "at most 8");
  const std::int64_t most = sizes.size() > few ? most_of_many : most_of_few;
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > most)
      rule_broken(operation, argument, describe(sizes, dtype),
                  "up to 4 dimensions of at most 4294967295 elements, or up to 8 of at most 65535");
    if (size != 0 && elements > (std::uint64_t{1} << 62) / static_cast<std::uint64_t>(size))
      rule_broken(operation, argument, describe(sizes, dtype), "fewer than 2^62 elements");
    elements *= static_cast<std::uint64_t>(size);
  }
}

enum class TensorRole : std::uint8_t { input, output, made };

struct ProcessorTensor : soma_processor_tensor {
  ProcessorTensor() : soma_processor_tensor{} {}
  ProcessorTensor(const ProcessorTensor&) = delete;
  ProcessorTensor& operator=(const ProcessorTensor&) = delete;

  TensorRole role = TensorRole::made;
  std::size_t number = 0;  // the input's number, or the number of the tensor made
  bool write_stream = false, said_incoherent = false;
  Storage memory{};                          // the elements of a tensor that was made
  const std::byte* given = nullptr;          // an input's own elements, once `data` is a copy
  std::vector<unsigned char> written_map{};  // `written` points to it
  TouchedElements reads{}, writes{};         // elements that a kernel touched

  void set(std::int32_t type, std::span<const std::int64_t> sizes_in) {
    dtype = type;
    rank = static_cast<std::int32_t>(sizes_in.size());
    elements = 1;
    for (std::size_t i = 0; i < sizes_in.size(); ++i) elements *= sizes[i] = sizes_in[i];
    references = 1;
    host = this;
  }
  void set(DType type, const Shape& shape) {
    std::int64_t all[max_rank];
    for (std::size_t i = 0; i < shape.rank(); ++i) all[i] = static_cast<std::int64_t>(shape[i]);
    set(static_cast<std::int32_t>(type), {all, shape.rank()});
  }
  DType type() const { return static_cast<DType>(dtype); }
  std::size_t width() const { return size_of(type()); }
  std::size_t count() const { return static_cast<std::size_t>(elements); }
  std::byte* bytes() const { return static_cast<std::byte*>(data); }
  std::span<const std::int64_t> size_list() const {
    return {sizes, static_cast<std::size_t>(rank)};
  }
  bool same_sizes(const ProcessorTensor& other) const {
    return std::equal(size_list().begin(), size_list().end(), other.size_list().begin(),
                      other.size_list().end());
  }
  std::string describe() const { return neuroncore::describe(size_list(), dtype); }
  std::string name() const {
    switch (role) {
      case TensorRole::input:
        return "input " + std::to_string(number);
      case TensorRole::output:
        return "output";
      case TensorRole::made:
        break;
    }
    return "tensor " + std::to_string(number) + " of the kernel";
  }
  // "element 5 of [2, 3] fp32", or a range of them.
  std::string part(std::uint64_t first, std::uint64_t end) const {
    const std::string from = std::to_string(first);
    return (end - first == 1 ? "element " + from
                             : "elements " + from + " to " + std::to_string(end - 1)) +
           " of " + describe();
  }
};

struct ProcessorStream : soma_processor_stream {
  ProcessorStream() : soma_processor_stream{} {}
  ProcessorStream(const ProcessorStream&) = delete;
  ProcessorStream& operator=(const ProcessorStream&) = delete;

  ProcessorTensor* tensor = nullptr;
  bool writes = false, open = true, buffered = true;
  std::uint64_t position = 0;  // the element that the buffer begins with
  std::uint64_t held = 0;      // elements of the buffer
  std::vector<unsigned char> buffer{};
};

}  // namespace soma::neuroncore

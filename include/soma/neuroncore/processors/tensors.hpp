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

namespace SOMA_NAMESPACE::neuroncore {

struct ElementRange {
  std::uint64_t begin = 0, end = 0;
};

// Adjoining ranges are merged.
class TouchedElements {
 public:
  void add(std::uint64_t begin, std::uint64_t end);
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

std::string describe(std::span<const std::int64_t> sizes, std::int32_t dtype);

// Error neuroncore.rule_broken: a tensor that no operator may have ("Library Limitations").
void check_processor_tensor(std::string_view operation, std::string_view argument,
                            std::int32_t dtype, std::span<const std::int64_t> sizes);

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

  void set(std::int32_t type, std::span<const std::int64_t> sizes_in);
  void set(DType type, const Shape& shape);
  DType type() const;
  std::size_t width() const;
  std::size_t count() const;
  std::byte* bytes() const;
  std::span<const std::int64_t> size_list() const;
  bool same_sizes(const ProcessorTensor& other) const;
  std::string describe() const;
  std::string name() const;
  // "element 5 of [2, 3] fp32", or a range of them.
  std::string part(std::uint64_t first, std::uint64_t end) const;
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

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/tensors.ipp>
#endif

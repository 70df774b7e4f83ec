#pragma once
// The functions of tensors.hpp.

#include <soma/neuroncore/processors/tensors.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/machine.hpp>
#include <soma/plugin.h>
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

SOMA_INLINE void TouchedElements::add(std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return;
  if (!ranges_.empty() && ranges_.back().end == begin)
    ranges_.back().end = end;
  else
    ranges_.push_back({begin, end});
}

SOMA_INLINE std::string describe(std::span<const std::int64_t> sizes, std::int32_t dtype) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(sizes[i]));
  text.append("] ");
  return text.append(to_string(static_cast<DType>(dtype)));
}

SOMA_INLINE void check_processor_tensor(std::string_view operation, std::string_view argument,
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

SOMA_INLINE void ProcessorTensor::set(std::int32_t type, std::span<const std::int64_t> sizes_in) {
  dtype = type;
  rank = static_cast<std::int32_t>(sizes_in.size());
  elements = 1;
  for (std::size_t i = 0; i < sizes_in.size(); ++i) elements *= sizes[i] = sizes_in[i];
  references = 1;
  host = this;
}

SOMA_INLINE void ProcessorTensor::set(DType type, const Shape& shape) {
  std::int64_t all[max_rank];
  for (std::size_t i = 0; i < shape.rank(); ++i) all[i] = static_cast<std::int64_t>(shape[i]);
  set(static_cast<std::int32_t>(type), {all, shape.rank()});
}

SOMA_INLINE DType ProcessorTensor::type() const { return static_cast<DType>(dtype); }

SOMA_INLINE std::size_t ProcessorTensor::width() const { return size_of(type()); }

SOMA_INLINE std::size_t ProcessorTensor::count() const {
  return static_cast<std::size_t>(elements);
}

SOMA_INLINE std::byte* ProcessorTensor::bytes() const { return static_cast<std::byte*>(data); }

SOMA_INLINE std::span<const std::int64_t> ProcessorTensor::size_list() const {
  return {sizes, static_cast<std::size_t>(rank)};
}

SOMA_INLINE bool ProcessorTensor::same_sizes(const ProcessorTensor& other) const {
  return std::equal(size_list().begin(), size_list().end(), other.size_list().begin(),
                    other.size_list().end());
}

SOMA_INLINE std::string ProcessorTensor::describe() const {
  return neuroncore::describe(size_list(), dtype);
}

SOMA_INLINE std::string ProcessorTensor::name() const {
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

SOMA_INLINE std::string ProcessorTensor::part(std::uint64_t first, std::uint64_t end) const {
  const std::string from = std::to_string(first);
  return (end - first == 1 ? "element " + from
                           : "elements " + from + " to " + std::to_string(end - 1)) +
         " of " + describe();
}

}  // namespace SOMA_NAMESPACE::neuroncore

#pragma once
// The whole of states whose rows several ranks have some of each.

#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace soma {

namespace detail {

// Whether the two are rows of one tensor or, without rows, the same scalar.
inline bool belong_together(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  if (a.rank() == 0) return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  for (std::size_t i = 1; i < a.rank(); ++i)
    if (a.size(i) != b.size(i)) return false;
  return true;
}

}  // namespace detail

// Part after part, along the first dimension; a part may have none of a tensor's rows. A scalar is
// in every part, the same. At least one part. Error checkpoint.parts: names, types, the other
// dimensions or scalars differ.
inline StateDict join_parts(Context& context, std::span<const StateDict> parts) {
  const StateDict& first = parts.front();
  if (parts.size() == 1) return first;
  const auto refuse = [](std::size_t part, const std::string& what, const std::string& given,
                         const std::string& wanted) {
    fail(error_id::checkpoint_parts, "join_parts", what + " of part " + std::to_string(part + 1),
         given, wanted + ", as part 1 has it");
  };
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i].size() != first.size())
      refuse(i, "number of tensors", std::to_string(parts[i].size()), std::to_string(first.size()));
  StateDict whole;
  for (const auto& [name, tensor] : first) {
    std::size_t rows = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Tensor* part = parts[i].find(name);
      if (part == nullptr) refuse(i, soma::quoted(name), "missing", tensor.describe());
      if (!detail::belong_together(tensor, *part))
        refuse(i, soma::quoted(name),
               part->describe() + (tensor.rank() == 0 ? " of another value" : ""),
               tensor.describe() + (tensor.rank() == 0 ? "" : " but for the number of rows"));
      if (tensor.rank() != 0) rows += part->size(0);
    }
    if (tensor.rank() == 0) {
      whole.set(name, tensor);
      continue;
    }
    const Tensor joined = Tensor::empty(context, tensor.shape().with(0, rows), tensor.dtype());
    std::size_t row = 0;
    for (const StateDict& part : parts) {
      const Tensor& own = part.at(name);
      if (own.elements() != 0) copy(own, joined.slice(0, row, row + own.size(0)));
      row += own.size(0);
    }
    whole.set(name, joined);
  }
  return whole;
}

}  // namespace soma

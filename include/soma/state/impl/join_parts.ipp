#pragma once
// The functions of join_parts.hpp.

#include <soma/state/join_parts.hpp>

#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool belong_together(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  if (a.rank() == 0) return std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  for (std::size_t i = 1; i < a.rank(); ++i)
    if (a.size(i) != b.size(i)) return false;
  return true;
}

SOMA_INLINE void refuse_part(std::size_t part, std::string_view name, const std::string& given,
                             const std::string& wanted) {
  fail(error_id::checkpoint_parts, "join_parts",
       soma::quoted(name) + " of part " + std::to_string(part + 1), given, wanted);
}

SOMA_INLINE Tensor join_rows(Context& context, std::string_view name, std::size_t first,
                             std::span<const StateDict> parts) {
  const Tensor& begin = parts.front().at(name);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& part = parts[i].at(name);
    if (!belong_together(begin, part))
      refuse_part(first + i, name, part.describe() + (begin.rank() == 0 ? " of another value" : ""),
                  begin.describe() + (begin.rank() == 0 ? "" : " but for the number of rows") +
                      ", as part " + std::to_string(first + 1) + " has it");
    if (begin.rank() != 0) rows += part.size(0);
  }
  if (begin.rank() == 0) return begin;
  for (const StateDict& part : parts)
    if (part.at(name).size(0) == rows) return part.at(name);
  const Tensor joined = Tensor::empty(context, begin.shape().with(0, rows), begin.dtype());
  std::size_t row = 0;
  for (const StateDict& part : parts) {
    const Tensor& own = part.at(name);
    if (own.elements() != 0) copy(own, joined.slice(0, row, row + own.size(0)));
    row += own.size(0);
  }
  return joined;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE StateDict join_parts(Context& context, std::span<const StateDict> parts) {
  StateDict whole;
  std::size_t each = 0;  // parts that have the same name
  for (std::size_t first = 0; first < parts.size(); ++first)
    for (const auto& [name, tensor] : parts[first]) {
      if (whole.contains(name)) continue;  // its first part came before
      std::size_t end = first + 1;
      while (end < parts.size() && parts[end].contains(name)) ++end;
      for (std::size_t i = end; i < parts.size(); ++i)
        if (parts[i].contains(name))
          detail::refuse_part(end, name, "missing",
                              tensor.describe() + ", as parts " + std::to_string(first + 1) +
                                  " and " + std::to_string(i + 1) + " have it");
      if (each == 0) each = end - first;
      if (end - first != each)
        fail(error_id::checkpoint_parts, "join_parts", "number of parts with " + soma::quoted(name),
             std::to_string(end - first), std::to_string(each) + ", as of other names");
      whole.set(name, detail::join_rows(context, name, first, parts.subspan(first, end - first)));
    }
  return whole;
}

}  // namespace SOMA_NAMESPACE

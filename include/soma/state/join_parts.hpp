#pragma once
// Combines states that several ranks have parts of: some of the names, or some rows of each tensor.

#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// True if the two are rows of one tensor or, without rows, the same scalar.
bool belong_together(const Tensor& a, const Tensor& b);

[[noreturn]] void refuse_part(std::size_t part, std::string_view name, const std::string& given,
                              const std::string& wanted);

// Joins the rows of one name, which all parts have. If one part has all rows, its tensor is shared.
Tensor join_rows(Context& context, std::string_view name, std::size_t first,
                 std::span<const StateDict> parts);

}  // namespace detail

// Each name lies in one or more consecutive parts, the same number for all names. Along the first
// dimension, part after part forms the whole; a part may have none of a tensor's rows. A scalar is
// the same in each part. A tensor that lies in one part is shared, others are copied. Error
// checkpoint.parts: a name is missing in a part; types, the other dimensions or scalars differ.
StateDict join_parts(Context& context, std::span<const StateDict> parts);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/state/impl/join_parts.ipp>
#endif

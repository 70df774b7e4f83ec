#pragma once
// A text as a JSON string.

#include <soma/base/config.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE::detail {

// With quotation marks, escaped as in the reference implementation of safetensors; not set if the
// content is not UTF-8.
std::optional<std::string> json_text(std::string_view content);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/io/impl/json_text.ipp>
#endif

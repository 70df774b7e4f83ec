#pragma once
// Patterns of names, in which `*` stands for any characters.

#include <soma/base/config.hpp>

#include <string_view>

namespace SOMA_NAMESPACE {

// True if the pattern names the whole name. O(pattern times name).
bool name_matches(std::string_view pattern, std::string_view name);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/name_pattern.ipp>
#endif

#pragma once
// Checks of a text from outside before the JSON parser reads it.

#include <soma/base/config.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// The parser takes a zero byte for the end of the text and ignores the rest.
bool has_zero_byte(std::string_view text);

}  // namespace detail

// Returns true if the text may become a tree. The parser itself limits its depth, but copying,
// comparing and printing a tree recurse once per level: a file of some 100 KiB could use up the
// stack. No file that soma reads has ten levels.
bool may_be_tree(std::string_view text);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/json_limits.ipp>
#endif

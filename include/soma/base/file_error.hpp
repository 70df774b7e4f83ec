#pragma once
// Errors of the file system, in the form of every other error.

#include <soma/base/error.hpp>

#include <string>
#include <string_view>
#include <system_error>

namespace SOMA_NAMESPACE::detail {

// "<operation>: file is "<path>" (<problem>: <errno's text>), wanted <wanted>". `number` 0: no
// text.
[[noreturn]] void file_failed(ErrorId id, std::string_view operation, std::string_view path,
                              std::string_view problem, int number, std::string_view wanted);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/base/impl/file_error.ipp>
#endif

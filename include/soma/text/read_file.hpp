#pragma once
// Reads a small file as one text. (Large files are mapped: soma/io.)

#include <soma/base/file_error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

// `operation` names the caller in messages. Error file.read.
std::string read_file(std::string_view operation, std::string_view path);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/read_file.ipp>
#endif

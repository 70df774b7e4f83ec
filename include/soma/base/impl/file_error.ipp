#pragma once
// The functions of file_error.hpp.

#include <soma/base/file_error.hpp>

#include <soma/base/error.hpp>

#include <string>
#include <string_view>
#include <system_error>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void file_failed(ErrorId id, std::string_view operation, std::string_view path,
                             std::string_view problem, int number, std::string_view wanted) {
  std::string given = soma::quoted(path);
  given.append(" (").append(problem);
  if (number != 0) given.append(": ").append(std::generic_category().message(number));
  given.push_back(')');
  fail(id, operation, "file", given, wanted);
}

}  // namespace SOMA_NAMESPACE::detail

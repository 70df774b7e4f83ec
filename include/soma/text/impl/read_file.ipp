#pragma once
// The functions of read_file.hpp.

#include <soma/text/read_file.hpp>

#include <soma/base/file_error.hpp>
#include <soma/system/files.hpp>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::string read_file(std::string_view operation, std::string_view path) {
  const auto failed = [&](std::string_view problem, int number) {
    soma::detail::file_failed(error_id::file_read, operation, path, problem, number,
                              "a file that can be read");
  };
  if (path.find('\0') != std::string_view::npos) failed("no path", 0);
  // Not blocking: opening a pipe would wait for its writer.
  const int descriptor = system::open_to_read(std::string(path));
  if (descriptor < 0) failed("cannot open", errno);
  const struct Closing {
    int descriptor;
    ~Closing() { system::close_file(descriptor); }
  } closing{descriptor};
  if (system::info_of(descriptor).kind != system::FileKind::regular)
    failed("not a regular file", 0);
  std::string content;
  char block[1 << 14];
  for (;;) {
    const std::ptrdiff_t count = system::read_some(descriptor, block, sizeof block);
    if (count < 0) failed("cannot read", errno);
    if (count == 0) return content;
    content.append(block, static_cast<std::size_t>(count));
  }
}

}  // namespace SOMA_NAMESPACE::text

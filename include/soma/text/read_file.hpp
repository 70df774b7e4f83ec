#pragma once
// A small file as one text. (Large ones are mapped: soma/io.)

#include <soma/base/error.hpp>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace soma::text {

// `operation` names the caller in messages. Error file.read.
inline std::string read_file(std::string_view operation, std::string_view path) {
  const auto failed = [&](std::string_view problem, int number) {
    std::string given = soma::quoted(path);
    given.append(" (").append(problem);
    if (number != 0) given.append(": ").append(std::generic_category().message(number));
    fail(error_id::file_read, operation, "file", given.append(")"), "a file that can be read");
  };
  const auto close = [](std::FILE* file) { std::fclose(file); };
  if (path.find('\0') != std::string_view::npos) failed("no path", 0);
  const std::unique_ptr<std::FILE, decltype(close)> file(
      std::fopen(std::string(path).c_str(), "rb"), close);
  if (file == nullptr) failed("cannot open", errno);
  std::string content;
  char block[1 << 14];
  for (;;) {
    errno = 0;
    const std::size_t count = std::fread(block, 1, sizeof block, file.get());
    content.append(block, count);
    // A folder opens, and says what it is when it is read.
    if (std::ferror(file.get()) != 0) failed("cannot read", errno);
    if (count < sizeof block) return content;
  }
}

}  // namespace soma::text

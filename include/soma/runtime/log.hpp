#pragma once
// LogSink: where the library's few messages go. Without one they go nowhere: soma does not print.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace soma {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

// write may be called from any thread that uses the context, one call at a time is not promised.
struct LogSink {
  void* self = nullptr;
  void (*write)(void* self, LogLevel level, std::string_view message) = nullptr;

  void operator()(LogLevel level, std::string_view message) const {
    if (write != nullptr) write(self, level, message);
  }
};

}  // namespace soma

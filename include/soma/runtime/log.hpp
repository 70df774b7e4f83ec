#pragma once
// LogSink: the receiver of the library's few messages. Without a sink no message appears: soma does
// not print.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

// Any thread that uses the context may call write, and several threads may call it at once.
struct LogSink {
  void* self = nullptr;
  void (*write)(void* self, LogLevel level, std::string_view message) = nullptr;

  void operator()(LogLevel level, std::string_view message) const;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/log.ipp>
#endif

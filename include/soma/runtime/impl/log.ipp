#pragma once
// The functions of log.hpp.

#include <soma/runtime/log.hpp>

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE void LogSink::operator()(LogLevel level, std::string_view message) const {
  if (write != nullptr) write(self, level, message);
}

}  // namespace SOMA_NAMESPACE

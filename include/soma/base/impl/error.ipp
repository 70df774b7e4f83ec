#pragma once
// The functions of error.hpp.

#include <soma/base/error.hpp>

#include <soma/base/config.hpp>
#include <soma/base/error_ids.hpp>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE Error::Error(ErrorId id, std::string_view operation, std::string_view argument,
                         std::string_view given, std::string_view wanted)
    : std::runtime_error(message(id, operation, argument, given, wanted)),
      id_(id),
      operation_(operation),
      argument_(argument),
      given_(given),
      wanted_(wanted) {}

SOMA_INLINE std::string Error::message(ErrorId id, std::string_view operation,
                                       std::string_view argument, std::string_view given,
                                       std::string_view wanted) {
  std::string text;
  text.append(operation).append(": ").append(argument).append(" is ").append(given);
  text.append(", wanted ").append(wanted).append(" [").append(id.name).append("]");
  return text;
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

inline std::atomic<ErrorHandler>& error_handler() {
  static std::atomic<ErrorHandler> handler{nullptr};
  return handler;
}

SOMA_INLINE void append_printable(std::string& result, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\n')
      result.append("\\n");
    else if (letter == '\r')
      result.append("\\r");
    else if (letter == '\t')
      result.append("\\t");
    else if (byte < 0x20 || byte == 0x7f)
      result.append("\\x").append({digits[byte >> 4], digits[byte & 15]});
    else
      result.push_back(letter);
  }
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string quoted(std::string_view text) {
  constexpr std::size_t most = 400, begin = 200, end = 100;
  const auto continues = [&](std::size_t at) { return (text[at] & 0xc0) == 0x80; };  // in UTF-8
  std::string result(1, '"');
  if (text.size() <= most) {
    detail::append_printable(result, text);
  } else {
    std::size_t head = begin, tail = text.size() - end;
    while (head > begin - 4 && continues(head)) --head;
    while (tail < text.size() - end + 4 && continues(tail)) ++tail;
    detail::append_printable(result, text.substr(0, head));
    result.append("...");
    detail::append_printable(result, text.substr(tail));
  }
  result.push_back('"');
  if (text.size() > most) result.append(" (").append(std::to_string(text.size())).append(" bytes)");
  return result;
}

SOMA_INLINE ErrorHandler set_error_handler(ErrorHandler handler) noexcept {
  return detail::error_handler().exchange(handler, std::memory_order_acq_rel);
}

SOMA_INLINE void fail(ErrorId id, std::string_view operation, std::string_view argument,
                      std::string_view given, std::string_view wanted) {
  const Error error(id, operation, argument, given, wanted);
  if (const ErrorHandler handler = detail::error_handler().load(std::memory_order_acquire))
    handler(error);
#if SOMA_HAS_EXCEPTIONS
  throw error;
#else
  std::fprintf(stderr, "%s\n", error.what());
  std::abort();
#endif
}

}  // namespace SOMA_NAMESPACE

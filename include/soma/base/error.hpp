#pragma once
// soma::Error: the exception for every mistake that a caller can make.
//
// One message form for all: "<operation>: <argument> is <given>, wanted <wanted> [<id>]". The parts
// can be read one by one, so a host can write its own message. Conditions that no caller can break
// are contracts (base/contracts.hpp) instead.

#include <soma/base/config.hpp>
#include <soma/base/error_ids.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace soma {

class Error : public std::runtime_error {
 public:
  Error(ErrorId id, std::string_view operation, std::string_view argument, std::string_view given,
        std::string_view wanted)
      : std::runtime_error(message(id, operation, argument, given, wanted)),
        id_(id),
        operation_(operation),
        argument_(argument),
        given_(given),
        wanted_(wanted) {}

  ErrorId id() const noexcept { return id_; }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& argument() const noexcept { return argument_; }
  const std::string& given() const noexcept { return given_; }
  const std::string& wanted() const noexcept { return wanted_; }

 private:
  static std::string message(ErrorId id, std::string_view operation, std::string_view argument,
                             std::string_view given, std::string_view wanted) {
    std::string text;
    text.append(operation).append(": ").append(argument).append(" is ").append(given);
    text.append(", wanted ").append(wanted).append(" [").append(id.name).append("]");
    return text;
  }

  ErrorId id_;
  std::string operation_, argument_, given_, wanted_;
};

}  // namespace soma

// How an error leaves the library. A host without exceptions may define SOMA_THROW(error) before
// the first soma header, the same in every unit; it must not return. The default throws, or, under
// -fno-exceptions, calls SOMA_ERROR_HANDLER (a function taking const soma::Error&; by default it
// prints the message to standard error) and aborts.
#ifndef SOMA_THROW
#if SOMA_HAS_EXCEPTIONS
#define SOMA_THROW(error) throw error
#else
#ifndef SOMA_ERROR_HANDLER
#define SOMA_ERROR_HANDLER(error) std::fprintf(stderr, "%s\n", (error).what())
#endif
#define SOMA_THROW(error)        \
  do {                           \
    SOMA_ERROR_HANDLER((error)); \
    std::abort();                \
  } while (false)
#endif
#endif

namespace soma {

namespace detail {

// Appends the text with escapes for characters that break a line or that a terminal obeys.
inline void append_printable(std::string& result, std::string_view text) {
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

}  // namespace detail

// A text in quotation marks, for messages: control characters are escaped, and a very long text is
// cut to its beginning and end. Appends, because g++ 12 at -O3 reports a false overlap in "\"" +
// std::string(...).
inline std::string quoted(std::string_view text) {
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

// Throws the five-part error. All errors pass through here, so that call sites stay one line and
// SOMA_THROW is expanded once.
[[noreturn]] inline void fail(ErrorId id, std::string_view operation, std::string_view argument,
                              std::string_view given, std::string_view wanted) {
  SOMA_THROW(Error(id, operation, argument, given, wanted));
  std::abort();  // reached only if a redefined SOMA_THROW returned, which it must not
}

}  // namespace soma

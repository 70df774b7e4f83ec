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

namespace SOMA_NAMESPACE {

class Error : public std::runtime_error {
 public:
  Error(ErrorId id, std::string_view operation, std::string_view argument, std::string_view given,
        std::string_view wanted);

  ErrorId id() const noexcept { return id_; }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& argument() const noexcept { return argument_; }
  const std::string& given() const noexcept { return given_; }
  const std::string& wanted() const noexcept { return wanted_; }

 private:
  static std::string message(ErrorId id, std::string_view operation, std::string_view argument,
                             std::string_view given, std::string_view wanted);

  ErrorId id_;
  std::string operation_, argument_, given_, wanted_;
};

}  // namespace SOMA_NAMESPACE

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

namespace SOMA_NAMESPACE {

namespace detail {

// Appends the text with escapes for characters that break a line or that a terminal obeys.
void append_printable(std::string& result, std::string_view text);

}  // namespace detail

// A text in quotation marks, for messages: control characters are escaped, and a very long text is
// cut to its beginning and end. Appends, because g++ 12 at -O3 reports a false overlap in "\"" +
// std::string(...).
std::string quoted(std::string_view text);

// Throws the five-part error. All errors pass through here, so that call sites stay one line and
// SOMA_THROW is expanded once.
[[noreturn]] void fail(ErrorId id, std::string_view operation, std::string_view argument,
                       std::string_view given, std::string_view wanted);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/error.ipp>
#endif

#pragma once
// soma::Error: the exception for every mistake that a caller can make.
//
// One message form for all: "<operation>: <argument> is <given>, wanted <wanted> [<id>]". The parts
// can be read one by one, so a host can write its own message. Conditions that no caller can break
// are contracts (base/contracts.hpp) instead.

#include <soma/base/config.hpp>
#include <soma/base/error_ids.hpp>

#include <cstddef>
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

#if defined(SOMA_THROW) || defined(SOMA_ERROR_HANDLER)
#error "soma has no SOMA_THROW and no SOMA_ERROR_HANDLER: call soma::set_error_handler()."
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

// An error is thrown; where the library is compiled without exceptions, its message is printed to
// the error stream and the program aborts. Before either, the handler is called, on the thread that
// found the error, also for the few errors that the library itself catches. A handler may end the
// program. nullptr: no handler, as at the start. Returns the handler before. There is one handler
// for the whole program; thread-safe.
using ErrorHandler = void (*)(const Error& error);
ErrorHandler set_error_handler(ErrorHandler handler) noexcept;

// Throws the five-part error. All errors pass through here.
[[noreturn]] void fail(ErrorId id, std::string_view operation, std::string_view argument,
                       std::string_view given, std::string_view wanted);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/error.ipp>
#endif

// Requests and answers of HTTP/1.1 over a connection: Boost.Beast reads and writes the messages.
#pragma once

#include "bert_classifier/serve/connection.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

#include <boost/beast/core/error.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>

namespace beast = boost::beast;
namespace http = boost::beast::http;

using Response = http::response<http::string_body>;

// The path of a request target: without the query, and without scheme and host, which a proxy adds.
inline std::string_view path_of(std::string_view target) {
  if (constexpr std::string_view scheme = "http://"; target.starts_with(scheme)) {
    const std::size_t slash = target.find('/', scheme.size());
    target = slash == target.npos ? std::string_view("/") : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

// Returns false if the client did not take the whole response. An answer to HEAD is written without
// its body.
template <class Body>
bool write_message(Connection& connection, http::response<Body>& response, bool with_body) {
  http::response_serializer<Body> serializer(response);
  serializer.split(!with_body);
  connection.begin_answer();
  beast::error_code error;
  while (!error && !(with_body ? serializer.is_done() : serializer.is_header_done()))
    serializer.next(error, [&](beast::error_code& failure, const auto& buffers) {
      const std::size_t bytes = connection.write_some(buffers);
      if (bytes == 0)
        failure = beast::errc::make_error_code(beast::errc::broken_pipe);
      else
        serializer.consume(bytes);
    });
  return !error;
}

// Reads a request as it arrives: first its head, then its body piece by piece.
class Request {
 public:
  static constexpr std::size_t longest_target = 8192;

  explicit Request(Connection& connection) : connection_(connection) {
    // The connection limits how many bytes are read. Boost 1.74 without a limit (boost::none)
    // refuses every body with a length.
    parser_.header_limit(Connection::buffer_bytes);
    parser_.body_limit((std::numeric_limits<std::uint64_t>::max)());
  }

  // Returns the HTTP status that describes the error, or 0. A closed or late connection gives 400;
  // the connection knows the reason.
  int read_head() {
    while (!parser_.is_header_done())
      if (read_some()) return 400;
    return parser_.get().target().size() > longest_target ? 414 : 0;
  }
  // Calls take(piece) until it returns false. Returns true if the whole body was read and every
  // chunk was well formed; otherwise the connection may know the reason.
  bool read_body(const std::function<bool(std::string_view)>& take) {
    if (!parser_.is_done() && parser_.get().version() == 11 &&
        beast::iequals(parser_.get()[http::field::expect], "100-continue")) {
      http::response<http::empty_body> leave(http::status::continue_, 11);
      if (!write_message(connection_, leave, true)) return false;
    }
    while (!parser_.is_done()) {
      char bytes[4096];
      auto& room = parser_.get().body();
      room.data = bytes;
      room.size = sizeof bytes;
      const beast::error_code error = read_some();
      const std::string_view piece(bytes, sizeof bytes - room.size);
      if (!piece.empty() && !take(piece)) return false;
      if (error && error != http::error::need_buffer) return false;
    }
    return true;
  }

  // These need a head that was read.
  http::verb method() const { return parser_.get().method(); }
  std::string_view path() const { return path_of(view(parser_.get().target())); }
  // The first header of this name; empty if there is none.
  std::string_view header(http::field name) const { return view(parser_.get()[name]); }
  std::size_t count(http::field name) const { return parser_.get().count(name); }
  bool keep_alive() const { return parser_.keep_alive(); }

 private:
  static std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

  // Reads until the parser has taken one more part of the message.
  beast::error_code read_some() {
    do {
      // Skips an empty line in front of a request (RFC 9112, 2.2).
      if (!parser_.got_some()) connection_.consume(line_ends(connection_.unread()));
      if (connection_.unread().size() == 0) continue;
      beast::error_code error;
      connection_.consume(parser_.put(connection_.unread(), error));
      if (error != http::error::need_more) return error;
    } while (connection_.fill());
    return http::error::partial_message;
  }
  static std::size_t line_ends(boost::asio::const_buffer bytes) {
    const std::string_view text(static_cast<const char*>(bytes.data()), bytes.size());
    return (std::min)(text.find_first_not_of("\r\n"), text.size());
  }

  Connection& connection_;
  http::request_parser<http::buffer_body> parser_;
};

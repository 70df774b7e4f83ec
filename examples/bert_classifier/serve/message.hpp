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

// The part of a target before the query; also for a proxy's form of a target, with the host.
inline std::string_view path_of(std::string_view target) {
  if (constexpr std::string_view scheme = "http://"; target.starts_with(scheme)) {
    const std::size_t slash = target.find('/', scheme.size());
    target = slash == target.npos ? std::string_view("/") : target.substr(slash);
  }
  return target.substr(0, target.find_first_of("?#"));
}

// Returns false if the client did not take all of it. An answer to HEAD is written without its
// body.
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

// A request as it arrives: first its head, then its body piece by piece.
class Request {
 public:
  static constexpr std::size_t longest_target = 8192;

  explicit Request(Connection& connection) : connection_(connection) {
    // The connection limits the total. In Boost 1.74, no limit here (boost::none) would refuse
    // every body with a length.
    parser_.header_limit(Connection::buffer_bytes);
    parser_.body_limit((std::numeric_limits<std::uint64_t>::max)());
  }

  // Reads the head; returns the status for a bad one, or 0. A connection that ends or is too late
  // is 400, and knows the reason.
  int read_head() {
    while (!parser_.is_header_done())
      if (read_some()) return 400;
    if (parser_.get().target().size() > longest_target) {
      problem_ = "the target is longer than 8192 bytes";
      return 414;
    }
    return check_host() ? 0 : 400;
  }
  // Why read_head() refused the head.
  std::string_view problem() const { return problem_; }
  // Calls take(piece) until it returns false. Returns true if the whole body was read without a bad
  // chunk; otherwise the connection has the reason.
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

  // Valid once the head was read.
  http::verb method() const { return parser_.get().method(); }
  std::string_view path() const { return path_of(view(parser_.get().target())); }
  // The first of several; empty if there is none.
  std::string_view header(http::field name) const { return view(parser_.get()[name]); }
  std::size_t count(http::field name) const { return parser_.get().count(name); }
  bool keep_alive() const { return parser_.keep_alive(); }

 private:
  // RFC 9112, 3.2: one Host, which HTTP/1.0 may leave out. Returns false, with problem_.
  bool check_host() {
    const std::size_t hosts = count(http::field::host);
    const bool optional = parser_.get().version() < 11;
    if (hosts > 1 || (hosts == 0 && !optional)) {
      problem_ = hosts == 0 ? "HTTP/1.1 needs a header Host" : "there is more than one header Host";
      return false;
    }
    if (header(http::field::host).find_first_of(" \t\",/?#@\\<>") == std::string_view::npos)
      return true;
    problem_ = "the header Host has more than a name and a port";
    return false;
  }

  static std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

  // Reads until the parser has taken one more part of the message.
  beast::error_code read_some() {
    do {
      // An empty line before a request is skipped (RFC 9112, 2.2).
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
  std::string_view problem_ = "the request cannot be understood";
};

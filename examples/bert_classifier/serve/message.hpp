// Requests and answers of HTTP/1.1 (RFC 9112), as far as a server needs them that answers in whole
// and reads bodies with a length or in chunks.
#pragma once

#include "bert_classifier/serve/connection.hpp"

#include <soma/text/columns.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http {

// Of the ASCII letters, as names compare.
inline std::string lower_case(std::string_view name) {
  std::string result(name);
  for (char& letter : result)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
  return result;
}

struct Request {
  std::string method, path;
  int minor = 1;  // of the version HTTP/1.x
  std::vector<std::pair<std::string, std::string>>
      headers{};  // names in lower case, in their order

  // `name` in lower case. Of several, the first; empty: there is none.
  std::string header(std::string_view name) const {
    for (const auto& [known, value] : headers)
      if (known == name) return value;
    return {};
  }
  std::size_t count(std::string_view name) const {
    std::size_t found = 0;
    for (const auto& header : headers) found += header.first == name ? 1 : 0;
    return found;
  }
};

struct Response {
  int status = 200;
  std::string type{}, body{};
};

// What is wrong with a request that cannot be answered as asked: the status that says so.
struct Refusal {
  int status;
};

namespace detail {

inline bool is_token(std::string_view text) {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  for (const char letter : text) {
    const bool good = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || marks.find(letter) != marks.npos;
    if (!good) return false;
  }
  return !text.empty();
}
inline bool has_controls(std::string_view text) {
  for (const char letter : text)
    if ((static_cast<unsigned char>(letter) < 0x20 && letter != '\t') || letter == 0x7F)
      return true;
  return false;
}

// Without its end, CR LF or LF; nothing where the connection does not give a whole one.
inline std::optional<std::string> read_line(Connection& connection, std::size_t most) {
  std::string line;
  while (line.size() <= most) {
    char letter = 0;
    if (connection.read(&letter, 1) != 1) return std::nullopt;
    if (letter == '\n') {
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    line.push_back(letter);
  }
  return std::nullopt;
}

}  // namespace detail

inline constexpr std::size_t longest_target = 8192;

// METHOD SP target SP HTTP/1.x. The path is what stands before a query; a proxy's form of it, with
// the host, is the same.
inline std::optional<Refusal> read_request_line(std::string_view line, Request& request) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return Refusal{400};
  std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (target.size() > longest_target) return Refusal{414};
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return Refusal{400};
  request.minor = version.back() - '0';
  request.method = line.substr(0, first);
  if (!detail::is_token(request.method) || detail::has_controls(target)) return Refusal{400};
  if (constexpr std::string_view scheme = "http://"; target.starts_with(scheme)) {
    const std::size_t slash = target.find('/', scheme.size());
    target = slash == target.npos ? std::string_view("/") : target.substr(slash);
  }
  if (target.find(' ') != target.npos || !(target.starts_with('/') || target == "*"))
    return Refusal{400};
  request.path = target.substr(0, target.find_first_of("?#"));
  return std::nullopt;
}

// The head of a request: a line, headers, an empty line. Nothing, or what is wrong with it; a
// connection that ends or is too late is 400, and knows why.
inline std::optional<Refusal> read_head(Connection& connection, Request& request) {
  constexpr std::size_t longest_line = std::size_t{1} << 16;
  std::optional<std::string> line = detail::read_line(connection, longest_line);
  if (line && line->empty()) line = detail::read_line(connection, longest_line);  // RFC 9112, 2.2
  if (!line) return Refusal{400};
  if (const auto refusal = read_request_line(*line, request)) return refusal;
  while ((line = detail::read_line(connection, longest_line)) && !line->empty()) {
    const std::size_t colon = line->find(':');
    const std::string_view name = std::string_view(*line).substr(0, colon);
    if (colon == line->npos || !detail::is_token(name)) return Refusal{400};
    const std::string_view value = soma::text::trimmed(std::string_view(*line).substr(colon + 1));
    if (detail::has_controls(value)) return Refusal{400};
    request.headers.emplace_back(lower_case(name), value);
  }
  if (!line) return Refusal{400};
  return std::nullopt;
}

// The body of a request, piece by piece as it comes.
class BodyReader {
 public:
  BodyReader(Connection& connection, const Request& request)
      : connection_(connection), request_(request) {}

  // Calls take(piece) until it returns false. Whether all of the body was read, and none of its
  // chunks was bad; the connection says what else has ended it.
  bool read(const std::function<bool(std::string_view)>& take) {
    if (lower_case(request_.header("expect")) == "100-continue" && request_.minor == 1 &&
        !connection_.write("HTTP/1.1 100 Continue\r\n\r\n"))
      return false;
    if (request_.count("transfer-encoding") != 0) return read_chunks(take);
    std::uint64_t length = 0;
    const std::string text = request_.header("content-length");
    std::from_chars(text.data(), text.data() + text.size(), length);
    return read_bytes(length, take);
  }

 private:
  bool read_bytes(std::uint64_t count, const std::function<bool(std::string_view)>& take) {
    while (count > 0) {
      char bytes[4096];
      const auto most = static_cast<std::size_t>((std::min)(count, std::uint64_t{sizeof bytes}));
      const auto some = connection_.read(bytes, most);
      if (some <= 0 || !take({bytes, static_cast<std::size_t>(some)})) return false;
      count -= static_cast<std::uint64_t>(some);
    }
    return true;
  }
  // size [; extensions] CR LF bytes CR LF ... 0 CR LF trailers CR LF. How much is read of it in all
  // is limited by the connection.
  bool read_chunks(const std::function<bool(std::string_view)>& take) {
    constexpr std::size_t longest_line = std::size_t{1} << 16;
    while (true) {
      const auto line = detail::read_line(connection_, longest_line);
      if (!line) return false;
      const std::string_view digits =
          soma::text::trimmed(std::string_view(*line).substr(0, line->find(';')));
      std::uint64_t size = 0;
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
      if (error != std::errc() || end != digits.data() + digits.size()) return false;
      if (size == 0) break;
      if (!read_bytes(size, take)) return false;
      const auto rest = detail::read_line(connection_, 1);
      if (!rest || !rest->empty()) return false;
    }
    std::optional<std::string> trailer;
    while ((trailer = detail::read_line(connection_, longest_line)) && !trailer->empty()) {
    }
    return trailer.has_value();
  }

  Connection& connection_;
  const Request& request_;
};

inline std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

// False: the client did not take all of it. `idle_seconds`: how long the connection may wait for a
// next request; 0: it is closed. A HEAD has an answer without its body.
inline bool write_response(Connection& connection, const Response& response, bool with_body,
                           long long idle_seconds) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.append(reason_of(response.status)).append("\r\nContent-Type: ").append(response.type);
  head.append("\r\nContent-Length: ").append(std::to_string(response.body.size()));
  if (idle_seconds == 0)
    head.append("\r\nConnection: close");
  else  // there is no limit to how many requests come
    head.append("\r\nConnection: keep-alive\r\nKeep-Alive: timeout=")
        .append(std::to_string(idle_seconds))
        .append(", max=1000000");
  head.append("\r\n\r\n");
  return connection.write(head) && (!with_body || connection.write(response.body));
}

}  // namespace http

// These tests check how the server of bert_classifier feeds the library's parser and serializer:
// what comes of requests, of answers, and that no bytes whatever make it do anything else.

#include "bert_classifier/serve/message.hpp"

#include "catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <unistd.h>

namespace {

// The server's end of a connection on which a client has sent so much and closed its side. The
// bytes come in reads of at most so many.
struct Sent {
  explicit Sent(std::string_view bytes, std::size_t piece = 0)
      : connection(make(bytes, piece), std::chrono::milliseconds(1000)) {
    connection.begin_request(std::size_t{1} << 16);
  }
  ~Sent() { ::close(client); }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;

  int make(std::string_view bytes, std::size_t piece) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, piece == 0 ? SOCK_STREAM : SOCK_SEQPACKET, 0, ends) == 0);
    client = ends[0];
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, piece == 0 ? bytes.size() : piece);
      REQUIRE(::send(client, part.data(), part.size(), MSG_DONTWAIT) ==
              static_cast<ssize_t>(part.size()));
      bytes.remove_prefix(part.size());
    }
    ::shutdown(client, SHUT_WR);
    return ends[1];
  }
  std::string answer() const {
    std::string all(4096, '\0');
    all.resize(static_cast<std::size_t>(::recv(client, all.data(), all.size(), MSG_DONTWAIT)));
    return all;
  }

  int client = -1;
  Connection connection;
};

// The outcome of a request: the status of its head, or else the bytes of its body, or "bad".
std::string outcome_of(std::string_view bytes, std::size_t piece = 0) {
  Sent sent(bytes, piece);
  Request request(sent.connection);
  if (const int status = request.read_head(); status != 0) return std::to_string(status);
  sent.connection.begin_body(std::size_t{1} << 16);
  std::string body;
  const bool whole = request.read_body([&](std::string_view more) {
    body += more;
    return body.size() < 100000;
  });
  return whole ? body : "bad";
}

}  // namespace

TEST_CASE("the head of a request", "[unit]") {
  Sent sent(
      "\r\nPOST http://host:80/invocations?a=1 HTTP/1.1\r\nHost: a\r\nContent-Type:  text/plain "
      "\r\n"
      "Accept:\r\naccept: 2\r\n\r\nGET /ping HTTP/1.0\r\n\r\n");
  Request first(sent.connection);
  REQUIRE(first.read_head() == 0);
  CHECK(first.method() == http::verb::post);
  CHECK(first.path() == "/invocations");
  CHECK(first.header(http::field::content_type) == "text/plain");
  CHECK(first.header(http::field::accept).empty());
  CHECK(first.count(http::field::accept) == 2);
  CHECK(first.count(http::field::expect) == 0);
  CHECK(first.keep_alive());
  Request second(sent.connection);
  REQUIRE(second.read_head() == 0);
  CHECK(second.path() == "/ping");
  CHECK_FALSE(second.keep_alive());
  CHECK(path_of("http://host") == "/");
  CHECK(path_of("*") == "*");
}

TEST_CASE("heads that are refused", "[unit]") {
  for (const char* head :
       {"", "\r\n\r\n", "GET\r\n\r\n", "GET /ping HTTP/2.0\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\r\nName : a\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\r\nA: b\r\n", "GET /ping HTTP/1.1\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        "GET /ping HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /ping HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}) {
    INFO(head);
    CHECK(outcome_of(head) == "400");
  }
  for (const char* host : {"", "a:80", "[::1]:80"}) {
    const std::string head = std::string("GET /ping HTTP/1.1\r\nHost: ") + host + "\r\n\r\n";
    CHECK(outcome_of(head).empty());
  }
  const std::string longest(Request::longest_target - 1, 'a');
  CHECK(outcome_of("GET /" + longest + " HTTP/1.1\r\nHost: a\r\n\r\n").empty());
  CHECK(outcome_of("GET /a" + longest + " HTTP/1.1\r\nHost: a\r\n\r\n") == "414");
  // More than the connection was told to read, of a line and of many.
  CHECK(outcome_of("GET / HTTP/1.1\r\nHost: a\r\nName: " +
                   std::string(std::size_t{1} << 16, 'a')) == "400");
  std::string many = "GET /ping HTTP/1.1\r\nHost: a\r\n";
  while (many.size() < (std::size_t{1} << 16)) many += "Name: value\r\n";
  CHECK(outcome_of(many + "\r\n") == "400");
}

TEST_CASE("bodies with a length, and in chunks", "[unit]") {
  const std::string sized = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
  CHECK(outcome_of(sized + "good and more") == "good");
  CHECK(outcome_of(sized + "goo") == "bad");
  const std::string chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(outcome_of(chunked + "3;name=value\r\ngoo\r\n00a\r\n123456789d\r\n0\r\nA: x\r\n\r\n") ==
        "goo123456789d");
  // A body, a chunk and a trailer beyond a piece and a line.
  const std::string large(20000, 'a');
  CHECK(outcome_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + large) == large);
  CHECK(outcome_of(chunked + "4e20\r\n" + large + "\r\n0\r\n\r\n") == large);
  CHECK(outcome_of(chunked + "0\r\nA: " + std::string(std::size_t{1} << 16, 'a') + "\r\n\r\n") ==
        "bad");
  for (const char* body :
       {"", "4\r\ngood\r\n0\r\n", "x\r\ngood\r\n0\r\n\r\n", "-4\r\ngood\r\n0\r\n\r\n",
        "4\r\ngoods\r\n0\r\n\r\n", "10000000000000000\r\ngood\r\n0\r\n\r\n"}) {
    INFO(body);
    CHECK(outcome_of(chunked + body) == "bad");
  }
}

TEST_CASE("a client that waits for leave to send a body gets it", "[unit]") {
  Sent sent("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 4\r\n\r\ngood");
  Request request(sent.connection);
  REQUIRE(request.read_head() == 0);
  CHECK(request.read_body([](std::string_view) { return true; }));
  CHECK(sent.answer() == "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST_CASE("answers", "[unit]") {
  Response response(http::status::not_acceptable, 11, "no\n");
  response.prepare_payload();
  const std::string head = "HTTP/1.1 406 Not Acceptable\r\nContent-Length: 3\r\n\r\n";
  for (const bool with_body : {true, false}) {
    Sent sent("");
    CHECK(write_message(sent.connection, response, with_body));
    CHECK(sent.answer() == head + (with_body ? "no\n" : ""));
  }
}

TEST_CASE("no bytes make a request do anything but be refused or taken", "[unit]") {
  const std::string good =
      "POST /invocations HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4;a=b\r\ngood\r\n0\r\nA: "
      "b\r\n\r\n";
  REQUIRE(outcome_of(good) == "good");
  for (std::size_t end = 0; end < good.size(); ++end) {
    const std::string outcome = outcome_of(good.substr(0, end));
    REQUIRE((outcome == "400" || outcome == "bad"));
  }
  std::uint64_t state = 1;
  const auto draw = [&state](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  constexpr std::string_view letters = "\r\n :;0aFx\t\x01\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (std::size_t change = 0; change <= draw(4); ++change) switch (draw(3)) {
        case 0:
          bytes[draw(bytes.size())] = letters[draw(letters.size())];
          break;
        case 1:
          bytes.insert(draw(bytes.size()), 1, letters[draw(letters.size())]);
          break;
        default:
          bytes.erase(draw(bytes.size() - 1), 1);
      }
    INFO(bytes);
    const std::string outcome = outcome_of(bytes);
    REQUIRE(outcome.size() <= bytes.size());
    REQUIRE(outcome_of(bytes, 1) == outcome);  // however slowly they come
  }
}

// These tests check how the server of bert_classifier reads requests: what it takes, what it
// refuses, and that no bytes whatever make it do anything else.

#include "bert_classifier/serve/message.hpp"

#include "catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <unistd.h>

namespace {

// The server's end of a connection on which a client has sent so much and closed its side.
struct Sent {
  explicit Sent(std::string_view bytes) : connection(make(bytes), std::chrono::milliseconds(1000)) {
    connection.begin_request(std::size_t{1} << 16);
  }
  ~Sent() { ::close(client); }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;

  int make(std::string_view bytes) {
    int ends[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    client = ends[0];
    REQUIRE(::send(client, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
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

// The status of a head; 0: it is taken.
int head_of(std::string_view bytes, http::Request& request) {
  Sent sent(bytes);
  request = {};
  const auto refusal = http::read_head(sent.connection, request);
  return refusal ? refusal->status : 0;
}

// What a body came to: its bytes, or "bad".
std::string body_of(const http::Request& request, std::string_view bytes) {
  Sent sent(bytes);
  std::string body;
  const bool whole = http::BodyReader(sent.connection, request).read([&](std::string_view piece) {
    body += piece;
    return body.size() < 100000;
  });
  return whole ? body : "bad";
}

}  // namespace

TEST_CASE("the head of a request", "[unit]") {
  http::Request request;
  REQUIRE(
      head_of("POST /invocations?a=1 HTTP/1.1\r\nContent-Type:  text/plain \r\nX:\r\nx: 2\r\n\r\n",
              request) == 0);
  CHECK(request.method == "POST");
  CHECK(request.path == "/invocations");
  CHECK(request.minor == 1);
  CHECK(request.header("content-type") == "text/plain");
  CHECK(request.header("x").empty());
  CHECK(request.count("x") == 2);
  CHECK(request.count("y") == 0);
  // Lines that end with LF, an empty line in front, the path as proxies have it.
  REQUIRE(head_of("\r\nGET http://host:80/ping HTTP/1.0\nA: b\n\n", request) == 0);
  CHECK(request.path == "/ping");
  CHECK(request.minor == 0);
  REQUIRE(head_of("GET http://host HTTP/1.1\r\n\r\n", request) == 0);
  CHECK(request.path == "/");
  REQUIRE(head_of("OPTIONS * HTTP/1.1\r\n\r\n", request) == 0);
}

TEST_CASE("heads that are refused", "[unit]") {
  http::Request request;
  for (const char* head :
       {"", "\r\n\r\n", "GET\r\n\r\n", "GET /ping\r\n\r\n", "GET /ping HTTP/2.0\r\n\r\n",
        "GET /ping HTTP/1.1 \r\n\r\n", "GET  /ping HTTP/1.1\r\n\r\n", "GET ping HTTP/1.1\r\n\r\n",
        "G\x01T /ping HTTP/1.1\r\n\r\n", "GET /p\x7Fng HTTP/1.1\r\n\r\n",
        "GET /ping HTTP/1.1\r\nName\r\n\r\n", "GET /ping HTTP/1.1\r\nName : a\r\n\r\n",
        "GET /ping HTTP/1.1\r\n: a\r\n\r\n", "GET /ping HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET /ping HTTP/1.1\r\nA: b\rc\r\n\r\n", "GET /ping HTTP/1.1\r\nA: b\r\n"}) {
    INFO(head);
    CHECK(head_of(head, request) == 400);
  }
  const std::string longest(http::longest_target - 1, 'a');
  CHECK(head_of("GET /" + longest + " HTTP/1.1\r\n\r\n", request) == 0);
  CHECK(head_of("GET /a" + longest + " HTTP/1.1\r\n\r\n", request) == 414);
  // More than the connection was told to read.
  std::string many = "GET /ping HTTP/1.1\r\n";
  while (many.size() < (std::size_t{1} << 16)) many += "Name: value\r\n";
  CHECK(head_of(many + "\r\n", request) == 400);
}

TEST_CASE("bodies with a length, and in chunks", "[unit]") {
  const http::Request sized{.method = "POST", .path = "/", .headers = {{"content-length", "4"}}};
  CHECK(body_of(sized, "good and more") == "good");
  CHECK(body_of(sized, "goo") == "bad");
  const http::Request chunked{
      .method = "POST", .path = "/", .headers = {{"transfer-encoding", "chunked"}}};
  CHECK(body_of(chunked, "4\r\ngood\r\n0\r\n\r\n") == "good");
  CHECK(body_of(chunked, "3;name=value\r\ngoo\r\n00a\r\n123456789d\r\n0\r\nTrailer: x\r\n\r\n") ==
        "goo123456789d");
  CHECK(body_of(chunked, "0\r\n\r\n").empty());
  for (const char* body :
       {"", "4\r\ngood\r\n", "4\r\ngood\r\n0\r\n", "x\r\ngood\r\n0\r\n\r\n",
        "-4\r\ngood\r\n0\r\n\r\n", "0x4\r\ngood\r\n0\r\n\r\n", "4\r\ngoods\r\n0\r\n\r\n",
        "4\r\ngo\r\n0\r\n\r\n", "\r\ngood\r\n0\r\n\r\n", "10000000000000000\r\ngood\r\n0\r\n\r\n",
        "ffffffffffffffff\r\ngood\r\n0\r\n\r\n"}) {
    INFO(body);
    CHECK(body_of(chunked, body) == "bad");
  }
}

TEST_CASE("a client that waits for leave to send a body gets it", "[unit]") {
  Sent sent("good");
  const http::Request request{.method = "POST",
                              .path = "/",
                              .headers = {{"expect", "100-Continue"}, {"content-length", "4"}}};
  CHECK(http::BodyReader(sent.connection, request).read([](std::string_view) { return true; }));
  CHECK(sent.answer() == "HTTP/1.1 100 Continue\r\n\r\n");
}

TEST_CASE("answers", "[unit]") {
  const http::Response response{.status = 406, .type = "text/plain", .body = "no\n"};
  const std::string head =
      "HTTP/1.1 406 Not Acceptable\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n";
  Sent last("");
  CHECK(http::write_response(last.connection, response, true, 0));
  CHECK(last.answer() == head + "Connection: close\r\n\r\nno\n");
  Sent more("");
  CHECK(http::write_response(more.connection, response, false, 15));
  CHECK(more.answer() ==
        head + "Connection: keep-alive\r\nKeep-Alive: timeout=15, max=1000000\r\n\r\n");
}

TEST_CASE("no bytes make the parser do anything but refuse or take", "[unit]") {
  const std::string good =
      "POST /invocations HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\ngood\r\n0\r\nA: "
      "b\r\n\r\n";
  std::uint64_t state = 1;
  const auto draw = [&state](std::size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  const auto survive = [](std::string_view bytes) {
    Sent sent(bytes);
    http::Request request;
    if (http::read_head(sent.connection, request)) return;
    sent.connection.begin_body(std::size_t{1} << 16);
    std::size_t size = 0;
    http::BodyReader(sent.connection, request).read([&](std::string_view piece) {
      size += piece.size();
      return true;
    });
    REQUIRE(size <= bytes.size());
  };
  for (std::size_t end = 0; end <= good.size(); ++end) survive(good.substr(0, end));
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
    survive(bytes);
  }
}

// serve: predictions, or the vectors of an encoder, over HTTP. Each connection has a thread that
// reads and writes; the main thread loads the model and computes, with other threads if asked.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/serve/batcher.hpp"
#include "bert_classifier/serve/bodies.hpp"
#include "bert_classifier/serve/http.hpp"
#include "bert_classifier/serve/statistics.hpp"
#include "training/compute.hpp"

#include <soma/base/fixed.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/models/predictor.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/models/text_encoder.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>
#include <soma/text/byte_source.hpp>
#include <soma/text/columns.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using http::field;
using soma::ErrorId;

constexpr const char* path = "/invocations";
constexpr std::string_view post = "POST /invocations";
constexpr std::size_t head_bytes = std::size_t{1} << 16;  // for the head of a request, ample
constexpr std::size_t chunk_bytes = 6;                    // bytes sent for a chunk of one byte
// A short text costs far more than its bytes: each text counts as this many bytes of --max-body.
constexpr std::size_t text_bytes = 16, always_texts = 1024;
constexpr std::size_t bodies_at_once = 64;  // bodies of --max-body bytes; more small ones

struct Service {
  std::size_t max_body = 0;
  Batcher batcher{};
  std::atomic<std::size_t> held_bytes{0};  // bytes of bodies without an answer yet
  Statistics statistics{};
  std::atomic<bool> loaded{false};
  // The model's, once it is loaded.
  std::vector<std::string> labels{};
  soma::models::InputForm form{};
};

// An encoder's folder, whose answers are vectors.
struct Embedder {
  const soma::models::Predictor& predictor;

  std::size_t width() const { return predictor.encoder().width(); }
  soma::Tensor embed(std::span<const std::string_view> texts) const {
    return predictor.embed(texts);
  }
};

int status_of(ErrorId id) {
  if (id == ErrorId{"serve.body"}) return 400;
  if (id == ErrorId{"serve.accept"}) return 406;
  if (id == ErrorId{"serve.timeout"}) return 408;
  if (id == ErrorId{"serve.body_size"}) return 413;
  if (id == ErrorId{"serve.loading"} || id == ErrorId{"serve.busy"}) return 503;
  return 500;
}

void set_error(Response& response, int status, std::string_view message, std::string_view id) {
  response.result(static_cast<unsigned>(status));
  response.set(field::content_type, "application/json");
  response.body() =
      "{\"error\":" + bodies::json_value(message) + ",\"id\":" + bodies::json_value(id) + "}\n";
}

[[noreturn]] void refuse_size(const Service& service, const std::string& given) {
  soma::fail(ErrorId{"serve.body_size"}, post, "the body", given + " bytes",
             "at most " + std::to_string(service.max_body) + " (--max-body)");
}

// The type of a body that is worth reading, by the head alone. Errors serve.body, serve.body_size.
bodies::Type check_head(const Service& service, const Request& request) {
  const std::string_view type_name = request.header(field::content_type);
  const auto type = bodies::find_type(type_name);
  if (!type)
    bodies::refuse("of type " + soma::quoted(type_name),
                   "text/plain, application/json, application/jsonlines or text/csv");
  if (request.count(field::transfer_encoding) != 0) {
    if (bodies::lower_case(request.header(field::transfer_encoding)) != "chunked")
      bodies::refuse("sent as " + soma::quoted(request.header(field::transfer_encoding)),
                     "chunked, or with a Content-Length");
    return *type;
  }
  if (request.count(field::content_length) == 0) bodies::refuse("empty", "at least one text");
  const std::string length(request.header(field::content_length));
  const auto bytes = soma::text::whole_number(length);
  if (!bytes || *bytes < 0 || request.count(field::content_length) != 1)
    bodies::refuse("of Content-Length " + soma::quoted(length), "a number of bytes, once");
  if (static_cast<std::uint64_t>(*bytes) > service.max_body) refuse_size(service, length);
  return *type;
}

// The types of a request's body and of its answer, by its head alone.
struct Kinds {
  bodies::Type body, answer;
  bodies::Header header;  // says if a table has names
  bool packed;            // true: the body is gzip
};

// True for gzip. Error serve.body: another encoding.
bool is_packed(const Request& request) {
  const std::string_view given = request.header(field::content_encoding);
  const std::string name = bodies::lower_case(soma::text::trimmed(given));
  const bool packed = name == "gzip" || name == "x-gzip";
  if (request.count(field::content_encoding) > 1 || !(packed || name.empty() || name == "identity"))
    bodies::refuse("encoded as " + soma::quoted(given), "gzip, or none, as Content-Encoding");
  return packed;
}

// Errors of check_head, and serve.accept.
Kinds check_kinds(const Service& service, const Request& request) {
  const bodies::Type body = check_head(service, request);
  const std::string_view accept = request.header(field::accept);
  const auto answer = bodies::find_answer_type(accept, body);
  if (!answer)
    soma::fail(ErrorId{"serve.accept"}, post, "the header Accept", soma::quoted(accept),
               "application/json, application/jsonlines, text/csv or text/plain");
  const std::string header = bodies::parameter(request.header(field::content_type), "header");
  if (!header.empty() && header != "present" && header != "absent")
    bodies::refuse("of a type with header=" + header, "header=present or header=absent");
  return {body, *answer,
          header == "present"  ? bodies::Header::present
          : header == "absent" ? bodies::Header::absent
                               : bodies::Header::detect,
          is_packed(request)};
}

// True if the connection can continue after this request: its body is read to the end.
bool is_expected(const Service& service, const Request& request) {
  if (request.method() == http::verb::get || request.method() == http::verb::head)
    return request.count(field::content_length) == 0 &&
           request.count(field::transfer_encoding) == 0;
  if (request.method() != http::verb::post || request.path() != path) return false;
  if (request.count(field::transfer_encoding) != 0)
    return false;  // a chunked body may be longer than the limit
  try {
    check_kinds(service, request);
    return true;
  } catch (const soma::Error&) {
    return false;
  }
}

// A body as every file of texts is read: gzip is unpacked, and neither UTF-16 nor a byte order mark
// is part of the text. Errors serve.body, serve.body_size.
std::string plain_text(const Service& service, std::string_view body) {
  try {
    soma::text::ByteSource bytes = soma::text::ByteSource::of_file_bytes("serve", body, "the body");
    if (bytes.ahead().starts_with("\xEF\xBB\xBF")) bytes.skip(3);
    std::string text = bytes.rest(service.max_body);
    if (text.size() <= service.max_body) return text;
  } catch (const soma::Error& error) {
    bodies::refuse(error.given(), error.wanted());
  }
  refuse_size(service, "more than " + std::to_string(service.max_body));
}

// The bytes of a body, which count as held until it is answered.
class Body {
 public:
  explicit Body(Service& service) : service_(service) {}
  ~Body() { service_.held_bytes -= counted_; }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  // Errors serve.body, serve.body_size, serve.busy, serve.timeout.
  void read(const Connection& connection, Request& request) {
    const bool whole = request.read_body([&](std::string_view bytes) { return add(bytes); });
    using Failure = Connection::Failure;
    const Failure failure = connection.failure();
    if (size_ > service_.max_body || failure == Failure::limit)
      refuse_size(service_, "more than " + std::to_string(service_.max_body));
    const std::string cut = "cut short after " + std::to_string(size_) + " bytes";
    if (failure == Failure::deadline)
      soma::fail(ErrorId{"serve.timeout"}, post, "the body", cut,
                 "all of it within --read-timeout");
    if (failure == Failure::end) bodies::refuse(cut, "all of it");
    if (!whole) bodies::refuse("in chunks that cannot be read", "sizes in hex");
    if (busy_) refuse_busy();
  }
  // The body as plain_text() reads it, in its place. Errors as of read() and plain_text(); error
  // serve.body: `packed`, and no gzip.
  std::string_view plain(bool packed) {
    if (packed && !text_.starts_with("\x1f\x8b"))
      bodies::refuse("no gzip data", "whole gzip data, as its Content-Encoding says");
    if (!soma::text::ByteSource::has_mark(text_)) return text_;
    text_ = plain_text(service_, text_);
    size_ = text_.size();
    const std::size_t before = std::exchange(counted_, size_);
    service_.held_bytes -= before;
    if ((service_.held_bytes += size_) > bodies_at_once * service_.max_body) refuse_busy();
    return text_;
  }

 private:
  [[noreturn]] static void refuse_busy() {
    soma::fail(ErrorId{"serve.busy"}, post, "the server", "busy with other requests",
               "the same request again later");
  }

  // Bytes without room are read nevertheless, because the next request follows them.
  bool add(std::string_view bytes) {
    size_ += bytes.size();
    if (size_ > service_.max_body) return false;
    if (busy_) return true;
    counted_ += bytes.size();
    busy_ = (service_.held_bytes += bytes.size()) > bodies_at_once * service_.max_body;
    if (!busy_) text_.append(bytes);
    return true;
  }

  Service& service_;
  std::string text_;
  std::size_t size_ = 0, counted_ = 0;
  bool busy_ = false;
};

bodies::Texts read_texts(const Service& service, const Kinds& kinds, std::string_view body) {
  const std::size_t most = (std::max)(always_texts, service.max_body / text_bytes);
  bodies::Texts texts = bodies::texts(kinds.body, body, service.form, most + 1, kinds.header);
  if (texts.size() > most)
    soma::fail(ErrorId{"serve.body_size"}, post, "the body",
               "more than " + std::to_string(most) + " texts",
               "at most " + std::to_string(most) + ": one for each " + std::to_string(text_bytes) +
                   " bytes of --max-body");
  return texts;
}

void predict(Service& service, Connection& connection, Request& request, Response& response) {
  std::int64_t begin = soma::monotonic_nanoseconds();
  try {
    const Kinds kinds = check_kinds(service, request);
    Body body(service);
    body.read(connection, request);
    begin = soma::monotonic_nanoseconds();  // leaves out the time that the client took to send
    if (!service.loaded)
      soma::fail(ErrorId{"serve.loading"}, post, "the model", "being loaded", "one that is loaded");
    const bodies::Texts asked = read_texts(service, kinds, body.plain(kinds.packed));
    response.body() = bodies::answer(kinds.answer, service.batcher.answer(asked.texts, asked.pairs),
                                     service.labels);
    response.set(field::content_type, std::string(bodies::name_of(kinds.answer)));
    response.result(http::status::ok);
  } catch (const soma::Error& error) {
    set_error(response, status_of(error.id()), error.what(), error.id().name);
  } catch (const std::exception& error) {
    connection.give_up();  // the body may not have been read to its end
    set_error(response, 500, error.what(), "serve.failed");
  }
  service.statistics.add(static_cast<double>(soma::monotonic_nanoseconds() - begin) * 1e-9,
                         response.result() != http::status::ok);
}

bool is_ping(const Request& request) {
  return (request.method() == http::verb::get || request.method() == http::verb::head) &&
         request.path() == "/ping";
}

HttpServer::Handlers handlers_of(Service& service) {
  return {
      .expected = [&](const Request& request) { return is_expected(service, request); },
      .answer =
          [&](Connection& connection, Request& request, Response& response) {
            if (request.method() == http::verb::post && request.path() == path)
              return predict(service, connection, request, response);
            if (!is_ping(request))
              return set_error(response, 404, "there is GET /ping and POST /invocations",
                               "serve.path");
            response.result(service.loaded ? 200 : 503);
            response.set(field::content_type, "text/plain");
            response.body() = service.loaded ? "ready\n" : "loading\n";
          },
      .refuse =
          [](const Connection& connection, const Request& request, int status, Response& response) {
            if (connection.failure() == Connection::Failure::deadline)
              set_error(response, 408, "the request has not arrived within --read-timeout",
                        "serve.timeout");
            else
              set_error(response, status, request.problem(), "serve.request");
          }};
}

// The threads that compute beside the main thread.
class Lanes {
 public:
  // Error executor.thread_start.
  template <class Run>
  Lanes(std::size_t count, Batcher& batcher, const Run& run) : batcher_(batcher) {
    threads_.reserve(count);
    try {
      for (std::size_t i = 0; i < count; ++i) threads_.push_back(start_thread(run));
    } catch (...) {
      end();
      throw;
    }
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  ~Lanes() { end(); }

 private:
  void end() {
    batcher_.close();
    for (std::thread& thread : threads_) thread.join();
  }

  Batcher& batcher_;
  std::vector<std::thread> threads_;
};

// The thread that accepts connections; it ends, with all of them answered, before this object does.
class Listening {
 public:
  // Error executor.thread_start.
  Listening(HttpServer& server, Batcher& batcher)
      : listener_(start_thread([&server, &batcher, this] {
          server.listen([this] { return stop_requested.requested() || leave_; });
          batcher.close();
        })) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    leave_ = true;
    listener_.join();
  }

 private:
  std::atomic<bool> leave_{false};
  std::thread listener_;
};

void print(const Service& service) {
  using soma::fixed;
  const Batcher& batcher = service.batcher;
  const Statistics& statistics = service.statistics;
  const auto milliseconds = [&](double share) {
    return fixed(statistics.percentile(share) * 1e3, 2);
  };
  const double batches = static_cast<double>((std::max)(batcher.batches(), std::uint64_t{1}));
  std::cout << "requests          " << statistics.requests() << "\ntexts             "
            << batcher.texts() << "\nmean batch        "
            << fixed(static_cast<double>(batcher.texts()) / batches, 2)
            << "\nlatency           p50 " << milliseconds(0.5) << " ms, p95 " << milliseconds(0.95)
            << " ms, p99 " << milliseconds(0.99) << " ms\nfailures          "
            << statistics.failures() << '\n'
            << std::flush;
}

}  // namespace

int serve(const ServeOptions& options) {
  Service service{.max_body = options.max_body};
  HttpServer server({.read_timeout = std::chrono::milliseconds(
                         static_cast<std::int64_t>(options.read_timeout * 1e3)),
                     .head_bytes = head_bytes,
                     .body_bytes = chunk_bytes * options.max_body + head_bytes},
                    handlers_of(service));
  const int port = server.bind(options.host, options.port);
  const bool version_6 = options.host.find(':') != std::string::npos;
  std::cout << "listening on http://" << (version_6 ? "[" + options.host + "]" : options.host)
            << ':' << port << '\n'
            << std::flush;
  {
    const Listening listening(server, service.batcher);
    Compute compute(options.compute);
    soma::Context& context = compute.context();
    const bool fast = soma::models::is_fast_classifier(options.model);
    if (options.lanes > 1 && (fast || compute.device() != nullptr))
      soma::fail(ErrorId{"serve.lanes"}, "serve", "--lanes", std::to_string(options.lanes),
                 fast ? "1 for a fast classifier" : "1 on a device");
    const auto answer = [&](const auto& model, const std::vector<std::string>& labels,
                            const soma::models::InputForm& form) {
      service.labels = labels;
      service.form = form;
      service.loaded = true;
      const auto run = [&] { service.batcher.run(model, options.batch_size); };
      const Lanes others(options.lanes - 1, service.batcher, run);
      run();
    };
    if (fast) {
      soma::add_sparse(context);
      const auto model = soma::models::FastClassifier::from_folder(context, options.model);
      soma::models::InputForm form = model.options().input;
      form.pairs = false;  // as every model of this kind
      answer(model, model.labels(), form);
    } else if (soma::models::is_text_encoder(options.model)) {
      const soma::models::Predictor predictor(context, options.model,
                                              {.packed = true, .lanes = options.lanes});
      soma::models::InputForm form;
      form.pairs = false;
      answer(Embedder{predictor}, {}, form);
    } else {
      const soma::models::Predictor predictor(context, options.model,
                                              {.packed = true, .lanes = options.lanes});
      const soma::models::TextClassifier& model = predictor.classifier();
      answer(predictor, model.labels(), model.input());
    }
  }
  print(service);
  if (!stop_requested.requested())
    soma::fail(ErrorId{"serve.port"}, "serve", "the port", "closed", "one that stays open");
  return 0;
}

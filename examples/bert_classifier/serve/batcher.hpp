// Answers the texts of many requests in batches, on one thread or several.
#pragma once

#include <soma/models/text_classifier.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// For a text: what a classifier says, or the vector of an encoder.
using Answer = std::variant<soma::models::Prediction, std::vector<float>>;

class Batcher {
 public:
  using Answers = std::vector<Answer>;

  // Called from any thread; returns when all texts are answered, in their order. `pairs`: the
  // second text of each, or none. Throws the error of a batch that contained one of them. Not after
  // close().
  Answers answer(std::span<const std::string> texts, std::span<const std::string> pairs) {
    Request request{.texts = texts, .pairs = pairs};
    request.answers.resize(texts.size());  // a lack of memory here fails only this request
    std::unique_lock lock(mutex_);
    waiting_.push_back(&request);
    some_.notify_one();
    request.answered.wait(lock, [&] { return request.finished(); });
    if (request.error) std::rethrow_exception(request.error);
    return std::move(request.answers);
  }

  // A computing thread: takes waiting texts, at most `batch_size` at a time, until close() was
  // called and nothing waits. Several threads may be in here, if the model answers several. The
  // rest of a long request goes behind the others. Any failure, such as a lack of memory for a
  // round, is an error of that round's requests.
  template <class Model>
  void run(const Model& model, std::size_t batch_size) {
    std::vector<Piece> pieces;
    pieces.reserve(batch_size);
    std::unique_lock lock(mutex_);
    while (true) {
      some_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      take(batch_size, pieces);
      lock.unlock();
      Answers answers;
      std::exception_ptr error;
      try {
        std::vector<std::string_view> texts, pairs;
        for (const Piece& piece : pieces) {
          const auto add = [&](std::span<const std::string> from, auto& to) {
            const auto own = from.subspan(piece.first, piece.count);
            to.insert(to.end(), own.begin(), own.end());
          };
          add(piece.request->texts, texts);
          if (!piece.request->pairs.empty()) add(piece.request->pairs, pairs);
        }
        answers = answer_batch(model, texts, pairs);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      hand_out(pieces, answers, error);
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    some_.notify_all();
  }

  // Valid once run() has returned on every thread.
  std::uint64_t batches() const { return batches_; }
  std::uint64_t texts() const { return texts_; }

 private:
  struct Request {
    std::span<const std::string> texts, pairs;
    Answers answers{};
    std::size_t taken = 0, done = 0;  // texts that a computing thread has, or had
    std::exception_ptr error{};
    std::condition_variable answered{};

    bool finished() const { return done == taken && (error || done == texts.size()); }
  };
  // Texts of a request in one batch.
  struct Piece {
    Request* request;
    std::size_t first, count;
  };

  using Texts = std::span<const std::string_view>;
  template <class Model>
  static Answers answer_batch(const Model& model, Texts texts, Texts pairs) {
    Answers answers;
    if constexpr (requires { model.embed(texts), model.width(); }) {
      const soma::Tensor vectors = model.embed(texts);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::span<const float> vector =
            vectors.span<float>().subspan(i * model.width(), model.width());
        answers.emplace_back(std::vector<float>(vector.begin(), vector.end()));
      }
    } else if constexpr (requires { model.predict(texts, pairs); }) {
      for (soma::models::Prediction& one : model.predict(texts, pairs))
        answers.emplace_back(std::move(one));
    } else {
      for (soma::models::Prediction& one : model.predict(texts))
        answers.emplace_back(std::move(one));
    }
    return answers;
  }

  // The texts of a batch, from the front of what waits. Allocates nothing.
  void take(std::size_t batch_size, std::vector<Piece>& pieces) {
    pieces.clear();
    const bool paired = !waiting_.front()->pairs.empty();
    for (std::size_t left = batch_size; left != 0 && !waiting_.empty();) {
      Request& request = *waiting_.front();
      if (paired == request.pairs.empty()) break;  // a batch has pairs only, or none
      const std::size_t count = (std::min)(request.texts.size() - request.taken, left);
      pieces.push_back({&request, request.taken, count});
      request.taken += count;
      left -= count;
      if (request.taken == request.texts.size())
        waiting_.pop_front();
      else
        waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
    }
    if (!waiting_.empty()) some_.notify_one();
  }

  // Allocates nothing.
  void hand_out(const std::vector<Piece>& pieces, Answers& answers,
                const std::exception_ptr& error) {
    ++batches_;
    auto next = answers.begin();
    for (const auto& [request, first, count] : pieces) {
      if (error) {
        request->error = error;
        waiting_.remove(request);  // the rest of it
      } else {
        std::move(next, next + static_cast<std::ptrdiff_t>(count),
                  request->answers.begin() + static_cast<std::ptrdiff_t>(first));
        next += static_cast<std::ptrdiff_t>(count);
      }
      texts_ += count;
      request->done += count;
      if (request->finished()) request->answered.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::list<Request*> waiting_;
  bool closed_ = false;
  std::uint64_t batches_ = 0, texts_ = 0;
};

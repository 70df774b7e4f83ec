// Answers the texts of many requests in batches, on one thread.
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
    request.answers.reserve(texts.size());  // a lack of memory here fails only this request
    std::unique_lock lock(mutex_);
    waiting_.push_back(&request);
    some_.notify_one();
    request.answered.wait(lock,
                          [&] { return request.answers.size() == texts.size() || request.error; });
    if (request.error) std::rethrow_exception(request.error);
    return std::move(request.answers);
  }

  // The computing thread: takes waiting texts, at most `batch_size` at a time, until close() was
  // called and nothing waits. The rest of a long request goes behind the others. Any failure, such
  // as a lack of memory for a round, is an error of that round's requests.
  template <class Model>
  void run(const Model& model, std::size_t batch_size) {
    std::unique_lock lock(mutex_);
    while (true) {
      some_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::size_t requests = 0, count = 0;  // the batch's requests and texts
      Answers answers;
      std::exception_ptr error;
      try {
        std::vector<std::string_view> texts, pairs;
        const bool paired = !waiting_.front()->pairs.empty();
        for (auto at = waiting_.begin(); at != waiting_.end() && count < batch_size; ++at) {
          if (paired == (*at)->pairs.empty()) break;  // a batch has pairs only, or none
          ++requests;
          const std::size_t first = (*at)->answers.size();
          const std::size_t taken = (std::min)((*at)->texts.size() - first, batch_size - count);
          const auto add = [&](std::span<const std::string> from, auto& to) {
            to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
                      from.begin() + static_cast<std::ptrdiff_t>(first + taken));
          };
          add((*at)->texts, texts);
          if (paired) add((*at)->pairs, pairs);
          count = texts.size();
        }
        lock.unlock();
        answers = answer_batch(model, texts, pairs);
      } catch (...) {
        error = std::current_exception();
      }
      if (!lock.owns_lock()) lock.lock();
      ++batches_;
      texts_ += count;
      hand_out(requests, answers, error);
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    some_.notify_one();
  }

  // Valid once run() has returned.
  std::uint64_t batches() const { return batches_; }
  std::uint64_t texts() const { return texts_; }

 private:
  struct Request {
    std::span<const std::string> texts, pairs;
    Answers answers{};
    std::exception_ptr error{};
    std::condition_variable answered{};
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

  // Distributes answers to `requests` requests, from the first on. Allocates nothing.
  void hand_out(std::size_t requests, Answers& answers, const std::exception_ptr& error) {
    auto next = answers.begin();
    for (; requests > 0; --requests) {
      Request& request = *waiting_.front();
      while (request.answers.size() < request.texts.size() && next != answers.end())
        request.answers.push_back(std::move(*next++));
      request.error = error;
      if (!error && request.answers.size() < request.texts.size()) {
        waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
        continue;
      }
      waiting_.pop_front();
      request.answered.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::list<Request*> waiting_;
  bool closed_ = false;
  std::uint64_t batches_ = 0, texts_ = 0;
};

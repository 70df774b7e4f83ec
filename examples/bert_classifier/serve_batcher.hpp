// Texts of many requests, answered in batches by one thread.
#pragma once

#include <soma/models/text_classifier.hpp>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

class Batcher {
 public:
  using Predictions = std::vector<soma::models::Prediction>;

  // From any thread; returns when all texts are answered, in their order. Throws what the batch of
  // one of them ended in. Not after close().
  Predictions predict(std::span<const std::string> texts) {
    Request request{.texts = texts};
    std::unique_lock lock(mutex_);
    waiting_.push_back(&request);
    some_.notify_one();
    request.answered.wait(lock,
                          [&] { return request.answers.size() == texts.size() || request.error; });
    if (request.error) std::rethrow_exception(request.error);
    return std::move(request.answers);
  }

  // The thread that computes: takes what waits, at most `batch_size` texts at a time, until
  // close() and nothing waits. What is left of a long request goes behind the others.
  template <class Model>
  void run(const Model& model, std::size_t batch_size) {
    std::unique_lock lock(mutex_);
    while (true) {
      some_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::vector<Part> parts;
      std::vector<std::string_view> texts;
      while (texts.size() < batch_size && !waiting_.empty()) {
        Request& request = *waiting_.front();
        waiting_.pop_front();
        const auto rest = request.texts.subspan(request.taken);
        const auto taken = rest.first((std::min)(rest.size(), batch_size - texts.size()));
        texts.insert(texts.end(), taken.begin(), taken.end());
        parts.push_back({&request, taken.size()});
        request.taken += taken.size();
        if (taken.size() < rest.size()) waiting_.push_back(&request);
      }
      lock.unlock();
      Predictions answers;
      std::exception_ptr error;
      try {
        answers = model.predict(texts);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      ++batches_;
      texts_ += texts.size();
      hand_out(parts, answers, error);
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    some_.notify_one();
  }

  // Read once run() has returned.
  std::uint64_t batches() const { return batches_; }
  std::uint64_t texts() const { return texts_; }

 private:
  struct Request {
    std::span<const std::string> texts;
    std::size_t taken = 0;
    Predictions answers{};
    std::exception_ptr error{};
    std::condition_variable answered{};
  };
  struct Part {
    Request* request;
    std::size_t count;
  };

  void hand_out(const std::vector<Part>& parts, Predictions& answers, std::exception_ptr error) {
    auto next = answers.begin();
    for (const auto& [request, count] : parts) {
      if (error) {
        request->error = error;
        std::erase(waiting_, request);
      } else {
        const auto end = next + static_cast<std::ptrdiff_t>(count);
        std::move(next, end, std::back_inserter(request->answers));
        next = end;
      }
      request->answered.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<Request*> waiting_;
  bool closed_ = false;
  std::uint64_t batches_ = 0, texts_ = 0;
};

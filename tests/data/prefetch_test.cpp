// Batches made in the background are those that the source would have given, errors included.

#include <soma/data/prefetch.hpp>
#include <soma/data/token_source.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "data/batches.hpp"
#include "support/errors.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

using namespace soma;
using namespace soma_test;
using data::Batch;
using data::Position;
using data::Prefetch;
using data::TokenSource;

namespace {

// Hands on what another source says; fails at some batches, and can be held up.
class TestSource final : public data::BatchSource {
 public:
  explicit TestSource(BatchSource& source) : source_(source) {}
  bool next(Batch& batch) override {
    ++calls;
    while (held) std::this_thread::yield();
    if (failing == source_.position()) {
      failing = {};
      fail(error_id::data_empty, "TestSource", "batch", "missing", "a batch");
    }
    return source_.next(batch);
  }
  Position position() const override { return source_.position(); }
  void seek(Position position) override { source_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return source_.batches(epoch); }
  std::uint64_t hash() const override { return source_.hash(); }
  std::size_t largest_rows() const override { return source_.largest_rows(); }
  std::size_t largest_sequences() const override { return source_.largest_sequences(); }

  std::atomic<int> calls{0};
  std::atomic<bool> held{false};
  Position failing{~std::uint64_t{0}, 0};  // set before there is a thread

 private:
  BatchSource& source_;
};

}  // namespace

TEST_CASE("batches made ahead are the source's", "[unit][data]") {
  auto context = make_context();
  const std::size_t ahead = GENERATE(0u, 1u, 2u, 50u);
  const data::BatchOptions options{.batch_sequences = 7, .seed = 4};
  TokenSource plain(context, token_lists(100), options), behind(context, token_lists(100), options);
  Prefetch prefetch(behind, ahead);
  CHECK(prefetch.hash() == plain.hash());
  CHECK(prefetch.batches(1) == plain.batches(1));
  CHECK(prefetch.largest_rows() == plain.largest_rows());
  CHECK(prefetch.largest_sequences() == plain.largest_sequences());
  const auto wanted = record(plain, 3), given = record(prefetch, 3);
  REQUIRE(given.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(given[i].position == wanted[i].position);
    CHECK(given[i].hash == wanted[i].hash);
  }
  // A seek throws away what waits.
  for (const std::size_t i : {std::size_t{20}, std::size_t{3}, std::size_t{15}}) {
    prefetch.seek(wanted[i].position);
    CHECK(prefetch.position() == wanted[i].position);
    Batch batch;
    CHECK(prefetch.next(batch) == wanted[i].is_batch);
    if (wanted[i].is_batch) CHECK(hash_of(batch) == wanted[i].hash);
    CHECK(prefetch.position() == wanted[i + 1].position);
  }
  CHECK(id_of([&] { prefetch.seek({0, 1000}); }) == "data.position");
  CHECK(prefetch.position() == wanted[16].position);
  Batch batch;
  CHECK(prefetch.next(batch) == wanted[16].is_batch);
}

TEST_CASE("no more batches are made ahead than asked for", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(100), {.batch_sequences = 1});
  TestSource counting(source);
  Prefetch prefetch(counting, 3);
  while (counting.calls < 3) std::this_thread::yield();
  Batch batch;
  prefetch.next(batch);
  while (counting.calls < 4) std::this_thread::yield();
  // The fifth call would be made only now, if a place were taken for free too early.
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  CHECK(counting.calls == 4);
  CHECK(prefetch.position() == Position{0, 1});
}

TEST_CASE("an error waits for the call that would have met it", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(50), {.batch_sequences = 10});
  TestSource failing(source);
  failing.failing = {0, 2};
  Prefetch prefetch(failing, 5);
  Batch batch;
  CHECK(prefetch.next(batch));
  CHECK(prefetch.next(batch));
  const std::uint64_t last = hash_of(batch);
  CHECK(message_of([&] { prefetch.next(batch); }) ==
        "TestSource: batch is missing, wanted a batch [data.empty]");
  CHECK(hash_of(batch) == last);
  CHECK(prefetch.position() == Position{0, 2});
  CHECK(prefetch.next(batch));
  CHECK(batch.index == 2);
}

TEST_CASE("time spent waiting is counted", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(50), {.batch_sequences = 10});
  TestSource slow(source);
  slow.held = true;
  Prefetch prefetch(slow);
  CHECK(prefetch.waited_seconds() == 0);
  std::thread consumer([&] {
    Batch batch;
    prefetch.next(batch);
  });
  const std::int64_t start = monotonic_nanoseconds();
  while (monotonic_nanoseconds() - start < 20'000'000) std::this_thread::yield();
  slow.held = false;
  consumer.join();
  CHECK(prefetch.waited_seconds() > 0);
  // Batches that are there are taken without waiting.
  while (slow.calls < 3) std::this_thread::yield();
}

TEST_CASE("the end comes while the source is at work", "[unit][data]") {
  auto context = make_context();
  TokenSource source(context, token_lists(50), {.batch_sequences = 10});
  for (int i = 0; i < 50; ++i) {
    Prefetch prefetch(source);
    if (i % 2 == 0) {
      Batch batch;
      prefetch.next(batch);
    }
  }
  CHECK(source.position() != Position{0, 0});
}

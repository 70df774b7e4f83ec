// Collectives over threads and over sockets: the bits of the shard tree for any number of ranks.
#include <soma/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "parallel/checks.hpp"
#include "parallel/ranks.hpp"
#include "support/errors.hpp"

using namespace soma_test;

namespace {

std::vector<std::string> no_errors(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

}  // namespace

TEST_CASE("collectives give the bits of the tree, for 1, 2, 4 and 8 ranks", "[collectives]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const int ranks = GENERATE(1, 2, 4, 8);
  CAPTURE(transport == Transport::sockets, ranks);
  CHECK(run_ranks(transport, ranks, check_all) == no_errors(ranks));
}

TEST_CASE("the data of the tests can tell orders apart", "[collectives]") {
  constexpr std::size_t count = 1000;
  const std::vector<float> wanted = tree(0, shards, count);
  std::vector<std::vector<float>> leaves;
  for (std::size_t shard = 0; shard < shards; ++shard) leaves.push_back(leaf(shard, count));
  // Around a ring: each part begins at another rank.
  std::vector<float> ring(count), far_first(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * shards / count + 1;
    ring[i] = leaves[first % shards][i];
    for (std::size_t k = 1; k < shards; ++k) ring[i] += leaves[(first + k) % shards][i];
    // Recursive halving as it is usually written: the largest distance first.
    const auto four = [&](std::size_t s) { return leaves[s][i] + leaves[s + 4][i]; };
    far_first[i] = (four(0) + four(2)) + (four(1) + four(3));
  }
  CHECK_FALSE(same_bits<float>(ring, wanted));
  CHECK_FALSE(same_bits<float>(far_first, wanted));
}

TEST_CASE("owned ranges cover a buffer once, in the order of reversed bits", "[collectives]") {
  for (const int ranks : {1, 2, 4, 8, 64})
    for (const std::size_t count : {0u, 1u, 2u, 3u, 63u, 64u, 65u, 1000u}) {
      std::vector<int> owners(count, -1);
      for (int rank = 0; rank < ranks; ++rank) {
        const soma::Part part = soma::owned_range(count, rank, ranks);
        REQUIRE(part.end() <= count);
        const std::size_t share = count / static_cast<std::size_t>(ranks);
        REQUIRE((part.count == share || part.count == share + 1));
        for (std::size_t i = part.begin; i < part.end(); ++i) {
          REQUIRE(owners[i] == -1);
          owners[i] = rank;
        }
      }
      CHECK(std::count(owners.begin(), owners.end(), -1) == 0);
    }
  CHECK(soma::owned_range(16, 0, 4) == soma::Part{0, 4});
  CHECK(soma::owned_range(16, 1, 4) == soma::Part{8, 4});
  CHECK(soma::owned_range(16, 2, 4) == soma::Part{4, 4});
  CHECK(soma::owned_range(16, 3, 4) == soma::Part{12, 4});
  CHECK(soma::owned_range(5, 0, 2) == soma::Part{0, 3});
}

TEST_CASE("parts at their places follow each other", "[collectives]") {
  for (const int ranks : {1, 2, 4, 8, 64}) {
    std::vector<soma::Part> parts(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      parts.at(soma::index_of_part(rank, ranks)) = soma::owned_range(1000, rank, ranks);
    std::size_t end = 0;
    for (const soma::Part& part : parts) {
      CHECK(part.begin == end);
      end = part.end();
    }
    CHECK(end == 1000);
  }
}

TEST_CASE("ranks hold runs of shards, and only powers of two of them", "[collectives]") {
  CHECK(soma::owned_shards(8, 1, 4) == soma::Part{2, 2});
  CHECK(soma::owned_shards(8, 7, 8) == soma::Part{7, 1});
  for (const int ranks : {-1, 0, 3, 6, 16})
    CHECK(id_of([&] { soma::owned_shards(8, 0, ranks); }) == "parallel.ranks");
  CHECK(id_of([] { soma::owned_shards(6, 0, 2); }) == "parallel.argument");
  CHECK(id_of([] { soma::owned_shards(8, 2, 2); }) == "parallel.argument");
  const auto messages = run_ranks(Transport::threads, 3, [](soma::Communicator& c, soma::Heap& h) {
    std::vector<float> values(3);
    soma::all_reduce(c, h, values);
  });
  for (const std::string& message : messages)
    CHECK(message.find("number of ranks is 3, wanted a power of two") != std::string::npos);
}

TEST_CASE("broadcast, barrier and agreement take any number of ranks", "[collectives]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const int ranks = GENERATE(3, 5, 7);
  const auto messages = run_ranks(transport, ranks, [](soma::Communicator& c, soma::Heap&) {
    check_messages(c);
    check_broadcast(c);
    check_agreement(c);
  });
  CHECK(messages == no_errors(ranks));
}

TEST_CASE("ranks that do not agree all say so, also when the first gives up at once",
          "[collectives]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  constexpr int ranks = 8;
  for (int round = 0; round < 50; ++round) {
    const auto messages = run_ranks(transport, ranks, [](soma::Communicator& c, soma::Heap&) {
      soma::Record record("settings");
      record.set("rate", c.rank() == ranks - 1 ? 0.2 : 0.1);
      try {
        soma::agree(c, record);
      } catch (const soma::Error& error) {
        c.abort(error.what());
        throw;
      }
    });
    for (const std::string& message : messages)
      REQUIRE(message ==
              "settings: \"rate\" of rank 7 is 0.2, wanted 0.1 as on rank 0 [parallel.mismatch]");
  }
}

TEST_CASE("buffers of different sizes are an error on a rank, not a hang", "[collectives]") {
  const auto transport = GENERATE(Transport::threads, Transport::sockets);
  const auto messages = run_ranks(transport, 2, [](soma::Communicator& c, soma::Heap& h) {
    std::vector<float> values(c.rank() == 0 ? 10 : 14);
    soma::all_reduce(c, h, values);
  });
  CHECK(messages[0].find("parallel.message_size") != std::string::npos);
  CHECK(!messages[1].empty());
}

TEST_CASE("a buffer that is on its way is not started again", "[collectives]") {
  const auto messages = run_ranks(Transport::threads, 2, [](soma::Communicator& c, soma::Heap& h) {
    if (c.rank() == 1) {
      c.barrier();
      return;
    }
    std::vector<float> values(9);
    soma::ReduceScatter reduction(c, h, 3);
    soma::AllGather gathering(c, 4);
    reduction.start(values);
    gathering.start(std::span(values));
    require(!reduction.advance() && !gathering.advance(), "nobody has answered");
    const auto refused = [](auto&& action) { return id_of(action) == "parallel.argument"; };
    require(refused([&] { reduction.start(values); }), "ReduceScatter started twice");
    require(refused([&] { gathering.start(std::span(values)); }), "AllGather started twice");
    soma::AllGather other(c, 5);
    require(refused([&] { other.start(std::as_writable_bytes(std::span(values)), 5); }), "36 / 5");
    require(refused([&] { other.start(std::as_writable_bytes(std::span(values)), 0); }), "36 / 0");
    c.barrier();
  });
  CHECK(messages == no_errors(2));
}

namespace {

// Hears one bit of one large message wrongly.
class BadEars final : public soma::Communicator {
 public:
  explicit BadEars(soma::Communicator& inner, bool bad) : inner_(inner), bad_(bad) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void abort(std::string_view reason) override { inner_.abort(reason); }

 protected:
  std::uint64_t begin_send(int to, int tag, std::span<const std::byte> bytes) override {
    inner_.send(to, tag, bytes);
    return 0;
  }
  std::uint64_t begin_receive(int from, int tag, std::span<std::byte> bytes) override {
    inner_.receive(from, tag, bytes);
    if (bad_ && bytes.size() > 1000) bytes[777] ^= std::byte{4};
    return 0;
  }
  bool poll(std::uint64_t) override { return true; }
  void cancel(std::uint64_t) noexcept override {}

 private:
  soma::Communicator& inner_;
  bool bad_;
};

}  // namespace

TEST_CASE("a broadcast that arrives otherwise is refused on all ranks", "[collectives]") {
  const auto messages = run_ranks(Transport::threads, 4, [](soma::Communicator& c, soma::Heap&) {
    BadEars ears(c, c.rank() == 3);
    std::vector<std::byte> bytes(2000);
    soma::broadcast_checked(ears, bytes, "weights");
  });
  for (const std::string& message : messages) {
    CHECK(message.find("broadcast_checked: \"hash of weights\" of rank 3 is") == 0);
    CHECK(message == messages[0]);
  }
}

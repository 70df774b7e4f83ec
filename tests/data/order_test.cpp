// Orders of an epoch and the words they are drawn with: known answers, no bias, no place left out.

#include <soma/data/content_hash.hpp>
#include <soma/data/order.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

TEST_CASE("words in sequence are the words of the stream", "[unit][data]") {
  const Draw draw{.seed = 7, .stream = 3, .step = 11, .index = 5};
  DrawSequence draws(draw);
  for (std::uint64_t i = 0; i < 20; ++i) CHECK(draws.word() == random_word(draw, i));
  CHECK(draws.index() == 25);
}

TEST_CASE("numbers below a bound are equally likely, words that favour some are passed over",
          "[unit][data]") {
  // 3 * 2^30 leaves a quarter of all words uneven: without rejection, numbers divisible by 3 would
  // come twice as often as the others.
  DrawSequence draws({.seed = 1, .stream = 2});
  std::array<std::size_t, 3> counts{};
  constexpr std::size_t many = 30000;
  for (std::size_t i = 0; i < many; ++i) {
    const std::uint32_t number = draws.below(3u << 30);
    REQUIRE(number < 3u << 30);
    ++counts[number % 3];
  }
  CHECK(draws.index() > many);
  // Six standard deviations of a binomial with p = 1/3.
  for (const std::size_t count : counts) CHECK(count > 10000 - 490);
  for (const std::size_t count : counts) CHECK(count < 10000 + 490);
  DrawSequence again({.seed = 1, .stream = 2});
  CHECK(again.below(0) == random_word({.seed = 1, .stream = 2}));
  CHECK(again.below(1) == 0);
}

TEST_CASE("an order is a permutation that depends on seed and epoch alone", "[unit][data]") {
  for (const std::size_t count : {0u, 1u, 2u, 3u, 1000u}) {
    std::vector<std::uint32_t> order = data::shuffled_order(count, 5, 9);
    CHECK(order == data::shuffled_order(count, 5, 9));
    std::ranges::sort(order);
    CHECK(order == data::identity_order(count));
  }
  CHECK(data::shuffled_order(1000, 5, 9) != data::shuffled_order(1000, 5, 10));
  CHECK(data::shuffled_order(1000, 5, 9) != data::shuffled_order(1000, 6, 9));
  CHECK(data::shuffled_order(1000, 5, 9) != data::identity_order(1000));
  // Frozen: a resumed run counts on it.
  CHECK(data::shuffled_order(10, 42, 0) ==
        std::vector<std::uint32_t>{8, 5, 3, 4, 0, 9, 7, 2, 1, 6});
  CHECK(data::shuffled_order(10, 42, 1) ==
        std::vector<std::uint32_t>{0, 5, 9, 6, 1, 2, 7, 3, 8, 4});
}

TEST_CASE("every order is equally likely", "[unit][data]") {
  std::map<std::vector<std::uint32_t>, std::size_t> counts;
  constexpr std::size_t many = 24000;
  for (std::uint64_t epoch = 0; epoch < many; ++epoch) ++counts[data::shuffled_order(4, 1, epoch)];
  CHECK(counts.size() == 24);
  // Six standard deviations of a binomial with p = 1/24.
  for (const auto& [order, count] : counts) {
    CHECK(count > 1000 - 186);
    CHECK(count < 1000 + 186);
  }
}

TEST_CASE("orders that have no number are refused", "[unit][data]") {
  CHECK(message_of([] { data::shuffled_order(3, 1, std::uint64_t{1} << 32); }) ==
        "epoch_draw: epoch is 4294967296, wanted below 2^32 [random.index_range]");
  CHECK(id_of([] { data::identity_order(std::size_t{1} << 32); }) == "random.index_range");
}

TEST_CASE("a content's hash depends on every byte and on no cut", "[unit][data]") {
  const std::string text = "a text of more than eight bytes, cut anywhere";
  const auto hash_of = [](std::string_view whole, std::size_t cut) {
    data::ContentHash hash;
    const auto bytes = std::as_bytes(std::span(whole.data(), whole.size()));
    hash.add_bytes(bytes.first(cut));
    hash.add_bytes(bytes.subspan(cut));
    return hash.value();
  };
  const std::uint64_t whole = hash_of(text, 0);
  CHECK(whole == 0x5B35B1EB2212AB09u);
  for (std::size_t cut = 1; cut <= text.size(); ++cut) CHECK(hash_of(text, cut) == whole);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    CHECK(hash_of(other, 0) != whole);
  }
  CHECK(hash_of(text + '\0', 0) != whole);
  data::ContentHash parts, one;
  parts.add_text("ab"), parts.add_text("c");
  one.add_text("a"), one.add_text("bc");
  CHECK(parts.value() != one.value());
}

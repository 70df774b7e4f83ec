// Sequences: offsets, indices of rows, and the cut into shards; ragged tensors of lists.

#include <soma/soma.hpp>
#include <soma/tensor/ragged.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/limited_memory.hpp"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

using Sizes = std::vector<std::size_t>;

Sizes list(std::span<const std::size_t> values) { return {values.begin(), values.end()}; }

Sequences cut(Context& context, const Sizes& lengths, std::size_t shards) {
  return Sequences::from_lengths(context, lengths, {.shards = shards});
}

// The border nearest to part / parts of the rows, the earlier one of two; by looking at each one.
std::size_t nearest_border(const Sizes& offsets, std::size_t part, std::size_t parts) {
  const auto distance = [&](std::size_t offset) {
    const auto twice = static_cast<std::int64_t>(offset * parts) -
                       static_cast<std::int64_t>(offsets.back() * part);
    return twice < 0 ? -twice : twice;
  };
  return *std::ranges::min_element(
      offsets, [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
}

void check_cut(const Sequences& sequences) {
  const Sizes offsets = list(sequences.offsets()), rows = list(sequences.row_bounds());
  const Sizes parts = list(sequences.sequence_bounds());
  const std::size_t shards = sequences.shards();
  REQUIRE(rows.size() == shards + 1);
  REQUIRE(parts.size() == shards + 1);
  REQUIRE(rows.front() == 0);
  REQUIRE(parts.front() == 0);
  REQUIRE(rows.back() == sequences.rows());
  REQUIRE(parts.back() == sequences.count());
  REQUIRE(std::ranges::is_sorted(parts));
  for (std::size_t shard = 0; shard <= shards; ++shard) {
    CAPTURE(shard);
    REQUIRE(rows[shard] == offsets[parts[shard]]);
    if (shard != 0 && shard != shards)
      REQUIRE(rows[shard] == nearest_border(offsets, shard, shards));
  }
}

}  // namespace

TEST_CASE("sequences know where they begin and how their rows are keyed", "[unit][ragged]") {
  auto context = make_context();
  CHECK_FALSE(Sequences().defined());
  const Sequences sequences =
      Sequences::from_lengths(context, Sizes{3, 0, 2, 1}, {.first_ordinal = 10, .shards = 2});
  CHECK(sequences.defined());
  CHECK(sequences.count() == 4);
  CHECK(sequences.rows() == 6);
  CHECK(sequences.longest() == 3);
  CHECK(list(sequences.offsets()) == Sizes{0, 3, 3, 5, 6});
  CHECK(sequences.begin(2) == 3);
  CHECK(sequences.end(2) == 5);
  CHECK(sequences.length(1) == 0);
  CHECK(sequences.ordinal(3) == 13);
  const std::vector<std::uint64_t> keys{token_index(10, 0, 0), token_index(10, 1, 0),
                                        token_index(10, 2, 0), token_index(12, 0, 0),
                                        token_index(12, 1, 0), token_index(13, 0, 0)};
  CHECK(std::ranges::equal(sequences.row_indices(), keys));

  const std::vector<std::uint64_t> ordinals{7, 3, 3, 0};
  const Sequences named =
      Sequences::from_lengths(context, Sizes{1, 1, 0, 2}, {.ordinals = ordinals});
  CHECK(named.ordinal(0) == 7);
  CHECK(named.row_indices()[3] == token_index(0, 1, 0));
  CHECK(named.shards() == default_shards);
}

TEST_CASE("no sequences, or none with rows", "[unit][ragged]") {
  auto context = make_context();
  for (const std::size_t shards : std::initializer_list<std::size_t>{1, 8, 1024}) {
    const Sequences none = cut(context, {}, shards);
    CHECK(none.count() == 0);
    CHECK(none.longest() == 0);
    CHECK(list(none.offsets()) == Sizes{0});
    check_cut(none);
    const Sequences empty = cut(context, {0, 0, 0}, shards);
    CHECK(empty.count() == 3);
    CHECK(empty.rows() == 0);
    check_cut(empty);
    CHECK(empty.summary(context).rows() == 3);
    CHECK(none.summary(context).rows() == 0);
  }
}

TEST_CASE("sequences that are none are refused", "[unit][ragged]") {
  auto context = make_context();
  const Sequences none;
  const std::string message =
      "Sequences: sequences is not defined, wanted those of a batch (Sequences::from_lengths, "
      "Sequences::uniform) [tensor.undefined]";
  CHECK(message_of([&] { none.count(); }) == message);
  CHECK(message_of([&] { none.row_indices(); }) == message);
  CHECK(message_of([&] { none.length(0); }) == message);
  CHECK(message_of([&] { none.summary(context); }) == message);
  CHECK(message_of([&] { none.part(context, 0, 1); }) == message);
}

TEST_CASE("shards end at the nearest borders", "[unit][ragged]") {
  auto context = make_context();
  // Halves of 5 rows: 2.5 is nearer to 4 than to 0.
  CHECK(list(cut(context, {4, 1}, 2).row_bounds()) == Sizes{0, 4, 5});
  // As near to 1 as to 4: the earlier one.
  CHECK(list(cut(context, {1, 3, 1}, 2).row_bounds()) == Sizes{0, 1, 5});
  // One sequence over several goals takes the shards that lie inside it.
  CHECK(list(cut(context, {10, 1}, 8).row_bounds()) == Sizes{0, 0, 0, 0, 10, 10, 10, 10, 11});
  CHECK(list(cut(context, {100}, 4).row_bounds()) == Sizes{0, 0, 0, 100, 100});
  CHECK(list(cut(context, {2, 2, 2, 2}, 4).sequence_bounds()) == Sizes{0, 1, 2, 3, 4});
  CHECK(list(cut(context, {5, 5}, 1).row_bounds()) == Sizes{0, 10});
}

TEST_CASE("shards of random batches are the nearest borders, however many", "[unit][ragged]") {
  auto context = make_context();
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Sizes lengths(random() % 20);
    const std::size_t longest = 1 + random() % (round % 2 == 0 ? 4 : 60);
    for (std::size_t& length : lengths) length = random() % 3 == 0 ? 0 : random() % longest;
    const std::size_t shards = std::size_t{1} << (round % 11);
    CAPTURE(lengths, shards);
    const Sequences sequences = cut(context, lengths, shards);
    REQUIRE(sequences.shards() == shards);
    check_cut(sequences);
    const Sequences summary = sequences.summary(context);
    REQUIRE(summary.count() == lengths.size());
    REQUIRE(summary.rows() == lengths.size());
    REQUIRE(list(summary.row_bounds()) == list(sequences.sequence_bounds()));
    REQUIRE(list(summary.sequence_bounds()) == list(sequences.sequence_bounds()));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      REQUIRE(summary.length(i) == 1);
      REQUIRE(summary.row_indices()[i] == token_index(sequences.ordinal(i), 0, 0));
    }
  }
}

TEST_CASE("rows that are sequences are cut evenly", "[unit][ragged]") {
  auto context = make_context();
  for (const std::size_t rows : std::initializer_list<std::size_t>{0, 1, 7, 8, 9, 1000})
    for (const std::size_t shards : std::initializer_list<std::size_t>{1, 2, 8, 1024}) {
      CAPTURE(rows, shards);
      const Sequences sequences = Sequences::uniform(context, rows, shards);
      REQUIRE(sequences.count() == rows);
      REQUIRE(sequences.rows() == rows);
      REQUIRE(sequences.longest() == (rows == 0 ? 0 : 1));
      check_cut(sequences);
      for (std::size_t i = 0; i < rows; ++i)
        REQUIRE(sequences.row_indices()[i] == token_index(i, 0, 0));
      const auto bounds = sequences.row_bounds();
      std::size_t least = rows, most = 0;
      for (std::size_t shard = 0; shard < shards; ++shard) {
        least = std::min(least, bounds[shard + 1] - bounds[shard]);
        most = std::max(most, bounds[shard + 1] - bounds[shard]);
      }
      REQUIRE(most - least <= 1);
    }
}

TEST_CASE("rows become sequences of equal length, with the shards of the rows", "[unit][ragged]") {
  auto context = make_context();
  for (const std::size_t rows : std::initializer_list<std::size_t>{0, 1, 7, 9})
    for (const std::size_t length : std::initializer_list<std::size_t>{0, 1, 5}) {
      CAPTURE(rows, length);
      const Sequences each = Sequences::uniform(context, rows, 4);
      const Sequences all = each.lengthened(context, length);
      REQUIRE(all.count() == rows);
      CHECK(all.rows() == rows * length);
      CHECK(all.longest() == (rows == 0 ? 0 : length));
      CHECK(list(all.sequence_bounds()) == list(each.sequence_bounds()));
      for (std::size_t shard = 0; shard <= 4; ++shard)
        CHECK(all.row_bounds()[shard] == each.row_bounds()[shard] * length);
      for (std::size_t i = 0; i < rows; ++i) {
        CHECK(all.length(i) == length);
        CHECK(all.ordinal(i) == each.ordinal(i));
        for (std::size_t j = 0; j < length; ++j)
          CHECK(all.row_indices()[i * length + j] == token_index(i, j, 0));
      }
    }
  CHECK(message_of([&] {
          cut(context, {1, 2}, 2).lengthened(context, 3);
        }) ==
        "Sequences::lengthened: sequences is of up to 2 rows, wanted of one row each "
        "[ragged.ordinals]");
  CHECK(message_of([&] {
          cut(context, {1, 0}, 2).lengthened(context, 3);
        }) ==
        "Sequences::lengthened: sequences is with empty ones, wanted of one row each "
        "[ragged.ordinals]");
}

TEST_CASE("batches that cannot be are refused before memory is taken", "[unit][ragged]") {
  soma_test::LimitedMemory limited(std::size_t{1} << 30);
  auto context = make_context({.memory = &limited});
  CHECK(message_of([&] { cut(context, {1}, 3); }) ==
        "Sequences: shards is 3, wanted a power of two up to 1024 [ragged.shards]");
  CHECK(id_of([&] { cut(context, {1}, 0); }) == "ragged.shards");
  CHECK(id_of([&] { cut(context, {1}, 2048); }) == "ragged.shards");
  CHECK(id_of([&] { Sequences::uniform(context, 1, 12); }) == "ragged.shards");
  const std::vector<std::uint64_t> ordinals{1, 2};
  CHECK(message_of([&] {
          Sequences::from_lengths(context, Sizes{1, 1, 1}, {.ordinals = ordinals});
        }) == "Sequences: ordinals is 2, wanted 3 [ragged.ordinals]");

  constexpr std::size_t huge = ~std::size_t{0};
  CHECK(id_of([&] { cut(context, {huge, 1}, 1); }) == "base.size_overflow");
  CHECK(id_of([&] { cut(context, {huge}, 1); }) == "random.index_range");
  CHECK(message_of([&] {
          cut(context, {1, (1 << 20) + 1}, 1);
        }) == "token_index: position is 1048576, wanted below 2^20 [random.index_range]");
  CHECK(cut(context, {1 << 20}, 8).rows() == 1 << 20);
  CHECK(id_of([&] { Sequences::uniform(context, (1 << 24) + 1); }) == "random.index_range");
  CHECK(id_of([&] { Sequences::uniform(context, huge); }) == "random.index_range");
  // The sequence without rows would have one in a summary.
  CHECK(message_of([&] {
          Sequences::from_lengths(context, Sizes{1, 0}, {.first_ordinal = (1 << 24) - 1});
        }) == "token_index: ordinal is 16777216, wanted below 2^24 [random.index_range]");
  CHECK(id_of([&] {
          Sequences::from_lengths(context, Sizes{0, 1}, {.first_ordinal = ~std::uint64_t{0}});
        }) == "random.index_range");
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("copies of sequences share, and give back at the end", "[unit][ragged]") {
  auto context = make_context();
  {
    Sequences copy;
    {
      const Sequences sequences = cut(context, {3, 4}, 2);
      copy = sequences;
      CHECK(copy.offsets().data() == sequences.offsets().data());
    }
    CHECK(copy.rows() == 7);
  }
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("lists become a ragged tensor", "[unit][ragged]") {
  auto context = make_context();
  const std::vector<std::vector<std::int32_t>> lists{{5, 6, 7}, {}, {8}};
  const Ragged ragged = make_ragged<std::int32_t>(context, lists, {.shards = 2});
  CHECK(ragged.rows.describe() == "[4] int32");
  CHECK(std::ranges::equal(ragged.rows.span<std::int32_t>(), std::vector{5, 6, 7, 8}));
  CHECK(list(ragged.sequences.offsets()) == Sizes{0, 3, 3, 4});
  const std::vector<std::vector<float>> none;
  CHECK(make_ragged<float>(context, none).rows.describe() == "[0] fp32");
  const std::vector<std::vector<bool>> flags{{true, false}, {true}};
  CHECK(make_ragged<bool>(context, flags).rows.span<bool>()[2]);
  CHECK(id_of([&] { make_ragged<std::int32_t>(context, lists, {.shards = 5}); }) ==
        "ragged.shards");
}

TEST_CASE("shards of a batch as sequences of their own", "[unit][ragged]") {
  auto context = make_context();
  const std::vector<std::uint64_t> ordinals{9, 4, 7, 1, 30};
  const Sequences whole =
      Sequences::from_lengths(context, Sizes{3, 5, 2, 6, 4}, {.ordinals = ordinals, .shards = 4});
  for (const std::size_t count : {1u, 2u, 4u})
    for (std::size_t first = 0; first < 4; first += count) {
      const Sequences part = whole.part(context, first, count);
      const std::size_t row = whole.row_bounds()[first];
      const std::size_t sequence = whole.sequence_bounds()[first];
      CHECK(part.shards() == count);
      for (std::size_t i = 0; i <= count; ++i) {
        CHECK(part.row_bounds()[i] + row == whole.row_bounds()[first + i]);
        CHECK(part.sequence_bounds()[i] + sequence == whole.sequence_bounds()[first + i]);
      }
      REQUIRE(part.count() == whole.sequence_bounds()[first + count] - sequence);
      REQUIRE(part.rows() == whole.row_bounds()[first + count] - row);
      std::size_t longest = 0;
      for (std::size_t i = 0; i < part.count(); ++i) {
        CHECK(part.ordinal(i) == ordinals[sequence + i]);
        CHECK(part.begin(i) + row == whole.begin(sequence + i));
        CHECK(part.length(i) == whole.length(sequence + i));
        longest = std::max(longest, part.length(i));
      }
      CHECK(part.longest() == longest);
      for (std::size_t i = 0; i < part.rows(); ++i)
        CHECK(part.row_indices()[i] == whole.row_indices()[row + i]);
    }
  // With one sequence, all shards but one are empty.
  const Sequences one = cut(context, {5}, 4);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < 4; ++i) rows += one.part(context, i, 1).rows();
  CHECK(rows == 5);
  CHECK(one.part(context, 0, 1).summary(context).shards() == 1);
  CHECK(id_of([&] { whole.part(context, 0, 3); }) == "ragged.shards");
  CHECK(id_of([&] { whole.part(context, 0, 0); }) == "ragged.shards");
  CHECK(id_of([&] { whole.part(context, 3, 2); }) == "ragged.shards");
  CHECK(id_of([&] { whole.part(context, ~std::size_t{0}, 1); }) == "ragged.shards");
}

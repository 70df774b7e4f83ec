// Embedding bags: what the generic checks of operators do not see: the order of sums, large ids,
// refusals, and that nothing depends on threads or on how a batch is cut into parts.

#include <soma/ops/sparse/bag_occurrences.hpp>
#include <soma/sparse.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::id_of;
using soma_test::random_tensor;

namespace {

// Lengths from 0 to 40, ids with many repetitions: the same for the same seed.
struct Bags {
  std::vector<std::size_t> lengths;
  std::vector<std::int32_t> ids;

  Bags(std::size_t count, std::uint32_t rows, std::uint32_t seed) {
    for (std::uint32_t bag = 0; bag < count; ++bag) {
      const PhiloxCounter words = philox4x32_10({bag, seed, 0, 0}, {});
      lengths.push_back(words[0] % 41);
      for (std::uint32_t i = 0; i < lengths.back(); ++i) {
        const PhiloxCounter draw = philox4x32_10({bag, seed, 1 + i, 0}, {});
        // A few ids are in most bags.
        ids.push_back(static_cast<std::int32_t>(draw[0] % 3 == 0 ? draw[1] % 5 : draw[1] % rows));
      }
    }
  }
  Ragged ragged(Context& context, std::size_t shards = default_shards) const {
    return {Tensor::from(context, std::span<const std::int32_t>(ids), Shape{ids.size()}),
            Sequences::from_lengths(context, lengths, {.shards = shards})};
  }
};

// The gradient of the table where that of the result is `dy`.
Gradient gradient_of(Context& context, const Bags& bags, std::size_t rows, const Tensor& dy,
                     BagMode mode, std::size_t shards = default_shards) {
  const Var table = Var::parameter(context, Tensor::zeros(context, Shape{rows, dy.size(1)}));
  Tape tape(context);
  const Var y = embedding_bag(tape, table, tape.constant(bags.ragged(context, shards)), mode);
  tape.backward(y, dy);
  return table.gradient();
}

// Rows of segment 0 in order, of segment 1 in order ..., then neighbours pairwise: all segments,
// also empty ones.
float tree_sum(const std::vector<std::vector<float>>& segments, std::size_t first,
               std::size_t count) {
  if (count == 1) {
    float sum = 0;
    for (const float value : segments[first]) sum += value;
    return sum;
  }
  return tree_sum(segments, first, count / 2) + tree_sum(segments, first + count / 2, count / 2);
}

}  // namespace

TEST_CASE("an embedding bag passes the checks of operators", "[unit][grad]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  add_sparse(context);  // a second time: nothing
  const testing::Report report = testing::check_operator(context, "sparse::embedding_bag");
  INFO(report);
  CHECK(report.passed());
}

TEST_CASE("the gradient of a bag adds up along the tree of shards", "[unit][invariance]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const std::size_t shards : {1u, 2u, 8u, 64u})
    for (const std::size_t columns : {1u, 16u, 37u, 96u}) {
      const Bags bags(90, 40, 3);
      const Tensor dy = random_tensor(context, Shape{90, columns}, "dy");
      const Gradient gradient = gradient_of(context, bags, 40, dy, BagMode::sum, shards);
      const Sequences sequences = bags.ragged(context, shards).sequences;
      std::map<std::int32_t, std::vector<std::vector<std::size_t>>> in;  // bags by segment
      for (std::size_t shard = 0; shard < shards; ++shard)
        for (std::size_t bag = sequences.sequence_bounds()[shard];
             bag < sequences.sequence_bounds()[shard + 1]; ++bag)
          for (std::size_t i = sequences.begin(bag); i < sequences.end(bag); ++i) {
            auto& list = in[bags.ids[i]];
            list.resize(shards);
            list[shard].push_back(bag);
          }
      REQUIRE(gradient.rows.elements() == in.size());
      std::size_t row = 0, wrong = 0;
      for (const auto& [id, segments] : in) {
        CHECK(gradient.rows.data<std::int64_t>()[row] == id);
        for (std::size_t c = 0; c < columns; ++c) {
          std::vector<std::vector<float>> numbers(shards);
          for (std::size_t s = 0; s < shards; ++s)
            for (const std::size_t bag : segments[s])
              numbers[s].push_back(dy.data<float>()[bag * columns + c]);
          const float sum = tree_sum(numbers, 0, shards);
          wrong += gradient.values.data<float>()[row * columns + c] == sum ? 0u : 1u;
        }
        ++row;
      }
      INFO(shards << " shards, " << columns << " columns");
      CHECK(wrong == 0);
    }
}

TEST_CASE("long bags are summed in runs of 512 rows, and so are their gradients", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  constexpr double u = 0x1p-24;
  for (const std::size_t count : {512u, 513u, 1500u, 20'000u})
    for (const std::size_t columns : {1u, 16u, 37u, 64u}) {
      INFO(count << " rows of " << columns);
      const auto in_runs = [&](const auto& term) {
        float total = 0;
        for (std::size_t first = 0; first < count; first += 512) {
          float run = 0;
          for (std::size_t i = first; i < (std::min)(first + 512, count); ++i) run += term(i);
          total = first == 0 ? run : total + run;
        }
        return total;
      };
      // A bag of all rows; the second has rows 0 and 1.
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i));
      ids.insert(ids.end(), {0, 1});
      const std::vector<std::size_t> lengths = {count, 2};
      const Tensor table = random_tensor(context, Shape{count, columns}, "table");
      Tape tape(context);
      const auto bag = [&](const Tensor& rows, const std::vector<std::int32_t>& list,
                           const Sequences& bags) {
        const Ragged batch{
            Tensor::from(context, std::span<const std::int32_t>(list), Shape{list.size()}), bags};
        return embedding_bag(tape, tape.constant(rows), tape.constant(batch), BagMode::sum);
      };
      const Var y = bag(table, ids, Sequences::from_lengths(context, lengths));
      for (std::size_t c = 0; c < columns; ++c)
        CHECK(y.value().data<float>()[c] ==
              in_runs([&](std::size_t i) { return table.data<float>()[i * columns + c]; }));
      // Equal numbers are the hardest.
      const Var equal = bag(Tensor::full(context, Shape{count, columns}, 0.1f), ids,
                            Sequences::from_lengths(context, lengths));
      const double wanted = static_cast<double>(0.1f) * static_cast<double>(count);
      CHECK(std::fabs(static_cast<double>(equal.value().data<float>()[0]) - wanted) <=
            u * (512 + static_cast<double>(count / 512)) * wanted);

      // One id in all bags of one shard.
      Bags same(0, 1, 0);
      same.lengths.assign(count, 1), same.ids.assign(count, 0);
      const Tensor dy = random_tensor(context, Shape{count, columns}, "dy");
      const Gradient gradient = gradient_of(context, same, 1, dy, BagMode::sum, 1);
      for (std::size_t c = 0; c < columns; ++c)
        CHECK(gradient.values.data<float>()[c] ==
              in_runs([&](std::size_t i) { return dy.data<float>()[i * columns + c]; }));
    }
}

TEST_CASE("threads change no bit of a bag or its gradient", "[unit][invariance]") {
  const Bags bags(3000, 5000, 1);
  std::vector<std::byte> result, values;
  for (const int threads : {1, 2, 8}) {
    auto context = make_context({.threads = threads});
    add_sparse(context);
    const Tensor table = random_tensor(context, Shape{5000, 48}, "table");
    const Tensor dy = random_tensor(context, Shape{3000, 48}, "dy");
    Tape tape(context);
    const Var y = embedding_bag(tape, tape.constant(table), tape.constant(bags.ragged(context)),
                                BagMode::mean);
    const std::vector<std::byte> here = bits(context, y.value());
    const std::vector<std::byte> gradient =
        bits(context, gradient_of(context, bags, 5000, dy, BagMode::mean).values);
    if (threads == 1) {
      result = here;
      values = gradient;
    }
    CHECK(here == result);
    CHECK(gradient == values);
  }
}

TEST_CASE("rows beyond 2^31 numbers of a table are reached", "[unit]") {
  // The table is a view that repeats one row: no memory of 2^31 numbers is needed.
  auto context = make_context({.threads = 1});
  add_sparse(context);
  HeapVector<std::uint64_t> keys(context.heap());
  const std::vector<std::uint64_t> ids = {0xFFFFFFFFu, 5, 0x80000000u, 5, 0, 0x80000001u};
  for (std::size_t i = 0; i < ids.size(); ++i) keys.push_back(ids[i] << 32 | i);
  detail::sort_by_upper_half(keys, 32, context.heap());
  std::vector<std::uint64_t> sorted, places;
  for (const std::uint64_t key : keys) {
    sorted.push_back(key >> 32);
    places.push_back(key & 0xFFFFFFFFu);
  }
  CHECK(sorted == std::vector<std::uint64_t>{0, 5, 5, 0x80000000u, 0x80000001u, 0xFFFFFFFFu});
  CHECK(places == std::vector<std::uint64_t>{4, 1, 3, 2, 5, 0});
}

TEST_CASE("bags are the sequences of ids, also where the table has sequences", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  Tape tape(context);
  const Var table =
      tape.constant(random_tensor(context, Shape{4, 3}, "table"), Sequences::uniform(context, 4));
  const Var ids = tape.constant(soma_test::ints(context, {3, 0, 2}),
                                Sequences::from_lengths(context, std::vector<std::size_t>{2, 1}));
  const Var y = embedding_bag(tape, table, ids, BagMode::sum);
  REQUIRE(y.shape() == Shape{2, 3});
  CHECK(y.sequences().count() == 2);
  const float *rows = table.value().data<float>(), *sums = y.value().data<float>();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(sums[i] == rows[9 + i] + rows[i]);
    CHECK(sums[3 + i] == rows[6 + i]);
  }
}

TEST_CASE("bags that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const Tensor table = random_tensor(context, Shape{4, 3}, "table");
  const Bags bags(3, 4, 2);
  const auto bag_of = [&](const Tensor& ids, const Tensor& weights, bool with_sequences) {
    return id_of([&] {
      Tape tape(context);
      const Var places =
          with_sequences
              ? tape.constant(
                    ids, Sequences::from_lengths(context, std::vector<std::size_t>{ids.elements()}))
              : tape.constant(ids);
      embedding_bag(tape, tape.constant(table), places, BagMode::sum,
                    weights.defined() ? tape.constant(weights) : Var());
    });
  };
  CHECK(bag_of(soma_test::ints(context, {0}), {}, true) == "context.no_sparse");
  add_sparse(context);
  CHECK(bag_of(soma_test::ints(context, {0, 3}), {}, true) == "no error");
  CHECK(bag_of(soma_test::ints(context, {0, 4}), {}, true) == "operator.value");
  CHECK(bag_of(soma_test::ints(context, {-1}), {}, true) == "operator.value");
  CHECK(bag_of(soma_test::floats(context, {0}), {}, true) == "tensor.dtype");
  CHECK(bag_of(soma_test::ints(context, {0}), {}, false) == "operator.sequences");
  CHECK(bag_of(soma_test::ints(context, {0, 1}), soma_test::floats(context, {1}), true) ==
        "tensor.shape");
  CHECK(bag_of(soma_test::ints(context, {0}), soma_test::ints(context, {1}), true) ==
        "tensor.dtype");
  const Var weights = Var::parameter(context, soma_test::floats(context, {1, 2}));
  const Var rows = Var::parameter(context, table);
  CHECK(id_of([&] {
          Tape tape(context);
          const Var ids =
              tape.constant(soma_test::ints(context, {0, 1}),
                            Sequences::from_lengths(context, std::vector<std::size_t>{2}));
          tape.backward(embedding_bag(tape, rows, ids, BagMode::sum, weights),
                        Tensor::full(context, Shape{1, 3}, 1.0f));
        }) == "autograd.not_differentiable");
}

// Attention over part of the keys: causal, masked, of other rows as queries; bits and refusals.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/every_target.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::message_of;
using soma_test::random_tensor;
using soma_test::values;

namespace {

constexpr std::size_t heads = 2, channels = 24;

Tensor flags(Context& context, const std::vector<std::uint8_t>& values) {
  return Tensor::from<std::uint8_t>(context, values, Shape{values.size()});
}
Tensor begins(Context& context, const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>(context, values, Shape{values.size()});
}

// Results and gradients of all inputs, as bytes.
std::vector<std::byte> attend(Context& context, const AttentionSetting& setting,
                              const Sequences& sequences, const std::vector<Tensor>& inputs) {
  Tape tape(context, {.seed = 3});
  std::vector<Var> vars;
  for (const Tensor& input : inputs) {
    const bool floating = input.defined() && is_floating(input.dtype());
    if (floating)
      vars.push_back(Var::parameter(context, input));
    else
      vars.push_back(input.defined() ? tape.constant(input) : Var());
  }
  const Var all = tape.with_sequences(vars[0], sequences);
  std::vector<Var> given = vars;
  given[0] = all;
  const VarOutputs outputs = tape.apply_all(*tape.operators().attention, setting, given);
  std::vector<std::byte> result = bits(context, outputs[0].value());
  tape.backward(outputs[0], random_tensor(context, outputs[0].shape(), "dy"));
  for (const Var& var : vars) {
    if (!var.defined() || !var.requires_gradient()) continue;
    const auto own = bits(context, soma_test::dense_gradient(context, var));
    result.insert(result.end(), own.begin(), own.end());
  }
  return result;
}

}  // namespace

TEST_CASE("ways to say the same of attention give the same bits", "[unit][attention]") {
  const std::vector<std::size_t> lengths{200, 0, 70, 1, 33};
  for (const float probability : {0.0f, 0.2f}) {
    std::vector<std::byte> first;
    for (const int threads : {1, 3}) {
      auto context = make_context({.threads = threads});
      const Sequences sequences = Sequences::from_lengths(context, lengths, {.first_ordinal = 4});
      const std::size_t rows = sequences.rows();
      const Tensor qkv = random_tensor(context, Shape{rows, 3 * channels}, "qkv", 2);
      AttentionSetting setting{heads,
                               {.probability = probability, .draw = {.seed = 1, .stream = 2}}};
      std::vector<std::uint8_t> triangle;
      std::vector<std::int64_t> own{0};
      for (const std::size_t length : lengths) {
        own.push_back(own.back() + static_cast<std::int64_t>(length));
        for (std::size_t i = 0; i < length * length; ++i)
          triangle.push_back(i % length <= i / length ? 1 : 0);
      }
      // Causal, and a mask that says so.
      const auto masked = attend(context, setting, sequences, {qkv, {}, flags(context, triangle)});
      setting.causal = true;
      const auto causal = attend(context, setting, sequences, {qkv});
      CHECK((causal == masked));
      // Queries of their own that are the same rows.
      setting.causal = false;
      const Tensor kv = contiguous(context, qkv.slice(1, channels, 3 * channels)),
                   q = contiguous(context, qkv.slice(1, 0, channels));
      const auto apart = attend(context, setting, sequences, {kv, q});
      const auto cross = attend(context, setting, sequences, {kv, q, {}, begins(context, own)});
      CHECK((apart == cross));
      CHECK((causal != cross));
      std::vector<std::byte> all = causal;
      all.insert(all.end(), cross.begin(), cross.end());
      if (first.empty()) first = all;
      CHECK((all == first));  // with 1 and 3 threads
    }
  }
}

TEST_CASE("queries without keys have zeros, and keys without queries no gradient",
          "[unit][attention]") {
  auto context = make_context({.threads = 1});
  const Sequences keys = Sequences::from_lengths(context, std::vector<std::size_t>{0, 3, 2});
  const Var kv = Var::parameter(context, random_tensor(context, Shape{5, 2 * channels}, "kv"));
  const Var q = Var::parameter(context, random_tensor(context, Shape{4, channels}, "q"));
  Tape tape(context);
  const Var y = tape.apply(
      *tape.operators().attention, AttentionSetting{heads},
      {tape.with_sequences(kv, keys), q, {}, tape.constant(begins(context, {0, 2, 2, 4}))});
  tape.backward(sum(tape, square(tape, y)));
  const auto out = soma_test::values(context, y.value());
  const auto dkv = soma_test::gradient_values(context, kv);
  const auto dq = soma_test::gradient_values(context, q);
  for (std::size_t i = 0; i < 2 * channels; ++i) {
    CHECK(out[i] == 0);
    CHECK(dq[i] == 0);
    CHECK(out[2 * channels + i] != 0);
  }
  for (std::size_t i = 0; i < 3 * 2 * channels; ++i) CHECK(dkv[i] == 0);
  CHECK(dkv[4 * 2 * channels] != 0);
}

TEST_CASE("the last rows of causal attention have the bits of all rows",
          "[unit][attention][invariance]") {
  // Keys with room behind them, as a cache has it; lengths on both sides of blocks and panels.
  const std::vector<std::size_t> lengths{1, 33, 70, 128, 200, 0}, rooms{64, 64, 128, 128, 256, 0};
  const std::size_t width = channels / 4, kept = 2 * 2 * width;  // 4 heads that share 2
  for (const DType dtype : {DType::fp32, DType::bf16})
    soma_test::on_every_target([&](Context& context) {
      INFO(to_string(dtype));
      const Sequences all = Sequences::from_lengths(context, lengths);
      Tensor qkv = random_tensor(context, Shape{all.rows(), channels + kept}, "qkv", 2);
      qkv = run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {qkv})[0];
      const AttentionSetting setting{.heads = 4, .causal = true, .key_value_heads = 2};
      const auto attended = [&](const std::vector<Tensor>& inputs, const Sequences& sequences) {
        return run(context, *context.built_in().attention, setting, inputs, sequences)[0];
      };
      const Tensor whole = attended({qkv}, all);
      const Sequences places = Sequences::from_lengths(context, rooms, {.used = lengths});
      const Tensor keys = Tensor::zeros(context, Shape{places.rows(), kept}, dtype);
      for (std::size_t i = 0; i < lengths.size(); ++i)
        copy(qkv.slice(0, all.begin(i), all.end(i)).slice(1, channels, channels + kept),
             keys.slice(0, places.begin(i), places.begin(i) + lengths[i]));
      for (const std::size_t last : {1u, 2u, 31u, 33u, 200u}) {
        INFO(last);
        std::vector<std::int64_t> ends{0};
        std::vector<std::byte> wanted;
        Tensor queries = Tensor::zeros(context, Shape{all.rows(), channels}, dtype);
        std::size_t rows = 0;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
          const std::size_t count = (std::min)(last, lengths[i]), first = all.end(i) - count;
          copy(qkv.slice(0, first, all.end(i)).slice(1, 0, channels),
               queries.slice(0, rows, rows + count));
          const auto own = bits(context, whole.slice(0, first, all.end(i)));
          wanted.insert(wanted.end(), own.begin(), own.end());
          ends.push_back(static_cast<std::int64_t>(rows += count));
        }
        CHECK((bits(context, attended({keys, queries.slice(0, 0, rows), {}, begins(context, ends)},
                                      places)) == wanted));
      }
    });
}

TEST_CASE("what attention refuses of masks and queries", "[unit][attention]") {
  auto context = make_context({.threads = 1});
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{2, 3});
  const Tensor qkv = random_tensor(context, Shape{5, 3 * channels}, "qkv"),
               kv = random_tensor(context, Shape{5, 2 * channels}, "kv"),
               q = random_tensor(context, Shape{5, channels}, "q");
  const auto says = [&](const AttentionSetting& setting, const std::vector<Tensor>& inputs) {
    return message_of([&] { attend(context, setting, sequences, inputs); });
  };
  const AttentionSetting plain{heads};
  CHECK(says({.heads = heads, .first_rows = true, .causal = true}, {kv, q.slice(0, 0, 2)}) ==
        "attention: causal is true, and first rows are queries, wanted queries that are the rows "
        "of the keys, or query_begins [operator.value]");
  CHECK(says({.heads = heads, .causal = true}, {kv, q, {}, begins(context, {0, 2, 5})}) ==
        "no error");
  CHECK(says({.heads = heads, .causal = true}, {kv, q, {}, begins(context, {0, 3, 5})}) ==
        "attention: query_begins is 3 queries of sequence 0, and attention is causal, wanted at "
        "most its 2 keys: queries are the last rows [operator.value]");
  CHECK(says(plain, {qkv, {}, {}, begins(context, {0, 2, 5})}) ==
        "attention: query_begins is given without queries, wanted queries that are apart, more "
        "than first rows [operator.inputs]");
  CHECK(says(plain, {kv, q, {}, begins(context, {0, 5})}) ==
        "attention: query_begins is [2] int64, wanted [3] [tensor.shape]");
  CHECK(says(plain, {kv, q, {}, begins(context, {0, 3, 4})}) ==
        "attention: query_begins is from 0 to 4, wanted ascending from 0 to the number of queries, "
        "5 [operator.sequences]");
  CHECK(says(plain, {kv, q, {}, begins(context, {0, 7, 5})}) ==
        "attention: query_begins is from 0 to 5, not ascending, wanted ascending from 0 to the "
        "number of queries, 5 [operator.sequences]");
  CHECK(says(plain, {qkv, {}, q}) ==
        "attention: mask is [5, 24] fp32, wanted rank 1 [tensor.rank]");
  CHECK(says(plain, {qkv, {}, flags(context, std::vector<std::uint8_t>(12, 1))}) ==
        "attention: mask is [12] uint8, wanted [13], a flag for each query and key of a sequence "
        "[tensor.shape]");
  std::vector<std::uint8_t> blind(13, 1);
  for (std::size_t i = 7; i < 10; ++i) blind[i] = 0;
  CHECK(says(plain, {qkv, {}, flags(context, blind)}) ==
        "attention: mask is only zeros for query 1 of sequence 1, wanted at least one key that "
        "each query sees [operator.value]");
  blind[9] = 1;
  CHECK(says(plain, {qkv, {}, flags(context, blind)}) == "no error");
  CHECK(says({.heads = heads, .causal = true}, {qkv, {}, flags(context, blind)}) ==
        "attention: mask is only zeros for query 1 of sequence 1, wanted at least one key that "
        "each query sees [operator.value]");
}

TEST_CASE("padding is no key, and has no gradient as one", "[unit][attention]") {
  // Sequences by themselves, and the same rows with padding behind them whose keys and values would
  // show: results and gradients of the rows are equal, keys and values of padding have none.
  const std::vector<std::size_t> used{70, 3, 33, 1};
  const std::size_t longest = 72;
  for (const bool first_rows : {false, true})
    for (const float probability : {0.0f, 0.2f}) {
      auto context = make_context({.threads = 2});
      const Sequences own = Sequences::from_lengths(context, used);
      const Sequences padded = Sequences::from_lengths(
          context, std::vector<std::size_t>(used.size(), longest), {.used = used});
      const std::size_t columns = (first_rows ? 2 : 3) * channels;
      const Tensor all = random_tensor(context, Shape{own.rows(), columns}, "all", 2);
      const Tensor wide = Tensor::full(context, Shape{padded.rows(), columns}, 50.0f);
      const Tensor queries =
          first_rows ? random_tensor(context, Shape{used.size(), channels}, "q", 2) : Tensor();
      const std::size_t results = first_rows ? used.size() : own.rows();
      const Tensor dy = random_tensor(context, Shape{results, channels}, "dy");
      const Tensor wide_dy =
          Tensor::zeros(context, Shape{first_rows ? results : padded.rows(), channels});
      if (first_rows) copy(dy, wide_dy);
      for (std::size_t i = 0; i < used.size(); ++i) {
        copy(all.slice(0, own.begin(i), own.end(i)),
             wide.slice(0, padded.begin(i), padded.begin(i) + used[i]));
        if (!first_rows)
          copy(dy.slice(0, own.begin(i), own.end(i)),
               wide_dy.slice(0, padded.begin(i), padded.begin(i) + used[i]));
      }
      const AttentionSetting setting{
          heads, {.probability = probability, .draw = {.seed = 1, .stream = 2}}, first_rows};
      const auto attend_to = [&](const Tensor& rows, const Sequences& sequences, const Tensor& d) {
        Tape tape(context);
        const Var x = Var::parameter(context, rows);
        const Var q = first_rows ? Var::parameter(context, queries) : Var();
        const Var y = attention(tape, tape.with_sequences(x, sequences), setting, q);
        const Tensor value = clone(context, y.value());
        tape.backward(y, d);
        return std::pair(value, soma_test::dense_gradient(context, x));
      };
      const auto [wanted, wanted_gradient] = attend_to(all, own, dy);
      const auto [given, gradient] = attend_to(wide, padded, wide_dy);
      for (std::size_t i = 0; i < used.size(); ++i) {
        INFO("sequence " << i << ", first rows " << first_rows << ", dropout " << probability);
        const auto rows = [&](const Tensor& tensor, const Sequences& sequences) {
          if (tensor.size(0) == used.size()) return values(context, tensor.select(0, i));
          return values(context, tensor.slice(0, sequences.begin(i), sequences.begin(i) + used[i]));
        };
        CHECK(rows(given, padded) == rows(wanted, own));
        CHECK(rows(gradient, padded) == rows(wanted_gradient, own));
        const Tensor behind = gradient.slice(0, padded.begin(i) + used[i], padded.end(i));
        for (const float d : values(context, behind)) REQUIRE(d == 0);
      }
    }
}

TEST_CASE("operators that read all rows of a sequence refuse padding", "[unit][attention]") {
  auto context = make_context({.threads = 1});
  const Sequences padded = Sequences::from_lengths(context, std::vector<std::size_t>{4},
                                                   {.used = std::vector<std::size_t>{3}});
  const Tensor x = random_tensor(context, Shape{4, 3 * channels}, "x");
  CHECK(message_of([&] {
          run(context, *context.built_in().attention, AttentionSetting{heads},
              {x, {}, flags(context, std::vector<std::uint8_t>(16, 1))}, padded);
        }) ==
        "attention: mask is [16] uint8 of sequences with padding, wanted none: padding is not "
        "looked at by itself [operator.value]");
  CHECK(message_of([&] {
          run(context, *context.built_in().gru, {},
              {x, random_tensor(context, Shape{3 * channels, channels}, "w")}, padded);
        }) ==
        "gru: input is sequences with padding, wanted sequences without padding "
        "[operator.sequences]");
}

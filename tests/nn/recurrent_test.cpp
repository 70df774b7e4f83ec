// Recurrent layers, positions and dense batches: bits, ends of sequences, names, refusals.

#include <soma/nn/positions.hpp>
#include <soma/nn/recurrent.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::message_of;
using soma_test::random_tensor;

namespace {

// Sequences of which some are long and some empty.
const std::vector<std::size_t> mixed{7, 0, 31, 1, 12, 30, 2, 2, 19, 5, 0, 23};
constexpr std::size_t mixed_rows = 132;

std::vector<std::byte> joined(std::initializer_list<std::vector<std::byte>> parts) {
  std::vector<std::byte> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Results and gradients of two layers in both directions.
template <class Module>
std::vector<std::byte> train_once(const ContextOptions& options, std::size_t hidden) {
  auto context = make_context(options);
  const Module module(nn::Scope{context, 5}, 9, hidden,
                      {.layers = 2, .bidirectional = true, .dropout = 0.2f});
  const Parameters parameters = nn::parameters(module);
  const Var x = Var::parameter(context, random_tensor(context, Shape{mixed_rows, 9}, "x"));
  Tape tape(context, {.seed = 3});
  const nn::RecurrentResult y =
      module(tape, tape.with_sequences(x, Sequences::from_lengths(context, mixed)));
  const Var last = y.last(tape);
  const auto values = joined({bits(context, y.rows.value()), bits(context, last.value())});
  tape.backward(add(tape, sum(tape, square(tape, y.rows)), sum(tape, last)));
  return joined(
      {values, soma_test::gradient_bits(context, parameters), bits(context, x.gradient().values)});
}

}  // namespace

TEST_CASE("recurrent layers have the same bits for any number of threads", "[unit][recurrent]") {
  for (const std::size_t hidden : {std::size_t{11}, std::size_t{64}}) {
    const auto gru = train_once<nn::Gru>({.threads = 1}, hidden);
    const auto lstm = train_once<nn::Lstm>({.threads = 1}, hidden);
    for (const int threads : {2, 3, 8}) {
      CHECK((train_once<nn::Gru>({.threads = threads}, hidden) == gru));
      CHECK((train_once<nn::Lstm>({.threads = threads}, hidden) == lstm));
    }
  }
}

TEST_CASE("each sequence of a recurrent layer ends at its own length", "[unit][recurrent]") {
  auto context = make_context({.threads = 2});
  const nn::Gru gru(nn::Scope{context, 5, "gru"}, 9, 40);
  const nn::Lstm lstm(nn::Scope{context, 5, "lstm"}, 9, 40);
  const Tensor x = random_tensor(context, Shape{mixed_rows, 9}, "x");
  const Sequences sequences = Sequences::from_lengths(context, mixed);
  const Var states[] = {
      Var::constant(context, random_tensor(context, Shape{mixed.size(), 40}, "state"))};
  Tape tape(context);
  const nn::RecurrentResult all = gru(tape, tape.constant(x, sequences), states),
                            cells = lstm(tape, tape.constant(x, sequences), states, states);
  CHECK(all.rows.sequences().count() == mixed.size());
  CHECK(all.states[0].sequences().rows() == mixed.size());
  const auto same = [&](const Tensor& a, const Tensor& b) {
    return bits(context, a) == bits(context, b);
  };
  for (std::size_t i = 0; i < mixed.size(); ++i) {
    INFO("sequence " << i);
    const std::size_t begin = sequences.begin(i), end = sequences.end(i);
    const Tensor last = all.states[0].value().slice(0, i, i + 1),
                 first = states[0].value().slice(0, i, i + 1);
    if (mixed[i] == 0) {
      CHECK(same(last, first));
      CHECK(same(cells.cells[0].value().slice(0, i, i + 1), first));
      continue;
    }
    CHECK(same(last, all.rows.value().slice(0, end - 1, end)));
    // By itself.
    const Sequences own = Sequences::from_lengths(context, std::vector<std::size_t>{mixed[i]});
    const Var state[] = {tape.constant(first)};
    const Var rows = tape.constant(x.slice(0, begin, end), own);
    CHECK(same(gru(tape, rows, state).rows.value(), all.rows.value().slice(0, begin, end)));
    CHECK(
        same(lstm(tape, rows, state, state).rows.value(), cells.rows.value().slice(0, begin, end)));
  }
}

TEST_CASE("a reverse layer is the layer on reversed rows", "[unit][recurrent]") {
  auto context = make_context({.threads = 1});
  constexpr std::size_t rows = 9, hidden = 6;
  const Tensor x = random_tensor(context, Shape{rows, 4 * hidden}, "x"), turned = clone(context, x);
  for (std::size_t row = 0; row < rows; ++row)
    copy(x.slice(0, row, row + 1), turned.slice(0, rows - 1 - row, rows - row));
  const Var weight = Var::constant(context, random_tensor(context, Shape{4 * hidden, hidden}, "w"));
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{rows});
  Tape tape(context);
  const LstmResult forwards = lstm(tape, tape.constant(x, sequences), weight),
                   back = lstm(tape, tape.constant(turned, sequences), weight, {}, {}, {},
                               {.reverse = true});
  CHECK(bits(context, forwards.cell.value()) == bits(context, back.cell.value()));
  for (std::size_t row = 0; row < rows; ++row)
    CHECK(bits(context, forwards.rows.value().slice(0, row, row + 1)) ==
          bits(context, back.rows.value().slice(0, rows - 1 - row, rows - row)));
}

TEST_CASE("gradients of last states reach what sequences begin with", "[unit][recurrent]") {
  auto context = make_context({.threads = 1});
  constexpr std::size_t hidden = 5;
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{3, 0, 2});
  const Tensor x = random_tensor(context, Shape{5, 4 * hidden}, "x"),
               w = random_tensor(context, Shape{4 * hidden, hidden}, "w"),
               probe = random_tensor(context, Shape{3, hidden}, "probe");
  const Tensor begin = random_tensor(context, Shape{3, hidden}, "begin");
  const auto loss = [&](Tape& tape, const Var& state, const Var& cell) {
    const LstmResult y = lstm(tape, tape.constant(x, sequences), tape.constant(w), {}, state, cell);
    return sum(tape, mul(tape, add(tape, y.last, y.cell), tape.constant(probe)));
  };
  const Var state = Var::parameter(context, begin), cell = Var::parameter(context, begin);
  Tape tape(context);
  tape.backward(loss(tape, state, cell));
  // Central differences in fp32: 2^-24 of a loss below 10, over a step of 2^-6, and the step's
  // square times third derivatives below 10.
  constexpr float step = 0x1p-6f;
  for (std::size_t i = 0; i < begin.elements(); ++i)
    for (const bool of_cell : {false, true}) {
      double moved[2];
      for (const int side : {0, 1}) {
        const Tensor there = clone(context, begin);
        there.mutable_data<float>()[i] += side == 0 ? -step : step;
        const Var other = tape.constant(begin), own = tape.constant(there);
        moved[side] = static_cast<double>(
            loss(tape, of_cell ? other : own, of_cell ? own : other).value().item<float>());
      }
      const auto given = soma_test::gradient_values(context, of_cell ? cell : state)[i];
      CHECK(std::fabs((moved[1] - moved[0]) / (2 * static_cast<double>(step)) -
                      static_cast<double>(given)) < 10 * 0x1p-24 / 0x1p-6 + 10 * 0x1p-12);
    }
}

TEST_CASE("a batch [B, T, C] has the bits of as many sequences", "[unit][transformer]") {
  auto context = make_context({.threads = 2});
  const nn::Scope scope{context, 5};
  const nn::Lstm lstm(scope / "lstm", 12, 8, {.bidirectional = true});
  const nn::PositionEmbedding positions(scope / "positions", 6, 12, 1);
  const nn::TransformerEncoder encoder(scope / "encoder", {.width = 12,
                                                           .heads = 2,
                                                           .inner = 16,
                                                           .layers = 2,
                                                           .dropout = 0.1f,
                                                           .causal = true,
                                                           .rotary_base = 100});
  const Tensor x = random_tensor(context, Shape{4, 5, 12}, "x");
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>(4, 5));
  const auto run = [&](bool dense) {
    Tape tape(context, {.seed = 2});
    const Var own = Var::parameter(context, dense ? x : x.reshape(Shape{20, 12}));
    const Var rows = dense ? own : tape.with_sequences(own, sequences);
    const Var y = encoder(tape, positions(tape, rows));
    const nn::RecurrentResult z = lstm(tape, y);
    CHECK(z.rows.shape() == (dense ? Shape{4, 5, 16} : Shape{20, 16}));
    const auto values = joined({bits(context, y.value()), bits(context, z.last(tape).value())});
    tape.backward(sum(tape, square(tape, z.rows)));
    const Parameters parameters = nn::parameters(encoder);
    const auto all = joined({values, bits(context, own.gradient().values),
                             soma_test::gradient_bits(context, parameters)});
    clear_gradients(parameters);
    clear_gradients(nn::parameters(positions));
    clear_gradients(nn::parameters(lstm));
    return all;
  };
  CHECK((run(true) == run(false)));
  Tape tape(context);
  const nn::TransformerEncoder plain(scope / "plain", {.width = 12, .heads = 2, .inner = 16});
  const Var first = plain(tape, tape.constant(x), {.first_rows = true});
  CHECK(first.shape() == Shape{4, 12});
}

TEST_CASE("what recurrent layers, positions and dense batches refuse", "[unit][recurrent]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 5};
  const nn::Gru gru(scope / "gru", 4, 3);
  const nn::PositionEmbedding positions(scope / "positions", 6, 4);
  const Tensor x = random_tensor(context, Shape{7, 4}, "x");
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{7});
  Tape tape(context);
  CHECK(soma_test::id_of([&] { gru(tape, tape.constant(x)); }) == "operator.sequences");
  const std::vector<Var> two(2, tape.constant(Tensor::zeros(context, Shape{1, 3})));
  CHECK(message_of([&] { gru(tape, tape.constant(x, sequences), two); }) ==
        "RecurrentLayers: states is 2, wanted one of each layer and direction, 1 "
        "[operator.inputs]");
  CHECK(message_of([&] { nn::Gru(scope, 4, 0); }) ==
        "RecurrentLayers: hidden is 0, wanted 1 or more [operator.value]");
  CHECK(message_of([&] {
          gru(tape, tape.constant(x, sequences),
              std::vector<Var>{tape.constant(Tensor::zeros(context, Shape{2, 3}))});
        }) == "gru of layer \"gru\": state is [2, 3] fp32, wanted [1, 3] [tensor.shape]");
  CHECK(message_of([&] { positions(tape, tape.constant(x, sequences)); }) ==
        "PositionEmbedding: x is a sequence of 7 rows, wanted at most 6 [models.sequence_length]");
  CHECK(soma_test::id_of([&] { positions(tape, tape.constant(x)); }) == "operator.sequences");
  CHECK(message_of([&] {
          gru(tape, tape.constant(x.reshape(Shape{7, 4, 1, 1})));
        }) == "SequenceRows: x is [7, 4, 1, 1] fp32, wanted [rows, C] or [B, T, C] [tensor.rank]");
  CHECK(message_of([&] {
          gru(tape, tape.constant(x.reshape(Shape{7, 1, 4}), sequences));
        }) ==
        "Sequences::lengthened: sequences is of up to 7 rows, wanted of one row each "
        "[ragged.ordinals]");
  CHECK(message_of([&] { rotary(tape, tape.constant(x, sequences), {.heads = 3}); }) ==
        "rotary: heads is 3, wanted a number of heads such that 2 * heads divides the columns, 4 "
        "[operator.value]");
}

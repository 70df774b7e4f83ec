// Layers over sequences beside PyTorch's in float64: recurrent layers, a causal encoder, a decoder,
// rotary positions with a mask. sequence_reference.py says what was computed and how.

#include <soma/nn/recurrent.hpp>
#include <soma/nn/transformer_decoder.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

struct Figure {
  std::string_view name;
  double dot, magnitudes;
};
#include "nn/sequence_reference.inc"

std::uint64_t hashed(std::uint64_t value) {  // splitmix64
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}
double number_of(std::uint64_t number, std::size_t i) {
  return static_cast<double>(hashed((number << 32) + i) >> 44) / 0x1p20 - 0.5;
}
Tensor numbers(Context& context, std::uint64_t number, const Shape& shape, double around = 0) {
  const Tensor tensor = Tensor::empty(context, shape);
  float* values = tensor.mutable_data<float>();
  for (std::size_t i = 0; i < tensor.elements(); ++i)
    values[i] = static_cast<float>(number_of(number, i) + around);
  return tensor;
}

constexpr std::uint64_t input = 1000, other_input = 1001, result = 2000, states = 2001,
                        probe = 3000;
constexpr std::size_t lengths[] = {3, 5, 1, 4}, others[] = {2, 4, 6, 1};

// A case of sequence_reference.py in our library.
class Case {
 public:
  explicit Case(std::span<const Figure> figures, int threads = 2)
      : context(make_context({.threads = threads})), figures_(figures) {}

  // Parameters get the numbers of their places among the figures.
  void set(const Parameters& parameters) {
    for (const Parameter& parameter : parameters) {
      const std::size_t place = place_of(parameter.name);
      const bool scale = parameter.name.find("norm.weight") != std::string::npos;
      copy(numbers(context, place, parameter.value().shape(), scale ? 1 : 0), parameter.value());
      all_.push_back(parameter);
    }
  }
  Var leaf(std::string_view name, std::uint64_t number, const Shape& shape) {
    const Var var = Var::parameter(context, numbers(context, number, shape));
    all_.push_back({std::string(name), var, 0, to_end, ParameterRole::unknown});
    return var;
  }

  // Values and gradients are sums of up to 100 numbers of the order of 1, over a few layers that
  // magnify what is before them by less than 10: 2^-24 times 10000 of the magnitudes.
  void check(Tape& tape, const Var& rows, std::span<const double> wanted, const Var& last = {}) {
    constexpr double tolerance = 10000 * 0x1p-24;
    const auto given = soma_test::values(context, rows.value());
    REQUIRE(given.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      CHECK(std::fabs(static_cast<double>(given[i]) - wanted[i]) < tolerance);
    Var loss = sum(tape, mul(tape, rows, tape.constant(numbers(context, result, rows.shape()))));
    if (last.defined())
      loss = add(tape, loss,
                 sum(tape, mul(tape, last, tape.constant(numbers(context, states, last.shape())))));
    tape.backward(loss);
    REQUIRE(all_.size() == figures_.size());
    for (const Parameter& parameter : all_) {
      INFO(parameter.name);
      const std::size_t place = place_of(parameter.name);
      const auto gradient = soma_test::values(context, parameter.gradient().values);
      double dot = 0, magnitudes = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        dot += static_cast<double>(gradient[i]) * number_of(probe + place, i);
        magnitudes += std::fabs(static_cast<double>(gradient[i]));
      }
      const Figure& figure = figures_[place];
      CHECK(std::fabs(dot - figure.dot) < tolerance * (1 + figure.magnitudes));
      CHECK(std::fabs(magnitudes - figure.magnitudes) < tolerance * (1 + figure.magnitudes));
    }
  }

  Context context;

 private:
  std::size_t place_of(std::string_view name) const {
    for (std::size_t i = 0; i < figures_.size(); ++i)
      if (figures_[i].name == name) return i;
    FAIL("PyTorch has no parameter " << name);
    return 0;
  }
  std::span<const Figure> figures_;
  Parameters all_;
};

// States of all layers and directions as PyTorch has them: [layers and directions, sequences, H].
Var stacked(Tape& tape, const std::vector<Var>& parts) {
  Var all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = concatenate(tape, {all, parts[i]}, 0);
  return all;
}

}  // namespace

TEST_CASE("Gru and Lstm are PyTorch's, packed", "[unit][recurrent]") {
  {
    Case c(gru_gradients);
    const nn::Gru gru(nn::Scope{c.context}, 3, 4, {.layers = 2, .bidirectional = true});
    c.set(nn::parameters(gru));
    const Var x = c.leaf("x", input, Shape{13, 3});
    Tape tape(c.context);
    const nn::RecurrentResult y =
        gru(tape, tape.with_sequences(x, Sequences::from_lengths(c.context, lengths)));
    c.check(tape, y.rows, gru_rows, stacked(tape, y.states));
  }
  Case c(lstm_gradients);
  const nn::Lstm lstm(nn::Scope{c.context}, 3, 4, {.layers = 2, .bidirectional = true});
  c.set(nn::parameters(lstm));
  const Var x = c.leaf("x", input, Shape{13, 3});
  Tape tape(c.context);
  const nn::RecurrentResult y =
      lstm(tape, tape.with_sequences(x, Sequences::from_lengths(c.context, lengths)));
  c.check(tape, y.rows, lstm_rows,
          concatenate(tape, {stacked(tape, y.states), stacked(tape, y.cells)}, 0));
}

constexpr nn::TransformerOptions small_transformer{
    .width = 8, .heads = 2, .inner = 12, .layers = 2, .causal = true};

TEST_CASE("a causal TransformerEncoder is PyTorch's", "[unit][transformer]") {
  Case c(encoder_gradients);
  const nn::TransformerEncoder encoder(nn::Scope{c.context}, small_transformer);
  c.set(nn::parameters(encoder));
  const Var x = c.leaf("x", input, Shape{13, 8});
  Tape tape(c.context);
  const Var y = encoder(tape, tape.with_sequences(x, Sequences::from_lengths(c.context, lengths)));
  c.check(tape, y, encoder_rows);
}

TEST_CASE("a TransformerDecoder is PyTorch's", "[unit][transformer]") {
  Case c(decoder_gradients);
  nn::TransformerOptions options = small_transformer;
  options.norm_first = true;
  const nn::TransformerDecoder decoder(nn::Scope{c.context}, options);
  c.set(nn::parameters(decoder));
  const Var x = c.leaf("x", input, Shape{13, 8});
  const Var memory = c.leaf("memory", other_input, Shape{13, 8});
  Tape tape(c.context);
  const Var y = decoder(tape, tape.with_sequences(x, Sequences::from_lengths(c.context, lengths)),
                        tape.with_sequences(memory, Sequences::from_lengths(c.context, others)));
  c.check(tape, y, decoder_rows);
}

TEST_CASE("rotary positions and masks are PyTorch's", "[unit][transformer]") {
  Case c(rotary_gradients);
  const Var x = c.leaf("x", input, Shape{13, 24});
  std::vector<std::uint8_t> mask;
  for (const std::size_t length : lengths)
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < length; ++j) mask.push_back((i + 2 * j) % 5 != 3 || i == j);
  Tape tape(c.context);
  const Var qkv = rotary(tape, tape.with_sequences(x, Sequences::from_lengths(c.context, lengths)),
                         {.heads = 4, .columns = 16});
  const Var y =
      attention(tape, qkv, {.heads = 2}, {},
                tape.constant(Tensor::from<std::uint8_t>(c.context, mask, Shape{mask.size()})));
  c.check(tape, y, rotary_rows);
}

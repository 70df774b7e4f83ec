// MultiHeadAttention and TransformerEncoder: names, views, formulas, recomputation.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;
using soma_test::values;

namespace {

using Matrix = std::vector<std::vector<double>>;  // rows

Matrix matrix(Context& context, const Tensor& tensor) {
  Matrix result;
  for (std::size_t i = 0; i < tensor.size(0); ++i) {
    const auto row = values(context, tensor.select(0, i));
    result.emplace_back(row.begin(), row.end());
  }
  return result;
}
std::vector<double> vector_of(Context& context, const Tensor& tensor) {
  const auto all = values(context, tensor);
  return {all.begin(), all.end()};
}

// A layer by plain loops in double. All rows of x are one sequence.
class PlainLayer {
 public:
  PlainLayer(Context& context, const nn::TransformerEncoderLayer& layer, bool norm_first)
      : context_(context), norm_first_(norm_first), heads_(layer.attention.heads) {
    for (const Parameter& parameter : nn::parameters(layer))
      parameters_.set(parameter.name, parameter.value());
  }

  Matrix operator()(const Matrix& x) const {
    if (norm_first_) {
      const Matrix h = sum(x, attention(norm(x, "attention_norm")));
      return sum(h, feed_forward(norm(h, "outer_norm")));
    }
    const Matrix h = norm(sum(x, attention(x)), "attention_norm");
    return norm(sum(h, feed_forward(h)), "outer_norm");
  }

 private:
  Matrix linear(const Matrix& x, const std::string& name) const {
    const Matrix w = matrix(context_, parameters_.at(name + ".weight"));
    const auto b = vector_of(context_, parameters_.at(name + ".bias"));
    Matrix y(x.size(), b);
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t o = 0; o < w.size(); ++o)
        for (std::size_t i = 0; i < x[r].size(); ++i) y[r][o] += x[r][i] * w[o][i];
    return y;
  }
  Matrix norm(const Matrix& x, const std::string& name) const {
    const auto gamma = vector_of(context_, parameters_.at(name + ".weight"));
    const auto beta = vector_of(context_, parameters_.at(name + ".bias"));
    Matrix y = x;
    for (auto& row : y) {
      double mean = 0, variance = 0;
      const auto n = static_cast<double>(row.size());
      for (const double value : row) mean += value / n;
      for (const double value : row) variance += (value - mean) * (value - mean) / n;
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i] + beta[i];
    }
    return y;
  }
  Matrix attention(const Matrix& x) const {
    const Matrix q = linear(x, "attention.query"), k = linear(x, "attention.key"),
                 v = linear(x, "attention.value");
    const std::size_t rows = x.size(), width = x[0].size(), part = width / heads_;
    Matrix mixed(rows, std::vector<double>(width, 0));
    for (std::size_t head = 0; head < heads_; ++head)
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<double> weights(rows, 0);
        double total = 0;
        for (std::size_t s = 0; s < rows; ++s) {
          double score = 0;
          for (std::size_t c = head * part; c < (head + 1) * part; ++c) score += q[r][c] * k[s][c];
          total += weights[s] = std::exp(score / std::sqrt(static_cast<double>(part)));
        }
        for (std::size_t s = 0; s < rows; ++s)
          for (std::size_t c = head * part; c < (head + 1) * part; ++c)
            mixed[r][c] += weights[s] / total * v[s][c];
      }
    return linear(mixed, "attention.output");
  }
  Matrix feed_forward(const Matrix& x) const {
    Matrix h = linear(x, "inner");
    for (auto& row : h)
      for (double& value : row) value = 0.5 * value * std::erfc(-value / std::sqrt(2.0));
    return linear(h, "outer");
  }
  static Matrix sum(Matrix a, const Matrix& b) {
    for (std::size_t r = 0; r < a.size(); ++r)
      for (std::size_t c = 0; c < a[r].size(); ++c) a[r][c] += b[r][c];
    return a;
  }

  Context& context_;
  bool norm_first_;
  std::size_t heads_;
  StateDict parameters_;
};

// Weights large enough for every part to matter, and no zeros.
void randomise(Context& context, const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    copy(random_tensor(context, parameter.value().shape(), parameter.name, 0.7f),
         parameter.value());
}

constexpr nn::TransformerOptions small{.width = 12, .heads = 3, .inner = 20, .layers = 3};

}  // namespace

TEST_CASE("queries, keys and values are slices of one matrix", "[unit][transformer]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 4, "encoder.attention"};
  const nn::MultiHeadAttention attention(scope, small);
  CHECK(attention.weight.shape() == Shape{36, 12});
  const Parameters parameters = nn::parameters(attention, "a");
  const std::vector<std::string> wanted{"a.query.weight",  "a.query.bias",   "a.key.weight",
                                        "a.key.bias",      "a.value.weight", "a.value.bias",
                                        "a.output.weight", "a.output.bias"};
  REQUIRE(parameters.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(parameters[i].name == wanted[i]);
    CHECK(parameters[i].value().shape() == (i % 2 == 0 ? Shape{12, 12} : Shape{12}));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor part = parameters[2 * i].value();
    CHECK(part.storage() == attention.weight.value().storage());
    CHECK(part.raw() == attention.weight.value().raw() + i * 12 * 12 * sizeof(float));
    CHECK_FALSE(parameters[2 * i].whole());
    // Drawn under its own name.
    const char* const names[] = {"query", "key", "value"};
    CHECK(bits(context, part) == bits(context, nn::normal(context, Shape{12, 12}, 0.02f,
                                                          (scope / names[i]).draw("weight"))));
    // Gradients are the same rows of the whole gradient.
    CHECK_FALSE(parameters[2 * i].gradient().defined());
  }
  attention.weight.set_gradient({random_tensor(context, Shape{36, 12}, "gradient"), {}});
  CHECK(bits(context, parameters[2].gradient().values) ==
        bits(context, attention.weight.gradient().values.slice(0, 12, 24)));
}

TEST_CASE("queries that are apart begin with the same numbers and give the same results",
          "[unit][transformer]") {
  auto context = make_context({.threads = 2});
  const nn::Scope scope{context, 4, "encoder"};
  const nn::TransformerEncoderLayer together(scope, small), apart(scope, small, true);
  CHECK(together.attention.weight.shape() == Shape{36, 12});
  CHECK(apart.attention.weight.shape() == Shape{24, 12});
  CHECK(apart.attention.query.weight.shape() == Shape{12, 12});
  const Parameters parameters[] = {nn::parameters(together), nn::parameters(apart)};
  REQUIRE(parameters[0].size() == parameters[1].size());
  for (std::size_t i = 0; i < parameters[0].size(); ++i) {
    CHECK(parameters[0][i].name == parameters[1][i].name);
    CHECK(bits(context, parameters[0][i].value()) == bits(context, parameters[1][i].value()));
  }
  for (const Parameters& some : parameters) randomise(context, some);
  const Sequences sequences =
      Sequences::from_lengths(context, std::vector<std::size_t>{3, 5, 1, 40});
  const Tensor x = random_tensor(context, Shape{49, 12}, "x");
  for (const bool first_rows : {false, true}) {
    INFO(first_rows);
    std::vector<std::byte> results[2];
    std::vector<std::vector<float>> gradients[2];
    for (const std::size_t way : {0u, 1u}) {
      Tape tape(context, {.seed = 6});
      const auto& layer = way == 0 ? together : apart;
      const Var y = layer(tape, tape.constant(x, sequences), first_rows);
      CHECK(y.shape() == Shape{first_rows ? 4u : 49u, 12});
      results[way] = bits(context, y.value());
      tape.backward(y, random_tensor(context, y.shape(), "dy"));
      for (const Parameter& parameter : parameters[way])
        gradients[way].push_back(values(context, parameter.gradient().values));
      clear_gradients(parameters[way]);
    }
    CHECK((results[0] == results[1]));
    // Weight gradients add the same numbers, and zeros; by tiles in other groups: 98 roundings of
    // sums of the order of 1.
    if (context.fp32_products() == Fp32Products::multiply_add)
      CHECK((gradients[0] == gradients[1]));
    for (std::size_t i = 0; i < gradients[0].size(); ++i)
      for (std::size_t e = 0; e < gradients[0][i].size(); ++e)
        REQUIRE(std::fabs(gradients[0][i][e] - gradients[1][i][e]) <=
                1e-5f * (1 + std::fabs(gradients[0][i][e])));
  }
}

TEST_CASE("loading queries, keys and values writes the one matrix", "[unit][transformer]") {
  auto context = make_context({.threads = 1});
  const nn::MultiHeadAttention from(nn::Scope{context, 1}, small), to(nn::Scope{context, 2}, small);
  CHECK(bits(context, from.weight.value()) != bits(context, to.weight.value()));
  nn::load(nn::parameters(to), nn::state_dict(nn::parameters(from)));
  CHECK(bits(context, from.weight.value()) == bits(context, to.weight.value()));
}

TEST_CASE("heads divide the width", "[unit][transformer]") {
  auto context = make_context({.threads = 1});
  const auto message_of = [&](std::size_t heads) {
    return soma_test::message_of(
        [&] { nn::MultiHeadAttention(nn::Scope{context}, {.width = 12, .heads = heads}); });
  };
  CHECK(message_of(5) ==
        "MultiHeadAttention: heads is 5, wanted a divisor of the width, 12 [operator.value]");
  CHECK(message_of(0) == "MultiHeadAttention: heads is 0, wanted at least 1 [operator.value]");
}

TEST_CASE("an encoder is its layers, one after the other", "[unit][transformer]") {
  for (const bool norm_first : {false, true}) {
    auto context = make_context();
    nn::TransformerOptions options = small;
    options.norm_first = norm_first;
    const nn::TransformerEncoder encoder(nn::Scope{context, 4}, options);
    const Parameters parameters = nn::parameters(encoder, "encoder");
    CHECK(parameters.size() == 3 * 16);
    CHECK(parameters[16].name == "encoder.layer.1.attention.query.weight");
    CHECK(parameters.back().name == "encoder.layer.2.outer_norm.bias");
    randomise(context, parameters);

    const Tensor x = random_tensor(context, Shape{7, 12}, "x");
    Tape tape(context);
    const std::size_t lengths[] = {2, 5};
    const Var y = encoder(tape, tape.constant(x, Sequences::from_lengths(context, lengths)));
    // fp32 beside double over three layers of values below 30: each layer is some hundred
    // roundings, and passes on what came before, magnified by its weights (at most about ten
    // times).
    const double slack = 300 * 30 * 0x1p-24 * 10;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 2}, {2, 7}}) {
      Matrix wanted = matrix(context, x.slice(0, begin, end));
      for (const auto& layer : encoder.layers)
        wanted = PlainLayer(context, layer, norm_first)(wanted);
      for (std::size_t r = begin; r < end; ++r)
        for (std::size_t c = 0; c < 12; ++c)
          CHECK(std::fabs(static_cast<double>(y.value().span<float>()[r * 12 + c]) -
                          wanted[r - begin][c]) < slack);
    }
  }
}

TEST_CASE("a causal encoder's rows depend on what is before them", "[unit][transformer]") {
  auto context = make_context({.threads = 2});
  nn::TransformerOptions options = small;
  options.causal = true;
  const nn::TransformerEncoder encoder(nn::Scope{context, 4}, options);
  randomise(context, nn::parameters(encoder));
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{40, 3, 1});
  const Tensor x = random_tensor(context, Shape{44, 12}, "x"), changed = clone(context, x);
  float* const row = changed.mutable_data<float>() + 37 * 12;
  for (std::size_t c = 0; c < 12; ++c) row[c] += 1;
  std::vector<float> results[2];
  for (const std::size_t way : {0u, 1u}) {
    Tape tape(context);
    const Tensor& rows = way == 0 ? x : changed;
    results[way] = values(context, encoder(tape, tape.constant(rows, sequences)).value());
  }
  for (std::size_t i = 0; i < 44 * 12; ++i)
    CHECK((results[0][i] == results[1][i]) == (i / 12 < 37 || i / 12 >= 40));
  // The same from a mask, also where layers are computed again.
  options.causal = false;
  const nn::TransformerEncoder masked(nn::Scope{context, 4}, options);
  randomise(context, nn::parameters(masked));
  std::vector<std::uint8_t> triangle;
  for (const std::size_t length : {40, 3, 1})
    for (std::size_t i = 0; i < length * length; ++i)
      triangle.push_back(i % length <= i / length ? 1 : 0);
  const Tensor mask = Tensor::from<std::uint8_t>(context, triangle, Shape{triangle.size()});
  for (const bool recomputed : {false, true}) {
    Tape tape(context);
    const Var rows = tape.with_sequences(Var::parameter(context, x), sequences);
    const Var y = masked(tape, rows, {.recompute = recomputed, .mask = tape.constant(mask)});
    CHECK((values(context, y.value()) == results[0]));
    tape.backward(sum(tape, y));
  }
  Tape tape(context);
  CHECK(soma_test::id_of([&] {
          encoder(tape, tape.constant(x, sequences), {.first_rows = true});
        }) == "operator.value");
}

TEST_CASE("a recomputed encoder has the same bits and needs less", "[unit][transformer]") {
  for (const bool norm_first : {false, true}) {
    auto context = make_context({.threads = 2});
    const nn::TransformerEncoder encoder(nn::Scope{context, 4}, {.width = 48,
                                                                 .heads = 4,
                                                                 .inner = 96,
                                                                 .layers = 10,
                                                                 .dropout = 0.2f,
                                                                 .attention_dropout = 0.2f,
                                                                 .norm_first = norm_first});
    const Parameters parameters = nn::parameters(encoder);
    const Sequences sequences = Sequences::from_lengths(
        context, std::vector<std::size_t>{17, 0, 90, 33, 1}, {.first_ordinal = 5});
    const Var x = Var::parameter(context, random_tensor(context, Shape{141, 48}, "x"));
    std::vector<std::byte> results[2], gradients[2];
    std::size_t peaks[2];
    for (const std::size_t recomputed : {0u, 1u}) {
      Tape tape(context, {.seed = 6, .step = 1});
      const std::size_t before = context.heap().bytes_in_use();
      context.heap().reset_peak();
      const Var rows = tape.with_sequences(x, sequences);
      const Var y = encoder(tape, rows, {.recompute = recomputed != 0});
      tape.backward(sum(tape, square(tape, y)));
      peaks[recomputed] = context.heap().peak_bytes() - before;
      results[recomputed] = bits(context, y.value());
      gradients[recomputed] = soma_test::gradient_bits(context, parameters);
      const auto own = bits(context, x.gradient().values);
      gradients[recomputed].insert(gradients[recomputed].end(), own.begin(), own.end());
      clear_gradients(parameters);
      x.clear_gradient();
    }
    CHECK(results[0] == results[1]);
    CHECK(gradients[0] == gradients[1]);
    CHECK(peaks[1] < peaks[0] / 2);
  }
}

TEST_CASE("first rows of an encoder are those of all rows", "[unit][transformer]") {
  for (const auto& [activations, math] : {std::pair{DType::fp32, Math::fast},
                                          {DType::fp32, Math::portable},
                                          {DType::bf16, Math::fast}})
    for (const bool norm_first : {false, true}) {
      INFO(to_string(activations) << (norm_first ? ", norm first" : ""));
      auto context = make_context({.threads = 2, .math = math});
      const nn::TransformerEncoder encoder(nn::Scope{context, 4}, {.width = 48,
                                                                   .heads = 3,
                                                                   .inner = 96,
                                                                   .layers = 2,
                                                                   .dropout = 0.2f,
                                                                   .attention_dropout = 0.2f,
                                                                   .norm_first = norm_first});
      const Parameters parameters = nn::parameters(encoder);
      randomise(context, parameters);
      const Sequences sequences = Sequences::from_lengths(
          context, std::vector<std::size_t>{17, 2, 90, 33, 1, 20, 5,  5, 6, 4,
                                            7,  2, 9,  8,  7, 15, 50, 2, 7, 3},
          {.first_ordinal = 5});
      const Var x = Var::parameter(context, random_tensor(context, Shape{293, 48}, "x"));
      const Tensor dy = random_tensor(context, Shape{20, 48}, "dy");
      std::vector<std::byte> results[3];
      std::vector<std::byte> gradients[3];
      for (const int way : {0, 1, 2}) {
        Tape tape(context, {.seed = 6, .step = 1});
        const Var rows = cast(tape, tape.with_sequences(x, sequences), activations);
        const Var y = way == 0 ? sequence_first(tape, encoder(tape, rows))
                               : encoder(tape, rows, {.recompute = way == 2, .first_rows = true});
        CHECK(y.sequences().rows() == 20);
        CHECK(y.sequences().ordinal(5) == 10);
        tape.backward(y, dy);
        results[way] = bits(context, y.value());
        gradients[way] = soma_test::gradient_bits(context, parameters);
        const auto own = bits(context, x.gradient().values);
        gradients[way].insert(gradients[way].end(), own.begin(), own.end());
        clear_gradients(parameters);
        x.clear_gradient();
      }
      CHECK((results[1] == results[0]));  // without printing them
      CHECK((results[2] == results[1]));
      CHECK((gradients[2] == gradients[1]));
      // In bf16 the gradient of all rows is kept in fp32 a layer longer. By tiles, which join the
      // sums of a weight's gradient 32 rows at a time, rows of zeros count.
      if (activations == DType::fp32 && context.fp32_products() == Fp32Products::multiply_add)
        CHECK((gradients[1] == gradients[0]));
    }
}

// Whole tasks, learned with loops written by hand: curves fitted through noise, and the labelling
// of tokens in ragged sequences. A gradient that is wrong somewhere shows here as a task that is
// not learned as well as statistics say it can be.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/samples.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

std::size_t element_count(const Parameters& parameters) {
  std::size_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.value().elements();
  return count;
}

std::uint64_t hash_of(const Parameters& parameters) {
  std::uint64_t hash = soma_test::hash({});
  for (const Parameter& parameter : parameters)
    hash = soma_test::hash(std::as_bytes(parameter.value().span<float>()), hash);
  return hash;
}

Tensor normal(Context& context, const Shape& shape, float deviation, std::string_view site) {
  return nn::normal(context, shape, deviation, {.seed = 5, .stream = stream_id("tasks", site)});
}

double mean_square(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

}  // namespace

// The least-squares solution is the true one plus noise_deviation (X^T X)^-1 X^T noise, so a weight
// is off by a normal number of deviation at most noise_deviation / sqrt(rows) / smallest, where
// smallest is the least singular value of X / sqrt(rows): about 1 - sqrt(columns / rows) for a
// matrix of normal numbers ("Limit of the smallest eigenvalue of a large dimensional sample
// covariance matrix", Bai and Yin 1993). Five deviations are allowed. Descent adds nothing to see:
// the eigenvalues of the loss's second derivative lie within 2 (1 -+ 0.05)^2, a step at rate 0.4
// leaves at most 0.28 of the distance, and 40 steps 2^-73 of it; fp32 sums lose some 2^-22.
TEST_CASE("linear regression recovers the weights that made the data", "[unit][autograd][task]") {
  auto context = make_context();
  constexpr std::size_t rows = 4096, columns = 8;
  constexpr float noise_deviation = 0.1f;
  const Tensor x = normal(context, {rows, columns}, 1, "x");
  const Tensor noise = normal(context, {rows}, noise_deviation, "noise");
  const std::vector<float> truth{0.5f, -1.5f, 2, 0, 0.125f, -3, 1, 0.75f};
  constexpr float true_bias = -0.625f;
  const Tensor y = Tensor::empty(context, {rows, 1});
  for (std::size_t i = 0; i < rows; ++i) {
    double sum = static_cast<double>(true_bias) + static_cast<double>(noise.span<float>()[i]);
    for (std::size_t j = 0; j < columns; ++j)
      sum += static_cast<double>(x.span<float>()[i * columns + j]) * static_cast<double>(truth[j]);
    y.mutable_span<float>()[i] = static_cast<float>(sum);
  }

  Var weight = Var::parameter(context, Tensor::zeros(context, {1, columns}));
  Var bias = Var::parameter(context, Tensor::zeros(context, {1}));
  Parameters parameters{{"weight", weight}, {"bias", bias}};
  optim::Sgd optimizer(context, parameters);
  Tape tape(context);
  double last = 0;
  for (int step = 0; step < 40; ++step) {
    const Var loss = mse_loss(tape, linear(tape, tape.constant(x), weight, bias), tape.constant(y));
    tape.backward(loss);
    optimizer.step({.rate = 0.4});
    clear_gradients(parameters);
    last = static_cast<double>(loss.value().item<float>());
  }

  const double n = rows, smallest = 1 - std::sqrt((columns + 1) / n);
  const double tolerance = 5 * static_cast<double>(noise_deviation) / std::sqrt(n) / smallest;
  for (std::size_t j = 0; j < columns; ++j)
    CHECK(std::fabs(static_cast<double>(weight.value().span<float>()[j] - truth[j])) < tolerance);
  CHECK(std::fabs(static_cast<double>(bias.value().item<float>() - true_bias)) < tolerance);
  // The remaining loss is the noise without the part that columns + 1 weights explain, up to fp32
  // sums.
  const double floor = mean_square(noise.span<float>());
  const double variance = static_cast<double>(noise_deviation * noise_deviation), p = columns + 1;
  CHECK(last < floor * (1 + 1e-4));
  CHECK(last > floor - variance * (p + 5 * std::sqrt(2 * p)) / n);
}

// A network of p weights near its optimum is a linear model of p columns. It explains a part of the
// noise: p / n of it, give or take sqrt(2 p) / n (chi-squared of p), and that is also the square of
// how far it stands from the truth. So with s the noise's own mean square, the error on the data
// lies between s minus that and s plus the square of what the network cannot follow, for which 0.01
// is allowed: a tenth of the noise.
TEST_CASE("a small network fits a curve down to the noise", "[unit][autograd][task]") {
  auto context = make_context();
  constexpr std::size_t rows = 2048, width = 16;
  constexpr float noise_deviation = 0.1f;
  const Tensor x =
      nn::uniform(context, {rows, 1}, 2, {.seed = 5, .stream = stream_id("tasks", "curve")});
  const Tensor noise = normal(context, {rows, 1}, noise_deviation, "curve noise");
  const Tensor truth = Tensor::empty(context, {rows, 1}), y = Tensor::empty(context, {rows, 1});
  for (std::size_t i = 0; i < rows; ++i) {
    const auto at = static_cast<double>(x.span<float>()[i]);
    const double value = portable_sine(3 * at) * portable_exp(-rounded(at * at));
    truth.mutable_span<float>()[i] = static_cast<float>(value);
    y.mutable_span<float>()[i] = truth.span<float>()[i] + noise.span<float>()[i];
  }

  const auto parameter = [&](const Shape& shape, float deviation, std::string_view name) {
    return Var::parameter(context, normal(context, shape, deviation, name));
  };
  const Var weight1 = parameter({width, 1}, 1.5f, "1"), bias1 = parameter({width}, 1, "2");
  const Var weight2 = parameter({width, width}, 0.25f, "3"), bias2 = parameter({width}, 0.1f, "4");
  const Var weight3 = parameter({1, width}, 0.25f, "5"), bias3 = parameter({1}, 0.1f, "6");
  Parameters parameters{{"1.weight", weight1}, {"1.bias", bias1},     {"2.weight", weight2},
                        {"2.bias", bias2},     {"3.weight", weight3}, {"3.bias", bias3}};
  const auto network = [&](Tape& tape, const Tensor& input) {
    const Var h1 = tanh(tape, linear(tape, tape.constant(input), weight1, bias1));
    const Var h2 = tanh(tape, linear(tape, h1, weight2, bias2));
    return linear(tape, h2, weight3, bias3);
  };

  constexpr std::uint64_t steps = 1500;
  const optim::Schedule rate{
      .rate = 0.01, .decay = optim::Decay::cosine, .warmup = 50, .steps = steps};
  optim::AdamW optimizer(context, parameters);
  Tape tape(context);
  for (std::uint64_t step = 0; step < steps; ++step) {
    tape.backward(mse_loss(tape, network(tape, x), tape.constant(y)));
    optimizer.step({.rate = rate(step)});
    clear_gradients(parameters);
  }

  Tape values(context, {.record = false});
  const Var fit = network(values, x);
  const auto error = [&](const Tensor& target) {
    return static_cast<double>(
        mse_loss(values, fit, values.constant(target)).value().item<float>());
  };
  const double floor = mean_square(noise.span<float>());
  const double variance = static_cast<double>(noise_deviation * noise_deviation);
  const auto p = static_cast<double>(element_count(parameters));
  const double explained = variance * (p + 5 * std::sqrt(2 * p)) / static_cast<double>(rows);
  constexpr double not_followed = 0.01 * 0.01;
  CAPTURE(floor, explained, error(y), error(truth));
  CHECK(error(y) < floor + not_followed);
  CHECK(error(y) > floor - explained);
  CHECK(error(truth) < explained + not_followed);
}

namespace {

// Sentences of 0 to 12 tokens out of 10. The label of a token: whether it occurred before in its
// sentence. Token 0 is punctuation and has none.
constexpr std::size_t longest = 12, vocabulary = 10;
constexpr std::int32_t no_label = -1;

struct Sentences {
  Ragged tokens, positions;
  Tensor labels;
};

Sentences make_sentences(Context& context, std::size_t count, std::uint64_t first,
                         std::uint64_t seed) {
  std::vector<std::vector<std::int32_t>> tokens(count), positions(count);
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    const Draw draw{
        .seed = seed, .stream = stream_id("tasks", "sentence"), .index = (first + i) * 16};
    const std::size_t length = random_word(draw) % (longest + 1);
    for (std::size_t at = 0; at < length; ++at) {
      const auto token = static_cast<std::int32_t>(random_word(draw, at + 1) % vocabulary);
      const bool before = std::ranges::find(tokens[i], token) != tokens[i].end();
      labels.push_back(token == 0 ? no_label : before ? 1 : 0);
      tokens[i].push_back(token);
      positions[i].push_back(static_cast<std::int32_t>(at));
    }
  }
  const SequencesOptions options{.first_ordinal = first};
  return {make_ragged<std::int32_t>(context, tokens, options),
          make_ragged<std::int32_t>(context, positions, options),
          Tensor::from<std::int32_t>(context, labels, {labels.size()})};
}

struct Labeller {
  nn::Embedding token, position;
  nn::TransformerEncoder encoder;
  nn::LayerNorm norm;
  nn::Linear head;

  Labeller(const nn::Scope& scope, const nn::TransformerOptions& options)
      : token(scope / "token", vocabulary, options.width),
        position(scope / "position", longest, options.width),
        encoder(scope / "encoder", options),
        norm(scope / "norm", options.width),
        head(scope / "head", options.width, 2) {}

  Var operator()(Tape& tape, const Sentences& sentences) const {
    const Var x = add(tape, token(tape, tape.constant(sentences.tokens)),
                      position(tape, tape.constant(sentences.positions)));
    return head(tape, norm(tape, encoder(tape, x)));
  }
  void collect(nn::Collector& collector) const {
    collector.part("token", token);
    collector.part("position", position);
    collector.part("encoder", encoder);
    collector.part("norm", norm);
    collector.part("head", head);
  }
};

constexpr std::uint64_t training_seed = 1, held_out_seed = 2;

void train_model(Context& context, const Labeller& model, std::uint64_t steps) {
  constexpr std::size_t batch = 32;
  const optim::Schedule rate{.rate = 3e-3,
                             .decay = optim::Decay::cosine,
                             .warmup = steps / 10,
                             .steps = steps,
                             .final_ratio = 0.02};
  Parameters parameters = nn::parameters(model);
  optim::AdamW optimizer(context, optim::decay_groups(parameters, 0.01f));
  Tape tape(context, {.seed = 3});
  for (std::uint32_t step = 0; step < steps; ++step) {
    tape.reset(step);
    const Sentences sentences = make_sentences(context, batch, step * batch, training_seed);
    const Var loss = cross_entropy(tape, model(tape, sentences), tape.constant(sentences.labels),
                                   {.ignore_index = no_label});
    tape.backward(loss);
    const double norm = optim::gradient_norm(context, parameters);
    optimizer.step({.rate = rate(step), .gradient_factor = optim::clipping_factor(norm, 1.0)});
    clear_gradients(parameters);
  }
}

// The share of labelled tokens whose label the model finds.
double accuracy(Context& context, const Labeller& model, const Sentences& sentences) {
  Tape tape(context, {.record = false, .training = false});
  const Var logits = model(tape, sentences);
  const View<const float> row = logits.value().view<float>();
  std::size_t labelled = 0, right = 0;
  for (std::size_t i = 0; i < sentences.labels.elements(); ++i) {
    const std::int32_t label = sentences.labels.span<std::int32_t>()[i];
    if (label == no_label) continue;
    ++labelled;
    right += (row(i, 1) > row(i, 0)) == (label == 1) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(labelled);
}

}  // namespace

TEST_CASE("an encoder learns which tokens occurred before", "[unit][autograd][task]") {
  auto context = make_context();
  const Labeller model(
      {context, 1},
      {.width = 32, .heads = 2, .inner = 64, .layers = 2, .norm_first = true, .deviation = 0.15f});
  train_model(context, model, 800);

  const Sentences held_out = make_sentences(context, 500, 0, held_out_seed);
  const Sequences& sequences = held_out.tokens.sequences;
  std::size_t empty = 0;
  for (std::size_t i = 0; i < sequences.count(); ++i) empty += sequences.length(i) == 0 ? 1 : 0;
  CHECK(empty > 0);
  CHECK(accuracy(context, model, held_out) >= 0.97);
}

TEST_CASE("what an encoder learns has the same bits for every number of threads",
          "[unit][autograd][task]") {
  std::vector<std::uint64_t> hashes;
  for (const int threads : {1, 3}) {
    auto context = make_context({.threads = threads});
    const Labeller model({context, 1}, {.width = 32,
                                        .heads = 2,
                                        .inner = 64,
                                        .layers = 2,
                                        .dropout = 0.1f,
                                        .attention_dropout = 0.1f});
    train_model(context, model, 30);
    hashes.push_back(hash_of(nn::parameters(model)));
  }
  CHECK(hashes[0] == hashes[1]);
}

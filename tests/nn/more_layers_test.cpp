// Convolutions of any reach, cells, weight norm, the loss of connectionist temporal classification,
// rows of padding: what figures of one size cannot say.

#include <soma/nn.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

TEST_CASE("a causal convolution reads no later element", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Conv1d conv(nn::Scope{context, 3}, 2, 3, 4, {.dilation = 2, .causal = true});
  const Var x = Var::parameter(context, random_tensor(context, {1, 2, 11}, "x"));
  Tape tape(context);
  const Var y = conv(tape, x);
  REQUIRE(y.shape() == Shape{1, 3, 11});
  // The gradient of element 5 of every channel.
  tape.backward(sum(tape, slice(tape, y, 2, 5, 6)));
  const std::vector<float> slopes = gradient_values(context, x);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const std::size_t at = i % 11;
    CHECK((slopes[i] != 0) == (at == 1 || at == 3 || at == 5));  // 5 - 6 is before the signal
  }
}

TEST_CASE("settings of convolutions that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context};
  CHECK(message_of([&] { nn::Conv2d(scope, 6, 4, 3, {.setting = {.groups = 4}}); }) ==
        "Conv2d: groups is 4, wanted a divisor of 6 and 4 channels [operator.value]");
  CHECK(id_of([&] { nn::Conv1d(scope, 2, 2, 3, {.pad = 1, .causal = true}); }) == "operator.value");
  CHECK(id_of([&] { nn::Conv1d(scope, 2, 2, 3, {.dilation = 0}); }) == "operator.value");
  Tape tape(context);
  const auto zeros = [&](const Shape& shape) {
    return tape.constant(Tensor::zeros(context, shape));
  };
  const Var x = zeros({1, 4, 5, 5});
  CHECK(id_of([&] { conv2d(tape, x, zeros({3, 2, 3, 3}), {}, {.groups = 2}); }) == "tensor.shape");
  CHECK(id_of([&] { conv2d(tape, x, zeros({4, 4, 3, 3}), {}, {.groups = 2}); }) == "tensor.shape");
  CHECK(message_of([&] {
          conv2d(tape, x, zeros({2, 4, 3, 3}), {}, {.dilation_height = 3});
        }) ==
        "convolution: kernel is 3 at a dilation of 3, wanted 1 to the padded size, 5 "
        "[tensor.shape]");
  CHECK(id_of([&] { max_pool2d(tape, x, {2, 2, {.dilation_width = 2}}); }) == "operator.value");
  CHECK(id_of([&] { max_pool2d(tape, x, {2, 2, {.pad_height = 2}}); }) == "tensor.shape");
  CHECK(id_of([&] { average_pool2d(tape, x, {2, 2, {.groups = 2}}); }) == "operator.value");
}

TEST_CASE("settings of before keep the identity of a run", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context};
  Record plain("model"), more("model");
  nn::Conv1d(scope, 2, 2, 3, {.stride = 2}).describe(plain);
  CHECK(!plain.contains("groups"));
  CHECK(!plain.contains("pad_width_behind"));
  nn::Conv2d(scope, 2, 2, 3).describe(plain);
  CHECK(!plain.contains("dilation_width"));
  nn::Conv1d(scope, 2, 2, 3, {.dilation = 2, .groups = 2, .causal = true}).describe(more);
  CHECK(more.contains("groups"));
  CHECK(more.contains("dilation_width"));
  CHECK(more.contains("pad_width_behind"));
}

namespace {

// Results and gradients of a depthwise convolution of a batch in shards.
std::vector<std::byte> depthwise_bits(int threads) {
  auto context = make_context({.threads = threads});
  const nn::Conv2d conv(
      nn::Scope{context, 5}, 24, 48, 3,
      {.setting = {.stride_height = 2, .pad_height = 1, .pad_width = 1, .groups = 24}});
  const Var x = Var::parameter(context, random_tensor(context, {19, 24, 13, 11}, "x"));
  Tape tape(context);
  const std::vector<std::size_t> lengths(19, 1);
  const Var y = conv(tape, tape.with_sequences(x, Sequences::from_lengths(context, lengths)));
  tape.backward(sum(tape, square(tape, y)));
  std::vector<std::byte> all = bits(context, y.value());
  for (const Var& var : {x, conv.weight, conv.bias}) {
    const std::vector<std::byte> own = bits(context, var.gradient().values);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a depthwise convolution has the same bits for any threads", "[unit][invariance]") {
  const std::vector<std::byte> one = depthwise_bits(1);
  CHECK((depthwise_bits(2) == one));
  CHECK((depthwise_bits(7) == one));
}

TEST_CASE("cells step as their layers do", "[unit]") {
  auto context = make_context({.threads = 2});
  const nn::Scope scope{context, 7};
  const nn::Lstm layer(scope / "layer", 3, 5);
  nn::LstmCell cell(scope / "cell", 3, 5);
  std::vector<std::string> names;
  for (const Parameter& parameter : nn::parameters(cell)) names.push_back(parameter.name);
  CHECK(names == std::vector<std::string>{"weight_ih", "weight_hh", "bias_ih", "bias_hh"});
  cell.weights.input_weight = layer.layers[0].input_weight;
  cell.weights.hidden_weight = layer.layers[0].hidden_weight;
  cell.weights.input_bias = layer.layers[0].input_bias;
  cell.weights.hidden_bias = layer.layers[0].hidden_bias;
  const Tensor batch = random_tensor(context, {4, 6, 3}, "x");
  Tape tape(context);
  const nn::RecurrentResult whole = layer(tape, tape.constant(batch));
  nn::CellState now;
  for (std::size_t t = 0; t < 6; ++t)
    now = cell(tape, tape.constant(clone(context, batch.slice(1, t, t + 1)).reshape({4, 3})), now);
  CHECK((bits(context, now.state.value()) == bits(context, whole.states[0].value())));
  CHECK((bits(context, now.cell.value()) == bits(context, whole.cells[0].value())));
  CHECK(id_of([&] { cell(tape, tape.constant(batch)); }) == "tensor.rank");
  CHECK(id_of([&] { nn::GruCell(scope, 3, 0); }) == "operator.value");
}

TEST_CASE("weight norm begins with its layer's weight and moves lengths and directions", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 9};
  const nn::Linear plain(scope / "linear", 6, 4);
  const nn::WeightNorm layer(scope, plain);
  const Tensor x = random_tensor(context, {3, 6}, "x");
  Tape tape(context);
  const Var y = layer(tape, tape.constant(x));
  const std::vector<float> given = values(context, y.value()),
                           wanted = values(context, plain(tape, tape.constant(x)).value());
  for (std::size_t i = 0; i < given.size(); ++i) CHECK(std::fabs(given[i] - wanted[i]) < 1e-6f);
  tape.backward(sum(tape, square(tape, y)));
  const std::vector<float> direction = gradient_values(context, layer.weight_v),
                           weight = values(context, layer.weight_v.value());
  CHECK(layer.weight_g.gradient().defined());
  for (std::size_t row = 0; row < 4; ++row) {
    // The direction's gradient is at right angles to it: its length has a parameter of its own.
    double product = 0, size = 0;
    for (std::size_t i = row * 6; i < row * 6 + 6; ++i) {
      product += static_cast<double>(direction[i]) * static_cast<double>(weight[i]);
      size += std::fabs(static_cast<double>(direction[i]) * static_cast<double>(weight[i]));
    }
    CHECK(std::fabs(product) <= 1e-5 * size);
  }
  CHECK(nn::parameters(layer).size() == 3);
}

namespace {

struct CtcResult {
  std::vector<float> losses, slopes;
};

CtcResult ctc_of(Context& context, const Tensor& x, const std::vector<std::size_t>& rows,
                 const std::vector<std::int64_t>& ids, const std::vector<std::size_t>& counts,
                 const CtcOptions& options) {
  const Var variable = Var::parameter(context, x);
  Tape tape(context);
  const Var labels = tape.constant(Tensor::from(context, std::span(ids), Shape{ids.size()}),
                                   Sequences::from_lengths(context, counts));
  const Var loss = ctc_loss(
      tape,
      log_softmax(tape, tape.with_sequences(variable, Sequences::from_lengths(context, rows))),
      labels, options);
  tape.backward(options.reduction == LossReduction::none ? sum(tape, loss) : loss);
  return {values(context, loss.value()), gradient_values(context, variable)};
}

}  // namespace

TEST_CASE("a sequence that cannot have its labels has an infinite loss and no gradient", "[unit]") {
  auto context = make_context({.threads = 2});
  const Tensor x = random_tensor(context, {5, 4}, "x");
  // Two equal labels need a blank between them: three rows.
  for (const bool zero : {false, true}) {
    const CtcResult result = ctc_of(context, x, {2, 3}, {2, 2, 1}, {2, 1},
                                    {.reduction = LossReduction::none, .zero_infinity = zero});
    CHECK(result.losses[0] == (zero ? 0 : std::numeric_limits<float>::infinity()));
    CHECK(std::isfinite(result.losses[1]));
    for (std::size_t i = 0; i < 8; ++i) CHECK(result.slopes[i] == 0);
    CHECK(result.slopes[8] != 0);
  }
}

TEST_CASE("long sequences keep their accuracy and their bits", "[unit][invariance]") {
  // With equal probabilities of C classes, T rows and one label: the label has T (T + 1) / 2 runs.
  constexpr std::size_t length = 3000, classes = 8;
  std::vector<float> slopes;
  for (const int threads : {1, 4}) {
    auto context = make_context({.threads = threads});
    const CtcResult result =
        ctc_of(context, Tensor::zeros(context, {2 * length, classes}), {length, length}, {3, 5},
               {1, 1}, {.reduction = LossReduction::none});
    const double exact =
        length * std::log(static_cast<double>(classes)) - std::log(length * (length + 1) / 2.0);
    for (const float loss : result.losses)
      CHECK(std::fabs(static_cast<double>(loss) - exact) < 1e-6 * exact);
    // A row in the middle has the label with the share of the runs that contain it.
    const double middle = length / 2 * (length / 2 + 1) / (length * (length + 1) / 2.0);
    const std::size_t row = length / 2 - 1;
    CHECK(std::fabs(static_cast<double>(result.slopes[row * classes + 3]) -
                    (1.0 / classes - middle)) < 2e-4);
    if (threads == 1)
      slopes = result.slopes;
    else
      CHECK(slopes == result.slopes);
  }
}

TEST_CASE("labels that are no classes, or not as many sequences, are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  const Tensor x = random_tensor(context, {4, 3}, "x");
  const auto refused = [&](const std::vector<std::int64_t>& ids,
                           const std::vector<std::size_t>& counts, std::size_t blank) {
    return id_of([&] { ctc_of(context, x, {2, 2}, ids, counts, {.blank = blank}); });
  };
  CHECK(refused({1, 2}, {1, 1}, 0) == "no error");
  CHECK(refused({1, 3}, {1, 1}, 0) == "tensor.index");
  CHECK(refused({1, -1}, {1, 1}, 0) == "tensor.index");
  CHECK(refused({1, 2}, {1, 1}, 2) == "tensor.index");
  CHECK(refused({1, 2}, {2}, 0) == "operator.sequences");
  CHECK(refused({1, 2}, {1, 1}, 3) == "operator.value");
}

TEST_CASE("a row of padding rests under every optimizer", "[unit]") {
  using Make = std::function<std::unique_ptr<optim::Optimizer>(Context&, const Parameters&)>;
  const auto decayed = [](const Parameters& parameters) {
    return std::vector<optim::Group>{{.parameters = parameters, .weight_decay = 0.1f}};
  };
  const Make all[] = {
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::AdamW>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) { return std::make_unique<optim::Adam>(c, decayed(p)); },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::RAdam>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::Sgd>(c, decayed(p), optim::SgdOptions{.momentum = 0.5f});
      },
      [&](Context& c, const Parameters& p) { return std::make_unique<optim::Lamb>(c, decayed(p)); },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::RmsProp>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::Adagrad>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::Adadelta>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::Adafactor>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) {
        return std::make_unique<optim::LazyAdamW>(c, decayed(p));
      },
      [&](Context& c, const Parameters& p) { return std::make_unique<optim::RowAdam>(c, p); }};
  std::size_t number = 0;
  for (const Make& make : all) {
    INFO(number++);
    auto context = make_context({.threads = 1});
    add_sparse(context);
    const nn::Embedding table(nn::Scope{context, 3}, 7, 5, {.padding = 2});
    const std::vector<float> first = values(context, table.weight.value());
    for (std::size_t i = 0; i < first.size(); ++i) CHECK((first[i] == 0) == (i / 5 == 2));
    // Weights that were loaded may have something there.
    for (std::size_t i = 10; i < 15; ++i) table.weight.value().mutable_data<float>()[i] = 0.5f;
    const auto optimizer = make(context, nn::parameters(table));
    for (int step = 0; step < 3; ++step) {
      Tape tape(context);
      const Var y = table(tape, tape.constant(ints(context, {2, 1, 2, 6})));
      CHECK(values(context, y.value())[0] == 0.5f);
      table.weight.clear_gradient();
      tape.backward(sum(tape, square(tape, y)));
      const Tensor dense = context.built_in().to_dense(context, table.weight.gradient(), {7, 5});
      for (std::size_t i = 10; i < 15; ++i) CHECK(dense.data<float>()[i] == 0);
      CHECK(dense.data<float>()[5] != 0);
      optimizer->step({.rate = 0.1});
    }
    optimizer->settle();
    const std::vector<float> after = values(context, table.weight.value());
    for (std::size_t i = 10; i < 15; ++i) CHECK(after[i] == 0.5f);
    CHECK(after[5] != first[5]);
  }
  auto context = make_context({.threads = 1});
  CHECK(id_of([&] { nn::Embedding(nn::Scope{context}, 3, 2, {.padding = 3}); }) ==
        "operator.value");
}

TEST_CASE("adaptive max pooling and mirror images at the edges", "[unit]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var x =
      Var::parameter(context, Tensor::from<float>(context, {1, 2, 2, 4, 5}, {1, 1, 1, 5}));
  // Windows 0 to 1, 1 to 3 and 3 to 4; equal pixels: the first.
  const Var y = adaptive_max_pool2d(tape, x, 1, 3);
  CHECK(values(context, y.value()) == std::vector<float>{2, 4, 5});
  CHECK(values(context, adaptive_max_pool2d(tape, x, 2, 5).value()) ==
        std::vector<float>{1, 2, 2, 4, 5, 1, 2, 2, 4, 5});
  CHECK(values(context, reflect_pad(tape, x, {{4, 1}}).value()) ==
        std::vector<float>{5, 4, 2, 2, 1, 2, 2, 4, 5, 4});
  CHECK(id_of([&] { reflect_pad(tape, x, {{5, 0}}); }) == "operator.value");
  CHECK(id_of([&] { adaptive_max_pool2d(tape, x, 0, 1); }) == "operator.value");
  const Var zero = Var::parameter(context, Tensor::zeros(context, {2, 3}));
  const Var norm = vector_norm(tape, zero, 1);
  CHECK(values(context, norm.value()) == std::vector<float>{0, 0});
  tape.backward(sum(tape, norm));
  for (const float slope : gradient_values(context, zero)) CHECK(slope == 0);
}

// Mlp and ConvNet: shapes, names, errors, and that both learn.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <string>
#include <vector>

using namespace soma;
using models::ConvNet;
using models::ConvNetConfig;
using models::Mlp;
using soma_test::id_of;

namespace {

using Sizes = std::vector<std::size_t>;
using Names = std::vector<std::pair<std::string, Shape>>;

Names names_of(const Parameters& parameters) {
  Names names;
  for (const Parameter& parameter : parameters)
    names.emplace_back(parameter.name, parameter.value().shape());
  return names;
}

}  // namespace

TEST_CASE("an Mlp has the sizes it is given", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const Mlp mlp(nn::Scope{context}, Sizes{7, 5, 3});
  CHECK(names_of(nn::parameters(mlp, "mlp")) == Names{{"mlp.layer.0.weight", Shape{5, 7}},
                                                      {"mlp.layer.0.bias", Shape{5}},
                                                      {"mlp.layer.1.weight", Shape{3, 5}},
                                                      {"mlp.layer.1.bias", Shape{3}}});
  Tape tape(context);
  const Var y = mlp(tape, tape.constant(Tensor::zeros(context, Shape{2, 4, 7})));
  CHECK(y.shape() == Shape{2, 4, 3});
  // No activation behind the last layer.
  const Mlp one(nn::Scope{context}, Sizes{1, 1}, Activation::relu);
  const Var down = one(tape, tape.constant(Tensor::full(context, Shape{1, 1}, -100.0f)));
  const Var up = one(tape, tape.constant(Tensor::full(context, Shape{1, 1}, 100.0f)));
  CHECK(down.value().span<float>()[0] * up.value().span<float>()[0] < 0);
  // One behind the others.
  const Mlp two(nn::Scope{context}, Sizes{7, 5, 5}, Activation::relu);
  const Tensor x = soma_test::random_tensor(context, Shape{3, 7}, "x");
  const Var hidden = relu(tape, two.layers[0](tape, tape.constant(x)));
  CHECK(soma_test::bits(context, two(tape, tape.constant(x)).value()) ==
        soma_test::bits(context, two.layers[1](tape, hidden).value()));
}

TEST_CASE("an Mlp says what shows in no shape", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const auto activation = [&](Activation between) {
    const Mlp mlp(nn::Scope{context}, Sizes{7, 5, 3}, between);
    Record identity;
    nn::ClassificationTask(mlp, 3).describe(identity);
    return identity.count("activation");
  };
  CHECK(activation(Activation::relu) == activation(Activation::relu));
  CHECK(activation(Activation::relu) != activation(Activation::gelu));
}

TEST_CASE("what an Mlp refuses", "[unit][models]") {
  auto context = make_context({.threads = 1});
  CHECK(soma_test::message_of([&] { Mlp(nn::Scope{context}, Sizes{4}); }) ==
        "Mlp: sizes is 1 numbers, wanted at least inputs and outputs [operator.value]");
  const Mlp mlp(nn::Scope{context}, Sizes{7, 3});
  Tape tape(context);
  CHECK(id_of([&] {
          mlp(tape, tape.constant(Tensor::zeros(context, Shape{2, 6})));
        }) == "tensor.shape");
  CHECK(id_of([&] { mlp(tape, Var()); }) == "operator.inputs");
}

TEST_CASE("a ConvNet halves its images", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const ConvNet net(
      nn::Scope{context},
      {.channels = 3, .height = 11, .width = 8, .labels = 5, .blocks = {4, 6}, .hidden = 9});
  CHECK(names_of(nn::parameters(net)) == Names{{"block.0.weight", Shape{4, 3, 3, 3}},
                                               {"block.0.bias", Shape{4}},
                                               {"block.1.weight", Shape{6, 4, 3, 3}},
                                               {"block.1.bias", Shape{6}},
                                               {"hidden.weight", Shape{9, 6 * 2 * 2}},
                                               {"hidden.bias", Shape{9}},
                                               {"classifier.weight", Shape{5, 9}},
                                               {"classifier.bias", Shape{5}}});
  Tape tape(context);
  for (const std::size_t images : {0u, 1u, 3u})
    CHECK(net(tape, tape.constant(Tensor::zeros(context, Shape{images, 3, 11, 8}))).shape() ==
          Shape{images, 5});
  CHECK(id_of([&] {
          net(tape, tape.constant(Tensor::zeros(context, Shape{1, 2, 11, 8})));
        }) == "tensor.shape");
  CHECK(id_of([&] {
          net(tape, tape.constant(Tensor::zeros(context, Shape{3, 11, 8})));
        }) == "tensor.rank");
  CHECK(id_of([&] {
          net(tape, tape.constant(Tensor::zeros(context, Shape{1, 3, 30, 8})));
        }) == "tensor.size");
  CHECK(id_of([&] { net(tape, Var()); }) == "operator.inputs");
}

TEST_CASE("a ConvNet with more blocks than the image has halves is refused", "[unit][models]") {
  auto context = make_context({.threads = 1});
  CHECK(soma_test::message_of([&] {
          ConvNet(nn::Scope{context}, {.height = 5, .width = 9, .blocks = {1, 1, 1}});
        }) ==
        "ConvNet: blocks is 3, wanted few enough that halving 5 x 9 leaves something "
        "[operator.value]");
  const ConvNet smallest(nn::Scope{context}, {.height = 4, .width = 4, .blocks = {1, 1}});
  Tape tape(context);
  CHECK(smallest(tape, tape.constant(Tensor::zeros(context, Shape{1, 1, 4, 4}))).shape() ==
        Shape{1, 10});
  const ConvNet none(nn::Scope{context}, {.height = 3, .width = 3, .blocks = {}});
  CHECK(none(tape, tape.constant(Tensor::zeros(context, Shape{2, 1, 3, 3}))).shape() ==
        Shape{2, 10});
}

TEST_CASE("both learn to tell a few inputs apart", "[unit][models]") {
  auto context = make_context({.threads = 2});
  const Mlp mlp(nn::Scope{context, 1}, Sizes{64, 20, 4}, Activation::gelu);
  const ConvNet net(nn::Scope{context, 1},
                    {.height = 8, .width = 8, .labels = 4, .blocks = {4, 8}, .hidden = 16});
  const Tensor x = soma_test::random_tensor(context, Shape{8, 1, 8, 8}, "images");
  const Tensor labels = soma_test::ints(context, {0, 1, 2, 3, 0, 1, 2, 3});
  const auto train = [&](const auto& model, const Parameters& parameters, const Shape& shape) {
    optim::AdamW adamw(context, parameters);
    Tape tape(context);
    float loss = 0;
    for (int step = 0; step < 150; ++step) {
      const Var value =
          cross_entropy(tape, model(tape, tape.constant(x.reshape(shape))), tape.constant(labels));
      loss = value.value().item<float>();
      tape.backward(value);
      adamw.step({.rate = 1e-2});
      clear_gradients(parameters);
    }
    return loss;
  };
  CHECK(train(mlp, nn::parameters(mlp), Shape{8, 64}) < 0.01f);
  CHECK(train(net, nn::parameters(net), Shape{8, 1, 8, 8}) < 0.01f);
}

// Low-rank adapters of linear layers and of BERT, beside the same computed step by step.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// Numbers for the matrices B, which begin with zeros.
void fill_adapters(Context& context, const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    if (parameter.name.ends_with("lora_B.weight"))
      copy(random_tensor(context, parameter.value().shape(), parameter.name), parameter.value());
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double most = 0;
  for (std::size_t i = 0; i < a.elements(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(a.data<float>()[i]) -
                                    static_cast<double>(b.data<float>()[i])));
  return most;
}

}  // namespace

TEST_CASE("an adapted layer adds s B A x before activation, dropout and residual", "[unit]") {
  auto context = make_context({.threads = 2});
  constexpr std::size_t rows = 7, in = 12, out = 10;
  const nn::Linear layer({context, 3, "layer"}, in, out);
  const nn::LoraOptions options{.rank = 2, .alpha = 5};
  CHECK(options.scale() == 2.5f);
  CHECK(nn::LoraOptions{.rank = 4, .alpha = 6, .rank_stabilised = true}.scale() == 3);
  CHECK(nn::adapt(layer, {context, 4}, options) == 1);
  const Parameters parameters = nn::parameters(layer);
  REQUIRE(parameters.size() == 4);
  CHECK(parameters[1].name == "lora_A.weight");
  CHECK(parameters[2].name == "lora_B.weight");
  for (const float x : parameters[1].value().span<float>())
    CHECK(std::fabs(x) <= 1 / std::sqrt(static_cast<float>(in)));
  for (const float x : parameters[2].value().span<float>()) CHECK(x == 0);
  fill_adapters(context, parameters);
  const Var &a = parameters[1].var, &b = parameters[2].var;
  const Tensor x = random_tensor(context, {rows, in}, "x"),
               residual = random_tensor(context, {rows, out}, "residual");
  for (const Activation activation : {Activation::none, Activation::gelu, Activation::relu})
    for (const float probability : {0.0f, 0.3f})
      for (const bool adds : {false, true}) {
        INFO(static_cast<int>(activation) << " " << probability << " " << adds);
        std::vector<Tensor> results[2];
        for (const bool apart : {false, true}) {
          Tape tape(context, {.seed = 8});
          const Var given = tape.input(x), more = adds ? tape.input(residual) : Var();
          const DropoutSetting dropout = dropout_setting(tape, probability, 17);
          Var y;
          if (!apart) {
            y = layer(tape, given, {.activation = activation, .dropout = dropout}, more);
          } else {
            y = add(tape, linear(tape, given, layer.weight, layer.bias),
                    mul(tape, linear(tape, linear(tape, given, a), b),
                        tape.constant(Tensor::full(context, {1}, 2.5f))));
            if (activation == Activation::gelu) y = gelu(tape, y);
            if (activation == Activation::relu) y = relu(tape, y);
            y = soma::dropout(tape, y, probability, 17);
            if (adds) y = add(tape, y, more);
          }
          results[apart].push_back(y.value());
          tape.backward(sum(tape, square(tape, y)));
          results[apart].push_back(given.gradient().values);
          for (const Parameter& parameter : parameters)
            results[apart].push_back(clone(context, dense_gradient(context, parameter.var)));
          clear_gradients(parameters);
        }
        // Sums of some ten numbers of about 1, squared: 24 bits, and a few roundings.
        for (std::size_t i = 0; i < results[0].size(); ++i)
          CHECK(largest_difference(results[0][i], results[1][i]) < 2e-4);
      }
}

TEST_CASE("dropout of an adapter leaves the layer's own product as it is", "[unit]") {
  auto context = make_context({.threads = 1});
  const nn::Linear layer({context, 3, "layer"}, 12, 10);
  const Tensor x = random_tensor(context, {7, 12}, "x");
  const auto result = [&] {
    Tape tape(context, {.seed = 8});
    return bits(context, layer(tape, tape.constant(x)).value());
  };
  const auto before = result();
  nn::adapt(layer, {context, 4}, {.rank = 2, .dropout = 0.9f});
  CHECK(result() == before);  // B is zero
  fill_adapters(context, nn::parameters(layer));
  CHECK(result() != before);
}

TEST_CASE("BERT takes adapters, and merged weights compute as they do", "[unit]") {
  auto context = make_context({.threads = 1});
  const models::BertConfig config{
      .vocabulary = 19, .width = 16, .layers = 2, .heads = 2, .inner = 24, .positions = 12};
  const models::BertClassifier model({context, 1}, config, 3);
  nn::freeze(model);
  // Queries, keys, values, output, and two of the feed-forward part, of two layers.
  const std::size_t layers = nn::adapt(model, {context, 2}, {.rank = 3, .dropout = 0});
  CHECK(layers == 12);  // without the pooler and the classifier, which are edges
  fill_adapters(context, nn::parameters(model));
  const std::size_t lengths[] = {5, 3};
  const Sequences sequences = Sequences::from_lengths(context, lengths, {});
  const Tensor ids = Tensor::from<std::int32_t>(context, {1, 5, 9, 2, 7, 3, 4, 18}, Shape{8});
  const auto scores = [&] {
    Tape tape(context, {.record = false, .training = false});
    return model(tape, tape.constant(ids, sequences)).value();
  };
  const Tensor apart = clone(context, scores());
  Tape tape(context, {.training = false});
  tape.backward(sum(tape, square(tape, model(tape, tape.constant(ids, sequences)))));
  for (const Parameter& parameter : nn::parameters(model)) {
    INFO(parameter.name);
    const bool adapter = parameter.role == ParameterRole::adapter;
    CHECK(parameter.gradient().defined() == adapter);
    CHECK(parameter.decays() ==
          (parameter.value().rank() >= 2 && parameter.role != ParameterRole::scale));
  }
  clear_gradients(nn::parameters(model));
  CHECK(nn::merge(context, nn::products(model), DType::fp32) < 1.2e-7);
  CHECK(largest_difference(scores(), apart) < 1e-4);
  for (const Parameter& parameter : nn::parameters(model))
    CHECK(parameter.role != ParameterRole::adapter);
  CHECK(nn::adapt(model, {context, 2}, {.targets = {"query", "layer.1.attention.self.value"}}) ==
        3);
  CHECK(id_of([&] { nn::adapt(model, {context, 2}); }) == "operator.value");
}

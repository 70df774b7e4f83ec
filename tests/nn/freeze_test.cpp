// Frozen parameters: no gradient, no moments, the same bits before and after a step; and patterns
// of names.

#include <soma/base/name_pattern.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

TEST_CASE("a pattern's stars stand for any characters", "[unit]") {
  CHECK(name_matches("layer.1.weight", "layer.1.weight"));
  CHECK_FALSE(name_matches("layer.1", "layer.1.weight"));
  CHECK(name_matches("*", ""));
  CHECK(name_matches("", ""));
  CHECK_FALSE(name_matches("", "a"));
  CHECK(name_matches("layer.*", "layer.12.weight"));
  CHECK(name_matches("*.weight", "layer.1.weight"));
  CHECK(name_matches("*.1.*t", "layer.1.weight"));
  CHECK(name_matches("**a**b*", "xxaab"));
  CHECK_FALSE(name_matches("*.2.*", "layer.1.weight"));
  CHECK_FALSE(name_matches("a*b*a", "abb"));
  // A name that would take a search through all ways to divide it.
  CHECK_FALSE(name_matches(std::string(30, '*') + "b", std::string(5000, 'a')));
}

TEST_CASE("a frozen layer has no gradient and no moments, and keeps its bits", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t sizes[] = {3, 5, 4, 2};
  const models::Mlp model({context, 1}, sizes);
  const Parameters parameters = nn::parameters(model);
  CHECK(nn::freeze(model, "layer.0.*") == 2);
  CHECK(nn::freeze(model, "layer.2.bias") == 1);
  optim::AdamW optimizer(context, optim::decay_groups(parameters, 0.1f));
  std::vector<std::vector<std::byte>> before;
  for (const Parameter& parameter : parameters) before.push_back(bits(context, parameter.value()));
  const Tensor x = random_tensor(context, {6, 3}, "x");
  const auto step = [&] {
    Tape tape(context);
    tape.backward(sum(tape, square(tape, model(tape, tape.constant(x)))));
    optimizer.step({.rate = 0.1});
  };
  step();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    INFO(parameters[i].name);
    const bool frozen = parameters[i].var.frozen();
    CHECK(frozen == (i < 2 || i == 5));
    CHECK(parameters[i].gradient().defined() != frozen);
    CHECK((bits(context, parameters[i].value()) == before[i]) == frozen);
    CHECK((optimizer.state().find(parameters[i].name + ".first_moment") == nullptr) == frozen);
  }
  clear_gradients(parameters);

  // The gradients of the others are those of a model that is not frozen.
  const auto gradients = [&] {
    Tape tape(context);
    tape.backward(sum(tape, square(tape, model(tape, tape.constant(x)))));
    std::vector<std::vector<std::byte>> all;
    for (const Parameter& parameter : parameters)
      all.push_back(bits(context, dense_gradient(context, parameter.var)));
    clear_gradients(parameters);
    return all;
  };
  const auto with_frozen = gradients();
  CHECK(nn::unfreeze(model) == 6);
  const auto all = gradients();
  for (const std::size_t i : {2, 3, 4}) CHECK(with_frozen[i] == all[i]);
  const auto zeros = bits(context, Tensor::zeros(context, parameters[0].value().shape()));
  CHECK(with_frozen[0] == zeros);
  CHECK(all[0] != zeros);
}

TEST_CASE("freeze refuses patterns that name nothing, or a part of a variable", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t sizes[] = {3, 2};
  const models::Mlp model({context, 1}, sizes);
  CHECK(id_of([&] { nn::freeze(model, "head.*"); }) == "state.missing_name");
  const models::BertClassifier bert(
      {context, 1},
      {.vocabulary = 9, .width = 8, .layers = 1, .heads = 2, .inner = 8, .positions = 8}, 2);
  CHECK(id_of([&] { nn::freeze(bert, "*.key.weight"); }) == "operator.value");
  for (const Parameter& parameter : nn::parameters(bert)) CHECK_FALSE(parameter.var.frozen());
  CHECK(nn::freeze(bert, "*.attention.self.*") == 6);
  CHECK(id_of([&] { Var::constant(context, Tensor::zeros(context, {1})).set_frozen(true); }) ==
        "autograd.not_leaf");
  nn::freeze(model);
  CHECK(id_of([&] { optim::AdamW(context, nn::parameters(model)); }) == "operator.value");
}

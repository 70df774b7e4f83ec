// The record and the times of a BERT step on trn1: what the core does for the library's own
// programs does not change unnoticed.

#include <soma/models.hpp>
#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "support/record_hash.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

TEST_CASE("the record of a BERT step on trn1 is what it was", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  auto core = soma::neuroncore::make_core(context, soma::neuroncore::trn1(), {.record = true});
  auto device = soma::neuroncore::make_device(core);
  context.set_device(&device);
  {
    soma::models::BertConfig config = soma::models::BertConfig::tiny();
    config.vocabulary = 500;
    const soma::models::BertClassifier model({context}, config, 2);
    const soma::Parameters parameters = soma::nn::parameters(model);
    soma::optim::AdamW optimizer(context, parameters);
    std::vector<std::vector<std::int64_t>> lists;
    for (std::size_t i = 0; i < 8; ++i) lists.emplace_back(5 + i * 31 % 56, 7);
    const std::vector<std::int64_t> labels(8, 1);
    soma::Tape tape(context);
    const soma::Var loss = soma::cross_entropy(
        tape, model(tape, tape.constant(soma::make_ragged<std::int64_t>(context, lists))),
        tape.constant(soma::Tensor::from<std::int64_t>(context, labels, soma::Shape{8})));
    tape.backward(loss);
    optimizer.step({.rate = 1e-3});
  }
  context.set_device(nullptr);
  CHECK(core.recorded().size() == 2293);
  CHECK(soma_test::record_hash(core.recorded(), core.machine()) == 0x70715423e8f14d68u);
}

// A unit beside the one that makes the context: it trains, and includes the interface alone.
#include <soma/api.hpp>

#include <cstdint>

float trained_loss(soma::Context& context);
float trained_loss(soma::Context& context) {
  const std::size_t sizes[] = {2, 16, 2};
  const soma::models::Mlp model({context}, sizes, soma::Activation::tanh);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  const auto x = soma::Tensor::from<float>(context, {0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const auto labels = soma::Tensor::from<std::int64_t>(context, {0, 1, 1, 0}, {4});
  soma::Tape tape(context);
  float last = 0;
  for (int step = 0; step <= 200; ++step) {
    const soma::Var loss =
        soma::cross_entropy(tape, model(tape, tape.constant(x)), tape.constant(labels));
    last = loss.value().item<float>();
    tape.backward(loss);
    optimizer.step({.rate = 0.05});
    soma::clear_gradients(parameters);
  }
  return last;
}

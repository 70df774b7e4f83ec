// A module that trains. SOMA_NAME is its only function: the loss after some steps.
#include <soma/soma.hpp>

#include <cstddef>
#include <cstdint>

extern "C" __attribute__((visibility("default"))) float SOMA_NAME(int steps);
float SOMA_NAME(int steps) {
  auto context = soma::make_context({.threads = 2});
  const std::size_t sizes[] = {2, 16, 2};
  const soma::models::Mlp model({context}, sizes, soma::Activation::tanh);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  const auto x = soma::Tensor::from<float>(context, {0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const auto labels = soma::Tensor::from<std::int64_t>(context, {0, 1, 1, 0}, {4});
  soma::Tape tape(context);
  float last = 0;
  for (int step = 0; step < steps; ++step) {
    auto loss = soma::cross_entropy(tape, model(tape, tape.constant(x)), tape.constant(labels));
    last = loss.value().item<float>();
    tape.backward(loss);
    optimizer.step({.rate = 0.05});
    soma::clear_gradients(parameters);
  }
  return last;
}

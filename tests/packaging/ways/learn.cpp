// A unit that learns, and makes no context.
#include SOMA_HEADERS

#include <cstddef>

float loss_after(soma::Context& context, const soma::Tensor& x, int steps);
soma::Tensor labels_in(soma::Context& context);

float loss_after(soma::Context& context, const soma::Tensor& x, int steps) {
  const std::size_t sizes[] = {2, 16, 2};
  const soma::models::Mlp model({context}, sizes, soma::Activation::tanh);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  const auto labels = labels_in(context);
  soma::Tape tape(context);
  float last = 0;
  for (int step = 0; step < steps; ++step) {
    const soma::Var loss =
        soma::cross_entropy(tape, model(tape, tape.constant(x)), tape.constant(labels));
    last = loss.value().item<float>();
    tape.backward(loss);
    optimizer.step({.rate = 0.05});
    soma::clear_gradients(parameters);
  }
  return last;
}

#pragma once
// Optimizer steps as their papers and PyTorch write them, one parameter at a time. For tests.

#include <soma/base/config.hpp>

#include <cmath>

namespace SOMA_NAMESPACE::reference {

template <class T>
struct Sgd {
  T rate, momentum, dampening, weight_decay;
  bool nesterov;

  // torch.optim.SGD. `state` is the momentum buffer.
  void step(T& w, T& state, T g, bool first_step) const {
    g += weight_decay * w;
    if (momentum != 0) {
      state = first_step ? g : momentum * state + (1 - dampening) * g;
      g = nesterov ? g + momentum * state : state;
    }
    w -= rate * g;
  }
};

// The moments that Adam and LAMB share: `t` is the number of the step, from 1.
template <class T>
struct Adam {
  T rate, beta1, beta2, epsilon, weight_decay;

  T correction1(int t) const { return 1 - std::pow(beta1, static_cast<T>(t)); }
  T correction2(int t) const { return 1 - std::pow(beta2, static_cast<T>(t)); }

  void step_moments(T& m, T& v, T g) const {
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
  }

  // AdamW, arXiv 1711.05101, as torch.optim.AdamW: the decay first, on its own.
  void step(T& w, T& m, T& v, T g, int t) const {
    w *= 1 - rate * weight_decay;
    step_moments(m, v, g);
    w -= rate / correction1(t) * m / (std::sqrt(v) / std::sqrt(correction2(t)) + epsilon);
  }

  // LAMB, arXiv 1904.00962: the update before it is scaled by rate and trust ratio.
  T lamb_update(T w, T& m, T& v, T g, int t) const {
    step_moments(m, v, g);
    return m / correction1(t) / (std::sqrt(v / correction2(t)) + epsilon) + weight_decay * w;
  }
};

}  // namespace SOMA_NAMESPACE::reference

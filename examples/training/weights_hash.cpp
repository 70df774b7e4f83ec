#include "training/weights_hash.hpp"

#include <soma/io/state_hash.hpp>
#include <soma/nn/state.hpp>

#include <cstdint>
#include <cstdio>

std::string weights_hash(soma::TensorSource& weights) {
  const std::uint64_t hash = soma::state_hash(weights);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}
std::string weights_hash(const soma::Parameters& parameters) {
  const soma::StateDict weights = soma::nn::state_dict(parameters);
  soma::StateSource source(weights);
  return weights_hash(source);
}

// The hash of weights, which a run prints.
#pragma once

#include <soma/autograd/parameter.hpp>
#include <soma/state/tensor_source.hpp>

#include <string>

// The hash of all weights in 16 hexadecimal digits.
std::string weights_hash(soma::TensorSource& weights);
std::string weights_hash(const soma::Parameters& parameters);

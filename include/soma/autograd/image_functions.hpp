#pragma once
// Functions of images beyond those of choosing.hpp, made of operators that exist.

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/tape.hpp>

#include <cstddef>
#include <initializer_list>

namespace SOMA_NAMESPACE {

// x, with mirror images of its elements before and behind its last dimensions; the border itself is
// not repeated. Paddings as for pad(); each is below the size of its dimension. Errors
// operator.value, tensor.rank.
Var reflect_pad(Tape& tape, const Var& x, std::initializer_list<Padding> paddings);

// Images [N, C, H, W] to [N, C, height, width]: the largest elements of windows that cover the
// image evenly. The gradient goes to the first of equal elements. Errors operator.value,
// tensor.rank, tensor.shape.
Var adaptive_max_pool2d(Tape& tape, const Var& x, std::size_t height, std::size_t width);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/image_functions.ipp>
#endif

#pragma once
// Uniform, normal and Bernoulli draws, over the context's executor. Element i gets the number of
// logical index draw.index + i of its stream (numeric/draw.hpp), whatever the threads, the target
// and the cut.

#include <soma/kernels/table.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

void fill_random(Context& context, std::span<float> out, RandomArgs args);

}  // namespace detail

// Multiples of 2^-24 from 0 to below 1.
void fill_uniform(Context& context, std::span<float> out, const Draw& draw);

// Mean 0, variance 1, by Box and Muller from 31 and 24 random bits: magnitudes reach 6.55. The same
// bits on every target; a few units in the last place from the exact transform.
void fill_normal(Context& context, std::span<float> out, const Draw& draw);

// 1 with that probability, to a multiple of 2^-32 below it, else 0. Error random.probability
// outside 0 to 1.
void fill_bernoulli(Context& context, std::span<float> out, const Draw& draw, double probability);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/kernels/random/impl/random.ipp>
#endif

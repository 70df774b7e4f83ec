#pragma once
// The members of PipelineGradients that begin a run: checks, the assignment of pieces to stages,
// and the distribution of parameters to ranks.

#include <soma/train/pipeline/gradients.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/begin.ipp>
#endif

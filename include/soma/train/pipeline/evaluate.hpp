#pragma once
// The member of PipelineGradients that evaluates.

#include <soma/train/pipeline/gradients.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/evaluate.ipp>
#endif

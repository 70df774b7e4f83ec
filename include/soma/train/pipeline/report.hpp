#pragma once
// The member of PipelineGradients that reports.

#include <soma/train/pipeline/gradients.hpp>

namespace soma::train {

inline void PipelineGradients::describe(Report&) const {}

}  // namespace soma::train

#pragma once
// The functions of step_gradients.hpp.

#include <soma/train/step_gradients.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/data/batch.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/train/evaluation.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE const Parameters& StepGradients::model_parameters() const { return parameters(); }

}  // namespace SOMA_NAMESPACE::train

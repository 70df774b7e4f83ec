#pragma once
// The functions of number_tasks.hpp.

#include <soma/nn/number_tasks.hpp>

#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/nn/task.hpp>

#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE Tensor labels_like(std::string_view task, Context& context, const Var& outputs,
                               const Tensor& labels, std::size_t width, std::size_t sequences) {
  if (!labels.defined())
    fail(error_id::train_label, task, "labels", "not defined", "a number for each output");
  if (outputs.value().elements() != sequences * width)
    fail(error_id::train_label, task, "outputs", outputs.value().describe(),
         to_string(Shape{sequences, width}));
  if (labels.elements() != sequences * width)
    fail(error_id::train_label, task, "labels", labels.describe(),
         to_string(Shape{sequences, width}));
  return contiguous(context, labels).reshape(outputs.shape());
}

}  // namespace SOMA_NAMESPACE::nn::detail

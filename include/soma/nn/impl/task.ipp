#pragma once
// The functions of task.hpp.

#include <soma/nn/task.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/parameter.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/owned.hpp>
#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/labels.hpp>
#include <soma/nn/class_weights.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/scope.hpp>
#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Pieces Task::pieces() const { return {}; }

SOMA_INLINE auto Task::finish(Tape& /*tape*/, const Var& /*result*/, const data::Batch& /*batch*/)
    -> Forward {
  return {};
}

SOMA_INLINE Owned<metrics::Metrics> Task::metrics() const { return {}; }

SOMA_INLINE double Task::loss_count(const data::Batch& batch) const {
  return static_cast<double>(batch.inputs.sequences.count());
}

SOMA_INLINE StateDict Task::state() const { return {}; }

SOMA_INLINE void Task::load_state(const StateDict& state) {
  if (!state.empty())
    fail(error_id::extra_name, "Task::load_state", "state", soma::quoted(state.begin()->first),
         "no entries: this task has no state except its parameters");
}

SOMA_INLINE void check_labels(std::string_view task, const data::Batch& batch,
                              std::size_t classes) {
  if (!batch.labels.defined())
    fail(error_id::train_label, task, "labels", "not defined", "a class for each sequence");
  const std::vector<std::int64_t> labels = data::class_labels(batch.labels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (is_ignored(labels[i]) || (labels[i] >= 0 && static_cast<std::size_t>(labels[i]) < classes))
      continue;
    const bool numbered = i < batch.items.size();
    fail(error_id::train_label, task,
         "label of sequence " + std::to_string(numbered ? batch.items[i] : i) + " of the " +
             (numbered ? "data" : "batch"),
         std::to_string(labels[i]), "0 to " + std::to_string(classes - 1));
  }
}

}  // namespace SOMA_NAMESPACE::nn

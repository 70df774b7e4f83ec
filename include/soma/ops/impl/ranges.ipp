#pragma once
// The functions of ranges.hpp.

#include <soma/ops/ranges.hpp>

#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/tensor/shape.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::size_t worthwhile_tasks(Context& context, std::size_t items, std::size_t cost,
                                         std::size_t worth_a_task) {
  const std::size_t tasks = (std::min)(items, cost / worth_a_task + 1);
  return tasks > 1 ? (std::min)(tasks, static_cast<std::size_t>(context.executor().width)) : tasks;
}

}  // namespace SOMA_NAMESPACE::detail

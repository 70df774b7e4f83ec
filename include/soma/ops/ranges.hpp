#pragma once
// How work over many items is shared out.

#include <soma/runtime/parallel.hpp>
#include <soma/tensor/shape.hpp>

#include <algorithm>
#include <cstddef>

namespace soma::detail {

// Calls function(begin, end) for parts of `count` items, of which each costs about `cost` simple
// operations. No result may depend on the parts.
template <class Function>
void for_ranges(Context& context, std::size_t count, std::size_t cost, const Function& function) {
  if (count == 0) return;
  constexpr std::size_t worth_a_task = 16384;  // below that a thread costs more than it brings
  const std::size_t total = count * (std::max)(cost, std::size_t{1});
  std::size_t tasks = (std::min)(count, total / worth_a_task + 1);
  if (tasks > 1) tasks = (std::min)(tasks, static_cast<std::size_t>(context.executor().width));
  parallel(context, static_cast<int>(tasks), [&](int task) {
    const auto border = [&](std::size_t index) {
      return count / tasks * index + count % tasks * index / tasks;
    };
    const auto index = static_cast<std::size_t>(task);
    function(border(index), border(index + 1));
  });
}

// Calls call(row, column, rows, columns) for parts of a matrix: cut by rows, or by elements where
// everything is adjacent and may be seen as one row.
template <class Call>
void for_elements(Context& context, const Shape& shape, bool adjacent, std::size_t cost,
                  const Call& call) {
  const std::size_t columns = shape.columns();
  if (adjacent) {
    for_ranges(context, shape.elements(), cost, [&](std::size_t begin, std::size_t end) {
      call(std::size_t{0}, begin, std::size_t{1}, end - begin);
    });
  } else {
    for_ranges(context, shape.rows(), columns * cost, [&](std::size_t begin, std::size_t end) {
      call(begin, std::size_t{0}, end - begin, columns);
    });
  }
}

}  // namespace soma::detail

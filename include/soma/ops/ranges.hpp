#pragma once
// Divides work over many items among threads.

#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/tensor/shape.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::detail {

// The number of parts into which work with that cost and that many items should be divided.
std::size_t worthwhile_tasks(Context& context, std::size_t items, std::size_t cost,
                             std::size_t worth_a_task);
// In simple operations; below this cost a thread costs more than it gains.
inline constexpr std::size_t operations_worth_a_task = 16384;

// The begin of part `index` of `parts` equal parts.
constexpr std::size_t even_border(std::size_t whole, std::size_t parts, std::size_t index) {
  return whole / parts * index + whole % parts * index / parts;
}

// Parts that cost more than some tens of microseconds are cut again. When the system takes a thread
// away in the middle of a part, no other thread can finish that part: small parts keep the wait
// short.
inline constexpr std::size_t operations_worth_a_cut = 8 * operations_worth_a_task, most_cuts = 8;

// Calls function(begin, end) for parts of `count` items; an item costs about `cost` simple
// operations. No result may depend on the parts.
template <class Function>
void for_ranges(Context& context, std::size_t count, std::size_t cost, const Function& function) {
  if (count == 0) return;
  const std::size_t total = count * (std::max)(cost, std::size_t{1});
  std::size_t tasks = worthwhile_tasks(context, count, total, operations_worth_a_task);
  if (tasks > 1)
    tasks =
        (std::clamp)((std::min)(total / operations_worth_a_cut, count), tasks, tasks * most_cuts);
  parallel(context, static_cast<int>(tasks), [&](int task) {
    const auto index = static_cast<std::size_t>(task);
    function(even_border(count, tasks, index), even_border(count, tasks, index + 1));
  });
}

// Parts of about equal cost, for items with different costs. An item belongs to the part in whose
// share of the total cost it begins.
class UnevenRanges {
 public:
  // cost(i): the cost of item i of `count`.
  template <class Cost>
  UnevenRanges(Context& context, std::size_t count, std::size_t worth_a_task, const Cost& cost)
      : borders_(context.heap()) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) total += cost(i);
    tasks_ = total == 0 ? 0 : worthwhile_tasks(context, count, total, worth_a_task);
    borders_.resize(tasks_ + 1);
    std::size_t before = 0, task = 0, next = 0;
    for (std::size_t i = 0; i < count; before += cost(i++))
      for (; task < tasks_ && before >= next; next = even_border(total, tasks_, task))
        borders_[task++] = i;
    for (; task <= tasks_; ++task) borders_[task] = count;
  }
  std::size_t tasks() const { return tasks_; }
  // Calls function(begin, end, task) for each part.
  template <class Function>
  void run(Context& context, const Function& function) const {
    parallel(context, static_cast<int>(tasks_), [&](int task) {
      const auto index = static_cast<std::size_t>(task);
      function(borders_[index], borders_[index + 1], index);
    });
  }

 private:
  std::size_t tasks_ = 0;
  HeapVector<std::size_t> borders_;
};

// Calls call(row, column, rows, columns) for parts of a matrix: cut by rows, or by elements if
// everything is adjacent and can be seen as one row.
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

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/ranges.ipp>
#endif

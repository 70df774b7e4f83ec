// How work is shared out: every item once, in order, and parts of about the same cost.

#include <soma/soma.hpp>

#include "catch.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

using namespace soma;

namespace {

struct Part {
  std::size_t begin = 0, end = 0;
};

// With three threads.
std::vector<Part> parts_of(const std::vector<std::size_t>& costs, std::size_t worth_a_task) {
  auto context = make_context({.threads = 3});
  const detail::UnevenRanges ranges(context, costs.size(), worth_a_task,
                                    [&](std::size_t i) { return costs[i]; });
  std::vector<Part> parts(ranges.tasks());
  ranges.run(context, [&](std::size_t begin, std::size_t end, std::size_t task) {
    parts[task] = {begin, end};
  });
  return parts;
}

std::size_t cost_of(const std::vector<std::size_t>& costs, const Part& part) {
  return std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(part.begin),
                         costs.begin() + static_cast<std::ptrdiff_t>(part.end), std::size_t{0});
}

}  // namespace

TEST_CASE("items of different costs make parts of about one cost", "[unit][ops]") {
  std::vector<std::size_t> rising(100), first_heavy(100, 1), last_heavy(100, 1), some_nothing(100);
  std::iota(rising.begin(), rising.end(), std::size_t{1});
  first_heavy[0] = 60;
  last_heavy[99] = 1000;
  for (std::size_t i = 0; i < 100; ++i) some_nothing[i] = i % 10 == 3 ? 7 : 0;
  for (const auto& costs : {rising, first_heavy, last_heavy, some_nothing}) {
    const std::vector<Part> parts = parts_of(costs, 1);
    REQUIRE(parts.size() == 3);
    CHECK(parts.front().begin == 0);
    CHECK(parts.back().end == costs.size());
    const std::size_t all = cost_of(costs, {0, costs.size()});
    // A part is longer than its share by less than its last item.
    const std::size_t most = *std::max_element(costs.begin(), costs.end());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i != 0) CHECK(parts[i].begin == parts[i - 1].end);
      CHECK(cost_of(costs, parts[i]) < (all + 2) / 3 + most);
    }
  }
}

TEST_CASE("there are no more parts than are worth it, and none of no work", "[unit][ops]") {
  CHECK(parts_of({5, 5, 5, 5}, 100).size() == 1);
  CHECK(parts_of({5, 5, 5, 5}, 15).size() == 2);
  CHECK(parts_of({50}, 1).size() == 1);
  CHECK(parts_of({0, 0}, 1).empty());
  CHECK(parts_of({}, 1).empty());
}

TEST_CASE("long ranges are cut into more parts than threads", "[unit][ops]") {
  auto context = make_context({.threads = 3});
  const auto count_parts = [&](std::size_t count, std::size_t cost) {
    Mutex mutex;
    std::vector<Part> parts;
    detail::for_ranges(context, count, cost, [&](std::size_t begin, std::size_t end) {
      const Mutex::Lock lock(mutex);
      parts.push_back({begin, end});
    });
    std::sort(parts.begin(), parts.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    CHECK(parts.front().begin == 0);
    CHECK(parts.back().end == count);
    for (std::size_t i = 1; i < parts.size(); ++i) CHECK(parts[i].begin == parts[i - 1].end);
    return parts.size();
  };
  CHECK(count_parts(100, 1) == 1);
  CHECK(count_parts(3 * detail::operations_worth_a_task, 1) == 3);
  CHECK(count_parts(7 * detail::operations_worth_a_cut, 1) == 7);
  CHECK(count_parts(1000 * detail::operations_worth_a_cut, 1) == 3 * detail::most_cuts);
  CHECK(count_parts(5, std::size_t{1} << 24) == 5);
}

// Callback: what is kept runs as it was given, shared by copies, and goes back to the heap.

#include <soma/runtime/callback.hpp>
#include <soma/runtime/memory.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <array>
#include <memory>
#include <memory_resource>
#include <utility>

using soma::Callback;

TEST_CASE("a callback keeps a function object on the heap until the last copy of it ends",
          "[unit]") {
  soma::Heap heap(std::pmr::new_delete_resource());
  CHECK_FALSE(Callback<void()>());
  int total = 0;
  auto owned = std::make_unique<int>(3);  // kept objects are moved, never copied
  {
    Callback<void(int, int&)> first(
        heap, [owned = std::move(owned)](int times, int& sum) { sum += times * (*owned)++; });
    REQUIRE(first);
    CHECK(heap.bytes_in_use() > 0);
    const Callback<void(int, int&)> second = first;
    first(1, total);
    first = {};
    CHECK_FALSE(first);
    second(10, total);
  }
  CHECK(total == 3 + 10 * 4);
  CHECK(heap.bytes_in_use() == 0);
}

TEST_CASE("a callback that has no room is an error", "[unit]") {
  soma::CountingResource nothing(std::pmr::null_memory_resource());
  soma::Heap heap(&nothing);
  const std::array<char, 100> much{};
  CHECK(soma_test::id_of([&] { Callback<void()>(heap, [much] { static_cast<void>(much); }); }) ==
        "memory.exhausted");
  CHECK(heap.bytes_in_use() == 0);
}

// Context: what the host brings is used, what it does not is made on first use, and mistakes are
// named.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/child.hpp"

#include <exception>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

using namespace soma;

namespace {

struct CountingPool {
  int runs = 0;
  static void run(void* self, int tasks, void (*task)(void*, int), void* arg) {
    static_cast<CountingPool*>(self)->runs++;
    for (int index = tasks; index-- > 0;) task(arg, index);  // any order is allowed
  }
};

}  // namespace

TEST_CASE("the host's executor runs the work", "[unit]") {
  CountingPool pool;
  auto context = make_context({.executor = {&pool, 5, CountingPool::run}});
  CHECK(context.executor().width == 5);
  std::vector<float> values(200000, 1.0f);
  std::vector<bf16> codes(values.size());
  convert(context, values, codes);
  CHECK(pool.runs == 1);
  CHECK(static_cast<float>(codes.back()) == 1.0f);
  // Exceptions come back through an executor that knows nothing of them.
  CHECK_THROWS_AS(parallel(context, 3, [](int) { throw 1; }), int);
  CHECK(pool.runs == 2);
}

TEST_CASE("memory is counted and its exhaustion is an error", "[unit]") {
  struct Bounded : std::pmr::memory_resource {
    std::size_t left = 1000;
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      if (bytes > left) throw std::bad_alloc();
      left -= bytes;
      return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
      left += bytes;
      std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
      return this == &other;
    }
  } bounded;
  auto context = make_context({.memory = &bounded});
  void* block = context.memory().allocate(600, 1);
  CHECK(reinterpret_cast<std::uintptr_t>(block) % memory_alignment == 0);
  CHECK(context.memory_use().bytes_in_use == 600);
  try {
    static_cast<void>(context.memory().allocate(500, 1));
    FAIL("allocated");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::out_of_memory);
    CHECK(error.given() == "500 bytes");
    CHECK(error.wanted().find("600 bytes in use") != std::string::npos);
  }
  context.memory().deallocate(block, 600, 1);
  CHECK(context.memory_use().bytes_in_use == 0);
  CHECK(context.memory_use().peak_bytes == 600);
  CHECK(context.memory_use().allocations == 1);
  CHECK(bounded.left == 1000);
}

TEST_CASE("the log goes to the host's sink", "[unit]") {
  std::vector<std::string> lines;
  auto context =
      make_context({.log = {&lines, [](void* self, LogLevel level, std::string_view text) {
                              static_cast<std::vector<std::string>*>(self)->push_back(
                                  std::to_string(static_cast<int>(level)) + std::string(text));
                            }}});
  context.log(LogLevel::warning, "hello");
  CHECK(lines == std::vector<std::string>{"2hello"});
  make_context().log(LogLevel::error, "nobody listens");
}

TEST_CASE("a context that ends before its tensors says so", "[unit]") {
  std::vector<std::string> lines;
  const LogSink sink{&lines, [](void* self, LogLevel, std::string_view text) {
                       static_cast<std::vector<std::string>*>(self)->emplace_back(text);
                     }};
  std::optional<Context> context(std::in_place,
                                 ContextOptions{.log = sink, .outlived = Outlived::log},
                                 make_context().targets());
  {
    const Tensor gone = Tensor::zeros(*context, Shape{10});
    const Tape tape(*context);
  }
  context.reset();
  CHECK(lines.empty());
  // In a process of its own: what outlives its context is not to be touched again.
  const auto outlive = [&](Outlived outlived, auto&& seen) {
    return soma_test::in_child([&] {
      std::set_terminate([] { _exit(40); });
      alignas(Tensor) std::byte kept[sizeof(Tensor)];
      context.emplace(ContextOptions{.log = sink, .outlived = outlived}, make_context().targets());
      new (kept) Tensor(Tensor::zeros(*context, Shape{1000}));
      context.reset();
      return seen() ? 30 : 31;
    });
  };
  CHECK(outlive(Outlived::log, [&] {
          return lines.size() == 1 && lines[0].find("1 tensors") != std::string::npos &&
                 lines[0].find("a context outlives its tensors") != std::string::npos;
        }) == 30);
  CHECK(outlive(Outlived::terminate, [] { return true; }) == 40);
}

TEST_CASE("targets are chosen by name, best first", "[unit]") {
  auto context = make_context();
  const auto targets = context.targets().targets;
  REQUIRE(!targets.empty());
  CHECK(context.targets().dispatched);
  CHECK(context.target().name == targets.front().name);
  for (const Target& target : targets)
    CHECK(make_context({.target = target.name}).target().name == target.name);
  try {
    make_context({.target = "AVX9"});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::unknown_target);
    CHECK(error.given() == "\"AVX9\"");
    CHECK(error.wanted().find(targets.front().name) != std::string::npos);
  }
}

TEST_CASE("portable mathematics needs fused multiply-add", "[unit]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    if (target.fused_multiply_add) {
      CHECK(make_context({.math = Math::portable, .target = target.name}).math() == Math::portable);
    } else {
      try {
        make_context({.math = Math::portable, .target = target.name});
        FAIL("accepted");
      } catch (const Error& error) {
        CHECK(error.id() == error_id::math_needs_fma);
      }
    }
  }
}

TEST_CASE("contexts do not share counters or threads", "[unit]") {
  auto a = make_context({.threads = 2}), b = make_context({.threads = 3});
  void* block = a.memory().allocate(100, 8);
  CHECK(a.memory_use().bytes_in_use == 100);
  CHECK(b.memory_use().bytes_in_use == 0);
  a.memory().deallocate(block, 100, 8);
  CHECK(a.executor().width == 2);
  CHECK(b.executor().width == 3);
  parallel(a, 4, [&](int) { parallel(b, 4, [](int) {}); });  // one inside the other
}

TEST_CASE("an executor without width is refused", "[unit]") {
  CountingPool pool;
  try {
    make_context({.executor = {&pool, 0, CountingPool::run}});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::executor_width);
  }
}

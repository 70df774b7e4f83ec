// Replaces the program's operator new by one that counts, and does nothing else: harmless for tests
// that do not ask. All forms of new and delete end in these; but sanitizers of addresses and
// threads bring their own, which must not be mixed with ours.

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "catch.hpp"
#include "support/allocations.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SOMA_TEST_COUNTS_NEW 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOMA_TEST_COUNTS_NEW 0
#endif
#endif
#ifndef SOMA_TEST_COUNTS_NEW
#define SOMA_TEST_COUNTS_NEW 1
#endif

namespace {

std::atomic<std::uint64_t> calls{0};

#if SOMA_TEST_COUNTS_NEW
void* counted(void* block) {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
#endif

}  // namespace

std::uint64_t soma_test::new_calls() { return calls.load(std::memory_order_relaxed); }

#if SOMA_TEST_COUNTS_NEW
// Not inlined: a compiler that sees free() beside new takes it for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return counted(std::malloc(bytes == 0 ? 1 : bytes));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(unit, (bytes / unit + 1) * unit));
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  std::free(block);
}
#endif

TEST_CASE("every form of new is counted", "[unit]") {
  if (!SOMA_TEST_COUNTS_NEW) SOMA_TEST_SKIP("this sanitizer has an operator new of its own");
  struct alignas(64) Wide {
    char bytes[64];
  };
  const std::uint64_t before = soma_test::new_calls();
  auto one = std::make_unique<int>(1);
  auto two = std::make_unique<Wide>();
  auto three = std::make_unique<Wide[]>(3);
  std::vector<int> four(10);
  CHECK(soma_test::new_calls() == before + 4);
}

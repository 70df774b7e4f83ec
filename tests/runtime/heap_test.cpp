// Heap: blocks never overlap, neighbours join, and a need that was met once asks nothing again.

#include <soma/runtime/heap.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/limited_memory.hpp"

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SOMA_TEST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOMA_TEST_ADDRESS_SANITIZER 1
#endif
#endif
#if SOMA_TEST_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

using namespace soma;
using soma_test::id_of;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// A heap over counted memory, and what lives in it: each block is filled with a pattern of its own.
class Model {
 public:
  explicit Model(Heap& heap) : heap_(heap) {}
  ~Model() { free_all(); }

  std::byte* allocate(std::size_t bytes) {
    auto* block = static_cast<std::byte*>(heap_.allocate(bytes));
    REQUIRE(reinterpret_cast<std::uintptr_t>(block) % memory_alignment == 0);
    const auto behind = blocks_.lower_bound(block);
    if (behind != blocks_.end()) REQUIRE(block + bytes <= behind->first);
    if (behind != blocks_.begin()) {
      const auto before = std::prev(behind);
      REQUIRE(before->first + before->second.bytes <= block);
    }
    std::memset(block, ++pattern_, bytes);
    blocks_[block] = {bytes, pattern_};
    return block;
  }
  void free(std::byte* block) {
    const Block& known = blocks_.at(block);
    bool whole = true;
    for (std::size_t i = 0; i < known.bytes; ++i)
      whole = whole && block[i] == std::byte{known.pattern};
    REQUIRE(whole);
    heap_.deallocate(block);
    blocks_.erase(block);
  }
  void free_any(std::size_t which) {
    free(std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(which % blocks_.size()))->first);
  }
  void free_all() {
    while (!blocks_.empty()) free(blocks_.begin()->first);
  }
  std::size_t count() const { return blocks_.size(); }

 private:
  struct Block {
    std::size_t bytes;
    std::uint8_t pattern;
  };
  Heap& heap_;
  std::map<std::byte*, Block> blocks_;
  std::uint8_t pattern_ = 0;
};

}  // namespace

TEST_CASE("random blocks never overlap and join again when they are free", "[unit][heap]") {
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    CountingResource memory(std::pmr::new_delete_resource());
    Heap heap(&memory);
    heap.reserve(8 * mebibyte);  // one slab, which is enough for all
    Model model(heap);
    std::mt19937 random(seed);
    for (int step = 0; step < 4000; ++step) {
      const std::size_t octave = random() % 15;
      if (model.count() < 100 && random() % 5 < 3)
        model.allocate((random() % (std::size_t{2} << octave)));
      else if (model.count() > 0)
        model.free_any(random());
    }
    CHECK(memory.use().allocations == 1);
    model.free_all();
    CHECK(heap.bytes_in_use() == 0);
    // All of it is one block again.
    model.allocate(8 * mebibyte);
    CHECK(memory.use().allocations == 1);
  }
}

TEST_CASE("random blocks over many slabs", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  {
    Heap heap(&memory);
    Model model(heap);
    std::mt19937 random(5);
    for (int step = 0; step < 2000; ++step) {
      if (model.count() < 60 && random() % 5 < 3)
        model.allocate(random() % (random() % 20 == 0 ? 3 * mebibyte : 60000));
      else if (model.count() > 0)
        model.free_any(random());
      if (step % 500 == 499) heap.trim();
    }
    CHECK(memory.use().allocations > 3);
    model.free_all();
    CHECK(heap.bytes_in_use() == 0);
    heap.trim();
    CHECK(memory.use().bytes_in_use == 0);
    model.allocate(100);  // it goes on after giving all back
  }
  CHECK(memory.use().bytes_in_use == 0);
}

TEST_CASE("blocks join in every order of freeing", "[unit][heap]") {
  std::array<int, 4> order{0, 1, 2, 3};
  do {
    CountingResource memory(std::pmr::new_delete_resource());
    Heap heap(&memory);
    heap.reserve(mebibyte);
    std::array<void*, 4> blocks{};
    for (void*& block : blocks) block = heap.allocate(mebibyte / 4 - 64);
    for (const int which : order) heap.deallocate(blocks[static_cast<std::size_t>(which)]);
    heap.deallocate(heap.allocate(mebibyte));
    CHECK(memory.use().allocations == 1);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("work that repeats itself soon asks nothing", "[unit][heap]") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CountingResource memory(std::pmr::new_delete_resource());
    Heap heap(&memory);
    const auto round = [&](std::size_t divisor) {
      std::vector<std::pair<void*, std::size_t>> blocks;
      std::mt19937 random(seed);
      for (int i = 0; i < 200; ++i) {
        const std::size_t kind = random() % 5, wish = random(), which = random();
        if (blocks.empty() || kind < 3) {
          // Blocks of all sizes; some seeds have whole slabs only, which is the hardest case.
          std::size_t bytes = wish % (std::size_t{2} << which % 21);
          if (seed % 3 == 0) bytes = mebibyte * (1 + wish % 8);
          blocks.emplace_back(heap.allocate(bytes / divisor), bytes / divisor);
        } else {
          std::swap(blocks[which % blocks.size()], blocks.back());
          heap.deallocate(blocks.back().first);
          blocks.pop_back();
        }
      }
      for (const auto& [block, bytes] : blocks) heap.deallocate(block);
    };
    for (int i = 0; i < 4; ++i) round(1);
    const auto allocations = memory.use().allocations;
    for (const std::size_t divisor : std::initializer_list<std::size_t>{1, 2, 3, 1, 7, 1})
      round(divisor);
    CHECK(memory.use().allocations == allocations);
  }
}

TEST_CASE("reserved blocks and freed blocks ask nothing", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Heap heap(&memory);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, mebibyte, 5 * mebibyte}) {
    heap.reserve(bytes);
    const auto allocations = memory.use().allocations;
    heap.reserve(bytes);
    void* block = heap.allocate(bytes);
    CHECK(memory.use().allocations == allocations);
    heap.deallocate(block);
  }
}

TEST_CASE("use and peak are counted", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Heap heap(&memory);
  CHECK(heap.bytes_in_use() == 0);
  void* a = heap.allocate(100);
  CHECK(heap.bytes_in_use() == 192);  // two units, and the header
  void* b = heap.allocate(64);
  CHECK(heap.bytes_in_use() == 192 + 128);
  heap.deallocate(a);
  CHECK(heap.bytes_in_use() == 128);
  CHECK(heap.peak_bytes() == 320);
  heap.reset_peak();
  CHECK(heap.peak_bytes() == 128);
  heap.deallocate(b);
  void* none = heap.allocate(0);
  CHECK(none != nullptr);
  heap.deallocate(none);
  CHECK(heap.bytes_in_use() == 0);
  // In a hole that is one unit larger it counts as much.
  void* hole = heap.allocate(128);
  void* behind = heap.allocate(64);
  heap.deallocate(hole);
  CHECK(heap.allocate(64) == hole);
  CHECK(heap.bytes_in_use() == 2 * 128);
  heap.deallocate(hole);
  heap.deallocate(behind);
  CHECK(heap.bytes_in_use() == 0);
}

TEST_CASE("trim gives back what is not in use, and only that", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Heap heap(&memory);
  void* a = heap.allocate(2 * mebibyte);
  void* b = heap.allocate(3 * mebibyte);
  void* c = heap.allocate(4 * mebibyte);
  const std::size_t all = memory.use().bytes_in_use;
  heap.trim();
  CHECK(memory.use().bytes_in_use == all);
  heap.deallocate(b);
  heap.trim();
  CHECK(memory.use().bytes_in_use < all - 3 * mebibyte);
  std::memset(a, 1, 2 * mebibyte);
  std::memset(c, 1, 4 * mebibyte);
  heap.deallocate(a);
  heap.deallocate(c);
  heap.trim();
  CHECK(memory.use().bytes_in_use == 0);
}

TEST_CASE("what cannot be had is an error and the heap goes on", "[unit][heap]") {
  CountingResource nothing(std::pmr::null_memory_resource());
  Heap empty(&nothing);
  CHECK(id_of([&] { static_cast<void>(empty.allocate(1)); }) == "memory.exhausted");
  CHECK(id_of([&] { empty.reserve(1); }) == "memory.exhausted");
  soma_test::LimitedMemory limited(4 * mebibyte);
  CountingResource memory(&limited);
  Heap heap(&memory);
  void* block = heap.allocate(10);
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 100, ~std::size_t{0} - 200})
    CHECK(id_of([&] { static_cast<void>(heap.allocate(bytes)); }) == "base.size_overflow");
  CHECK(id_of([&] { static_cast<void>(heap.allocate(~std::size_t{0} / 4)); }) ==
        "memory.exhausted");
  CHECK(heap.bytes_in_use() == 128);
  heap.deallocate(block);
  CHECK(heap.bytes_in_use() == 0);
}

TEST_CASE("many threads take and give back", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  {
    Heap heap(&memory);
    std::vector<std::thread> threads;
    std::array<bool, 4> whole{};
    for (std::size_t t = 0; t < whole.size(); ++t)
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<std::uint32_t>(t));
        std::vector<std::pair<std::byte*, std::size_t>> mine;
        bool good = true;
        for (int step = 0; step < 4000; ++step) {
          if (mine.size() < 20 && random() % 2 == 0) {
            const std::size_t bytes = 1 + random() % 5000;
            auto* block = static_cast<std::byte*>(heap.allocate(bytes));
            std::memset(block, static_cast<int>(t), bytes);
            mine.emplace_back(block, bytes);
          } else if (!mine.empty()) {
            const auto [block, bytes] = mine.back();
            good = good && block[0] == std::byte(t) && block[bytes - 1] == std::byte(t);
            heap.deallocate(block);
            mine.pop_back();
          }
        }
        for (const auto& [block, bytes] : mine) heap.deallocate(block);
        whole[t] = good;
      });
    for (std::thread& thread : threads) thread.join();
    for (const bool good : whole) CHECK(good);
    CHECK(heap.bytes_in_use() == 0);
  }
  CHECK(memory.use().bytes_in_use == 0);
}

#if SOMA_TEST_ADDRESS_SANITIZER
TEST_CASE("the sanitizer sees what lies outside of blocks", "[unit][heap]") {
  CountingResource memory(std::pmr::new_delete_resource());
  Heap heap(&memory);
  auto* a = static_cast<std::byte*>(heap.allocate(100));
  auto* b = static_cast<std::byte*>(heap.allocate(64));
  CHECK_FALSE(__asan_address_is_poisoned(a));
  CHECK_FALSE(__asan_address_is_poisoned(a + 99));
  CHECK(__asan_address_is_poisoned(a + 104));
  heap.deallocate(a);
  CHECK(__asan_address_is_poisoned(a));
  CHECK_FALSE(__asan_address_is_poisoned(b));
  heap.deallocate(b);
  CHECK(__asan_address_is_poisoned(b));
  auto* c = static_cast<std::byte*>(heap.allocate(300));
  CHECK(__asan_region_is_poisoned(c, 300) == nullptr);
  heap.deallocate(c);
}
#endif

// Linux calls these pages transparent: every mapping that holds a large block asks for them.
TEST_CASE("large blocks of a context's own memory ask for large pages", "[unit][heap]") {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    WARN("not tested: this system has no transparent large pages");
    return;
  }
  const MemoryResource own;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  auto* block = static_cast<std::byte*>(own.allocate(bytes, memory_alignment));
  const auto middle = reinterpret_cast<std::uintptr_t>(block) + bytes / 2;
  bool asked = false, inside = false;
  std::ifstream mappings("/proc/self/smaps");
  for (std::string line; std::getline(mappings, line);) {
    std::uintptr_t first = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &first, &end) == 2)
      inside = first <= middle && middle < end;
    if (inside && line.starts_with("VmFlags:")) asked = line.find(" hg") != std::string::npos;
  }
  CHECK(asked);
  own.deallocate(block, bytes, memory_alignment);
}

TEST_CASE("a heap asks for whole large pages, and they begin where one can", "[unit][heap]") {
  constexpr std::size_t large = 2 * mebibyte;
  const MemoryResource own;
  for (const std::size_t bytes : {large, large + 64, 3 * large + 64}) {
    void* block = own.allocate(bytes, memory_alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % large == 0);
    own.deallocate(block, bytes, memory_alignment);
  }
  CountingResource host(own);
  Heap heap(&host);
  heap.allocate(100);
  CHECK(host.use().bytes_in_use == large);
  heap.allocate(large);  // and its header
  CHECK(host.use().bytes_in_use == 3 * large);
  heap.allocate(20 * large);
  CHECK(host.use().bytes_in_use == 24 * large);
  heap.reserve(large);  // at least an eighth of what is there
  CHECK(host.use().bytes_in_use == 27 * large);
}

namespace {

// So many bytes altogether; behind them nothing, by an exception or a null pointer.
class Budget {
 public:
  Budget(std::size_t bytes, bool throws) : left_(bytes), throws_(throws) {}
  void* allocate(std::size_t bytes, std::size_t alignment) {
    if (bytes > left_ && throws_) throw std::bad_alloc();
    if (bytes > left_) return nullptr;
    left_ -= bytes;
    return ::operator new (bytes, std::align_val_t{alignment});
  }
  void deallocate(void* block, std::size_t bytes, std::size_t alignment) {
    left_ += bytes;
    ::operator delete (block, std::align_val_t{alignment});
  }
  std::size_t left() const { return left_; }

 private:
  std::size_t left_;
  bool throws_;
};

}  // namespace

TEST_CASE("a host that is nearly out of memory is asked for what is needed", "[unit][heap]") {
  for (const bool throws : {true, false})
    for (const bool counted : {true, false}) {
      Budget host(67 * mebibyte, throws);
      CountingResource counting(&host);
      Heap heap(counted ? MemoryResource(&counting) : MemoryResource(&host));
      heap.allocate(64 * mebibyte - 4096);
      REQUIRE(host.left() == 3 * mebibyte);
      void* block = heap.allocate(2 * mebibyte);  // an eighth of what is there would be 8 MiB
      CHECK(host.left() == mebibyte - 3 * memory_alignment);
      if (throws && !counted) continue;  // the host's own exception
      // The message names the needed size: with the headers of a block, a slab and its end.
      const std::string message = soma_test::message_of([&] { heap.allocate(mebibyte); });
      CHECK(message.find("size is 1048768 bytes, wanted no more than the memory resource has") !=
            std::string::npos);
      CHECK(message.find("[memory.exhausted]") != std::string::npos);
      heap.deallocate(block);
      CHECK(heap.allocate(mebibyte) == block);
    }
}

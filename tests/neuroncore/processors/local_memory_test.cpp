// The pool of a processor's local memory: what is written beside a block is named.

#include <soma/neuroncore/processors/local_memory.hpp>

#include "catch.hpp"

#include <cstddef>
#include <cstring>

using soma::neuroncore::LocalBlock;
using soma::neuroncore::LocalMemory;

TEST_CASE("bytes beside a block of local memory are guarded", "[unit][processors]") {
  LocalMemory memory(4096);
  auto* block = static_cast<std::byte*>(memory.allocate(100));
  std::memset(block, 0, 100);
  CHECK(memory.overrun().empty());
  block[103] = std::byte{0};
  CHECK(memory.overrun() == "byte 3 behind a block of 100 bytes");
  CHECK(memory.free(block) == "byte 3 behind a block of 100 bytes, written");
  auto* other = static_cast<std::byte*>(LocalMemory(64).allocate(0));
  CHECK(other != nullptr);
  LocalMemory before(64);
  auto* at = static_cast<std::byte*>(before.allocate(8));
  at[-1] = std::byte{1};
  CHECK(before.overrun() == "byte 0 before a block of 8 bytes");
  LocalMemory late(64);
  at = static_cast<std::byte*>(late.allocate(8));
  CHECK(late.free(at).empty());
  CHECK(late.overrun().empty());
  at[8 + LocalBlock::guard - 1] = std::byte{0};
  CHECK(late.overrun() == "byte 255 behind a block of 8 bytes that was freed");
  CHECK(late.allocate(65) == nullptr);
  CHECK(late.unused() == 64);
}

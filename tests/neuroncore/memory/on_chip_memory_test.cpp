// SBUF and PSUM: how much there is, who holds it, and what nobody wrote.

#include "neuroncore/test_core.hpp"

#include <array>
#include <vector>

using namespace soma_test;
using nc::Accumulate;
using nc::Tile;
using soma::DType;

TEST_CASE("SBUF holds 192 KiB a partition and no more", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  CHECK(core.sbuf.capacity() == 192 * 1024);
  CHECK(core.psum.capacity() == 16 * 1024);
  core.sbuf.tile(DType::bf16, 1, 96 * 1024 - 2);
  CHECK(core.sbuf.used() == 192 * 1024 - 4);
  core.sbuf.tile(DType::uint8, 128, 1);  // takes the four bytes that alignment asks for
  CHECK(core.sbuf.used() == 192 * 1024);
  CHECK_THAT(message_of([&] { core.sbuf.tile(DType::uint8, 1, 1); }),
             contains(": tile is 4 bytes a partition with 196608 in use"));
  CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 1, 192 * 1024 + 1); }) ==
        "neuroncore.rule_broken");
  CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 129, 1); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 0, 1); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 1, 0); }) == "neuroncore.rule_broken");
}

TEST_CASE("PSUM is given out in banks", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  for (int bank = 0; bank < 8; ++bank) {
    const Tile tile = core.psum.tile(128, bank % 2 == 0 ? 512 : 1);
    CHECK(tile.offset() == static_cast<std::size_t>(bank) * 2048);
  }
  CHECK(id_of([&] { core.psum.tile(1, 1); }) == "neuroncore.rule_broken");
}

TEST_CASE("a scope gives back what was allocated in it", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile kept = core.sbuf.tile(DType::fp32, 128, 100);
  core.vector.memset(kept, 7);
  Tile inner;
  for (int repeat = 0; repeat < 100; ++repeat) {
    nc::Core::Scope scope(core);
    inner = core.sbuf.tile(DType::fp32, 128, 20000);
    core.psum.tile(128, 4096);
    {
      nc::Core::Scope deeper(core);
      core.sbuf.tile(DType::fp32, 128, 20000);
      CHECK(core.sbuf.used() == 400 + 160000);
    }
    CHECK(core.sbuf.used() == 400 + 80000);
  }
  CHECK(core.sbuf.used() == 400);
  CHECK(core.psum.used() == 0);
  CHECK(core.sbuf.high_water() == 400 + 160000);
  CHECK(core.psum.high_water() == 16384);
  CHECK(test.values(kept)[127 * 100] == 7);

  const Tile reused = core.sbuf.tile(DType::fp32, 128, 20000);
  CHECK(reused.offset() == inner.offset());
  CHECK_THAT(message_of([&] { core.vector.memset(inner, 1); }), contains("after its scope ended"));
  CHECK(id_of([&] { core.values(inner); }) == "neuroncore.undefined");
  core.start_high_water();
  CHECK(core.sbuf.high_water() == 400 + 80000);
}

TEST_CASE("a tile of another core is none of this one", "[unit][neuroncore]") {
  TestCore one, other;
  const Tile a = one.core.sbuf.tile(DType::fp32, 1, 4), b = other.core.sbuf.tile(DType::fp32, 1, 4);
  CHECK_THAT(message_of([&] { other.core.vector.memset(a, 1); }), contains("of another core"));
  CHECK(id_of([&] { one.core.values(b); }) == "neuroncore.undefined");
  CHECK_NOTHROW(one.core.vector.memset(a, 1));
}

TEST_CASE("what nobody wrote reads as NaN, or -1", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  for (const DType dtype : tile_floats)
    for (const float value : test.values(core.sbuf.tile(dtype, 3, 5))) CHECK(std::isnan(value));
  for (const float value : test.values(core.psum.tile(128, 512))) CHECK(std::isnan(value));
  for (const DType dtype : {DType::int8, DType::int32})
    for (const float value : test.values(core.sbuf.tile(dtype, 3, 5))) CHECK(value == -1);
  // Also where there was something before.
  const auto fresh = [&] {
    nc::Core::Scope scope(core);
    const Tile tile = core.sbuf.tile(DType::fp32, 128, 8);
    const std::vector<float> values = test.values(tile);
    core.vector.memset(tile, 3);
    return values;
  };
  fresh();
  for (const float value : fresh()) CHECK(std::isnan(value));
}

TEST_CASE("reading what nobody wrote can be an error", "[unit][neuroncore]") {
  TestCore test({.uninitialised = nc::Uninitialised::error});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 64, 16), b = core.sbuf.tile(DType::fp32, 64, 16);
  CHECK_THAT(message_of([&] { core.vector.copy(b, a); }),
             contains(") is fp32 SBUF [64, 16] with elements that nobody wrote"));
  core.vector.memset(a.columns(0, 16, 2), 1);
  CHECK_NOTHROW(core.vector.copy(b.columns(0, 8), a.columns(0, 16, 2)));
  CHECK(id_of([&] { core.vector.copy(b.columns(0, 2), a.columns(0, 2)); }) ==
        "neuroncore.undefined");
  core.vector.memset(a.columns(1, 16, 2).rows(0, 32), 1);
  CHECK_NOTHROW(core.vector.copy(b.rows(0, 32), a.rows(0, 32)));
  CHECK(id_of([&] { core.vector.copy(b, a); }) == "neuroncore.undefined");
  core.vector.memset(a.rows(32, 64), 2);
  CHECK_NOTHROW(core.vector.copy(b, a));

  const Tile w = core.sbuf.tile(DType::bf16, 16, 16);
  CHECK_THAT(message_of([&] { core.tensor.matmul(core.psum.tile(16, 16), w, w); }),
             contains(": stationary (tile of on_chip_memory_test.cpp:"));
}

TEST_CASE("what an instruction leaves alone stays unwritten", "[unit][neuroncore]") {
  TestCore test({.uninitialised = nc::Uninitialised::error});
  nc::Core& core = test.core;
  const Tile src = core.sbuf.tile(DType::fp32, 32, 4), out = core.sbuf.tile(DType::fp32, 32, 4);
  core.vector.memset(src, 5);
  const auto unread = [&](const Tile& tile) {
    return id_of([&] { core.vector.copy(out.columns(0, tile.free_size()), tile); }) ==
           "neuroncore.undefined";
  };
  {  // a predicate that chooses the columns 0 and 2
    const Tile predicate = core.sbuf.tile(DType::uint8, 32, 4);
    core.vector.memset(predicate, 0).memset(predicate.columns(0, 4, 2), 1);
    const Tile dst = core.sbuf.tile(DType::fp32, 32, 4);
    core.vector.copy_predicated(dst, src, predicate);
    CHECK(unread(dst));
    CHECK(!unread(dst.columns(0, 4, 2)));
    core.vector.memset(predicate, 1).copy_predicated(dst, src, predicate);
    CHECK(!unread(dst));
  }
  {  // a shuffle that keeps partition 3
    nc::ShuffleMask mask{};
    mask[3] = nc::shuffle_keep;
    const Tile dst = core.sbuf.tile(DType::fp32, 32, 4);
    core.vector.stream_shuffle(dst, src, mask);
    CHECK(unread(dst));
    core.vector.memset(dst, 0).stream_shuffle(dst, src, mask);
    CHECK(!unread(dst));
  }
  {  // a gather that skips a row
    const soma::Tensor table = soma::Tensor::full(test.context, soma::Shape{4, 4}, 1.0f);
    std::vector<std::int32_t> rows(32, 3);
    rows[7] = 4;
    const Tile dst = core.sbuf.tile(DType::fp32, 32, 4), indices = test.integers(32, rows);
    core.dma.gather(dst, nc::hbm(table), indices, nc::OutOfBounds::skip);
    CHECK(unread(dst));
  }
}

TEST_CASE("only what a matmul wrote can be accumulated on", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile w = core.sbuf.tile(DType::bf16, 32, 64), x = core.sbuf.tile(DType::bf16, 32, 128);
  core.vector.memset(w, 1).memset(x, 2);
  const Tile sums = core.psum.tile(64, 256);
  const auto id = [&](const Tile& dst) {
    return id_of([&] { core.tensor.matmul(dst, w, x, Accumulate::yes); });
  };
  CHECK(id(sums.columns(0, 128)) == "neuroncore.undefined");  // never written
  core.tensor.matmul(sums.columns(0, 128), w, x);
  CHECK(id(sums.columns(0, 128)) == "no error");
  CHECK(id(sums.columns(1, 129)) == "neuroncore.undefined");  // one column too far
  core.tensor.matmul(sums.columns(128, 256), w, x);
  CHECK(id(sums.columns(64, 192)) == "no error");  // groups that overlap add up word by word
  const std::vector<float> values = test.values(sums);
  for (std::size_t i = 0; i < 256; ++i)
    CHECK(values[i] == 64 + (i < 128 ? 64.0f : 0.0f) + (i >= 64 && i < 192 ? 64.0f : 0.0f));
  core.vector.memset(sums.columns(130, 131), 0);  // another engine's bytes
  CHECK(id(sums.columns(128, 256)) == "neuroncore.undefined");
  CHECK(id(sums.columns(0, 128)) == "no error");
  // The same where one matmul wrote the whole tile.
  const Tile whole = core.psum.tile(64, 128);
  core.tensor.matmul(whole, w, x);
  CHECK(id(whole) == "no error");
  core.scalar.copy(whole.rows(32, 64).columns(5, 6), whole.rows(32, 64).columns(6, 7));
  CHECK(id(whole) == "neuroncore.undefined");
  core.tensor.matmul(whole, w, x);
  CHECK(id(whole) == "no error");
}

TEST_CASE("everything in fp32 rounds nothing and counts the same bytes", "[unit][neuroncore]") {
  TestCore plain, wide({.everything_fp32 = true});
  const float third = 1.0f / 3;
  for (TestCore* test : {&plain, &wide}) {
    const bool rounds = test == &plain;
    nc::Core& core = test->core;
    const Tile tile = core.sbuf.tile(DType::bf16, 128, 1000);
    CHECK(core.sbuf.used() == 2000);
    core.vector.memset(tile, third);
    CHECK((test->values(tile)[5] == third) == !rounds);
    CHECK(test->values(core.sbuf.tile(DType::int32, 1, 1))[0] == -1);  // integers stay
    const Tile w = core.sbuf.tile(DType::fp8_e4m3, 128, 128);
    core.vector.memset(w, third);
    const Tile sums = core.psum.tile(128, 512);
    core.tensor.matmul(sums, w, tile.columns(0, 512));
    const float sum = test->values(sums)[0];
    if (rounds)
      CHECK(sum == 128 * through(DType::fp8_e4m3, third) * through(DType::bf16, third));
    else
      CHECK(std::fabs(sum - 128.0f / 9) <= 128 * 0x1p-24f * 128 / 9);
    core.psum.tile(128, 4096, DType::fp8_e5m2);
    CHECK(core.psum.used() == 2048 + 4096);
    // Memory is full where it would be full of the narrow types.
    core.sbuf.tile(DType::fp8_e5m2, 128, 192 * 1024 - core.sbuf.used());
    CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 1, 1); }) == "neuroncore.rule_broken");
  }
}

TEST_CASE("everything in fp32 keeps the rules of the types asked for", "[unit][neuroncore]") {
  TestCore plain, wide({.everything_fp32 = true});
  for (TestCore* test : {&plain, &wide}) {
    nc::Core& core = test->core;
    const auto id = [](auto run) { return id_of(run); };
    const Tile eight = core.sbuf.tile(DType::fp8_e4m3, 4, 4),
               more = core.sbuf.tile(DType::fp16, 4, 4);
    CHECK(eight.dtype() == DType::fp8_e4m3);
    CHECK(eight.describe() == "fp8_e4m3 SBUF [4, 4]");
    core.vector.memset(more, 7).memset(eight, 1);
    CHECK(test->values(more)[15] == 7);  // tiles lie side by side
    CHECK(test->values(eight)[15] == 1);
    // A bias makes numbers smaller or larger; the bits are those of narrow types only.
    const Tile biased = eight.with_bias(soma::format_of(DType::fp8_e4m3).bias + 3);
    CHECK(test->values(biased)[5] == 0.125f);
    core.vector.copy(biased.columns(0, 2), more.columns(0, 2));
    CHECK(test->values(biased)[1] == 7);
    CHECK(test->values(eight)[1] == 56);
    CHECK(id([&] { eight.as(DType::uint8); }) ==
          (test == &plain ? "no error" : "neuroncore.not_implemented"));
    CHECK(id([&] { eight.as(DType::bf16); }) == "neuroncore.rule_broken");
    CHECK(id([&] { core.sbuf.tile(DType::fp32, 4, 4).as(DType::int32); }) == "no error");

    // Banks are counted in the bytes of the hardware.
    const Tile w = core.sbuf.tile(DType::bf16, 128, 128), x = core.sbuf.tile(DType::bf16, 128, 512);
    const Tile weights = core.sbuf.tile(DType::fp32, 128, 128);
    core.vector.memset(w, 3).memset(x, 1).memset(weights, 1);
    const Tile sums = core.psum.tile(128, 1024), turned = core.psum.tile(128, 4096, DType::bf16);
    CHECK(id([&] { core.tensor.matmul(sums.columns(256, 768), w, x); }) ==
          "neuroncore.rule_broken");
    CHECK(id([&] { core.tensor.matmul(sums.columns(512, 1024), w, x); }) == "no error");
    CHECK(id([&] { core.tensor.transpose(turned.columns(448, 576), w); }) == "no error");
    CHECK(test->values(turned.columns(448, 576))[200] == 3);
    CHECK(id([&] { core.tensor.transpose(turned.columns(960, 1088), w); }) ==
          "neuroncore.rule_broken");
    CHECK(id([&] { core.tensor.transpose(turned.columns(1024, 1152), w); }) == "no error");
    // So are types.
    CHECK(id([&] { core.tensor.matmul(sums.columns(0, 128), weights, w); }) ==
          "neuroncore.rule_broken");
    CHECK(id([&] { core.tensor.transpose(sums.columns(0, 128), w); }) == "neuroncore.rule_broken");
    CHECK(id([&] { core.vector.copy_predicated(more, more, eight); }) == "neuroncore.rule_broken");
  }
}

TEST_CASE("what moves bits moves whole numbers where all are fp32", "[unit][neuroncore]") {
  const float third = 1.0f / 3;
  TestCore test({.everything_fp32 = true});
  nc::Core& core = test.core;
  const Tile src = core.sbuf.tile(DType::bf16, 32, 32), dst = core.sbuf.tile(DType::bf16, 32, 32);
  const Tile behind = core.sbuf.tile(DType::fp8_e4m3, 32, 32);  // stays as it is
  const Tile indices = core.sbuf.tile(DType::int32, 32, 32);
  core.gpsimd.iota(src, {.loops = {{1, 32}}, .channel_multiplier = 32}).memset(indices, 1);
  core.vector.tensor_scalar(src, src, nc::Alu::add, third).memset(behind, third);
  const auto expect = [&](auto column_of) {
    const std::vector<float> values = test.values(dst);
    std::size_t wrong = 0;
    for (std::size_t p = 0; p < 32; ++p)
      for (std::size_t i = 0; i < 32; ++i) {
        const auto [row, column] = column_of(p, i);
        wrong += values[32 * p + i] == static_cast<float>(32 * row + column) + third ? 0u : 1u;
      }
    CHECK(wrong == 0);
    for (const float value : test.values(behind)) CHECK(value == third);
    core.vector.memset(dst, 0);
  };
  using Place = std::array<std::size_t, 2>;
  core.vector.transpose(dst, src);
  expect([](std::size_t p, std::size_t i) { return Place{i, p}; });
  core.vector.stream_shuffle(dst, src, nc::ShuffleMask{});
  expect([](std::size_t, std::size_t i) { return Place{0, i}; });
  core.vector.copy_predicated(dst, src, indices);
  expect([](std::size_t p, std::size_t i) { return Place{p, i}; });
  core.gpsimd.n_gather(dst, src, indices);
  expect([](std::size_t p, std::size_t) { return Place{p, 1}; });
  core.gpsimd.local_gather(dst, src, indices, 32);
  expect([](std::size_t p, std::size_t) { return Place{p, 1}; });
  core.gpsimd.partition_broadcast(dst, src.rows(0, 1));
  expect([](std::size_t, std::size_t i) { return Place{0, i}; });
  core.gpsimd.affine_select(dst, src, {.loops = {{0, 32}}, .offset = 1}, 0, nc::Alu::greater);
  expect([](std::size_t p, std::size_t i) { return Place{p, i}; });
  const soma::Tensor out = core.copy_out(src);
  CHECK(out.dtype() == DType::fp32);
  CHECK(out.span<float>()[33] == 33 + third);
  CHECK(core.view<float>(src)(1, 1) == 33 + third);
  CHECK(id_of([&] { core.view<soma::bf16>(src); }) == "tensor.dtype");
}

TEST_CASE("partitions start where the hardware allows it", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile sbuf = core.sbuf.tile(DType::fp32, 128, 1), psum = core.psum.tile(128, 1);
  std::size_t allowed = 0;
  for (std::size_t start = 0; start < 128; ++start)
    for (std::size_t count = 1; start + count <= 128; ++count) {
      const bool good = count > 64   ? start == 0
                        : count > 32 ? start == 0 || start == 64
                                     : start % 32 == 0;
      for (const Tile& tile : {sbuf, psum}) {
        const bool ran =
            id_of([&] { core.vector.memset(tile.rows(start, start + count), 0); }) == "no error";
        if (ran != good) {
          INFO(count << " partitions from " << start << " on");
          CHECK(ran == good);
        }
      }
      allowed += good ? 1 : 0;
    }
  CHECK(allowed == 64 + 2 * 32 + 4 * 32);
}

TEST_CASE("tiles are allocated from either end of a memory, and hold what was written there",
          "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  core.allocate_from(nc::MemoryEnd::last);
  {
    nc::Core::Scope scope(core);
    const Tile large = core.sbuf.tile(DType::fp32, 128, 100),
               odd = core.sbuf.tile(DType::uint8, 2, 3);
    CHECK(large.offset() == 192 * 1024 - 400);
    CHECK(odd.offset() == 192 * 1024 - 404);
    CHECK(core.psum.tile(128, 1).offset() == 7 * 2048);
    CHECK(core.psum.tile(128, 512).offset() == 6 * 2048);
    core.vector.memset(large, 7);
    core.vector.memset(odd, 1);
    CHECK(core.values(large)[12799] == 7);
    core.allocate_from(nc::MemoryEnd::first);  // not while there are tiles
    CHECK(core.sbuf.tile(DType::fp32, 1, 1).offset() == 192 * 1024 - 408);
    CHECK(core.sbuf.used() == 408);
    core.sbuf.tile(DType::uint8, 1, 192 * 1024 - 408);
    CHECK(id_of([&] { core.sbuf.tile(DType::uint8, 1, 1); }) == "neuroncore.rule_broken");
  }
  core.allocate_from(nc::MemoryEnd::first);
  CHECK(core.sbuf.tile(DType::fp32, 1, 1).offset() == 0);
}

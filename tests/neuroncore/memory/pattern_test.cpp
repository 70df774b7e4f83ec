// Access patterns of tiles: the elements that they reach, as operands of every kind, and what is
// refused; and transfers within SBUF.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;
using soma::Shape;
using soma::Tensor;
using Steps = std::vector<nc::PatternStep>;

namespace {

// The elements of a pattern in order, by the definition.
std::vector<std::ptrdiff_t> elements_of(const Steps& steps, std::size_t offset) {
  std::vector<std::ptrdiff_t> places{static_cast<std::ptrdiff_t>(offset)};
  for (const nc::PatternStep& step : steps) {
    std::vector<std::ptrdiff_t> more;
    for (const std::ptrdiff_t place : places)
      for (std::size_t i = 0; i < step.count; ++i)
        more.push_back(place + static_cast<std::ptrdiff_t>(i) * step.stride);
    places = more;
  }
  return places;
}

struct Example {
  Steps steps;
  std::size_t offset;
};

// Steps apart, backwards, crossing each other, repeated and overlapping: all within 48 elements.
const Example examples[] = {
    {{{1, 48}}, 0},
    {{{3, 7}}, 2},
    {{{-2, 5}}, 40},
    {{{8, 4}, {1, 3}}, 1},
    {{{1, 3}, {8, 4}}, 1},                     // turned
    {{{5, 2}, {2, 4}}, 0},                     // between each other
    {{{4, 5}, {1, 8}}, 3},                     // windows that overlap
    {{{0, 3}, {1, 4}}, 7},                     // repeated
    {{{12, 2}, {1, 3}, {3, 4}, {1, 2}}, 5},    // four dimensions, overlapping
    {{{-12, 3}, {1, 2}, {-1, 3}, {4, 2}}, 33}  // and backwards
};

bool is_written_once(const Example& example) {
  std::vector<std::ptrdiff_t> places = elements_of(example.steps, example.offset);
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) == places.end();
}

}  // namespace

TEST_CASE("a pattern reads the elements that its strides and counts name", "[unit][neuroncore]") {
  for (const bool wide : {false, true})
    for (const DType dtype : {DType::fp32, DType::bf16, DType::uint8, DType::int16, DType::uint16,
                              DType::int32, DType::uint32})
      for (const nc::Memory memory : {nc::Memory::sbuf, nc::Memory::psum})
        for (const Example& example : examples) {
          TestCore test({.everything_fp32 = wide});
          nc::Core& core = test.core;
          const Tile tile = memory == nc::Memory::sbuf ? core.sbuf.tile(dtype, 3, 60)
                                                       : core.psum.tile(3, 60, dtype);
          const Tile source = core.sbuf.tile(dtype, 3, 60);
          core.gpsimd.iota(source, {.loops = {{1, 60}}, .channel_multiplier = 60});
          core.vector.copy(tile, source);
          // From a slice the pattern counts from the slice's first element, and reaches beyond it.
          for (const Tile& from : {tile, tile.columns(8, 12), tile.rows(0, 2).columns(12, 40, 3)}) {
            const Tile view = from.pattern(example.steps, example.offset);
            const auto first =
                static_cast<std::ptrdiff_t>((from.offset() - tile.offset()) / size_of(dtype));
            const std::vector<std::ptrdiff_t> wanted = elements_of(example.steps, example.offset);
            REQUIRE(view.free_size() == wanted.size());
            REQUIRE(view.partitions() == from.partitions());
            const Tile plain = core.sbuf.tile(dtype, view.partitions(), view.free_size());
            core.vector.copy(plain, view);
            const std::vector<float> seen = test.values(plain);
            for (std::size_t p = 0; p < view.partitions(); ++p)
              for (std::size_t i = 0; i < wanted.size(); ++i)
                REQUIRE(
                    seen[p * wanted.size() + i] ==
                    static_cast<float>(60 * static_cast<std::ptrdiff_t>(p) + first + wanted[i]));
          }
        }
}

TEST_CASE("a pattern is written where it reads, or refused where results would meet",
          "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::int8, DType::uint16})
    for (const Example& example : examples) {
      TestCore test({.uninitialised = nc::Uninitialised::error});
      nc::Core& core = test.core;
      const std::vector<std::ptrdiff_t> places = elements_of(example.steps, example.offset);
      const Tile tile = core.sbuf.tile(dtype, 2, 48),
                 view = tile.pattern(example.steps, example.offset);
      const Tile source = core.sbuf.tile(dtype, 2, places.size());
      core.gpsimd.iota(source, {.loops = {{1, places.size()}}, .channel_multiplier = 50});
      const Tensor x = Tensor::zeros(test.context, Shape{2, places.size()}, dtype);
      core.dma.store(nc::hbm_target(x), source);
      const std::string wanted = is_written_once(example) ? "no error" : "neuroncore.rule_broken";
      for (const bool transfer : {false, true}) {
        core.vector.memset(tile, 99);
        const auto write = [&] {
          transfer ? (void)core.dma.load(view, nc::hbm(x)) : (void)core.vector.copy(view, source);
        };
        REQUIRE(id_of(write) == wanted);
        std::vector<float> expected(96, 99.0f);
        for (std::size_t p = 0; p < 2 && is_written_once(example); ++p)
          for (std::size_t i = 0; i < places.size(); ++i)
            expected[p * 48 + static_cast<std::size_t>(places[i])] = static_cast<float>(50 * p + i);
        CHECK(test.values(tile) == expected);
      }
    }
}

TEST_CASE("every instruction reads and writes through patterns as through plain tiles",
          "[unit][neuroncore]") {
  // a and b overlap themselves, places do not; all have 12 elements.
  const Steps a{{2, 3}, {1, 4}}, b{{-1, 2}, {3, 6}}, places{{16, 3}, {3, 4}};
  struct Operands {
    nc::Core& core;
    Tile dst, x, y, column, ints, sums;
  };
  const std::function<void(Operands&)> instructions[] = {
      [](auto& o) { o.core.vector.tensor_tensor(o.dst, o.x, o.y, Alu::subtract); },
      [](auto& o) { o.core.vector.tensor_scalar(o.dst, o.x, Alu::add, 2, Alu::multiply, 0.5f); },
      [](auto& o) {
        o.core.vector.tensor_scalar_reduce(o.dst, o.x, Alu::multiply, 2, Alu::add, o.column);
      },
      [](auto& o) {
        o.core.vector.scalar_tensor_tensor(o.dst, o.x, Alu::subtract, 1, Alu::multiply, o.y);
      },
      [](auto& o) {
        o.core.vector.tensor_tensor_scan(o.dst, o.x, o.y, 0.0f, Alu::multiply, Alu::add);
      },
      [](auto& o) {
        o.core.vector.tensor_scalar_cumulative(o.dst, o.x, Alu::multiply, 1, Alu::add);
      },
      [](auto& o) { o.core.vector.tensor_reduce(o.column, o.x, Alu::add, o.x.rank()); },
      [](auto& o) { o.core.vector.reciprocal(o.dst, o.x); },
      [](auto& o) { o.core.vector.copy(o.dst, o.x); },
      [](auto& o) { o.core.vector.memset(o.dst, 3); },
      [](auto& o) { o.core.vector.bn_stats(o.dst.columns(0, 2), o.x); },
      [](auto& o) { o.core.vector.match_replace8(o.dst, o.x, o.y.columns(0, 4), 9); },
      [](auto& o) {
        o.core.vector.stream_shuffle(o.dst, o.x, {1, 0, 255, 2});
      },
      [](auto& o) {
        o.core.vector.dropout(o.dst, o.x, std::uint64_t{1} << 31, {.draw = {.seed = 3}});
      },
      [](auto& o) { o.core.scalar.activation(o.dst, o.x, nc::Function::tanh, {.scale = 0.25f}); },
      [](auto& o) { o.core.scalar.activation_reduce(o.dst, o.y, nc::Function::square, o.column); },
      [](auto& o) { o.core.scalar.copy(o.dst, o.y); },
      [](auto& o) { o.core.gpsimd.tensor_tensor(o.dst, o.x, o.y, Alu::add); },
      [](auto& o) { o.core.gpsimd.copy(o.dst, o.x); },
      [](auto& o) {
        o.core.gpsimd.iota(o.dst, {.loops = {{2, 12}}, .channel_multiplier = 5});
      },
      [](auto& o) {
        o.core.gpsimd.affine_select(o.dst, o.x, {.loops = {{1, 12}}, .offset = -6}, 4,
                                    Alu::greater);
      },
      [](auto& o) { o.core.gpsimd.n_gather(o.dst, o.x, o.ints); },
      [](auto& o) { o.core.gpsimd.partition_reduce(o.dst.rows(0, 1), o.x, Alu::add); },
      [](auto& o) { o.core.gpsimd.partition_broadcast(o.dst, o.x.rows(0, 1)); },
      [](auto& o) { o.core.tensor.matmul(o.sums, o.x, o.y); },
      [](auto& o) { o.core.dma.copy(o.dst, o.x); },
      [](auto& o) { o.core.dma.copy(o.dst.rows(1, 4), o.x.rows(0, 3)); },
  };
  for (std::size_t index = 0; index < std::size(instructions); ++index) {
    const auto run = [&](bool patterns) {
      TestCore test({.uninitialised = nc::Uninitialised::error});
      nc::Core& core = test.core;
      const Tile x = test.tile(DType::fp32, 4, steps(4 * 48, 4, 0.25f, 5));
      const Tile y = test.tile(DType::fp32, 4, steps(4 * 48, 4, 0.25f, 6));
      const Tile dst = core.sbuf.tile(DType::fp32, 4, 48);
      const Tile ints = core.sbuf.tile(DType::int32, 4, 48);
      core.gpsimd.iota(ints, {.loops = {{1, 4}, {1, 12}}});
      core.vector.tensor_scalar(ints, ints, Alu::bitwise_and, 7).memset(dst, 7);
      const Tile views[] = {x.pattern(a, 4), y.pattern(b, 1), dst.pattern(places, 2),
                            ints.pattern(b, 1)};
      Operands o{core,
                 views[2],
                 views[0],
                 views[1],
                 core.sbuf.tile(DType::fp32, 4, 1),
                 views[3],
                 core.psum.tile(12, 12)};
      core.vector.memset(o.column, 0).memset(o.sums, 0);
      if (!patterns) {
        o.dst = core.sbuf.tile(DType::fp32, 4, 12);
        o.x = core.sbuf.tile(DType::fp32, 4, 12);
        o.y = core.sbuf.tile(DType::fp32, 4, 12);
        o.ints = core.sbuf.tile(DType::int32, 4, 12);
        core.vector.memset(o.dst, 7).copy(o.x, views[0]).copy(o.y, views[1]);
        core.vector.copy(o.ints, views[3]);
        o.dst = o.dst.reshape({3, 4});
        o.x = o.x.reshape({3, 4});
        o.y = o.y.reshape({2, 6});
      }
      instructions[index](o);
      std::vector<float> result = test.values(o.dst);
      for (const Tile& more : {o.column, o.sums})
        for (const float value : test.values(more)) result.push_back(value);
      if (patterns) {  // and nothing else was written
        std::vector<float> all = test.values(dst);
        const auto written = elements_of(places, 2);
        for (std::size_t i = 0; i < 4 * 48; ++i)
          if (std::find(written.begin(), written.end(), i % 48) == written.end())
            CHECK(all[i] == 7);
      }
      return result;
    };
    INFO("instruction " << index);
    CHECK(run(true) == run(false));
  }
}

TEST_CASE("a pattern stays within its tile", "[unit][neuroncore]") {
  TestCore test;
  const Tile tile = test.core.sbuf.tile(DType::bf16, 4, 48).named("weights");
  const auto id = [](const auto& run) { return id_of(run); };
  const std::string broken = "neuroncore.rule_broken", fine = "no error";
  constexpr std::ptrdiff_t lowest = PTRDIFF_MIN, highest = PTRDIFF_MAX;
  CHECK(id([&] { (void)tile.pattern({{1, 48}}); }) == fine);
  CHECK(id([&] { (void)tile.pattern({{1, 49}}); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{1, 48}}, 1); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{47, 2}}); }) == fine);
  CHECK(id([&] { (void)tile.pattern({{48, 2}}); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{24, 2}, {23, 2}}); }) == fine);
  CHECK(id([&] { (void)tile.pattern({{24, 2}, {24, 2}}); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{-1, 2}}); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{-1, 48}}, 47); }) == fine);
  CHECK(id([&] { (void)tile.pattern({{-1, 48}, {1, 2}}, 46); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{1, 1}}, 47); }) == fine);
  CHECK(id([&] { (void)tile.pattern({{1, 1}}, 48); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{1, 1}}, ~std::size_t{0}); }) == broken);
  for (const std::ptrdiff_t stride : {lowest, highest}) {
    CHECK(id([&] { (void)tile.pattern({{stride, 2}}, 20); }) == broken);
    CHECK(id([&] { (void)tile.pattern({{stride, ~std::size_t{0}}}, 20); }) == broken);
    CHECK(id([&] { (void)tile.pattern({{stride, 1}}, 20); }) == fine);  // it takes no step
  }
  CHECK(id([&] { (void)tile.pattern({{2, ~std::size_t{0}}}); }) == broken);
  CHECK(id([&] { (void)tile.pattern(Steps{}); }) == broken);
  CHECK(id([&] { (void)tile.pattern({{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}); }) == broken);
  // A slice may look beyond itself, and never beyond what the memory gave out.
  const Tile part = tile.columns(40, 44);
  CHECK(id([&] { (void)part.pattern({{1, 8}}); }) == fine);
  CHECK(id([&] { (void)part.pattern({{1, 9}}); }) == broken);
  CHECK(id([&] { (void)part.pattern({{-1, 41}}); }) == fine);
  CHECK(id([&] { (void)part.pattern({{-1, 42}}); }) == broken);
  CHECK(id([&] { (void)part.pattern({{4, 2}}).pattern({{-8, 6}}); }) == fine);
  // Instructions refuse the same as of any tile.
  CHECK(id([&] { test.core.vector.memset(tile.pattern({{1, 0}}), 0); }) == broken);
  CHECK(id([&] { test.core.vector.memset(tile.pattern({{32768, 1}}), 0); }) == broken);
  const Tile wide = test.core.sbuf.tile(DType::uint8, 4, 40000);
  CHECK(id([&] { test.core.vector.memset(wide.pattern({{32768, 2}}), 0); }) == broken);
  CHECK(id([&] { test.core.vector.memset(wide.pattern({{32767, 2}}), 0); }) == fine);
  CHECK(message_of([&] {
          (void)part.pattern({{-2, 3}, {1, 9}}, 5);
        })
            .ends_with(": tile (tile weights) is a pattern of {-2, 3}, {1, 9} from element 5 on, "
                       "wanted within the elements -40 to 8 of bf16 SBUF [4, 4] "
                       "[neuroncore.rule_broken]"));
  CHECK(message_of([&] {
          (void)tile.pattern({{1, 49}});
        }).starts_with("Tile::pattern at pattern_test.cpp:"));
  // A product's result within one bank.
  const Tile sums = test.core.psum.tile(4, 1024), x = test.tile(DType::bf16, 4, counting(32));
  const Tile four = x.columns(0, 4), eight = x.columns(0, 8);
  CHECK(id([&] { test.core.tensor.matmul(sums.pattern({{64, 8}}), four, eight); }) == fine);
  CHECK(id([&] { test.core.tensor.matmul(sums.pattern({{74, 8}}), four, eight); }) == broken);
}

TEST_CASE("a pattern of device memory", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tensor x = Tensor::from<float>(test.context, counting(64), Shape{64});
  const std::size_t step = 16;  // no cast
  const Tile tile = core.sbuf.tile(DType::fp32, 4, 6);
  core.dma.load(tile, nc::hbm(x).pattern({{step, 4}, {2, 3}, {1, 2}}, 3));
  const std::vector<float> seen = test.values(tile);
  for (std::size_t p = 0; p < 4; ++p)
    for (std::size_t i = 0; i < 6; ++i)
      CHECK(seen[p * 6 + i] == static_cast<float>(3 + 16 * p + i / 2 * 2 + i % 2));
  const auto message = message_of([&] { (void)nc::hbm(x).pattern({{-1, 2}, {1, 1}}, 9); });
  CHECK(message.starts_with("HbmView::pattern at pattern_test.cpp:"));
  CHECK(
      message.ends_with(": pattern is {-1, 2}, wanted a stride of 0 or more in device memory "
                        "[neuroncore.rule_broken]"));
}

TEST_CASE("elements that a pattern skips may be anything, those that it reads were written",
          "[unit][neuroncore]") {
  TestCore test({.uninitialised = nc::Uninitialised::error});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::bf16, 2, 30), out = core.sbuf.tile(DType::bf16, 2, 12);
  core.vector.memset(tile.pattern({{10, 3}, {2, 3}}), 1);  // 0, 2, 4, 10 ...
  const auto id = [&](const Steps& steps, std::size_t offset) {
    const Tile view = tile.pattern(steps, offset);
    return id_of([&] { core.vector.copy(out.columns(0, view.free_size()), view); });
  };
  CHECK(id({{10, 3}, {2, 3}}, 0) == "no error");
  CHECK(id({{2, 2}, {10, 3}}, 2) == "no error");
  CHECK(id({{-2, 3}, {0, 4}}, 14) == "no error");
  CHECK(id({{10, 3}, {2, 4}}, 0) == "neuroncore.undefined");
  CHECK(id({{1, 2}}, 0) == "neuroncore.undefined");
}

TEST_CASE("the race check sees the bytes of a pattern", "[unit][neuroncore]") {
  // Vector writes elements 0, 6, 12 ...; the Scalar engine touches others without a wait.
  struct Case {
    Steps steps;
    std::size_t offset;
    bool meets;
  };
  const Case cases[] = {
      {{{6, 8}}, 1, false},         {{{6, 8}}, 0, true},          {{{12, 4}, {1, 5}}, 1, false},
      {{{12, 4}, {1, 6}}, 1, true}, {{{6, 7}, {2, 3}}, 1, false},  // 1, 3, 5, 7 ...: odd
      {{{6, 7}, {3, 2}}, 2, false},                                // 2, 5, 8 ...
      {{{6, 7}, {4, 2}}, 2, true},  {{{1, 4}, {1, 3}}, 6, true},  {{{1, 3}, {1, 3}}, 7, false},
      {{{-6, 7}}, 47, false},       {{{-6, 7}}, 42, true},
  };
  for (const bool writes : {false, true})
    for (const Case& other : cases) {
      TestCore test({.synchronization = nc::Synchronization::manual});
      nc::Core& core = test.core;
      const Tile tile = core.sbuf.tile(DType::fp32, 4, 48),
                 out = core.sbuf.tile(DType::fp32, 4, 48);
      core.finish();
      core.vector.memset(tile.pattern({{6, 8}}), 1);
      const Tile view = tile.pattern(other.steps, other.offset);
      if (writes && nc::overlaps_itself(view)) continue;
      const Tile plain = out.columns(0, view.free_size());
      INFO(other.offset << ", " << other.steps.size());
      CHECK(id_of([&] {
              writes ? core.scalar.copy(view, plain) : core.scalar.copy(plain, view);
            }) == (other.meets ? "neuroncore.race" : "no error"));
    }
}

TEST_CASE("the record of a pattern has its strides and pieces", "[unit][neuroncore]") {
  TestCore test({.record = true, .compute = false});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::fp32, 128, 512),
             out = core.sbuf.tile(DType::fp32, 128, 64);
  const auto cost = [&](const Steps& steps) {
    core.vector.copy(out, tile.pattern(steps));
    return core.recorded().back().cost;
  };
  CHECK(cost({{8, 8}, {1, 8}}).unit_stride);
  CHECK(cost({{1, 8}, {1, 8}}).unit_stride);
  CHECK(!cost({{1, 8}, {8, 8}}).unit_stride);
  CHECK(cost({{16, 16}, {4, 4}}).narrow_stride);   // 16 bytes
  CHECK(!cost({{16, 16}, {5, 4}}).narrow_stride);  // 20 bytes
  CHECK(!cost({{-5, 1}, {8, 64}}).narrow_stride);
  CHECK(!cost({{8, 64}, {1, 1}}).narrow_stride);  // a dimension of one element has no neighbours
  CHECK(!cost({{8, 64}, {1, 1}}).unit_stride);
  // Pieces of a transfer: the longer list of the two.
  const Tensor x = Tensor::zeros(test.context, Shape{128, 512});
  const auto pieces = [&](const Tile& to, const nc::HbmView& from) {
    core.dma.load(to, from);
    return core.recorded().back().cost.buffers;
  };
  const nc::HbmView rows = nc::hbm(x);
  CHECK(pieces(out, rows.columns(0, 64)) == 128);
  CHECK(pieces(tile.pattern({{128, 4}, {1, 16}}), rows.columns(0, 64)) == 128 * 4);
  CHECK(pieces(tile.pattern({{64, 4}, {16, 4}, {1, 4}}), rows.columns(0, 64)) == 128 * 16);
  CHECK(pieces(tile.pattern({{2, 64}}), rows.columns(0, 64)) == 128 * 64);
  CHECK(pieces(out, rows.pattern({{512, 128}, {8, 32}, {4, 2}, {1, 1}})) == 128 * 64);
  CHECK(pieces(out, rows.pattern({{512, 128}, {128, 4}, {4, 4}, {1, 4}})) == 128 * 4);
  CHECK(pieces(tile.pattern({{4, 16}, {1, 4}}), rows.pattern({{512, 128}, {128, 4}, {1, 16}})) ==
        128 * 4);
}

TEST_CASE("a transfer within SBUF", "[unit][neuroncore]") {
  for (const std::uint64_t seed : {0u, 1u, 2u}) {
    TestCore test({.uninitialised = nc::Uninitialised::error, .dma_stress_seed = seed});
    nc::Core& core = test.core;
    const Tile a = test.tile(DType::fp32, 6, counting(60)), b = core.sbuf.tile(DType::fp32, 12, 5);
    const Tile narrow = core.sbuf.tile(DType::int8, 6, 10),
               row = core.sbuf.tile(DType::bf16, 1, 60);
    const Tile shifted = core.sbuf.tile(DType::fp32, 6, 10);
    // Other partitions, from any partition to any; the order of elements stays.
    core.dma.copy(b, a);
    CHECK(test.values(b) == counting(60));
    core.dma.copy(row, a).queue(3).copy(narrow, row);
    CHECK(test.values(narrow) == counting(60));
    core.vector.memset(shifted, -1);
    core.dma.copy(shifted.rows(1, 6), a.rows(0, 5));
    const std::vector<float> seen = test.values(shifted);
    for (std::size_t i = 0; i < 60; ++i)
      CHECK(seen[i] == (i < 10 ? -1.0f : static_cast<float>(i - 10)));
    // An instruction that overwrites the source waits for the transfer.
    core.dma.copy(b, a);
    core.vector.memset(a, 9);
    CHECK(test.values(b) == counting(60));
    // In place, and refused: shifted on itself, more elements, results that meet, PSUM, unwritten.
    core.dma.copy(a, a);
    const auto id = [](const auto& run) { return id_of(run); };
    CHECK(id([&] { core.dma.copy(a.rows(1, 6), a.rows(0, 5)); }) == "neuroncore.undefined");
    CHECK(id([&] { core.dma.copy(a, b.rows(0, 11)); }) == "neuroncore.rule_broken");
    CHECK(id([&] { core.dma.copy(a.pattern({{0, 10}}), b); }) == "neuroncore.rule_broken");
    CHECK(id([&] { core.dma.copy(core.psum.tile(6, 10), b); }) == "neuroncore.rule_broken");
    CHECK(id([&] { core.dma.copy(b, core.sbuf.tile(DType::fp32, 6, 10)); }) ==
          "neuroncore.undefined");
    CHECK(message_of([&] {
            core.dma.copy(a, b.rows(0, 11));
          }).starts_with("dma.copy at pattern_test.cpp:"));
  }
}

TEST_CASE("a transfer within SBUF that nobody waits for is a race", "[unit][neuroncore]") {
  for (const bool wait : {false, true}) {
    TestCore test({.synchronization = nc::Synchronization::manual, .dma_stress_seed = 3});
    nc::Core& core = test.core;
    const Tile a = core.sbuf.tile(DType::fp32, 4, 8), b = core.sbuf.tile(DType::fp32, 4, 8);
    core.vector.memset(a, 1);
    core.finish();
    nc::Semaphore arrived = core.semaphore();
    core.dma.copy(b, a).signal(arrived);
    if (wait) core.vector.wait(arrived, 16);
    CHECK(id_of([&] { core.vector.copy(a, b); }) == (wait ? "no error" : "neuroncore.race"));
    core.finish();
  }
}

TEST_CASE("a transfer within SBUF takes the time of its pieces and none of device memory",
          "[unit][neuroncore]") {
  TestCore test({.record = true, .compute = false});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::bf16, 128, 512), b = core.sbuf.tile(DType::fp32, 128, 512);
  core.dma.copy(b, a);
  const nc::Instruction whole = core.recorded().back();
  CHECK(whole.direction == nc::Direction::on_chip);
  CHECK(whole.cost.buffers == 128);
  CHECK(whole.cost.bytes == 128 * 512 * 4);
  CHECK(whole.hbm.pattern == 0);
  core.dma.copy(b.pattern({{8, 64}, {1, 4}}), a.pattern({{1, 256}}));
  CHECK(core.recorded().back().cost.buffers == 128 * 64);
  core.dma.copy(b.rows(0, 1), a.pattern({{1, 4}}));
  CHECK(core.recorded().back().cost.buffers == 128);
  CHECK(core.statistics().hbm_bytes_read + core.statistics().hbm_bytes_written == 0);
}

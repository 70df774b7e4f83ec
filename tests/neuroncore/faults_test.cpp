// Errors name the line of the call, the operand and its tile; results have places of their own;
// views stay within their tensors.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/test_core.hpp"
#include "support/errors.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using soma_test::nc::Alu;
using soma_test::nc::Tile;

namespace {

// The error of what runs at this line, or in the three below it.
template <class Run>
void named(const std::string& call, const std::string& problem, const Run& run,
           int line = __builtin_LINE()) {
  const std::string message = message_of(run), place = call + " at faults_test.cpp:";
  INFO(message << ", wanted " << place << line << ": " << problem);
  REQUIRE(message.starts_with(place));
  std::size_t digits = 0;
  const int at = std::stoi(message.substr(place.size()), &digits);
  CHECK(std::abs(at - line) <= 3);
  CHECK(message.substr(place.size() + digits).starts_with(": " + problem));
}

constexpr nc::CoreOptions strict{.uninitialised = nc::Uninitialised::error,
                                 .out_of_range = nc::OutOfRange::error};

}  // namespace

TEST_CASE("an error names its line, the operand and the tile", "[unit][neuroncore]") {
  TestCore test(strict);
  nc::Core& core = test.core;
  const Tile plain = core.sbuf.tile(DType::fp32, 128, 512);
  const Tile weights = core.sbuf.tile(DType::fp32, 128, 512).named("weights");
  const Tile other = core.sbuf.tile(DType::fp32, 128, 512);
  const Tensor x = Tensor::zeros(test.context, Shape{128, 512});
  named("copy", "src (tile of faults_test.cpp:", [&] { core.vector.copy(other, plain); });
  named("copy", "src (tile weights) is fp32 SBUF [128, 512] with elements that nobody wrote",
        [&] { core.vector.copy(other, weights.columns(0, 512)); });
  core.vector.memset(plain, 9).memset(weights, 1);
  named("copy", "dst (tile of faults_test.cpp:", [&] {
    core.vector.copy(other.rows(16, 48), weights.rows(32, 64));
  });
  named("activation", "data (tile of faults_test.cpp:", [&] {
    core.scalar.activation(plain, plain, nc::Function::sin);
  });
  const Tile ids = core.sbuf.tile(DType::int32, 128, 1).named("ids");
  core.gpsimd.iota(ids, {.loops = {{0, 1}}, .channel_multiplier = 2});
  named("dma.gather", "indices (tile ids) is 128 in partition 64",
        [&] { core.dma.gather(plain, nc::hbm(x), ids); });
  named("sbuf.tile", "elements is", [&] { (void)core.sbuf.tile(DType::fp32, 128, 999999); });
  named("psum.tile", "tile is", [&] { (void)core.psum.tile(128, 5000); });
  named("Tile::rows", "range is 100 to 200, wanted within the 128 partitions of tile weights",
        [&] { (void)weights.rows(100, 200); });
  named("Tile::slice", "range is 0 to 513", [&] { (void)weights.columns(0, 513); });
  named("HbmView::slice", "range is 0 to 129", [&] { (void)nc::hbm(x).rows(0, 129); });
  nc::Semaphore semaphore = core.semaphore();
  named("wait", "value is 1", [&] { core.scalar.wait(semaphore, 1); });
  named("wait", "value is 2", [&] { core.dma.wait(semaphore, 2); });
  named("dma.queue", "index is 99", [&] { (void)core.dma.queue(99); });
  named("Constant", "number is 4294967296", [&] { core.vector.memset(plain, 4294967296); });
}

TEST_CASE("late transfers name their own line", "[unit][neuroncore]") {
  nc::CoreOptions options = strict;
  options.dma_stress_seed = 1;
  TestCore test(options, 3);
  const Tensor wide =
      Tensor::from<std::int64_t>(test.context, {1, std::int64_t{1} << 40}, Shape{1, 2});
  const Tile ids = test.core.sbuf.tile(DType::int32, 1, 2);
  test.core.dma.load(ids, nc::hbm(wide));
  const std::string line = std::to_string(__LINE__ - 1);
  CHECK(message_of([&] {
          test.core.finish();
        }).starts_with("dma.load at faults_test.cpp:" + line + ": view is 1099511627776"));
}

TEST_CASE("each result has a place of its own, on every engine and in transfers",
          "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tensor x = Tensor::full(test.context, Shape{4, 8}, 0.5f);
  const Tensor y = Tensor::zeros(test.context, Shape{1, 8});
  const Tile t = core.sbuf.tile(DType::fp32, 4, 8), column = core.sbuf.tile(DType::fp32, 4, 1);
  const Tile one = column.broadcast(0, 8), ints = core.sbuf.tile(DType::int32, 4, 8);
  core.vector.memset(t, 1).memset(ints, 0);
  const auto id = [](const auto& run) { return id_of(run); };
  const std::string broken = "neuroncore.rule_broken";
  CHECK(id([&] { core.vector.copy(one, t); }) == broken);
  CHECK(id([&] { core.vector.tensor_tensor(one, t, t, Alu::add); }) == broken);
  CHECK(id([&] { core.vector.select(one, ints.as(DType::int32), t, 0); }) == broken);
  CHECK(id([&] { core.vector.rng(one.as(DType::int32), {}); }) == broken);
  CHECK(id([&] { core.scalar.activation(one, t, nc::Function::exp); }) == broken);
  CHECK(id([&] { core.gpsimd.iota(one, {.loops = {{1, 8}}}); }) == broken);
  CHECK(id([&] { core.gpsimd.memset(one, 1); }) == broken);
  CHECK(id([&] { core.dma.load(one, nc::hbm(x)); }) == broken);
  CHECK(id([&] { core.dma.sum(one, {nc::hbm(x), nc::hbm(x)}); }) == broken);
  CHECK(id([&] { core.dma.store(nc::hbm_target(y).broadcast_rows(4), t); }) == broken);
  CHECK(id([&] { core.dma.store(nc::hbm_target(x).rows(0, 1).with_rows(4, 4), t); }) == broken);
  // Rows that go between each other share nothing.
  const Tensor wide = Tensor::zeros(test.context, Shape{64});
  const std::array<nc::PatternStep, 3> between{{{5, 2}, {2, 4}, {1, 1}}};
  const std::array<nc::PatternStep, 2> twice{{{4, 2}, {2, 4}}};
  CHECK(id([&] {
          core.dma.store(nc::hbm_target(wide).pattern(between), t.rows(0, 2).columns(0, 4));
        }) == "no error");
  CHECK(id([&] {
          core.dma.store(nc::hbm_target(wide).pattern(twice), t.rows(0, 2).columns(0, 4));
        }) == broken);
}

TEST_CASE("a result on bytes of an input is the same elements, or undefined",
          "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile t = core.sbuf.tile(DType::fp32, 4, 16), b = core.sbuf.tile(DType::bf16, 4, 16);
  const Tile ints = core.sbuf.tile(DType::int32, 4, 16);
  core.vector.memset(t, 1).memset(b, 1).memset(ints, 0);
  const auto id = [](const auto& run) { return id_of(run); };
  const std::string undefined = "neuroncore.undefined", fine = "no error";
  CHECK(id([&] { core.vector.copy(t.columns(1, 9), t.columns(0, 8)); }) == undefined);
  CHECK(id([&] { core.vector.copy(t.columns(0, 8), t.columns(1, 9)); }) == undefined);
  CHECK(id([&] { core.vector.tensor_tensor(t, t, t.columns(0, 1).broadcast(0, 16), Alu::add); }) ==
        undefined);
  CHECK(id([&] { core.vector.tensor_reduce(t.columns(0, 1), t, Alu::add); }) == undefined);
  CHECK(id([&] { core.scalar.copy(t.columns(0, 16, 2), t.columns(0, 8)); }) == undefined);
  CHECK(id([&] { core.gpsimd.copy(t.columns(4, 12), t.columns(0, 8)); }) == undefined);
  CHECK(id([&] { core.gpsimd.n_gather(t, t, ints); }) == undefined);
  CHECK(message_of([&] {
          core.vector.copy(t.columns(1, 9), t.columns(0, 8));
        }).find("on bytes of src (tile of faults_test.cpp:") != std::string::npos);
  // In place, beside each other, in other partitions.
  CHECK(id([&] { core.vector.copy(t, t); }) == fine);
  CHECK(id([&] { core.vector.copy(t.reshape({4, 4}), t.reshape({2, 8})); }) == fine);
  CHECK(id([&] { core.vector.copy(t.columns(0, 16, 2), t.columns(1, 16, 2)); }) == fine);
  CHECK(id([&] { core.vector.copy(t.columns(0, 8), t.columns(8, 16)); }) == fine);
  CHECK(id([&] { core.vector.copy(t.as(DType::int32), t); }) == fine);
}

TEST_CASE("a view stays within its tensor", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tensor x = Tensor::full(test.context, Shape{8, 512}, 0.5f);
  const Tile tile = core.sbuf.tile(DType::fp32, 8, 512);
  const auto id = [](const auto& run) { return id_of(run); };
  const std::string broken = "neuroncore.rule_broken", fine = "no error";
  const std::size_t huge = ~std::size_t{0};
  CHECK(id([&] { core.dma.load(tile, nc::hbm(x).rows(0, 1).with_rows(8, 512)); }) == fine);
  CHECK(id([&] { (void)nc::hbm(x).rows(0, 1).with_rows(8, 513); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).rows(0, 1).with_rows(9, 512); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).rows(1, 2).with_rows(8, 512); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).columns(1, 2).with_rows(8, 512); }) == fine);
  CHECK(id([&] { (void)nc::hbm(x).with_rows(huge, huge); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).with_rows(3, huge / 2 + 1); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).with_rows(0, huge); }) == fine);
  const std::array<nc::PatternStep, 2> block{{{512, 8}, {1, 512}}};
  CHECK(id([&] { (void)nc::hbm(x).pattern(block); }) == fine);
  CHECK(id([&] { (void)nc::hbm(x).pattern(block, 1); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).pattern(block, huge); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).rows(4, 8).pattern(block); }) == broken);
  // A part of a tensor ends where it ends.
  CHECK(id([&] { (void)nc::hbm(x.slice(0, 0, 4)).rows(0, 1).with_rows(5, 512); }) == broken);
  CHECK(id([&] { (void)nc::hbm(x).as(DType::uint8).rows(0, 1).with_rows(8, 2048); }) == fine);
  CHECK(id([&] { (void)nc::hbm(x).as(DType::uint8).rows(0, 1).with_rows(8, 2049); }) == broken);
  CHECK(id([&] { (void)nc::hbm_first(x).pattern(block); }) == fine);
  named("HbmView::with_rows",
        "view is fp32 HBM [8, 512] with elements 2048, 1 apart, wanted within its tensor, of which "
        "4096 elements are left [neuroncore.rule_broken]",
        [&] { (void)nc::hbm(x).rows(0, 1).with_rows(8, 2048); });
}

TEST_CASE("a wait for a part of a transfer does not count as its end", "[unit][neuroncore]") {
  struct Wait {
    std::uint32_t value;
    bool same_queue, first, second;  // true: it has certainly arrived
  };
  constexpr Wait waits[] = {{1, true, false, false},   {15, true, false, false},
                            {16, true, true, false},   {17, true, true, false},
                            {31, true, true, false},   {32, true, true, true},
                            {16, false, false, false}, {17, false, false, false},
                            {31, false, false, false}, {32, false, true, true}};
  for (const std::uint64_t seed : {0u, 5u})
    for (const Wait& wait : waits) {
      INFO(wait.value << (wait.same_queue ? ", one queue" : ", two queues"));
      nc::CoreOptions options{.synchronization = nc::Synchronization::manual};
      options.dma_stress_seed = seed;
      TestCore test(options);
      nc::Core& core = test.core;
      const Tensor x = Tensor::full(test.context, Shape{4, 8}, 0.5f);
      const Tile a = core.sbuf.tile(DType::fp32, 4, 8), b = core.sbuf.tile(DType::fp32, 4, 8);
      nc::Semaphore arrived = core.semaphore();
      core.dma.load(a, nc::hbm(x)).signal(arrived);
      core.dma.queue(wait.same_queue ? 0 : 1).load(b, nc::hbm(x)).signal(arrived);
      core.vector.wait(arrived, wait.value);
      CHECK((id_of([&] { core.vector.copy(a, a); }) == "no error") == wait.first);
      CHECK((id_of([&] { core.vector.copy(b, b); }) == "no error") == wait.second);
    }
}

TEST_CASE("a part of a transfer is a missing wait under stress", "[unit][neuroncore]") {
  const auto sum = [](std::uint32_t value) {
    auto context = make_context({.threads = 1});
    return nc::stress(4, [&](std::uint64_t seed) {
      nc::CoreOptions options{.synchronization = nc::Synchronization::manual, .check_races = false};
      options.dma_stress_seed = seed;
      auto core = nc::make_core(context, nc::trn1(), options);
      const Tensor x = Tensor::full(context, Shape{4, 8}, 0.5f);
      const Tensor y = Tensor::zeros(context, Shape{4, 8});
      const Tile a = core.sbuf.tile(DType::fp32, 4, 8);
      nc::Semaphore arrived = core.semaphore(), computed = core.semaphore();
      core.dma.load(a, nc::hbm(x)).signal(arrived);
      core.vector.wait(arrived, value).copy(a, a).signal(computed);
      core.dma.queue(1).wait(computed, 1).store(nc::hbm_target(y), a);
      core.finish();
      return std::vector<Tensor>{y};
    });
  };
  CHECK(sum(16).equal());
  CHECK_FALSE(sum(15).equal());
}

// Order: what waits for what, what a missing wait does, and that a program with all its waits does
// not depend on when transfers end.

#include "neuroncore/test_core.hpp"

#include <array>
#include <string>
#include <vector>

using namespace soma_test;
using nc::CoreOptions;
using nc::Semaphore;
using nc::Synchronization;
using nc::Tile;
using soma::DType;

namespace {

constexpr Synchronization manual = Synchronization::manual;

// Rows of a matrix doubled and stored, two tiles in turn. `waits`: which of the waits there are.
struct Waits {
  bool loaded = true;    // the Vector engine for the load
  bool computed = true;  // the store for the Vector engine
  bool stored = true;    // the next load into a tile for the store from it
};

std::vector<float> doubled(const CoreOptions& options, const Waits& waits = {}, int rounds = 6) {
  TestCore test(options);
  nc::Core& core = test.core;
  const std::size_t columns = 8;
  std::vector<float> values = counting(static_cast<std::size_t>(rounds) * 128 * columns);
  const soma::Shape shape{static_cast<std::size_t>(rounds) * 128, columns};
  const soma::Tensor from = soma::Tensor::from<float>(test.context, values, shape);
  const soma::Tensor to = soma::Tensor::zeros(test.context, shape);
  Semaphore loaded = core.semaphore(), computed = core.semaphore(), stored = core.semaphore();
  nc::Dma store_queue = core.dma.queue(1);
  const Tile tiles[2] = {core.sbuf.tile(DType::fp32, 128, columns),
                         core.sbuf.tile(DType::fp32, 128, columns)};
  for (int round = 0; round < rounds; ++round) {
    const auto number = static_cast<std::uint32_t>(round);
    const Tile& tile = tiles[round % 2];
    const std::size_t row = static_cast<std::size_t>(round) * 128;
    if (waits.stored && round >= 2) core.dma.wait(stored, 16 * (number - 1));
    core.dma.load(tile, nc::hbm(from).rows(row, row + 128)).signal(loaded);
    if (waits.loaded) core.vector.wait(loaded, 16 * (number + 1));
    core.vector.tensor_scalar(tile, tile, nc::Alu::multiply, 2).signal(computed);
    if (waits.computed) store_queue.wait(computed, number + 1);
    store_queue.store(nc::hbm_target(to).rows(row, row + 128), tile).signal(stored);
  }
  core.finish();
  return {to.data<float>(), to.data<float>() + to.elements()};
}

std::vector<float> expected(int rounds = 6) {
  std::vector<float> values = counting(static_cast<std::size_t>(rounds) * 128 * 8);
  for (float& value : values) value *= 2;
  return values;
}

}  // namespace

TEST_CASE("a program with all its waits is silent and right, whenever transfers end",
          "[unit][neuroncore]") {
  for (std::uint64_t seed = 0; seed <= 60; ++seed) {
    INFO("seed " << seed);
    CHECK(doubled({.synchronization = manual, .dma_stress_seed = seed}) == expected());
  }
}

TEST_CASE("a program without waits is right where they are inserted", "[unit][neuroncore]") {
  const Waits none{.loaded = false, .computed = false, .stored = false};
  for (std::uint64_t seed = 0; seed <= 60; ++seed) {
    INFO("seed " << seed);
    CHECK(doubled({.dma_stress_seed = seed}, none) == expected());
  }
}

TEST_CASE("each missing wait is found", "[unit][neuroncore]") {
  const auto message = [](const Waits& waits) {
    return message_of([&] { doubled({.synchronization = manual}, waits); });
  };
  CHECK_THAT(
      message({.loaded = false}),
      contains("tensor_scalar: number 1 of vector at order_test.cpp:") &&
          contains(" is not ordered after dma_copy, number 1 of dma queue 0 at order_test.cpp:") &&
          contains(", which writes the same bytes, wanted a wait on a semaphore that it signals "
                   "[neuroncore.race]"));
  CHECK_THAT(message({.computed = false}), contains("dma_copy: number 1 of dma queue 1"));
  CHECK_THAT(message({.computed = false}), contains("tensor_scalar, number 1 of vector"));
  // The transfer lacks two waits, for the store and for the instruction before it; the message
  // names the first.
  CHECK_THAT(message({.stored = false}), contains("dma_copy: number 3 of dma queue 0 at ") &&
                                             contains(" is not ordered after tensor_scalar"));
  CHECK(message({}) == "no error");
}

TEST_CASE("without the check, a missing wait shows in the values", "[unit][neuroncore]") {
  for (const Waits& waits : {Waits{.loaded = false}, Waits{.stored = false}}) {
    int wrong = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      wrong += doubled({.synchronization = manual, .check_races = false, .dma_stress_seed = seed},
                       waits) != expected()
                   ? 1
                   : 0;
    CHECK(wrong > 0);
  }
  // Not under stress, a transfer ends at once and nothing is to be seen.
  CHECK(doubled({.synchronization = manual, .check_races = false}, {.loaded = false}) ==
        expected());
}

TEST_CASE("engines wait for each other through other engines", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 128, 4), b = core.sbuf.tile(DType::fp32, 128, 4);
  Semaphore first = core.semaphore(), second = core.semaphore();
  core.gpsimd.memset(a, 1).signal(first);
  core.vector.wait(first, 1).memset(b, 2).signal(second);
  // The Scalar engine waits for the Vector engine, which had waited for GpSimd.
  core.scalar.wait(second, 1);
  CHECK_NOTHROW(core.scalar.activation(a, a, nc::Function::square));
  CHECK_THAT(message_of([&] { core.gpsimd.copy(b, a); }),
             contains("copy: number 2 of gpsimd at ") &&
                 contains(" is not ordered after activation, number 1 of scalar"));
}

TEST_CASE("readers need no order among themselves", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const Tile src = core.sbuf.tile(DType::fp32, 128, 8), x = core.sbuf.tile(DType::fp32, 128, 8),
             y = core.sbuf.tile(DType::fp32, 128, 8);
  core.vector.memset(src, 1);
  core.finish();  // everybody has waited for everybody
  core.scalar.copy(x, src);
  CHECK_NOTHROW(core.gpsimd.copy(y, src));
  CHECK_THAT(message_of([&] { core.vector.memset(src.columns(7, 8), 0); }),
             contains("which reads the same bytes"));
}

TEST_CASE("bytes side by side are no conflict", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::bf16, 128, 8);
  core.vector.memset(tile.columns(0, 4), 1);
  CHECK_NOTHROW(core.gpsimd.memset(tile.columns(4, 8), 1));
  CHECK(id_of([&] { core.gpsimd.memset(tile.columns(3, 4), 1); }) == "neuroncore.race");
  CHECK_NOTHROW(core.scalar.copy(core.psum.tile(128, 8), core.sbuf.tile(DType::bf16, 128, 8)));
  core.finish();
  core.vector.memset(tile.rows(0, 64), 1);
  CHECK_NOTHROW(core.gpsimd.memset(tile.rows(64, 128), 1));
}

TEST_CASE("patterns that interleave are no conflict", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::fp32, 128, 16), out = core.sbuf.tile(DType::fp32, 128, 8);
  const Tile even = tile.columns(0, 16, 2), odd = tile.columns(1, 16, 2);
  core.vector.memset(even, 1);
  CHECK_NOTHROW(core.gpsimd.memset(odd, 2));
  CHECK_THAT(message_of([&] { core.scalar.copy(out, tile.columns(3, 11)); }), contains("vector"));
  core.finish();
  // A pattern does not hide what lies between its elements.
  Semaphore first = core.semaphore();
  core.vector.memset(tile, 1).signal(first);
  core.gpsimd.wait(first, 1).memset(even, 2);
  CHECK_THAT(message_of([&] { core.scalar.copy(out, odd); }),
             contains("not ordered after memset, number 2 of vector"));
  core.finish();

  // Blocks of columns of a matrix.
  const soma::Tensor matrix = soma::Tensor::zeros(test.context, soma::Shape{128, 32});
  core.vector.memset(tile, 1);
  core.finish();
  nc::Dma queue = core.dma.queue(1);
  core.dma.store(nc::hbm_target(matrix).columns(0, 16), tile);
  CHECK_NOTHROW(queue.store(nc::hbm_target(matrix).columns(16, 32), tile));
  CHECK(id_of([&] { core.dma.queue(2).load(out, nc::hbm(matrix).columns(12, 20)); }) ==
        "neuroncore.race");
}

TEST_CASE("no wait is inserted where nothing is shared", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::bf16, 128, 64);
  const soma::Tensor matrix = soma::Tensor::zeros(test.context, soma::Shape{128, 64});
  core.vector.memset(tile.columns(0, 64, 2), 1);
  core.gpsimd.memset(tile.columns(1, 64, 2), 1);
  core.dma.load(tile.columns(0, 32), nc::hbm(matrix).columns(0, 32));
  core.dma.queue(1).load(tile.columns(32, 64), nc::hbm(matrix).columns(32, 64));
  const auto all = core.recorded();
  REQUIRE(all.size() == 4);
  const auto waits = [&](std::size_t i) {
    std::vector<std::uint32_t> numbers(std::begin(all[i].after), std::end(all[i].after));
    return numbers.size() -
           static_cast<std::size_t>(std::count(numbers.begin(), numbers.end(), 0u));
  };
  CHECK(waits(1) == 0);
  CHECK(waits(2) == 2);  // for both that filled it
  CHECK(waits(3) == 2);  // and not for the other queue
}

TEST_CASE("transfers of several queues race in device memory too", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const soma::Tensor table = soma::Tensor::zeros(test.context, soma::Shape{4, 8});
  const Tile tile = core.sbuf.tile(DType::fp32, 2, 8), other = core.sbuf.tile(DType::fp32, 2, 8);
  core.vector.memset(tile, 1);
  core.finish();
  nc::Dma queue = core.dma.queue(3);
  core.dma.store(nc::hbm_target(table).rows(0, 2), tile);
  CHECK_NOTHROW(queue.load(other, nc::hbm(table).rows(2, 4)));
  CHECK_THAT(message_of([&] { queue.load(other, nc::hbm(table).rows(1, 3)); }),
             contains("dma_copy: number 2 of dma queue 3"));
  CHECK(id_of([&] { core.dma.queue(16); }) == "neuroncore.rule_broken");
}

TEST_CASE("a value that nobody signals is never waited for", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  Semaphore semaphore = core.semaphore();
  core.vector.signal(semaphore, 3);
  core.dma.signal(semaphore);
  CHECK(semaphore.value() == 19);
  CHECK_NOTHROW(core.tensor.wait(semaphore, 19));
  CHECK_THAT(message_of([&] { core.tensor.wait(semaphore, 20); }), contains("at most 19"));
}

TEST_CASE("a value that either of two may have brought proves neither", "[unit][neuroncore]") {
  TestCore test({.synchronization = manual});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 128, 4), b = core.sbuf.tile(DType::fp32, 128, 4);
  Semaphore semaphore = core.semaphore();
  core.gpsimd.memset(a, 1).signal(semaphore);
  core.vector.memset(b, 1).signal(semaphore);
  core.scalar.wait(semaphore, 1);
  CHECK(id_of([&] { core.scalar.copy(a, a); }) == "neuroncore.race");
  core.scalar.wait(semaphore, 2);
  CHECK_NOTHROW(core.scalar.copy(a, b));
}

TEST_CASE("what is recorded says what came before", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::bf16, 128, 64), sums = core.psum.tile(64, 64);
  const Tile peaks = core.sbuf.tile(DType::fp32, 64, 8);
  core.vector.memset(a, 1);
  core.tensor.matmul(sums, a, a);
  core.vector.max8(peaks, sums);
  const auto all = core.recorded();
  REQUIRE(all.size() == 3);
  CHECK(all[0].opcode == nc::Opcode::memset);
  CHECK(all[1].opcode == nc::Opcode::matmul);
  CHECK(all[1].after[static_cast<std::size_t>(nc::Engine::vector)] == 1);
  CHECK(all[1].cost.stationary == 64);
  CHECK(all[1].cost.free_size == 64);
  CHECK(all[2].after[static_cast<std::size_t>(nc::Engine::tensor)] == 1);
  CHECK(all[2].position.number == 2);
  CHECK(all[2].cost.free_size == 64);  // what it searches, not the eight that it finds
  CHECK(all[2].cost.psum_tensors == 1);
  CHECK(core.statistics().instructions[static_cast<std::size_t>(nc::Opcode::max8)] == 1);
  CHECK(core.statistics().of_engine[static_cast<std::size_t>(nc::Engine::vector)] == 2);
}

TEST_CASE("what a cost depends on is recorded", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  using soma::neuroncore::Alu;
  const Tile a = core.sbuf.tile(DType::bf16, 128, 512), b = core.sbuf.tile(DType::bf16, 128, 512);
  const Tile half = core.sbuf.tile(DType::fp16, 128, 512);
  const Tile whole = core.sbuf.tile(DType::fp32, 128, 512);
  const Tile sums = core.psum.tile(128, 512), indices = core.sbuf.tile(DType::int32, 128, 32);
  core.gpsimd.memset(indices, 0);
  const auto last = [&] { return core.recorded().back().cost; };
  const auto operators = [](Alu first, Alu second = Alu::none) {
    return std::array<Alu, 2>{first, second};
  };
  // Half of the cycles where the value is 0 and the type has 16 bits.
  core.vector.memset(a, 0);
  CHECK((last().zero && last().result == DType::bf16));
  core.vector.memset(half, 1);
  CHECK((!last().zero && last().result == DType::fp16));
  core.gpsimd.memset(whole, -0.0f).memset(b, 1);
  CHECK((!last().zero && last().result == DType::bf16));
  // Once or twice the elements, by operator, types and strides.
  core.vector.tensor_tensor(a, a, b, Alu::add);
  CHECK(last().operators == operators(Alu::add));
  CHECK((last().inputs[0] == DType::bf16 && last().inputs[1] == DType::bf16));
  CHECK((last().result == DType::bf16 && last().unit_stride && last().narrow_stride));
  core.vector.tensor_tensor(whole, half, b, Alu::maximum);
  CHECK(last().operators == operators(Alu::maximum));
  CHECK((last().inputs[0] == DType::fp16 && last().inputs[1] == DType::bf16));
  CHECK(last().result == DType::fp32);
  const auto spread = [](const Tile& tile, std::size_t step) {
    return tile.columns(0, 8 * step, step);
  };
  core.vector.tensor_tensor(a.columns(0, 8), a.columns(0, 8), spread(b, 2), Alu::add);
  CHECK((!last().unit_stride && last().narrow_stride));
  core.vector.tensor_tensor(a.columns(0, 8), a.columns(0, 8), spread(b, 16), Alu::add);
  CHECK((!last().unit_stride && !last().narrow_stride));
  core.vector.tensor_tensor(spread(a, 64).columns(0, 1), spread(b, 64).columns(0, 1),
                            b.columns(0, 1), Alu::add);
  CHECK(last().unit_stride);  // one element has no neighbour
  core.gpsimd.tensor_tensor(a, a, b, Alu::multiply);
  CHECK(last().operators == operators(Alu::multiply));
  core.vector.scalar_tensor_tensor(whole, a, Alu::subtract, 1, Alu::multiply, b);
  CHECK(last().operators == operators(Alu::subtract, Alu::multiply));
  CHECK((last().inputs[0] == DType::bf16 && last().inputs[1] == DType::bf16));
  core.vector.tensor_reduce(a.columns(0, 1), b, Alu::multiply);
  CHECK(last().operators == operators(Alu::multiply));
  CHECK(last().free_size == 512);
  // Four passes of fp32.
  const Tile weights = whole.columns(0, 128);
  core.tensor.matmul(sums, weights, whole);
  CHECK((last().inputs[0] == DType::fp32 && last().inputs[1] == DType::fp32));
  core.tensor.matmul(sums, a.columns(0, 128), half);
  CHECK((last().inputs[0] == DType::bf16 && last().inputs[1] == DType::fp16));
  // Elements and how many of them lie side by side.
  core.gpsimd.local_gather(a, b, indices, 512, 1);
  CHECK((last().piece == 1 && last().free_size == 512));
  core.gpsimd.local_gather(a, b, indices, 16, 32);
  CHECK((last().piece == 32 && last().free_size == 512 && last().inputs[0] == DType::bf16));
}

TEST_CASE("late transfers outlive a scope, and can be forgotten", "[unit][neuroncore]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    TestCore test({.dma_stress_seed = seed});
    nc::Core& core = test.core;
    const soma::Tensor ones = soma::Tensor::full(test.context, soma::Shape{128, 8}, 1.0f);
    {
      nc::Core::Scope scope(core);
      for (int i = 0; i < 4; ++i) core.dma.load(core.sbuf.tile(DType::fp32, 128, 8), nc::hbm(ones));
    }
    // A tile in the same place: its first writer waits for the transfer.
    const Tile next = core.sbuf.tile(DType::fp32, 128, 8);
    core.vector.memset(next, 5);
    core.finish();
    CHECK(test.values(next) == std::vector<float>(1024, 5.0f));
    core.dma.load(next, nc::hbm(ones));
    CHECK_NOTHROW(core.abandon());
  }
}

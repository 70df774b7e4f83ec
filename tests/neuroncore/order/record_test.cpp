// The record of each instruction besides its cost: waits, memories, direction, names, lines.

#include "neuroncore/test_core.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

using namespace soma_test;
using nc::Direction;
using nc::Engine;
using nc::Instruction;
using nc::Lane;
using nc::Opcode;
using nc::Semaphore;
using nc::Synchronization;
using nc::Tile;
using soma::DType;

namespace {

constexpr Lane tensor = nc::lane_of(Engine::tensor), vector = nc::lane_of(Engine::vector),
               scalar = nc::lane_of(Engine::scalar), gpsimd = nc::lane_of(Engine::gpsimd),
               queue = nc::lane_of(Engine::dma);

using Waits = std::array<std::uint32_t, nc::lane_count>;

const Instruction& last(const nc::Core& core) { return core.recorded().back(); }

}  // namespace

TEST_CASE("finish() is a barrier in the record", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 128, 4), b = core.sbuf.tile(DType::fp32, 128, 4);
  core.vector.memset(a, 1).memset(a, 2);
  core.gpsimd.memset(b, 1);
  core.finish();
  // It shares nothing with the others, and waits for both.
  const Tile c = core.sbuf.tile(DType::fp32, 128, 4);
  core.scalar.activation(c, c, nc::Function::square);
  Waits wanted{};
  wanted[vector] = 2;
  wanted[gpsimd] = 1;
  CHECK(last(core).after == wanted);
  core.scalar.activation(c, c, nc::Function::square);
  CHECK(last(core).after == Waits{});  // the one before it has waited already
  // Its own lane needs no entry.
  core.vector.memset(b, 3);
  wanted = {};
  wanted[gpsimd] = 1;
  CHECK(last(core).after == wanted);
}

TEST_CASE("waits on semaphores are in the record, whatever bytes they are for",
          "[unit][neuroncore]") {
  TestCore test({.synchronization = Synchronization::manual, .record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 128, 4), b = core.sbuf.tile(DType::fp32, 128, 4),
             c = core.sbuf.tile(DType::fp32, 128, 4);
  Semaphore first = core.semaphore(), second = core.semaphore();
  core.vector.memset(a, 1).signal(first);
  core.gpsimd.memset(b, 1);
  // GpSimd signals after it has waited itself and before its next instruction: who waits for it
  // waits for both.
  core.gpsimd.wait(first, 1).signal(second);
  core.scalar.wait(second, 1).copy(c, c);
  Waits wanted{};
  wanted[vector] = 1;
  wanted[gpsimd] = 1;
  CHECK(last(core).after == wanted);
  core.gpsimd.memset(b, 2);
  wanted[gpsimd] = 0;  // its own lane
  CHECK(last(core).after == wanted);
  // The waits of the other engine before its last instruction are in that instruction's record.
  Semaphore third = core.semaphore();
  core.gpsimd.signal(third);
  core.tensor.wait(third, 1);
  const Tile w = core.sbuf.tile(DType::fp32, 128, 4), sums = core.psum.tile(4, 4);
  core.tensor.matmul(sums, w, w);
  wanted = {};
  wanted[gpsimd] = 2;
  CHECK(last(core).after == wanted);
}

TEST_CASE("an instruction knows whether it reads what the one before it wrote",
          "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 128, 8), b = core.sbuf.tile(DType::fp32, 128, 8);
  const Tile one = core.sbuf.tile(DType::fp32, 128, 1), sums = core.psum.tile(8, 8);
  const auto reads = [&] { return last(core).reads_previous; };
  core.vector.memset(a, 1);
  CHECK(!reads());
  core.vector.copy(b, a);
  CHECK(reads());
  core.vector.copy(b, a);  // writes where the one before it wrote
  CHECK(!reads());
  core.scalar.copy(a, b);  // another lane's
  CHECK(!reads());
  core.vector.memset(b.columns(0, 4), 1).copy(a.columns(0, 4), b.columns(4, 8));
  CHECK(!reads());  // bytes beside it
  core.vector.memset(one, 2).tensor_scalar(a, a, nc::Alu::multiply, one);
  CHECK(reads());  // a column counts
  core.vector.memset(a, 1).memset(one, 1).copy(b, a);
  CHECK(!reads());  // the one before the one before it
  core.vector.tensor_scalar_reduce(a, b, nc::Alu::add, 1, nc::Alu::add, one).copy(one, one);
  CHECK(reads());  // the second result
  core.tensor.matmul(sums, a, b).matmul(sums, a, b, nc::Accumulate::yes);
  CHECK(!reads());  // the array adds in PSUM
  core.scalar.activation_reduce(a, b, nc::Function::square, one);
  CHECK(!reads());  // its second instruction reads the accumulators
  const soma::Tensor x = soma::Tensor::full(test.context, {128, 8}, 1.0f);
  core.dma.load(a, nc::hbm(x)).store(nc::hbm_target(x), a);
  CHECK(reads());
  core.dma.load(b, nc::hbm(x));
  CHECK(reads());  // in device memory
}

TEST_CASE("an instruction knows its memories and where a transfer goes", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const soma::Tensor x = soma::Tensor::full(test.context, {8, 8}, 1.0f);
  const Tile s = core.sbuf.tile(DType::fp32, 8, 8), p = core.psum.tile(8, 8);
  const Tile indices = core.sbuf.tile(DType::int32, 8, 1);
  struct Seen {
    bool sbuf, psum, result_in_psum;
    Direction direction;
    bool operator==(const Seen&) const = default;
  };
  const auto seen = [&] {
    const Instruction& i = last(core);
    return Seen{i.uses_sbuf, i.uses_psum, i.result_in_psum, i.direction};
  };
  core.vector.memset(s, 1);
  CHECK(seen() == Seen{true, false, false, Direction::none});
  core.vector.memset(p, 1);
  CHECK(seen() == Seen{false, true, true, Direction::none});
  core.tensor.matmul(p, s, s);
  CHECK(seen() == Seen{true, true, true, Direction::none});
  core.scalar.copy(s, p);
  CHECK(seen() == Seen{true, true, false, Direction::none});
  core.dma.load(s, nc::hbm(x));
  CHECK(seen() == Seen{true, false, false, Direction::load});
  core.dma.store(nc::hbm_target(x), s);
  CHECK(seen() == Seen{true, false, false, Direction::store});
  core.dma.sum(s, {nc::hbm(x), nc::hbm(x)});
  CHECK(last(core).direction == Direction::load);
  core.gpsimd.iota(indices, {.loops = {{1, 1}}, .channel_multiplier = 1});
  core.dma.gather(s, nc::hbm(x), indices);
  CHECK(last(core).direction == Direction::load);
  core.dma.scatter(nc::hbm_target(x), s, indices, nc::Scatter::add);
  CHECK(last(core).direction == Direction::store);
  // Bytes a partition: 8 fp32, 1 int32, and a bank.
  CHECK(last(core).sbuf_used == 36);
  CHECK(last(core).psum_used == 2048);
  // 8 rows each: two transfers, one of two sources, a gather and a scatter.
  CHECK(core.statistics().dma_buffers == 8 * 6);
}

TEST_CASE("regions nest, and are one where name and place are the same", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8);
  const auto path = [&] { return core.record_names().path(last(core).region); };
  core.vector.memset(a, 1);
  CHECK(last(core).region == 0);
  CHECK(path() == "");
  for (int round = 0; round < 3; ++round) {
    const auto outer = core.region("attention");
    core.vector.memset(a, 1);
    CHECK(path() == "attention");
    {
      const auto inner = core.region("softmax");
      core.vector.memset(a, 1);
      CHECK(path() == "attention/softmax");
      CHECK(last(core).region == 2);
    }
    core.vector.memset(a, 1);
    CHECK(path() == "attention");
  }
  {
    const auto softmax = core.region("softmax");  // another one: nothing is around it
    core.vector.memset(a, 1);
    CHECK(path() == "softmax");
    CHECK(last(core).region == 3);
  }
  try {
    const auto failing = core.region("failing");
    core.psum.tile(128, 5000);
  } catch (const soma::Error&) {
  }
  core.vector.memset(a, 1);
  CHECK(last(core).region == 0);
  CHECK(core.record_names().regions.size() == 4);
}

TEST_CASE("an instruction knows its line", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const soma::Tensor x = soma::Tensor::full(test.context, {8, 8}, 1.0f);
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8), p = core.psum.tile(8, 8);
  const Tile one = core.sbuf.tile(DType::fp32, 8, 1);
  const std::uint32_t first = __LINE__ + 1;
  core.vector.memset(a, 1);
  core.gpsimd.memset(a, 1);
  core.dma.load(a, nc::hbm(x));
  core.tensor.matmul(p, a, a);
  core.scalar.copy(a, p);
  core.scalar.activation_reduce(a, a, nc::Function::square, one);
  core.vector.transpose(a, a);
  core.vector.bn_stats(core.sbuf.tile(DType::fp32, 8, 6), a);
  core.dma.store(nc::hbm_target(x), a);
  std::uint32_t line = first;
  for (const Instruction& instruction : core.recorded()) {
    CHECK(std::string_view(instruction.source.file) == "record_test.cpp");
    // The sum of the activation is read out by an instruction of its own.
    const bool second = instruction.opcode == Opcode::activation && instruction.cost.tensors == 0;
    if (second) --line;
    CHECK(instruction.source.line == line++);
  }
  CHECK(line == first + 9);
  // Who calls for somebody else may say so.
  core.vector.memset(a, 1, {}, {"kernel.cpp", 7});
  CHECK(last(core).source == nc::SourceLine{"kernel.cpp", 7});
}

TEST_CASE("a record can be taken in pieces", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8);
  {
    const auto call = core.call("soma::linear");
    const auto region = core.region("weights");
    core.vector.memset(a, 1);
    core.scalar.copy(a, a);
    CHECK_THAT(message_of([&] { core.take_recorded(); }),
               contains("cut within the operator soma::linear") && contains("[neuroncore.record]"));
  }
  const nc::Record first = core.take_recorded();
  REQUIRE(first.instructions.size() == 2);
  CHECK(core.recorded().empty());
  CHECK(first.names.calls[first.instructions[0].call - 1].name == "soma::linear");
  CHECK(first.names.path(first.instructions[1].region) == "weights");
  {
    const auto region = core.region("weights");
    CHECK_THAT(message_of([&] { core.take_recorded(); }),
               contains("cut within the region weights") && contains("[neuroncore.record]"));
  }
  {
    const auto call = core.call("soma::relu");
    core.vector.memset(a, 2);
  }
  const nc::Record second = core.take_recorded();
  REQUIRE(second.instructions.size() == 1);
  // Numbers go on, and so do waits for what was taken before.
  CHECK(second.instructions[0].position == nc::Position{vector, 2});
  CHECK(second.instructions[0].after[scalar] == 1);
  CHECK(second.instructions[0].call == 1);
  CHECK(second.names.calls[0].name == "soma::relu");
  CHECK(second.names.path(1) == "weights");
}

TEST_CASE("an instruction that ends in an error leaves no gap", "[unit][neuroncore]") {
  TestCore test({.uninitialised = nc::Uninitialised::error, .record = true});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8), b = core.sbuf.tile(DType::fp32, 8, 8);
  CHECK(id_of([&] { core.vector.copy(b, a); }) == "neuroncore.undefined");
  core.abandon();
  core.vector.memset(a, 1);
  REQUIRE(core.recorded().size() == 2);
  CHECK(core.recorded()[0].position.number == 1);
  CHECK(core.recorded()[1].position.number == 2);
  CHECK(core.statistics().of_engine[vector] == 2);
}

TEST_CASE("races name regions and lines of both sides", "[unit][neuroncore]") {
  TestCore test({.synchronization = Synchronization::manual});
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8);
  const auto outer = core.region("layer");
  std::uint32_t first = 0, second = 0;
  {
    const auto inner = core.region("load");
    first = __LINE__ + 1;
    core.gpsimd.memset(a, 1);
  }
  const std::string message = message_of([&] {
    second = __LINE__ + 1;
    core.vector.memset(a, 2);
  });
  CHECK(message == "memset: number 1 of vector at record_test.cpp:" + std::to_string(second) +
                       " in layer is not ordered after memset, number 1 of gpsimd at "
                       "record_test.cpp:" +
                       std::to_string(first) +
                       " in layer/load, which writes the same bytes, wanted a wait on a semaphore "
                       "that it signals [neuroncore.race]");
  CHECK(core.recorded().empty());
}

// A dry run checks, orders, counts and records what a computed one does, and has no numbers.

#include "neuroncore/test_core.hpp"

#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::CoreOptions;
using nc::Instruction;
using nc::Tile;
using soma::DType;

namespace {

// One of (nearly) every instruction. The stored results are in `to` and `rows`.
struct Program {
  TestCore test;
  soma::Tensor from, to, rows;

  explicit Program(const CoreOptions& options)
      : test(options),
        from(soma::Tensor::full(test.context, {64, 64}, 0.5f)),
        to(soma::Tensor::full(test.context, {64, 64}, 3.0f)),
        rows(soma::Tensor::full(test.context, {64, 64}, 4.0f)) {
    nc::Core& core = test.core;
    const auto tile = [&](DType dtype, std::size_t columns) {
      return core.sbuf.tile(dtype, 64, columns);
    };
    const Tile a = tile(DType::fp32, 64), b = tile(DType::fp32, 64), narrow = tile(DType::bf16, 64);
    const Tile one = tile(DType::fp32, 1), two = tile(DType::fp32, 2), six = tile(DType::fp32, 6);
    const Tile eight = tile(DType::fp32, 8), found = tile(DType::int32, 8);
    const Tile places = tile(DType::int32, 64), bytes = tile(DType::uint8, 64);
    const Tile indices = tile(DType::int32, 1), sums = core.psum.tile(64, 64);
    const Tile half = core.sbuf.tile(DType::fp32, 32, 32), ids = core.sbuf.tile(DType::fp32, 1, 4);
    const Tile bounds = core.sbuf.tile(DType::fp32, 1, 8), row = core.sbuf.tile(DType::fp32, 1, 64);
    {
      const auto region = core.region("moves");
      core.dma.load(a, nc::hbm(from)).load_transposed(b, nc::hbm(from).swap(0, 1));
      core.dma.queue(2).sum(a, {nc::hbm(from), nc::hbm(to)});
      core.gpsimd.iota(indices, {.loops = {{1, 1}}, .channel_multiplier = 2});
      core.dma.gather(b, nc::hbm(from), indices, nc::OutOfBounds::skip);
      core.dma.queue(1).store(nc::hbm_target(to), a);
      core.dma.scatter(nc::hbm_target(rows), a, indices, nc::Scatter::add, nc::OutOfBounds::skip);
    }
    {
      const auto region = core.region("vector");
      core.vector.memset(a, 1).copy(b, a).memset(bytes, 1).copy(narrow, b);
      core.vector.tensor_tensor(a, a, b, Alu::add).tensor_scalar(a, a, Alu::multiply, 2);
      core.vector.tensor_scalar_reduce(a, a, Alu::add, 1, Alu::add, one);
      core.vector.scalar_tensor_tensor(a, a, Alu::add, one, Alu::multiply, b);
      core.vector.tensor_reduce(one, a, Alu::maximum).reciprocal(one, one);
      core.vector.tensor_tensor_scan(a, a, b, 0, Alu::multiply, Alu::add);
      core.vector.tensor_scalar_cumulative(a, a, Alu::add, 1, Alu::maximum);
      core.vector.max8(eight, a).find_index8(found, a, eight);
      core.vector.match_replace8(a, a, eight, 0, &found);
      core.vector.rng(places, {}).select(a, bytes, a, 1).copy_predicated(b, a, bytes);
      core.vector.bn_stats(six, a).bn_aggr(two, six).dropout(a, b, 1u << 31, {});
      core.vector.memset(half, 1).transpose(half, half).stream_shuffle(half, half, {});
    }
    {
      const auto region = core.region("tensor");
      core.tensor.matmul(sums, a, b).matmul(sums, a, b, nc::Accumulate::yes);
      core.scalar.copy(narrow, sums);
      core.scalar.activation_reduce(a, sums, nc::Function::exp, one, {.bias = &one});
      core.tensor.transpose(core.psum.tile(64, 64, DType::bf16), narrow);
    }
    {
      const auto region = core.region("gpsimd");
      core.gpsimd.memset(a, 2).copy(b, a).tensor_tensor(a, a, b, Alu::power);
      core.gpsimd.tensor_scalar(a, a, Alu::rsqrt).memset(places, 0).n_gather(b, a, places);
      core.gpsimd.affine_select(b, a, {.loops = {{1, 64}}}, 0, Alu::greater);
      core.gpsimd.local_gather(b, a, places, 64).partition_reduce(row, b, Alu::add);
      core.gpsimd.partition_broadcast(a, row).memset(ids, 1).sequence_bounds(bounds, ids);
    }
    core.dma.queue(1).store(nc::hbm_target(to), a);
    core.finish();
    core.dma.load(a, nc::hbm(to));
    core.finish();
  }
};

void check_same(const nc::Core& a, const nc::Core& b) {
  REQUIRE(a.recorded().size() == b.recorded().size());
  for (std::size_t i = 0; i < a.recorded().size(); ++i) {
    INFO("instruction " << i << ", " << std::string(to_string(a.recorded()[i].opcode)));
    CHECK(a.recorded()[i] == b.recorded()[i]);
  }
  CHECK(a.statistics().instructions == b.statistics().instructions);
  CHECK(a.statistics().of_engine == b.statistics().of_engine);
  CHECK(a.statistics().hbm_bytes_read == b.statistics().hbm_bytes_read);
  CHECK(a.statistics().hbm_bytes_written == b.statistics().hbm_bytes_written);
  CHECK(a.statistics().dma_buffers == b.statistics().dma_buffers);
  CHECK(a.sbuf.high_water() == b.sbuf.high_water());
  CHECK(a.psum.high_water() == b.psum.high_water());
}

}  // namespace

TEST_CASE("the record of a dry run is that of a computed one", "[unit][neuroncore]") {
  for (const auto uninitialised : {nc::Uninitialised::nan, nc::Uninitialised::error}) {
    const Program computed({.uninitialised = uninitialised, .record = true});
    const Program dry({.uninitialised = uninitialised, .record = true, .compute = false});
    check_same(computed.test.core, dry.test.core);
    CHECK(computed.test.core.recorded().size() > 50);
  }
}

TEST_CASE("a dry run stores zeros and knows no numbers", "[unit][neuroncore]") {
  Program dry({.dma_stress_seed = 3, .compute = false});
  nc::Core& core = dry.test.core;
  for (std::size_t i = 0; i < dry.to.elements(); ++i) CHECK(dry.to.data<float>()[i] == 0);
  CHECK(dry.rows.data<float>()[0] == 4);  // which rows a scatter writes is not known
  CHECK(dry.test.context.heap().dry());
  const Tile tile = core.sbuf.tile(DType::fp32, 8, 8);
  const auto refused = [&](std::string_view name, const auto& look) {
    const std::string message = message_of(look);
    CHECK(message.starts_with(std::string(name) + " at dry_run_test.cpp:"));
    CHECK(
        message.ends_with(") is fp32 SBUF [8, 8] of a dry run, wanted numbers: "
                          "CoreOptions::compute = true [neuroncore.dry_run]"));
  };
  refused("values", [&] { static_cast<void>(core.values(tile)); });
  refused("copy_out", [&] { static_cast<void>(core.copy_out(tile)); });
  refused("view", [&] { static_cast<void>(core.view<float>(tile)); });
  Program computed({});
  CHECK(!computed.test.context.heap().dry());
}

TEST_CASE("a dry run checks what does not depend on numbers", "[unit][neuroncore]") {
  TestCore test({.synchronization = nc::Synchronization::manual,
                 .uninitialised = nc::Uninitialised::error,
                 .compute = false});
  nc::Core& core = test.core;
  const soma::Tensor x = soma::Tensor::full(test.context, {8, 8}, 1.0f);
  const Tile a = core.sbuf.tile(DType::fp32, 8, 8), sums = core.psum.tile(8, 8);
  CHECK(id_of([&] { core.vector.copy(a, a); }) == "neuroncore.undefined");  // nobody wrote it
  core.abandon();
  core.vector.memset(a, 1);
  CHECK(id_of([&] { core.tensor.matmul(sums, a, a); }) == "neuroncore.race");
  core.finish();
  CHECK(id_of([&] { core.tensor.matmul(sums, a, a, nc::Accumulate::yes); }) ==
        "neuroncore.undefined");
  core.tensor.matmul(sums, a, a).matmul(sums, a, a, nc::Accumulate::yes);
  CHECK(id_of([&] { core.tensor.matmul(sums, a, a.columns(0, 4)); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { core.dma.store(nc::hbm(x), a); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { core.psum.tile(128, 5000); }) == "neuroncore.rule_broken");
  CHECK(!test.context.heap().dry());  // nothing was stored
}

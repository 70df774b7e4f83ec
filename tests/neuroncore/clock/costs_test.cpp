// Costs against the published formulas (SDK 2.26), with every branch of a condition.

#include "neuroncore/clock/records.hpp"

#include <soma/neuroncore/clock/costs.hpp>

#include <algorithm>

using namespace soma_test;
using nc::Alu;
using nc::Engine;
using nc::Opcode;
using soma::DType;

namespace {

constexpr nc::Machine machine = at_once();

double cycles(Engine engine, Opcode opcode, nc::CostFields cost) {
  nc::Instruction instruction;
  instruction.opcode = opcode;
  instruction.position.lane = nc::lane_of(engine);
  instruction.cost = cost;
  return nc::cycles_of(instruction, machine);
}

}  // namespace

TEST_CASE("costs of the Tensor engine", "[unit][neuroncore]") {
  const auto matmul = [](std::uint32_t stationary, std::uint32_t moving, DType a, DType b) {
    nc::CostFields cost{.free_size = moving, .stationary = stationary, .contraction = 128};
    cost.inputs = {a, b};
    return cycles(Engine::tensor, Opcode::matmul, cost);
  };
  CHECK(matmul(128, 512, DType::bf16, DType::fp8_e4m3) == 512);
  CHECK(matmul(128, 8, DType::bf16, DType::bf16) == 64);
  CHECK(matmul(32, 8, DType::bf16, DType::bf16) == 32);
  CHECK(matmul(128, 512, DType::fp32, DType::fp32) == 2048);
  CHECK(matmul(128, 512, DType::tf32, DType::fp32) == 2048);
  CHECK(matmul(128, 512, DType::tf32, DType::tf32) == 512);
  // For src [K, N]: max(K, min(64, N)); the result is [N, K].
  const auto transpose = [](std::uint32_t k, std::uint32_t n) {
    return cycles(Engine::tensor, Opcode::transpose,
                  {.partitions = n, .free_size = k, .stationary = k, .contraction = k});
  };
  CHECK(transpose(128, 128) == 128);
  CHECK(transpose(8, 128) == 64);
  CHECK(transpose(8, 16) == 16);
}

TEST_CASE("costs of the Vector engine", "[unit][neuroncore]") {
  for (const std::uint32_t n : {1u, 63u, 64u, 65u, 512u, 1024u}) {
    INFO("N = " << n);
    const double once = std::max(64.0, double{1} * n), twice = std::max(64.0, 2.0 * n);
    const auto cost = [&](Opcode opcode, nc::CostFields fields) {
      fields.free_size = n;
      return cycles(Engine::vector, opcode, fields);
    };
    const auto pair = [&](DType dtype, Alu op, std::uint8_t in_psum) {
      nc::CostFields fields{.tensors = 2, .psum_tensors = in_psum};
      fields.inputs = {dtype, dtype, dtype};
      fields.result = dtype;
      fields.operators = {op, Alu::none};
      return fields;
    };
    CHECK(cost(Opcode::tensor_tensor, pair(DType::fp32, Alu::add, 0)) == twice);
    CHECK(cost(Opcode::tensor_tensor, pair(DType::fp32, Alu::add, 1)) == once);
    CHECK(cost(Opcode::tensor_tensor, pair(DType::bf16, Alu::subtract, 0)) == once);
    CHECK(cost(Opcode::tensor_tensor, pair(DType::bf16, Alu::maximum, 0)) == twice);
    nc::CostFields spread = pair(DType::bf16, Alu::add, 0);
    spread.unit_stride = false;
    CHECK(cost(Opcode::tensor_tensor, spread) == twice);
    spread.narrow_stride = false;
    CHECK(cost(Opcode::tensor_tensor, spread) == 2 * twice);
    nc::CostFields widened = pair(DType::bf16, Alu::add, 0);
    widened.result = DType::fp32;
    CHECK(cost(Opcode::tensor_tensor, widened) == twice);

    nc::CostFields fused = pair(DType::bf16, Alu::subtract, 0);
    fused.operators = {Alu::subtract, Alu::multiply};
    CHECK(cost(Opcode::scalar_tensor_tensor, fused) == (n % 2 == 0 ? once : twice));
    fused.operators = {Alu::multiply, Alu::add};
    CHECK(cost(Opcode::scalar_tensor_tensor, fused) == twice);

    CHECK(cost(Opcode::tensor_tensor_scan, pair(DType::fp32, Alu::add, 1)) == twice);
    CHECK(cost(Opcode::tensor_scalar, {}) == once);
    CHECK(cost(Opcode::tensor_scalar_reduce, {}) == once + 64);
    CHECK(cost(Opcode::tensor_reduce, pair(DType::fp32, Alu::add, 0)) == once);
    CHECK(cost(Opcode::tensor_reduce, pair(DType::bf16, Alu::add, 0)) == std::max(64.0, n / 2.0));
    CHECK(cost(Opcode::tensor_reduce, pair(DType::bf16, Alu::multiply, 0)) == once);
    CHECK(cost(Opcode::copy_predicated, pair(DType::fp32, Alu::none, 0)) == twice);
    CHECK(cost(Opcode::copy_predicated, pair(DType::fp32, Alu::none, 1)) == once);
    CHECK(cost(Opcode::select, pair(DType::fp32, Alu::none, 0)) == twice);
    CHECK(cost(Opcode::memset, {.result = DType::fp32, .zero = true}) == once);
    CHECK(cost(Opcode::memset, {.result = DType::bf16, .zero = true}) == std::max(64.0, n / 2.0));
    CHECK(cost(Opcode::memset, {.result = DType::bf16, .zero = false}) == once);
    CHECK(cost(Opcode::reciprocal, {}) == std::max(64.0, 8.0 * n));
    CHECK(cost(Opcode::bn_aggr, {}) == std::max(64.0, 13.0 * n / 3));
    for (const Opcode opcode :
         {Opcode::copy, Opcode::dropout, Opcode::rng, Opcode::bn_stats, Opcode::max8,
          Opcode::find_index8, Opcode::match_replace8, Opcode::stream_shuffle, Opcode::transpose})
      CHECK(cost(opcode, {}) == once);
  }
}

TEST_CASE("costs of Scalar and GpSimd engine", "[unit][neuroncore]") {
  CHECK(cycles(Engine::scalar, Opcode::activation, {.free_size = 512}) == 512);
  CHECK(cycles(Engine::scalar, Opcode::activation, {.free_size = 1}) == 64);
  const auto gpsimd = [](Opcode opcode, nc::CostFields fields) {
    return cycles(Engine::gpsimd, opcode, fields);
  };
  CHECK(gpsimd(Opcode::iota, {.free_size = 100}) == 250);
  CHECK(gpsimd(Opcode::affine_select, {.free_size = 100}) == 250);
  CHECK(gpsimd(Opcode::copy, {.free_size = 100}) == 100);
  CHECK(gpsimd(Opcode::tensor_scalar, {.free_size = 100}) == 400);
  CHECK(gpsimd(Opcode::tensor_tensor, {.free_size = 100}) == 350);
  // 8 cycles an element of 4 bytes one by one, 1.22 in pieces of 32.
  CHECK(gpsimd(Opcode::local_gather, {.free_size = 64, .result = DType::fp32, .piece = 1}) ==
        150 + 64 * 8);
  CHECK(gpsimd(Opcode::local_gather, {.free_size = 64, .result = DType::fp32, .piece = 32}) ==
        150 + 64 * 156.0 / 128);
  CHECK(gpsimd(Opcode::n_gather, {.free_size = 513}) == 2 * (150 + 4096));
  CHECK(gpsimd(Opcode::partition_reduce, {.partitions = 128, .free_size = 64}) == 150 + 512);
  CHECK(gpsimd(Opcode::sequence_bounds, {.free_size = 100}) == 350);
}

TEST_CASE("what a cost is a function of comes from the core", "[unit][neuroncore]") {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  const nc::Tile a = core.sbuf.tile(DType::bf16, 128, 64), b = core.sbuf.tile(DType::bf16, 128, 96);
  const nc::Tile sums = core.psum.tile(64, 96), turned = core.psum.tile(64, 128, DType::bf16);
  core.vector.memset(a, 1).memset(b, 1);
  core.tensor.matmul(sums, a, b);
  const auto last = [&] { return core.recorded().back(); };
  CHECK(nc::array_operations(last()) == 2.0 * 128 * 64 * 96);
  CHECK(nc::cycles_of(last(), machine) == 96);
  core.tensor.transpose(turned, a);
  CHECK(nc::cycles_of(last(), machine) == 128);
  CHECK(nc::array_operations(last()) == 2.0 * 128 * 128 * 64);
  const nc::Tile x = core.sbuf.tile(DType::fp32, 128, 64), one = core.sbuf.tile(DType::fp32, 1, 64);
  core.vector.memset(x, 1);
  core.gpsimd.partition_reduce(one, x, Alu::add);
  CHECK(nc::cycles_of(last(), machine) == 150 + 128 * 64 / 16);
}

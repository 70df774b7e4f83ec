// The limits, one rule a row: which error, and that it names the instruction, the operand and the
// limit.

#include "neuroncore/test_core.hpp"

#include <string>
#include <vector>

using namespace soma_test;
using nc::Accumulate;
using nc::Alu;
using nc::Function;
using nc::Tile;
using soma::DType;
using soma::Shape;
using soma::Tensor;

namespace {

// Tiles for the rows below.
struct Tiles {
  TestCore test;
  nc::Core& core = test.core;
  Tile w = bf16(128, 128), x = bf16(128, 512), x513 = bf16(128, 513), w129 = bf16(128, 129);
  Tile f = fp32(128, 512), g = fp32(128, 512), column = fp32(128, 1), eight = fp32(128, 8);
  Tile rough = bf16(128, 1), tf = core.sbuf.tile(DType::tf32, 128, 1);
  Tile ints = core.sbuf.tile(DType::int32, 128, 512),
       bytes = core.sbuf.tile(DType::uint8, 128, 512);
  Tile signed_bytes = core.sbuf.tile(DType::int8, 128, 512);
  Tile sums = core.psum.tile(128, 512), other = core.psum.tile(128, 1024, DType::bf16);
  Tensor table = Tensor::zeros(test.context, Shape{1000, 512});

  Tile bf16(std::size_t partitions, std::size_t columns) {
    return core.sbuf.tile(DType::bf16, partitions, columns);
  }
  Tile fp32(std::size_t partitions, std::size_t columns) {
    return core.sbuf.tile(DType::fp32, partitions, columns);
  }
};

struct Row {
  std::string start;  // of the message: "<instruction>: <operand>"
  std::string limit;
  void (*run)(Tiles&);
  std::string id = "neuroncore.rule_broken";
};

void check(const std::vector<Row>& rows) {
  Tiles tiles;
  for (const Row& row : rows) {
    const auto run = [&] { row.run(tiles); };
    const std::string message = message_of(run);
    INFO(message << ", wanted " << row.start << " ... " << row.limit);
    CHECK(id_of(run) == row.id);
    CHECK(message.starts_with(row.start + " is "));
    CHECK(message.find(row.limit, message.find(", wanted ")) != std::string::npos);
  }
}

const std::string undefined = "neuroncore.undefined", undisclosed = "neuroncore.undisclosed",
                  not_implemented = "neuroncore.not_implemented";

}  // namespace

TEST_CASE("limits of every operand", "[unit][neuroncore]") {
  check({
      {"sbuf.tile: partitions", "1 to 128", [](Tiles& t) { t.fp32(129, 1); }},
      {"sbuf.tile: dtype", "trn1 has", [](Tiles& t) { t.core.sbuf.tile(DType::fp8_e4m3fn, 1, 1); }},
      {"psum.tile: elements", "16384 bytes", [](Tiles& t) { t.core.psum.tile(1, 16385); }},
      {"memset: dst", "start partition 0 for more than 64",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(32, 128), 0); }},
      {"memset: dst", "start partition 0 or 64",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(32, 80), 0); }},
      {"memset: dst", "start partition 0, 32, 64 or 96",
       [](Tiles& t) { t.core.vector.memset(t.f.rows(1, 2), 0); }},
      {"memset: dst", "1 to 128", [](Tiles& t) { t.core.vector.memset(t.f.rows(5, 5), 0); }},
      {"memset: dst", "free dimensions of 1 or more",
       [](Tiles& t) { t.core.vector.memset(t.f.columns(5, 5), 0); }},
      {"copy: src", "a tile", [](Tiles& t) { t.core.vector.copy(t.f, Tile()); }},
      {"copy: src", "at most 65536",
       [](Tiles& t) {
         t.core.vector.copy(t.f, t.column.reshape({1, 1}).broadcast(0, 65536).broadcast(1, 2));
       }},
  });
}

TEST_CASE("limits of the Tensor engine", "[unit][neuroncore]") {
  check({
      {"matmul: stationary", "at most 128",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.w129, t.x); }},
      {"matmul: moving", "at most 512",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.w, t.x513); }},
      {"matmul: moving", "128 partitions of stationary",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.w, t.x.rows(0, 64)); }},
      {"matmul: stationary", "SBUF",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.other.columns(0, 128), t.x); }},
      {"matmul: moving", "SBUF",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.w, t.other.columns(0, 512)); }},
      {"matmul: dst", "PSUM", [](Tiles& t) { t.core.tensor.matmul(t.f, t.w, t.x); }},
      {"matmul: dst", "fp32",
       [](Tiles& t) { t.core.tensor.matmul(t.other.columns(0, 512), t.w, t.x); }},
      {"matmul: dst", "[128, 512]",
       [](Tiles& t) { t.core.tensor.matmul(t.sums.columns(0, 511), t.w, t.x); }},
      {"matmul: dst", "one PSUM bank",
       [](Tiles& t) {
         const Tile two = t.core.psum.tile(128, 1024);
         t.core.tensor.matmul(two.columns(256, 768), t.w, t.x);
       }},
      {"matmul: dst", "a place of its own",
       [](Tiles& t) { t.core.tensor.matmul(t.sums.columns(0, 1).broadcast(0, 512), t.w, t.x); }},
      {"matmul: moving", "fp32 or tf32 with each other",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.w, t.f); }},
      {"matmul: stationary", "a floating type",
       [](Tiles& t) { t.core.tensor.matmul(t.sums, t.signed_bytes.columns(0, 128), t.x); },
       not_implemented},
      {"matmul: dst", "began with Accumulate::no",
       [](Tiles& t) {
         t.core.vector.memset(t.sums, 0);
         t.core.tensor.matmul(t.sums, t.w, t.x, Accumulate::yes);
       },
       undefined},
      {"transpose: src", "at most 128", [](Tiles& t) { t.core.tensor.transpose(t.sums, t.w129); }},
      {"transpose: dst", "bf16",
       [](Tiles& t) { t.core.tensor.transpose(t.sums.columns(0, 128), t.w); }},
      {"transpose: dst", "[64, 128]",
       [](Tiles& t) { t.core.tensor.transpose(t.other.columns(0, 128), t.w.columns(0, 64)); }},
      {"transpose: src", "a floating type",
       [](Tiles& t) { t.core.tensor.transpose(t.sums, t.ints); }},
  });
}

TEST_CASE("limits of the Scalar engine", "[unit][neuroncore]") {
  check({
      {"activation: dst", "512 elements a partition",
       [](Tiles& t) { t.core.scalar.copy(t.column, t.f); }},
      {"activation: dst", "128 partitions of data",
       [](Tiles& t) { t.core.scalar.copy(t.f.rows(0, 64), t.g); }},
      {"activation: scale", "fp32",
       [](Tiles& t) {
         t.core.scalar.activation(t.f, t.f, Function::exp, {.scale_tile = &t.rough});
       }},
      {"activation: bias", "other than tf32",
       [](Tiles& t) { t.core.scalar.activation(t.f, t.f, Function::exp, {.bias = &t.tf}); }},
      {"activation: bias", "one element",
       [](Tiles& t) { t.core.scalar.activation(t.f, t.f, Function::exp, {.bias = &t.eight}); }},
      {"activation: bias", "no bias with reciprocal",
       [](Tiles& t) {
         t.core.scalar.activation(t.f, t.f, Function::reciprocal, {.bias = &t.column});
       }},
      {"activation: reduce_result", "one element",
       [](Tiles& t) { t.core.scalar.activation_reduce(t.f, t.f, Function::exp, t.eight); }},
  });
}

TEST_CASE("limits of the Vector engine's arithmetic", "[unit][neuroncore]") {
  check({
      {"tensor_tensor: b", "in SBUF, where a is in PSUM",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.f, t.sums, t.sums, Alu::add); }},
      {"tensor_tensor: op", "Vector engine",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.f, t.f, t.g, Alu::power); }},
      {"tensor_tensor: op", "an operator of two operands",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.f, t.f, t.g, Alu::absolute); }},
      {"tensor_tensor: op", "an operator of two operands",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.ints, t.ints, t.ints, Alu::invert); }},
      {"tensor_tensor: b", "an integer type",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.ints, t.ints, t.f, Alu::bitwise_and); }},
      {"tensor_tensor: b", "the width of int32",
       [](Tiles& t) { t.core.vector.tensor_tensor(t.ints, t.ints, t.bytes, Alu::bitwise_and); }},
      {"tensor_scalar: s0", "fp32",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.f, t.f, Alu::add, t.rough); }},
      {"tensor_scalar: s1", "one element",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.f, t.f, Alu::add, 1, Alu::add, t.eight); }},
      {"tensor_scalar: s0", "absolute has one operand",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.f, t.f, Alu::absolute, 1); }},
      {"tensor_scalar: s0", "no reverse order, as absolute has one operand",
       [](Tiles& t) {
         t.core.vector.tensor_scalar(t.f, t.f, Alu::absolute, 0, Alu::none, {}, {.reverse0 = true});
       }},
      {"tensor_scalar: s1", "no reverse order, as invert has one operand",
       [](Tiles& t) {
         t.core.vector.tensor_scalar(t.ints, t.ints, Alu::bitwise_or, 1, Alu::invert, 0,
                                     {.reverse1 = true});
       }},
      {"tensor_scalar: op", "Vector engine",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.f, t.f, Alu::rsqrt, 0); }},
      {"tensor_scalar: op1", "as op0, add",
       [](Tiles& t) {
         t.core.vector.tensor_scalar(t.ints, t.ints, Alu::add, 1, Alu::bitwise_or, 1);
       }},
      {"tensor_scalar: s0", "an integer of 32 bits",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.ints, t.ints, Alu::bitwise_or, 0.5f); }},
      {"Constant: number", "an integer of 32 bits",
       [](Tiles& t) {
         t.core.vector.tensor_scalar(t.ints, t.ints, Alu::bitwise_or, std::int64_t{1} << 32);
       }},
      {"tensor_scalar: s0", "exact in fp32",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.ints, t.ints, Alu::add, 16777217); }},
      {"tensor_scalar: s1", "exact in fp32",
       [](Tiles& t) {
         t.core.vector.tensor_scalar(t.f, t.f, Alu::add, 16777216, Alu::add, 0xFFFFFFFFu);
       }},
      {"tensor_scalar: s0", "a constant",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.ints, t.ints, Alu::bitwise_or, t.column); },
       not_implemented},
      {"tensor_scalar: count", "less than 32 bits",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.ints, t.ints, Alu::left_shift, 32); },
       undisclosed},
      {"tensor_scalar: count", "less than 8 bits",
       [](Tiles& t) { t.core.vector.tensor_scalar(t.bytes, t.bytes, Alu::right_shift, 8); },
       undisclosed},
      {"tensor_scalar_reduce: op", "an arithmetic operator",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_reduce(t.ints, t.ints, Alu::bitwise_and, 1, Alu::add,
                                            t.column);
       }},
      {"tensor_scalar_reduce: op", "add, multiply, maximum or minimum",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_reduce(t.f, t.f, Alu::add, 1, Alu::logical_or, t.column);
       }},
      {"tensor_scalar_reduce: result", "one element",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_reduce(t.f, t.f, Alu::add, 1, Alu::add, t.eight);
       }},
      {"scalar_tensor_tensor: operand1", "in SBUF, where data is in PSUM",
       [](Tiles& t) {
         t.core.vector.scalar_tensor_tensor(t.f, t.sums, Alu::add, 1, Alu::add, t.sums);
       }},
      {"scalar_tensor_tensor: op", "Vector engine",
       [](Tiles& t) {
         t.core.vector.scalar_tensor_tensor(t.f, t.f, Alu::add, 1, Alu::power, t.g);
       }},
      {"scalar_tensor_tensor: op", "an operator of two operands",
       [](Tiles& t) {
         t.core.vector.scalar_tensor_tensor(t.f, t.f, Alu::add, 1, Alu::logical_not, t.g);
       }},
      {"scalar_tensor_tensor: s0", "no reverse order",
       [](Tiles& t) {
         t.core.vector.scalar_tensor_tensor(t.f, t.f, Alu::absolute, 0, Alu::add, t.g,
                                            {.reverse0 = true});
       }},
      {"tensor_reduce: op", "its folding is not published",
       [](Tiles& t) { t.core.vector.tensor_reduce(t.column, t.f, Alu::subtract); }, undisclosed},
      {"tensor_reduce: op", "add, multiply, maximum, minimum",
       [](Tiles& t) { t.core.vector.tensor_reduce(t.column, t.f, Alu::less); }},
      {"tensor_reduce: data", "an integer type",
       [](Tiles& t) { t.core.vector.tensor_reduce(t.column, t.f, Alu::bitwise_or); }},
      {"tensor_reduce: dimensions", "fp32 SBUF [128, 512]",
       [](Tiles& t) { t.core.vector.tensor_reduce(t.column, t.f, Alu::add, 2); }},
      {"tensor_reduce: dst", "1 elements a partition",
       [](Tiles& t) { t.core.vector.tensor_reduce(t.eight, t.f, Alu::add); }},
  });
}

TEST_CASE("limits of the Vector engine's other instructions", "[unit][neuroncore]") {
  check({
      {"tensor_tensor_scan: initial", "exact in fp32",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.f, t.f, t.g, 16777217, Alu::add, Alu::add);
       }},
      {"memset: value", "exact in fp32", [](Tiles& t) { t.core.vector.memset(t.ints, 16777217); }},
      {"match_replace8: replacement", "exact in fp32",
       [](Tiles& t) { t.core.vector.match_replace8(t.ints, t.ints, t.eight, 16777217); }},
      {"tensor_scalar_cumulative: start", "exact in fp32",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_cumulative(t.f, t.f, Alu::add, 0, Alu::add, 16777217);
       }},
      {"select: on_false", "exact in fp32",
       [](Tiles& t) { t.core.vector.select(t.f, t.bytes, t.f, 16777217); }},
      {"tensor_tensor_scan: b", "in SBUF",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.f, t.sums, t.sums, 0, Alu::add, Alu::add);
       }},
      {"tensor_tensor_scan: initial", "fp32",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.f, t.f, t.g, t.rough, Alu::add, Alu::add);
       }},
      {"tensor_tensor_scan: op", "arithmetic",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.ints, t.ints, t.ints, 0, Alu::bitwise_or, Alu::add);
       }},
      {"tensor_tensor_scan: op", "an operator of two operands",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.f, t.f, t.g, 0, Alu::absolute, Alu::add);
       }},
      {"tensor_tensor_scan: op", "an operator of two operands",
       [](Tiles& t) {
         t.core.vector.tensor_tensor_scan(t.f, t.f, t.g, 0, Alu::add, Alu::logical_not);
       }},
      {"tensor_scalar_cumulative: s0", "no reverse order",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_cumulative(t.f, t.f, Alu::absolute, 0, Alu::add, {},
                                                {.reverse0 = true});
       }},
      {"tensor_scalar_cumulative: op1", "add, subtract, multiply",
       [](Tiles& t) { t.core.vector.tensor_scalar_cumulative(t.f, t.f, Alu::add, 1, Alu::less); }},
      {"tensor_scalar_cumulative: data", "other than int32",
       [](Tiles& t) {
         t.core.vector.tensor_scalar_cumulative(t.f, t.ints, Alu::add, 1, Alu::add);
       }},
      {"select: predicate", "int8, uint8 or bool",
       [](Tiles& t) { t.core.vector.select(t.f, t.ints, t.g, 0); }},
      {"select: on_true", "other than tf32 and int32",
       [](Tiles& t) { t.core.vector.select(t.f, t.bytes, t.ints, 0); }},
      {"select: predicate", "in SBUF, where on_true is in PSUM",
       [](Tiles& t) {
         t.core.vector.select(t.f, t.core.psum.tile(128, 512, DType::uint8), t.sums, 0);
       }},
      {"copy_predicated: predicate", "uint8, bool or int32",
       [](Tiles& t) { t.core.vector.copy_predicated(t.f, t.g, t.signed_bytes); }},
      {"copy_predicated: dst", "the type of src",
       [](Tiles& t) { t.core.vector.copy_predicated(t.f, t.x, t.bytes); }},
      {"bn_stats: data", "at most 512",
       [](Tiles& t) { t.core.vector.bn_stats(t.eight.columns(0, 6), t.x513); }},
      {"bn_stats: dst", "6 elements", [](Tiles& t) { t.core.vector.bn_stats(t.eight, t.x); }},
      {"bn_aggr: data", "a multiple of 3",
       [](Tiles& t) { t.core.vector.bn_aggr(t.eight.columns(0, 2), t.eight); }},
      {"transpose: src", "at most 32",
       [](Tiles& t) {
         t.core.vector.transpose(t.f.columns(0, 64).rows(0, 32), t.g.rows(0, 64).columns(0, 32));
       }},
      {"transpose: dst", "the type of src",
       [](Tiles& t) {
         t.core.vector.transpose(t.x.columns(0, 32).rows(0, 32), t.g.rows(0, 32).columns(0, 32));
       }},
      {"transpose: dst", "the type of src, fp8_e4m3 with bias 4 SBUF [32, 32]",
       [](Tiles& t) {
         const Tile square = t.core.sbuf.tile(DType::fp8_e4m3, 32, 32);
         t.core.vector.transpose(square, square.with_bias(4));
       }},
      {"max8: src", "8 to 16384", [](Tiles& t) { t.core.vector.max8(t.eight, t.f.columns(0, 7)); }},
      {"max8: src", "8 to 16384",
       [](Tiles& t) { t.core.vector.max8(t.eight, t.bf16(128, 16385)); }},
      {"max8: dst", "8 elements", [](Tiles& t) { t.core.vector.max8(t.column, t.f); }},
      {"find_index8: dst", "int32",
       [](Tiles& t) { t.core.vector.find_index8(t.eight, t.f, t.eight); }},
      {"find_index8: values", "8 elements",
       [](Tiles& t) { t.core.vector.find_index8(t.ints.columns(0, 8), t.f, t.column); }},
      {"match_replace8: indices", "int32",
       [](Tiles& t) { t.core.vector.match_replace8(t.f, t.g, t.eight, 0, &t.eight); }},
      {"stream_shuffle: mask", "0 to 31, or 255",
       [](Tiles& t) { t.core.vector.stream_shuffle(t.f, t.g, {32}); }},
      {"stream_shuffle: mask", "16 partitions",
       [](Tiles& t) { t.core.vector.stream_shuffle(t.f.rows(0, 16), t.g.rows(0, 16), {16}); },
       undefined},
      {"stream_shuffle: dst", "the type of src",
       [](Tiles& t) { t.core.vector.stream_shuffle(t.f, t.x, {}); }},
      {"rng: dst", "an integer type", [](Tiles& t) { t.core.vector.rng(t.f, {}); }},
  });
}

TEST_CASE("limits of the GpSimd engine", "[unit][neuroncore]") {
  check({
      {"copy: src", "GpSimd", [](Tiles& t) { t.core.gpsimd.copy(t.f, t.sums); }},
      {"memset: dst", "GpSimd", [](Tiles& t) { t.core.gpsimd.memset(t.sums, 0); }},
      {"tensor_tensor: op", "GpSimd",
       [](Tiles& t) { t.core.gpsimd.tensor_tensor(t.ints, t.ints, t.ints, Alu::bitwise_or); }},
      {"tensor_tensor: op", "two operands on the GpSimd engine",
       [](Tiles& t) { t.core.gpsimd.tensor_tensor(t.f, t.f, t.g, Alu::absolute); }},
      {"tensor_scalar: op", "rsqrt",
       [](Tiles& t) { t.core.gpsimd.tensor_scalar(t.f, t.f, Alu::absolute); }},
      {"iota: affine", "512 elements",
       [](Tiles& t) {
         t.core.gpsimd.iota(t.ints, {.loops = {{1, 511}}});
       }},
      {"iota: affine", "1 to 4 loops",
       [](Tiles& t) {
         t.core.gpsimd.iota(t.ints, {.loops = {{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 32}}});
       }},
      {"memset: value", "exact in fp32", [](Tiles& t) { t.core.gpsimd.memset(t.ints, 16777217); }},
      {"affine_select: on_false", "exact in fp32",
       [](Tiles& t) {
         t.core.gpsimd.affine_select(t.ints, t.ints, {.loops = {{1, 512}}}, 16777217);
       }},
      {"affine_select: compare", "a comparison",
       [](Tiles& t) {
         t.core.gpsimd.affine_select(t.f, t.f, {.loops = {{1, 512}}}, 0, Alu::add);
       }},
      {"local_gather: src", "a multiple of 16",
       [](Tiles& t) {
         t.core.gpsimd.local_gather(t.f.rows(0, 8), t.g.rows(0, 8), t.ints.rows(0, 8), 512);
       }},
      {"local_gather: piece", "1, 2, 4, 8, 16 or 32",
       [](Tiles& t) { t.core.gpsimd.local_gather(t.f, t.g, t.ints, 171, 3); }},
      {"local_gather: pieces", "at most 4096",
       [](Tiles& t) { t.core.gpsimd.local_gather(t.f, t.g, t.ints, 4097); }},
      {"local_gather: pieces", "at most 16",
       [](Tiles& t) { t.core.gpsimd.local_gather(t.f, t.g, t.ints.columns(0, 1), 17); }},
      {"local_gather: dst", "8 elements",
       [](Tiles& t) { t.core.gpsimd.local_gather(t.f, t.g, t.ints, 4, 2); }},
      {"local_gather: indices", "int32",
       [](Tiles& t) { t.core.gpsimd.local_gather(t.f, t.g, t.bytes, 512); }},
      {"local_gather: indices", "fp32 SBUF [128, 512]",
       [](Tiles& t) {
         t.core.vector.memset(t.ints, 511);
         t.core.gpsimd.local_gather(t.f, t.g, t.ints, 256, 2);
       },
       undefined},
      {"n_gather: indices", "fp32 SBUF [128, 8]",
       [](Tiles& t) { t.core.gpsimd.n_gather(t.f, t.eight, t.ints); }, undefined},
      {"partition_reduce: op", "bitwise_or or bitwise_and",
       [](Tiles& t) { t.core.gpsimd.partition_reduce(t.f.rows(0, 1), t.g, Alu::minimum); }},
      {"partition_reduce: dst", "one partition",
       [](Tiles& t) { t.core.gpsimd.partition_reduce(t.f, t.g, Alu::add); }},
      {"partition_reduce: data", "an integer type",
       [](Tiles& t) { t.core.gpsimd.partition_reduce(t.f.rows(0, 1), t.g, Alu::bitwise_or); }},
      {"partition_broadcast: src", "512 elements",
       [](Tiles& t) { t.core.gpsimd.partition_broadcast(t.f, t.g.rows(0, 1).columns(0, 8)); }},
      {"partition_broadcast: dst", "the type of src",
       [](Tiles& t) { t.core.gpsimd.partition_broadcast(t.f, t.x.rows(0, 1)); }},
      {"sequence_bounds: ids", "fp32 or int32",
       [](Tiles& t) {
         t.core.gpsimd.sequence_bounds(t.f.rows(0, 1), t.x.rows(0, 1).columns(0, 256));
       }},
      {"sequence_bounds: dst", "1024 elements",
       [](Tiles& t) { t.core.gpsimd.sequence_bounds(t.f.rows(0, 1), t.g.rows(0, 1)); }},
  });
}

TEST_CASE("limits of transfers", "[unit][neuroncore]") {
  check({
      {"dma.load: tile", "DMA",
       [](Tiles& t) { t.core.dma.load(t.sums, nc::hbm(t.table).rows(0, 128)); }},
      {"dma.load: view", "as many rows",
       [](Tiles& t) { t.core.dma.load(t.f, nc::hbm(t.table).rows(0, 127)); }},
      {"dma.load: view", "trn1 has",
       [](Tiles& t) {
         t.core.dma.load(t.f.rows(0, 1).columns(0, 2),
                         nc::hbm(Tensor::zeros(t.test.context, Shape{1, 2}, DType::e8m0)));
       }},
      {"dma.store: view", "hbm_target",
       [](Tiles& t) { t.core.dma.store(nc::hbm(t.table).rows(0, 128), t.f); }},
      {"dma.gather: indices", "int32, [128, 1]",
       [](Tiles& t) { t.core.dma.gather(t.f, nc::hbm(t.table), t.column); }},
      {"dma.gather: table", "512 elements a row",
       [](Tiles& t) {
         t.core.dma.gather(t.f, nc::hbm(t.table).columns(0, 511), t.ints.columns(0, 1));
       }},
      {"dma.gather: indices", "a row of fp32 HBM [1000, 512]",
       [](Tiles& t) {
         t.core.vector.memset(t.ints, 1000);
         t.core.dma.gather(t.f, nc::hbm(t.table), t.ints.columns(0, 1));
       },
       undefined},
      {"dma.sum: views", "1 to 16", [](Tiles& t) { t.core.dma.sum(t.f, {}); }},
      {"dma.queue: index", "below 16", [](Tiles& t) { t.core.dma.queue(16); }},
      {"wait: value", "at most 0",
       [](Tiles& t) {
         nc::Semaphore semaphore = t.core.semaphore();
         t.core.vector.wait(semaphore, 1);
       },
       undefined},
  });
}

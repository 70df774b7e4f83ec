// These tests check the limits of the Tensor, Scalar and GpSimd engines.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/limits.hpp"

using namespace soma_test;
using nc::Accumulate;
using nc::Alu;
using nc::Function;
using nc::Tile;

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
       [](Tiles& t) {
         t.core.tensor.matmul(t.other.as(soma::DType::fp16).columns(0, 512), t.w, t.x);
       }},
      {"matmul: instruction", "NeuronCore-v4",
       [](Tiles& t) { t.core.tensor.matmul(t.other.columns(0, 512), t.w, t.x); }, generation},
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

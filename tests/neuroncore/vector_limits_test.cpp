// These tests check the limits of the Vector engine.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/limits.hpp"

#include <cstdint>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

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
      {"tensor_reduce: op", "the order of the reduction is not published",
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
      {"select: predicate", "one of int8 uint8 int16 uint16 bool",
       [](Tiles& t) { t.core.vector.select(t.f, t.ints, t.g, 0); }},
      {"select: on_true", "other than tf32, int32 and uint32",
       [](Tiles& t) { t.core.vector.select(t.f, t.bytes, t.ints, 0); }},
      {"select: predicate", "in SBUF, where on_true is in PSUM",
       [](Tiles& t) {
         t.core.vector.select(t.f, t.core.psum.tile(128, 512, DType::uint8), t.sums, 0);
       }},
      {"copy_predicated: predicate", "one of uint8 uint16 uint32 bool int32",
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

#pragma once
// The choices of arithmetic that may give different bits on different CPUs.

#include <soma/base/config.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE {

// fast: products, fp32 products included, may use bf16 instructions where this CPU is faster with
// them. portable: the same bits on every target with fused multiply-add; a target without it is
// refused.
enum class Math : std::uint8_t { fast, portable };

// How matrix products multiply bf16 numbers.
enum class Bf16Products : std::uint8_t {
  widened,          // to fp32 while packing, then fp32 multiply-adds: portable bits
  dot_instruction,  // the CPU's bf16 dot product
  tiles,            // the CPU's bf16 tile product (AMX)
};

// How matrix products multiply all other numbers.
enum class Fp32Products : std::uint8_t {
  multiply_add,  // one fused multiply-add each: portable bits
  split_tiles,   // each number as the sum of three bf16 numbers; tiles add six of their products
};

constexpr std::string_view to_string(Bf16Products products) {
  switch (products) {
    case Bf16Products::dot_instruction:
      return "dot_instruction";
    case Bf16Products::tiles:
      return "tiles";
    case Bf16Products::widened:
      break;
  }
  return "widened";
}

inline constexpr int split_products = 6;  // products of bf16 numbers that make one fp32 product

// The way of fp32 products that goes with a way of bf16 products. Tiles multiply bf16 numbers
// sixteen times as fast as fp32 multiply-adds by construction: six bf16 products for each fp32
// product are still more than twice as fast as a multiply-add.
constexpr Fp32Products fp32_products(Bf16Products products) {
  return products == Bf16Products::tiles ? Fp32Products::split_tiles : Fp32Products::multiply_add;
}

constexpr std::string_view to_string(Fp32Products products) {
  return products == Fp32Products::split_tiles ? "split_tiles" : "multiply_add";
}

struct Bf16Choice {
  Bf16Products products = Bf16Products::widened;
  std::string_view reason{};
};

}  // namespace SOMA_NAMESPACE

// The accelerator's array on whatever the flags allow: products are exact before they are added,
// with fused multiply-add or without.

#include <soma/neuroncore.hpp>

#include "catch.hpp"

#include <cstddef>

using namespace soma;

TEST_CASE("the static target multiplies exactly", "[unit][neuroncore]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  const std::size_t columns = 37;  // whole vectors and a rest
  const float e = 0x1p-13f;
  const neuroncore::Tile a = core.sbuf.tile(DType::fp32, 2, 7),
                         b = core.sbuf.tile(DType::fp32, 2, columns),
                         sums = core.psum.tile(7, columns);
  core.vector.memset(a, 1 + e).memset(b, 1 + e);
  core.vector.memset(a.rows(0, 1), 1).memset(b.rows(0, 1), -1);
  core.tensor.matmul(sums, a, b);
  // -1 + (1 + e)^2: where the square is rounded first, e^2 is lost.
  for (const float sum : core.values(sums)) CHECK(sum == 2 * e + e * e);
}

// A query that sees one key has a probability of 1, whatever its score: gradients of queries and
// keys are 0, not rounding errors.

#include "kernels/attention/attention_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

bool zeros(const std::vector<float>& values, std::size_t first, std::size_t count) {
  return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(first),
                     values.begin() + static_cast<std::ptrdiff_t>(first + count),
                     [](float value) { return value == 0; });
}

}  // namespace

TEST_CASE("softmax over one key has no gradient", "[unit][attention]") {
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::size_t queries : {1, 5, 70})
      for (const std::size_t width : {3, 34, 100})
        for (const float drop : {0.0f, 0.4f})
          on_every_way(AttentionCase(queries, 1, width, drop, dtype),
                       [&](const Context& context, const AttentionCase& c) {
                         const AttentionResults r = attend(context, c);
                         INFO(queries << " queries of " << width << ", " << to_string(dtype));
                         CHECK(zeros(r.dq, 0, r.dq.size()));
                         CHECK(zeros(r.dk, 0, r.dk.size()));
                         CHECK((drop != 0 || !zeros(r.dv, 0, r.dv.size())));
                       });
}

TEST_CASE("a query that sees one of many keys has no gradient", "[unit][attention]") {
  constexpr std::size_t length = 150, width = 34;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    AttentionCase causal(length, length, width, 0, dtype);
    causal.causal = true;
    AttentionCase masked(length, length, width, 0, dtype);
    // Query i sees key 140 only if i is even, else all. Nobody but even queries sees key 140.
    for (std::size_t i = 0; i < length; ++i)
      for (std::size_t j = 0; j < length; ++j) masked.mask.push_back((j == 140) == (i % 2 == 0));
    AttentionCase alone = masked;  // a single query
    alone.queries = 1;
    for (const AttentionCase& one : {causal, masked, alone})
      on_every_way(one, [&](const Context& context, const AttentionCase& c) {
        const AttentionResults r = attend(context, c);
        for (std::size_t i = 0; i < c.queries; ++i) {
          INFO("query " << i << ", causal " << c.causal << ", " << to_string(dtype));
          const bool one_key = c.causal ? i == 0 : i % 2 == 0;
          CHECK(zeros(r.dq, i * width, width) == one_key);
        }
        if (!c.causal) CHECK(zeros(r.dk, 140 * width, width));
      });
  }
}

TEST_CASE("a gradient of one key that is not a number stays so", "[unit][attention]") {
  const AttentionCase c(4, 1, 8);
  on_every_target([&](const Context& context) {
    std::vector<float> dout(4 * 8, 1);
    dout[9] = std::numeric_limits<float>::quiet_NaN();
    AttentionCase own = c;
    own.dout.operand = plain(dout, 8);
    const AttentionResults r = attend(context, own);
    CHECK(zeros(r.dq, 0, 8));
    CHECK(std::isnan(r.dq[8]));
  });
}

// Causal and masked attention: against the reference, beside full attention, and what is not
// computed.

#include "kernels/attention/attention_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

using namespace soma;
using namespace soma_test;

TEST_CASE("causal attention of every length", "[unit][attention]") {
  const auto check_causal = [](AttentionCase c) {
    c.causal = true;
    check_case(c);
  };
  for (const std::size_t length : {1, 2, 33, 64, 129, 141, 290}) {
    INFO("length " << length);
    check_causal(AttentionCase(length, length, 5, 0.1f));
    check_causal(AttentionCase(length, length, 34, 0.1f, DType::bf16));
  }
  check_causal(AttentionCase(150, 150, 70));
}

TEST_CASE("masked attention", "[unit][attention]") {
  // A window of 20 keys, of which some are hidden too: most blocks have nothing for most panels.
  const auto hide = [](AttentionCase c, bool window) {
    RandomFloats draw(5, 1);
    for (std::size_t i = 0; i < c.queries; ++i)
      for (std::size_t j = 0; j < c.keys; ++j) {
        const std::size_t at = i * c.keys / c.queries;
        const bool near = !window || (j <= at && at - j < 20);
        c.mask.push_back(j == at || (near && draw() > 0) ? 7 : 0);
      }
    return c;
  };
  for (const bool window : {false, true})
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      INFO((window ? "window, " : "all, ") << to_string(dtype));
      check_case(hide(AttentionCase(200, 200, 8, 0.1f, dtype), window));
      check_case(hide(AttentionCase(33, 230, 34, 0, dtype), window));
      check_case(hide(AttentionCase(1, 290, 24, 0.3f, dtype), window));
      AttentionCase both = hide(AttentionCase(150, 150, 8, 0.1f, dtype), window);
      both.causal = true;
      check_case(both);
    }
}

// Whatever panel and block a query stands in.
TEST_CASE("a row of causal attention has the bits that it has as the last one",
          "[unit][attention]") {
  constexpr std::size_t length = 300, width = 24;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    AttentionCase whole(length, length, width, 0.2f, dtype);
    whole.causal = true;
    on_every_way(whole, [&](const Context& context, const AttentionCase& c) {
      const AttentionResults all = attend(context, c, false);
      for (const std::size_t row : {63, 64, 100, 139, 140, 141, 255, 299}) {
        INFO("row " << row);
        AttentionCase prefix = c;
        prefix.causal = false;
        prefix.queries = prefix.keys = row + 1;
        const AttentionResults last = attend(context, prefix, false);
        CHECK(std::memcmp(&all.out[row * width], &last.out[row * width], width * sizeof(float)) ==
              0);
        CHECK(std::memcmp(&all.log_sum_exp[row], &last.log_sum_exp[row], sizeof(float)) == 0);
      }
    });
  }
}

TEST_CASE("keys that no query of a panel sees are not touched", "[unit][attention]") {
  constexpr std::size_t length = 200, width = 24, first = 160;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    AttentionCase plain_case(length, length, width, 0.1f, dtype);
    plain_case.causal = true;
    AttentionCase odd = plain_case;
    for (StoredMatrix* m : {&odd.k, &odd.v})
      for (std::size_t row = first; row < length; ++row)
        std::fill_n(m->bytes.data() + row * m->operand.row_stride * size_of(dtype),
                    width * size_of(dtype), std::byte{0xFF});  // NaN
    odd.k.operand.data = odd.k.bytes.data();
    odd.v.operand.data = odd.v.bytes.data();
    on_every_way(plain_case, [&](const Context& context, const AttentionCase& c) {
      const AttentionResults all = attend(context, c, false);
      const AttentionResults r = attend(context, odd.with(c.products), false);
      CHECK(std::memcmp(all.out.data(), r.out.data(), first * width * sizeof(float)) == 0);
      CHECK(std::isnan(r.out[first * width]));
    });
  }
}

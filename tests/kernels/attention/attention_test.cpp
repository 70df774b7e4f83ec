// Attention, forward and backward, against the reference in double, on every target.

#include "kernels/attention/attention_call.hpp"
#include "support/floating_dtypes.hpp"
#include "support/table.hpp"

#include <cstring>
#include <limits>

using namespace soma;
using namespace soma_test;

static void every_length(Table table) {
  for (const std::size_t length : entries<std::size_t>(
           table, {1, 13, 31, 32, 33, 63, 64, 65, 128, 129, 141},
           {1, 2, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 139, 140, 141, 225, 517})) {
    INFO("length " << length);
    check_case(AttentionCase(length, length, 64));
    check_case(AttentionCase(length, length, 5, 0.1f));
    check_case(AttentionCase(length, length, 64, 0.1f, DType::bf16));
  }
}

TEST_CASE("attention of every length", "[unit][attention]") { every_length(Table::part); }
TEST_CASE("attention of every length: all", "[slow][attention]") { every_length(Table::whole); }

TEST_CASE("attention of every width", "[unit][attention]") {
  for (const std::size_t width : {1, 2, 14, 16, 17, 31, 33, 96, 128, 193, 600}) {
    INFO("width " << width);
    check_case(AttentionCase(35, 120, width, 0.25f));
    check_case(AttentionCase(35, 120, width, 0.25f, DType::bf16));
  }
}

TEST_CASE("queries and keys of different lengths", "[unit][attention]") {
  check_case(AttentionCase(1, 300, 32));
  check_case(AttentionCase(300, 1, 32, 0.5f));
  check_case(AttentionCase(65, 230, 16, 0.5f));
  check_case(AttentionCase(65, 230, 16, 0.5f, DType::bf16));
  check_case(AttentionCase(230, 65, 16, 0.5f, DType::bf16));
}

TEST_CASE("dropout of attention around the last index of a stream", "[unit][attention]") {
  // Between the words of two queries: the first lies before it.
  for (const std::uint64_t before : {100, 101, 65600, 70002, 131175}) {
    INFO(before << " words before it");
    AttentionCase c(4, 41, 8, 0.5f);
    c.dropout.draw.index = std::uint64_t{0} - before;
    check_case(c);
  }
}

// The number of a block of words has an upper half, which most blocks have in common.
TEST_CASE("dropout of attention where blocks of words pass 2^32", "[unit][attention]") {
  // Among the words of the first query, of the last, and between those of two.
  for (const std::uint64_t before : {22, 196608 + 9, 70002, 131175}) {
    INFO(before << " words before it");
    AttentionCase c(4, 41, 8, 0.5f);
    c.dropout.draw.index = (std::uint64_t{1} << 34) - before;
    check_case(c);
  }
}

TEST_CASE("one query has the bits that it has among others", "[unit][attention]") {
  for (const auto& [keys, width] : {std::pair<std::size_t, std::size_t>{1, 1},
                                    {15, 3},
                                    {16, 32},
                                    {33, 17},
                                    {64, 48},
                                    {140, 64},
                                    {300, 64},
                                    {517, 200}})
    for (const DType dtype : {DType::fp32, DType::bf16})
      for (const float probability : {0.0f, 0.3f}) {
        INFO(keys << " keys, width " << width << ", " << to_string(dtype) << ", " << probability);
        const AttentionCase one(1, keys, width, probability, dtype);
        // The others add nothing to the gradients of keys and values.
        AttentionCase many(5, keys, width, probability, dtype);
        many.dout = store_matrix(5, width, dtype, Layout::padded_rows,
                                 [&one, width = width, i = std::size_t{0}]() mutable {
                                   const std::size_t at = i++;
                                   return at < width ? one.dout.values[at] : 0.0f;
                                 });
        on_every_way(one, [&](const Context& context, const AttentionCase& c) {
          const AttentionResults a = attend(context, c);
          const AttentionResults b = attend(context, many.with(c.products));
          const auto first = [&](const std::vector<float>& rows, std::size_t count) {
            return std::vector<float>(rows.begin(), rows.begin() + static_cast<long>(count));
          };
          CHECK(same_bits(a.out, first(b.out, width)));
          CHECK(same_bits(a.log_sum_exp, first(b.log_sum_exp, 1)));
          CHECK(same_bits(a.dq, first(b.dq, width)));
          CHECK(same_bits(a.dk, b.dk));
          CHECK(same_bits(a.dv, b.dv));
        });
      }
}

static void long_sequence(Table table) {
  const std::size_t length = table == Table::whole ? 4096 : 1090;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const AttentionCase plain_case(length, length, 8, 0, dtype);
    std::vector<float> first[3];
    const auto reference = plain_case.reference<double>();
    on_every_way(plain_case, [&](const Context& context, const AttentionCase& c) {
      // Scores are below 8 * 4 / sqrt(8) < 12 in magnitude, their sums wrong by 18 u * 12 at most,
      // in tiles by 31 u * 12; the rest of AttentionBounds' terms: length / 16 + 6 * 31 + 8 sums,
      // in tiles 6 * 33, and (2 * length + 8) products.
      const auto keys = static_cast<double>(length);
      const double sums = keys / 16 + (c.tiled() ? 2 * 31 * 12 + 242 : 2 * 18 * 12 + 230);
      const double relative = (sums + 8 * 20 + 2 * keys + 8) * 0x1p-24;
      const AttentionResults r = attend(context, c, false);
      const double rounding = c.dotted() ? 0x1p-8 + 0x1p-17 : 0;  // of weights to bf16
      bool near = true;
      for (std::size_t i = 0; i < r.out.size(); ++i)  // |v| <= 2
        near = near && std::fabs(r.out[i] - reference.out[i]) <= (relative + rounding) * 2;
      for (std::size_t i = 0; i < c.queries; ++i)
        near = near && std::fabs(r.log_sum_exp[i] - reference.log_sum_exp[i]) <= relative;
      CHECK(near);
      if (!context.target().fused_multiply_add) return;
      auto& same = first[c.way()];
      if (same.empty()) same = r.all();
      CHECK(same_bits(r.all(), same));
    });
  }
}

TEST_CASE("a long sequence", "[unit][attention]") { long_sequence(Table::part); }
TEST_CASE("a long sequence: all", "[slow][attention]") { long_sequence(Table::whole); }

// Bounds leave room for more than a lost part of a number would do.
TEST_CASE("in tiles the usual error is no larger than that of multiply-adds", "[unit][attention]") {
  for (const std::size_t width : {40, 64}) {
    INFO("width " << width);
    const AttentionCase c(150, 150, width, 0.1f, DType::bf16);
    const auto reference = c.reference<double>();
    const auto error = [](const std::vector<float>& values, const std::vector<double>& wanted) {
      double squares = 0;
      for (std::size_t i = 0; i < values.size(); ++i)
        squares += (values[i] - wanted[i]) * (values[i] - wanted[i]);
      return std::sqrt(squares);
    };
    on_every_target_with_tiles([&](const Context& context) {
      const AttentionResults chain = attend(context, c), tiles = attend(context, c.in_tiles());
      CHECK(error(tiles.out, reference.out) <= error(chain.out, reference.out));
      CHECK(error(tiles.dq, reference.dq) <= error(chain.dq, reference.dq));
      CHECK(error(tiles.dk, reference.dk) <= error(chain.dk, reference.dk));
      CHECK(error(tiles.dv, reference.dv) <= error(chain.dv, reference.dv));
    });
  }
}

// Bounds leave room for weights that are cut off instead of rounded, whose error is twice as large.
TEST_CASE("dot products have the usual error of weights rounded once", "[unit][attention]") {
  const AttentionCase c(150, 150, 64, 0.1f, DType::bf16);
  const auto reference = c.reference<double>();
  // A weight's error is even between 2^-8 of its power of two below and above it.
  double most = 0;
  for (std::size_t i = 0; i < c.queries; ++i)
    for (std::size_t j = 0; j < c.keys; ++j)
      for (std::size_t x = 0; x < c.width; ++x) {
        const std::size_t at = i * c.keys + j;
        const double term = reference.p[at] * reference.kept[at] * reference.v[j * c.width + x];
        most += term * term * 0x1p-16 / 3;
      }
  on_every_bf16_target([&](const Context& context, Bf16Products products) {
    if (products != Bf16Products::dot_instruction) return;
    const AttentionResults r = attend(context, c.with(products));
    double squares = 0;
    for (std::size_t i = 0; i < r.out.size(); ++i) {
      const double error = static_cast<double>(r.out[i]) - reference.out[i];
      squares += error * error;
    }
    CHECK(squares < most);  // a number is between one and two powers of two
    CHECK(squares > most / 8);
  });
}

TEST_CASE("a result that is bf16 gives the gradients of its numbers", "[unit][attention]") {
  for (const std::size_t width : {2, 24, 34, 64, 600}) {
    INFO("width " << width);
    on_every_way(AttentionCase(20, 70, width, 0.1f, DType::bf16),
                 [](const Context& context, const AttentionCase& c) {
                   AttentionResults r = attend(context, c);
                   const StoredMatrix out =
                       store_matrix(c.queries, c.width, DType::bf16, Layout::contiguous,
                                    [&r, i = std::size_t{0}]() mutable { return r.out[i++]; });
                   AttentionArgs args = c.args();
                   args.log_sum_exp = r.log_sum_exp.data();
                   const AttentionKernels& kernels = context.kernels().attention;
                   const GuardedWorkspace workspace(kernels.workspace_bytes(args));
                   args.workspace = workspace.data();
                   const auto gradients = [&](const MatrixOperand& forward_out) {
                     args.forward_out = forward_out;
                     args.dq = plain_target(r.dq, c.width);
                     args.dk = plain_target(r.dk, c.width);
                     args.dv = plain_target(r.dv, c.width);
                     kernels.backward(args);
                     return r.all();
                   };
                   const std::vector<float> stored = gradients(out.operand);
                   CHECK(same_bits(stored, gradients(plain(out.values, c.width))));
                 });
  }
}

// Other operands give the bits of multiply-adds.
TEST_CASE("dot products are taken of bf16 in pairs alone", "[unit][attention]") {
  const auto check = [](const AttentionCase& c, bool taken) {
    on_every_bf16_target([&](const Context& context, Bf16Products products) {
      if (products != Bf16Products::dot_instruction) return;
      const bool same =
          same_bits(attend(context, c.with(products)).all(), attend(context, c).all());
      CHECK(same == !taken);
    });
  };
  check(AttentionCase(40, 50, 24, 0.1f, DType::bf16), true);
  check(AttentionCase(1, 50, 24, 0.1f, DType::bf16), true);
  check(AttentionCase(40, 50, 23, 0.1f, DType::bf16), false);
  check(AttentionCase(40, 50, 24, 0.1f, DType::fp32), false);
  check(AttentionCase(40, 50, 24, 0.1f, DType::fp16), false);
  check(AttentionCase(40, 50, 24, 0.1f, DType::bf16, Layout::transposed), false);
}

TEST_CASE("no queries, no keys", "[unit][attention]") {
  on_every_target([](const Context& context) {
    const AttentionResults none = attend(context, AttentionCase(5, 0, 7));
    CHECK(same_bits(none.out, std::vector<float>(35, 0)));
    CHECK(same_bits(none.dq, std::vector<float>(35, 0)));
    CHECK(same_bits(none.log_sum_exp,
                    std::vector<float>(5, -std::numeric_limits<float>::infinity())));
    const AttentionResults idle = attend(context, AttentionCase(0, 3, 7));
    CHECK(same_bits(idle.dk, std::vector<float>(21, 0)));
    CHECK(same_bits(idle.dv, std::vector<float>(21, 0)));
  });
}

TEST_CASE("gradients are what the loss does when an input moves", "[unit][attention]") {
  AttentionCase c(6, 9, 5, 0.3f);
  auto reference = c.reference<double>();
  const auto loss = [&] {
    reference.forward();
    double sum = 0;
    for (std::size_t i = 0; i < reference.out.size(); ++i)
      sum += reference.out[i] * static_cast<double>(c.dout.values[i]);
    return sum;
  };
  // Central differences: wrong by step^2 times a third derivative of the order of 10, and 2^-52 of
  // the loss over the step.
  constexpr double step = 0x1p-12, tolerance = 100 * step * step;
  const auto check = [&](std::vector<double>& input, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < input.size(); ++i) {
      const double before = input[i];
      input[i] = before + step;
      const double above = loss();
      input[i] = before - step;
      const double below = loss();
      input[i] = before;
      // Beside the difference's own error, fp32's in gradients of up to 10 or so.
      CHECK(std::fabs((above - below) / (2 * step) - static_cast<double>(gradient[i])) <
            tolerance + 200 * 0x1p-24 * 10);
    }
  };
  on_every_target([&](const Context& context) {
    const AttentionResults r = attend(context, c);
    check(reference.q, r.dq);
    check(reference.k, r.dk);
    check(reference.v, r.dv);
  });
}

TEST_CASE("operands of every type and layout", "[unit][attention]") {
  for (const DType dtype : floating_dtypes) {
    INFO(to_string(dtype));
    if (dtype == DType::e8m0) continue;  // no signs, no zero: see gemm
    check_case(AttentionCase(20, 40, 24, 0.1f, dtype));
    check_case(AttentionCase(20, 70, 24, 0.1f, dtype));
  }
  for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::every_other})
    for (const DType dtype : {DType::fp32, DType::bf16})
      check_case(AttentionCase(37, 130, 24, 0.1f, dtype, layout));
}

TEST_CASE("results of every type, rounded once", "[unit][attention]") {
  for (const std::size_t keys : {23, 70})
    for (const DType dtype : floating_dtypes)
      for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
        INFO(keys << " keys, " << to_string(dtype));
        const auto check = [&](const Context& context, const AttentionCase& c) {
          AttentionResults r = attend(context, c);
          TargetMatrix out(19, 40, dtype, rounding), dq(19, 40, dtype, rounding, true),
              dk(keys, 40, dtype, rounding), dv(keys, 40, dtype, rounding, true);
          const AttentionKernels& kernels = context.kernels().attention;
          AttentionArgs args = c.args();
          const GuardedWorkspace workspace(kernels.workspace_bytes(args));
          std::vector<float> log_sum_exp(19);
          args.workspace = workspace.data();
          args.out = out.target;
          args.log_sum_exp = log_sum_exp.data();
          kernels.forward(args);
          CHECK(out.holds(r.out, 40));
          CHECK(same_bits(log_sum_exp, r.log_sum_exp));
          args.forward_out = plain(r.out, 40);
          args.dq = dq.target, args.dk = dk.target, args.dv = dv.target;
          kernels.backward(args);
          CHECK(dq.holds(r.dq, 40));
          CHECK(dk.holds(r.dk, 40));
          CHECK(dv.holds(r.dv, 40));
        };
        for (const DType operands : {DType::fp32, DType::bf16})
          on_every_way(AttentionCase(19, keys, 40, 0, operands), check);
      }
}

TEST_CASE("large scores do not overflow", "[unit][attention]") {
  // Scores of some hundreds: without subtracting the largest, exp would be infinite.
  for (const DType dtype : {DType::fp32, DType::bf16})
    check_case(AttentionCase(40, 230, 16, 0, dtype, Layout::contiguous, 16));
}

TEST_CASE("infinite and NaN scores as the formulas say", "[unit][attention]") {
  const float infinity = std::numeric_limits<float>::infinity();
  AttentionCase c(3, 230, 1, 0, DType::fp32, Layout::contiguous);
  const auto set = [](StoredMatrix& m, std::size_t i, float value) {
    m.values[i] = value;
    std::memcpy(m.bytes.data() + i * sizeof value, &value, sizeof value);
  };
  // Rows: an ordinary one; one that sees -infinity in all keys; one with NaN.
  set(c.q, 0, 1);
  set(c.q, 1, -infinity);
  set(c.q, 2, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t j = 0; j < 230; ++j) set(c.k, j, 1);
  // The whole first block has no weight in the first row.
  for (std::size_t j = 0; j < 140; ++j) set(c.k, j, -infinity);
  on_every_target([&](const Context& context) {
    const AttentionResults r = attend(context, c, false);
    double mean = 0;
    for (std::size_t j = 140; j < 230; ++j) mean += static_cast<double>(c.v.values[j]) / 90;
    CHECK(std::fabs(r.out[0] - mean) < 2 * 100 * 0x1p-24);  // 90 values up to 2, and the division
    CHECK(std::fabs(r.log_sum_exp[0] - (1 + std::log(90.0))) < 8 * 0x1p-22);
    CHECK(std::isnan(r.out[1]));  // +infinity in the first block
    CHECK(std::isnan(r.out[2]));
    CHECK(std::isnan(r.log_sum_exp[2]));
  });
  for (std::size_t j = 0; j < 230; ++j) set(c.k, j, 1);
  on_every_target([&](const Context& context) {
    const AttentionResults r = attend(context, c, false);
    CHECK(std::isnan(r.out[1]));  // -infinity everywhere: 0 / 0
    CHECK(r.log_sum_exp[1] == -infinity);
  });
}

// Squares and pairs are filled up with zeros, which an infinity or a NaN beside them would make
// NaN.
TEST_CASE("with bf16 instructions a NaN stays in its query's row", "[unit][attention]") {
  constexpr std::size_t width = 24;
  const AttentionCase plain_case(70, 150, width, 0.1f, DType::bf16);
  AttentionCase c(70, 150, width, 0.1f, DType::bf16);
  const auto set_row = [](StoredMatrix& m, std::size_t row, std::uint16_t code) {
    auto* codes = reinterpret_cast<std::uint16_t*>(m.bytes.data());
    std::fill_n(codes + row * m.operand.row_stride, width, code);
  };
  set_row(c.q, 5, 0x7FC0);      // NaN
  set_row(c.q, 66, 0x7F80);     // infinity
  set_row(c.dout, 40, 0x7FC0);  // NaN
  on_every_bf16_target([&](const Context& context, Bf16Products products) {
    const AttentionResults all = attend(context, plain_case.with(products));
    const AttentionResults r = attend(context, c.with(products));
    for (std::size_t i = 0; i < c.queries; ++i) {
      INFO("query " << i);
      const bool odd = i == 5 || i == 66;
      const auto same = [&](const std::vector<float>& x, const std::vector<float>& y) {
        return std::memcmp(&x[i * width], &y[i * width], width * sizeof(float)) == 0;
      };
      CHECK(std::isnan(r.out[i * width]) == odd);
      CHECK(same(r.out, all.out) == !odd);
      CHECK(std::isnan(r.dq[i * width]) == (odd || i == 40));
      CHECK(same(r.dq, all.dq) == !(odd || i == 40));
    }
  });
}

TEST_CASE("attention's workspace never shrinks with what is asked of it", "[unit][attention]") {
  const auto check = [](const Context& context, Bf16Products products) {
    const auto bytes = [&](std::size_t queries, std::size_t keys, std::size_t width) {
      AttentionArgs args{.queries = queries, .keys = keys, .width = width};
      args.bf16_products = products;
      return context.kernels().attention.workspace_bytes(args);
    };
    const std::size_t sizes[] = {0, 1, 15, 33, 64, 130, 512, 4096, 65536};
    for (std::size_t i = 0; i + 1 < std::size(sizes); ++i)
      for (const std::size_t other : {std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
        CHECK(bytes(sizes[i], other, 64) <= bytes(sizes[i + 1], other, 64));
        CHECK(bytes(other, sizes[i], 64) <= bytes(other, sizes[i + 1], 64));
        CHECK(bytes(100, 100, sizes[i]) <= bytes(100, 100, sizes[i + 1]));
      }
  };
  on_every_target([&](const Context& context) { check(context, Bf16Products::widened); });
  on_every_bf16_target(check);
}

// The norm family: against the scalar reference in double, sums in their stated order bit by bit,
// every type and layout against plain fp32.

#include <soma/kernels/reference/norm.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "kernels/gemm/gemm_call.hpp"
#include "norm_case.hpp"
#include "support/floating_dtypes.hpp"
#include "support/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr std::size_t lengths[] = {1,   2,   15,   16,   17,   31,   33,   511,
                                   512, 513, 1009, 1024, 1025, 2049, 4099, 10000};

// Mean and rstd of a row as kernels/norm/moments.hpp defines them.
reference::Moments<float> stated_moments(std::span<const float> x, float epsilon) {
  const auto count = static_cast<float>(x.size());
  float mean = row_sum(x.size(), [&](std::size_t i, float sum) { return sum + x[i]; }) / count;
  float rest = 0, square = 0;
  const auto pass = [&] {
    rest = row_sum(x.size(), [&](std::size_t i, float sum) { return sum + (x[i] - mean); }) / count;
    square = row_sum(x.size(),
                     [&](std::size_t i, float sum) {
                       const float difference = x[i] - mean;
                       return std::fma(difference, difference, sum);
                     }) /
             count;
  };
  pass();
  if (4 * rest * rest >= square) {
    mean += rest;
    pass();
  }
  const float variance = (std::max)(std::fma(-rest, rest, square), 0.0f);
  return {mean + rest, 1 / std::sqrt(variance + epsilon)};
}

}  // namespace

TEST_CASE("layer norm and RMS norm agree with the reference", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : lengths)
      for (const bool rms : {false, true})
        for (const bool with_affine : {false, true})
          for (const float offset : {0.0f, 1000.0f}) {
            NormCase c(3, columns, rms, with_affine, offset);
            INFO(std::string(target.name) << ": " << columns << " columns, rms " << rms
                                          << ", affine " << with_affine << ", offset " << offset);
            target.kernels->norm.forward(c.args);
            CHECK(forward_excess(c) <= 1);
            target.kernels->norm.backward(c.args);
            CHECK(backward_excess(c) <= 1);
          }
}

TEST_CASE("sums over a row have the stated order", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const float offset : {0.0f, 1e5f, 1e7f})  // the last: nearly equal, a second correction
      for (const std::size_t columns : lengths) {
        NormCase c(2, columns, false, false, offset);
        target.kernels->norm.forward(c.args);
        for (std::size_t r = 0; r < 2; ++r) {
          const auto wanted = stated_moments(std::span(c.x).subspan(r * columns, columns), 1e-5f);
          INFO(std::string(target.name) << ": " << columns << " columns, offset " << offset);
          CHECK(c.mean[r] == wanted.mean);
          CHECK(c.rstd[r] == wanted.rstd);
        }
      }
}

TEST_CASE("gradients of gamma and beta have the stated order, however columns are cut",
          "[unit][norm]") {
  auto any = make_context();
  const std::size_t rows = 53;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{1}, std::size_t{19}, std::size_t{300}})
      for (const std::size_t segments : {1, 2, 8, 1024}) {
        NormCase c(rows, columns, false, true);
        target.kernels->norm.forward(c.args);
        std::vector<std::size_t> bounds(segments + 1);
        for (std::size_t s = 0; s <= segments; ++s) bounds[s] = s * s * rows / segments / segments;
        c.args.segments = {bounds.data(), segments};
        target.kernels->norm.backward_parameters(c.args);
        bool gamma_right = true, beta_right = true;
        for (std::size_t i = 0; i < columns; ++i) {
          std::vector<float> gamma, beta;
          for (std::size_t s = 0; s < segments; ++s) {
            gamma.push_back(0), beta.push_back(0);
            for (std::size_t r = bounds[s]; r < bounds[s + 1]; ++r) {
              const float xhat = (c.x[r * columns + i] - c.mean[r]) * c.rstd[r];
              gamma.back() = std::fma(c.dy[r * columns + i], xhat, gamma.back());
              beta.back() += c.dy[r * columns + i];
            }
          }
          for (; gamma.size() > 1; gamma.resize(gamma.size() / 2), beta.resize(gamma.size()))
            for (std::size_t s = 0; s < gamma.size() / 2; ++s) {
              gamma[s] = gamma[2 * s] + gamma[2 * s + 1];
              beta[s] = beta[2 * s] + beta[2 * s + 1];
            }
          gamma_right = gamma_right && c.dgamma[i] == gamma[0];
          beta_right = beta_right && c.dbeta[i] == beta[0];
        }
        INFO(std::string(target.name) << ": " << columns << " columns, " << segments << " parts");
        CHECK(gamma_right);
        CHECK(beta_right);

        const std::vector<float> whole_gamma = c.dgamma, whole_beta = c.dbeta;
        std::fill(c.dgamma.begin(), c.dgamma.end(), -1.0f);
        std::fill(c.dbeta.begin(), c.dbeta.end(), -1.0f);
        for (std::size_t first = 0; first < columns; first += 7) {
          c.args.first_column = first;
          c.args.column_count = (std::min)(std::size_t{7}, columns - first);
          target.kernels->norm.backward_parameters(c.args);
        }
        CHECK(c.dgamma == whole_gamma);
        CHECK(c.dbeta == whole_beta);
      }
}

TEST_CASE("norms have the same bits on every target", "[unit][norm][invariance]") {
  auto any = make_context();
  for (const std::size_t columns : lengths)
    for (const bool rms : {false, true}) {
      NormCase best(2, columns, rms, true);
      const Kernels& kernels = *any.targets().targets[0].kernels;
      kernels.norm.forward(best.args);
      kernels.norm.backward(best.args);
      for (const Target& target : any.targets().targets) {
        NormCase c(2, columns, rms, true);
        target.kernels->norm.forward(c.args);
        target.kernels->norm.backward(c.args);
        INFO(std::string(target.name) << ": " << columns << " columns, rms " << rms);
        CHECK(same_bits(best.y, c.y));
        CHECK(same_bits(best.dx, c.dx));
      }
    }
}

TEST_CASE("norms take operands and targets of every type and layout", "[unit][norm]") {
  auto any = make_context();
  const std::size_t rows = 3;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {std::size_t{33}, std::size_t{517}, std::size_t{2051}})
      for (const DType dtype : floating_dtypes)
        for (const Layout layout : {Layout::contiguous, Layout::transposed}) {
          RandomFloats random(32);
          const StoredMatrix x = store_matrix(rows, columns, dtype, layout, random);
          const StoredMatrix dy = store_matrix(rows, columns, dtype, layout, random);
          NormCase wanted(rows, columns, false, true);
          wanted.x = x.values;
          wanted.dy = dy.values;
          wanted.args.x = plain(wanted.x, columns);
          wanted.args.dy = plain(wanted.dy, columns);
          NormCase c = wanted;
          c.args.mean = c.mean.data();
          c.args.rstd = c.rstd.data();
          c.args.dgamma = c.dgamma.data();
          c.args.x = x.operand;
          c.args.dy = dy.operand;
          TargetMatrix y(rows, columns, dtype, Rounding::stochastic);
          TargetMatrix dx(rows, columns, dtype, Rounding::nearest_even);
          c.args.y = y.target;
          c.args.dx = dx.target;
          for (const NormArgs* args : {&wanted.args, &c.args}) {
            target.kernels->norm.forward(*args);
            target.kernels->norm.backward(*args);
            target.kernels->norm.backward_parameters(*args);
          }
          INFO(std::string(target.name)
               << ": " << columns << " columns, " << std::string(to_string(dtype)) << ", layout "
               << static_cast<int>(layout));
          CHECK(y.holds(wanted.y, columns));
          CHECK(dx.holds(wanted.dx, columns));
          CHECK(same_bits(c.rstd, wanted.rstd));
          CHECK(same_bits(c.dgamma, wanted.dgamma));
        }
}

TEST_CASE("the pass of dx adds what gamma and beta sum, to the bit", "[unit][norm]") {
  auto any = make_context();
  constexpr std::size_t rows = 21;
  for (const Target& target : any.targets().targets)
    for (const std::size_t columns : {1, 16, 19, 300, 513, 2500})
      for (const DType dtype : {DType::fp32, DType::bf16}) {
        INFO(std::string(target.name) << ": " << columns << " columns, " << to_string(dtype));
        RandomFloats random(33);
        const StoredMatrix x = store_matrix(rows, columns, dtype, Layout::padded_rows, random);
        const StoredMatrix dy = store_matrix(rows, columns, dtype, Layout::padded_rows, random);
        NormCase c(rows, columns, false, true);
        c.args.x = x.operand;
        c.args.dy = dy.operand;
        target.kernels->norm.forward(c.args);
        target.kernels->norm.backward(c.args);
        target.kernels->norm.backward_parameters(c.args);
        const std::vector<float> dx = c.dx;
        std::fill(c.dx.begin(), c.dx.end(), -1.0f);
        const std::size_t room = (columns + 15) / 16 * 16;
        const GuardedWorkspace memory(2 * room * sizeof(float));
        auto* const sums = reinterpret_cast<float*>(memory.data());
        std::fill_n(sums, 2 * room, 0.0f);
        c.args.gamma_sums = sums, c.args.beta_sums = sums + room;
        // In two calls, which go on with the sums.
        NormArgs part = c.args;
        part.rows = 8;
        target.kernels->norm.backward(part);
        part.rows = rows - 8;
        part.x = detail::part(part.x, 8, 0), part.dy = detail::part(part.dy, 8, 0);
        part.dx = detail::part(part.dx, 8, 0);
        part.mean += 8, part.rstd += 8;
        target.kernels->norm.backward(part);
        CHECK(memory.intact());
        CHECK(same_bits(c.dx, dx));
        CHECK(same_bits(c.dgamma, std::vector<float>(sums, sums + columns)));
        CHECK(same_bits(c.dbeta, std::vector<float>(sums + room, sums + room + columns)));
      }
}

TEST_CASE("NaN and infinity spoil their row alone", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      NormCase c(3, 37, false, true);
      c.x[37 + 20] = bad;
      target.kernels->norm.forward(c.args);
      for (std::size_t i = 0; i < 37; ++i) {
        CHECK(std::isfinite(c.y[i]));
        CHECK(std::isnan(c.y[37 + i]));
        CHECK(std::isfinite(c.y[74 + i]));
      }
    }
}

TEST_CASE("a row whose squares are above all numbers is NaN, not zeros", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets)
    for (const bool rms : {false, true}) {
      NormCase c(1, 37, rms, true);
      c.x[20] = 1e20f;
      target.kernels->norm.forward(c.args);
      for (std::size_t i = 0; i < 37; ++i) CHECK(std::isnan(c.y[i]));
    }
}

TEST_CASE("norms of nothing write nothing", "[unit][norm]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    NormCase c(1, 1, false, true);
    c.args.rows = 0;
    target.kernels->norm.forward(c.args);
    target.kernels->norm.backward(c.args);
    CHECK(c.y[0] == 0);
    // A sum over no rows is zero.
    c.dgamma[0] = c.dbeta[0] = 7;
    target.kernels->norm.backward_parameters(c.args);
    CHECK(c.dgamma[0] == 0);
    CHECK(c.dbeta[0] == 0);
    // Not wanted.
    c.args.dgamma = c.args.dbeta = nullptr;
    target.kernels->norm.backward_parameters(c.args);
  }
}

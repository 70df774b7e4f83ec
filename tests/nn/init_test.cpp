// Initial values: their distribution, and that they depend on the draw and on nothing else.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;

namespace {

struct Moments {
  double mean = 0, deviation = 0, smallest = 0, largest = 0;
};

Moments moments(const Tensor& tensor) {
  Moments result;
  double squares = 0;
  const auto all = tensor.span<float>();
  for (const float value : all) {
    const auto x = static_cast<double>(value);
    result.mean += x;
    squares += x * x;
    result.smallest = std::min(result.smallest, x);
    result.largest = std::max(result.largest, x);
  }
  const auto n = static_cast<double>(all.size());
  result.mean /= n;
  result.deviation = std::sqrt(squares / n - result.mean * result.mean);
  return result;
}

// n draws of deviation s: the mean deviates by s / sqrt(n), the deviation itself by less than that
// for both distributions here. Five of those are missed once in a million times; the draws are
// fixed.
void check_moments(const Tensor& tensor, double deviation) {
  const Moments found = moments(tensor);
  const double slack = 5 * deviation / std::sqrt(static_cast<double>(tensor.elements()));
  CHECK(std::fabs(found.mean) < slack);
  CHECK(std::fabs(found.deviation - deviation) < slack);
}
void check_even(const Tensor& tensor, double bound) {
  check_moments(tensor, bound / std::sqrt(3.0));
  const Moments found = moments(tensor);
  CHECK(found.smallest >= -bound * (1 + 0x1p-23));
  CHECK(found.largest <= bound * (1 + 0x1p-23));
  // With n uniform draws, the extremes are missed by bound * 2 / n on average.
  const double gap = 40 * bound / static_cast<double>(tensor.elements());
  CHECK(found.smallest < -bound + gap);
  CHECK(found.largest > bound - gap);
}

constexpr Draw draw{.seed = 4, .stream = 9};

}  // namespace

TEST_CASE("initialisers have the deviations of their papers", "[unit][init]") {
  auto context = make_context();
  const Shape linear{200, 300}, convolution{40, 30, 5, 5};
  check_moments(nn::normal(context, linear, 0.02f, draw), 0.02);
  check_even(nn::uniform(context, linear, 0.25f, draw), 0.25);
  check_even(nn::glorot_uniform(context, linear, draw), std::sqrt(6.0 / 500));
  check_even(nn::glorot_uniform(context, convolution, draw), std::sqrt(6.0 / (70 * 25)));
  check_even(nn::he_uniform(context, linear, draw), std::sqrt(6.0 / 300));
  check_even(nn::he_uniform(context, convolution, draw), std::sqrt(6.0 / 750));
  check_moments(nn::he_normal(context, linear, draw), std::sqrt(2.0 / 300));
  check_moments(nn::he_normal(context, convolution, draw), std::sqrt(2.0 / 750));
  check_even(nn::lecun_uniform(context, linear, 300, draw), std::sqrt(1.0 / 300));
  // A normal draw has tails; two thirds lie within one deviation.
  const Tensor normal = nn::normal(context, linear, 1, draw);
  const auto all = normal.span<float>();
  const auto inside =
      std::count_if(all.begin(), all.end(), [](float x) { return std::fabs(x) < 1; });
  CHECK(std::fabs(static_cast<double>(inside) / 60000 - 0.6827) < 5 * std::sqrt(0.22 / 60000));
  CHECK(moments(normal).largest > 4);
}

TEST_CASE("fans of weights", "[unit][init]") {
  CHECK(nn::fans(Shape{3, 5}).in == 5);
  CHECK(nn::fans(Shape{3, 5}).out == 3);
  CHECK(nn::fans(Shape{3, 5, 2, 7}).in == 70);
  CHECK(nn::fans(Shape{3, 5, 2, 7}).out == 42);
  auto context = make_context({.threads = 1});
  CHECK(nn::he_normal(context, Shape{4, 0}, draw).elements() == 0);  // and no division by zero
}

TEST_CASE("initial values are the same for threads and targets", "[unit][init]") {
  auto first = make_context({.threads = 1});
  const Shape shape{300, 401};  // more than one block of draws
  const auto normal = bits(first, nn::normal(first, shape, 0.02f, draw));
  const auto even = bits(first, nn::he_uniform(first, shape, draw));
  const auto check = [&](Context& context) {
    CHECK(bits(context, nn::normal(context, shape, 0.02f, draw)) == normal);
    CHECK(bits(context, nn::he_uniform(context, shape, draw)) == even);
  };
  for (const int threads : {2, 3, 7}) {
    auto context = make_context({.threads = threads});
    check(context);
  }
  for (const Target& target : first.targets().targets) {
    INFO(std::string(target.name));
    auto context = make_context({.target = target.name});
    check(context);
  }
}

TEST_CASE("element i depends on the draw and i, not on the shape", "[unit][init]") {
  auto context = make_context({.threads = 1});
  const Tensor long_one = nn::normal(context, Shape{1000}, 2, draw);
  const Tensor matrix = nn::normal(context, Shape{10, 20}, 2, draw);
  CHECK(bits(context, long_one.slice(0, 0, 200)) == bits(context, matrix));
  Draw other = draw;
  other.stream += 1;
  CHECK(bits(context, nn::normal(context, Shape{10, 20}, 2, other)) != bits(context, matrix));
}

TEST_CASE("modules do not depend on the order in which they are made", "[unit][init]") {
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 5};
  const nn::Linear a(scope / "a", 7, 3), b(scope / "b", 7, 3);
  const nn::Linear b_first(scope / "b", 7, 3), a_second(scope / "a", 7, 3);
  CHECK(bits(context, a.weight.value()) == bits(context, a_second.weight.value()));
  CHECK(bits(context, b.bias.value()) == bits(context, b_first.bias.value()));
  CHECK(bits(context, a.weight.value()) != bits(context, b.weight.value()));
  const nn::Linear other_seed(nn::Scope{context, 6} / "a", 7, 3);
  CHECK(bits(context, a.weight.value()) != bits(context, other_seed.weight.value()));
  // Weight and bias are drawn apart.
  const nn::Linear narrow(scope / "a", 1, 21);
  CHECK(bits(context, narrow.weight.value()) != bits(context, narrow.bias.value()));
}

TEST_CASE("paths of scopes", "[unit][init]") {
  auto context = make_context({.threads = 1});
  const nn::Scope root{context};
  CHECK((root / "encoder").path == "encoder");
  CHECK((root / "encoder" / "layer.0").path == "encoder.layer.0");
  CHECK((root / "a" / "b").stream("dropout") == stream_id("a.b", "dropout"));
}

TEST_CASE("normally distributed numbers are cut off at a bound", "[unit]") {
  auto context = make_context({.threads = 1});
  const Tensor all = nn::truncated_normal(context, {300, 300}, 0.5f, draw);
  const Moments found = moments(all);
  CHECK(found.largest <= 1);
  CHECK(found.smallest >= -1);
  CHECK(found.largest > 0.99);
  // The deviation of a normal distribution between -2 and 2: sqrt(1 - 2 * 2 phi(2) / 0.9545).
  check_moments(all, 0.5 * 0.8796256610342398);
  const Tensor plain = nn::normal(context, {300, 300}, 0.5f, draw);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < plain.elements(); ++i) {
    const float value = plain.data<float>()[i];
    if (std::fabs(value) > 1)
      ++changed;
    else
      REQUIRE(all.data<float>()[i] == value);
  }
  CHECK(changed > 3000);  // 4.55 %
  CHECK((bits(context, nn::truncated_normal(context, {300}, 0.5f, draw)) ==
         bits(context, all.slice(0, 0, 1).reshape({300}))));
}

TEST_CASE("Glorot's normal distribution has his variance", "[unit]") {
  auto context = make_context({.threads = 1});
  check_moments(nn::glorot_normal(context, {200, 60, 3, 3}, draw),
                std::sqrt(2.0 / (60 * 9 + 200 * 9)));
}

TEST_CASE("orthogonal weights keep lengths", "[unit]") {
  auto context = make_context({.threads = 1});
  for (const Shape& shape :
       {Shape{40, 40}, Shape{12, 5, 3, 3}, Shape{70, 9}, Shape{1, 6}, Shape{6, 1}}) {
    INFO(to_string(shape));
    const Tensor weight = nn::orthogonal(context, shape, draw, 3);
    const std::size_t rows = shape[0], columns = shape.elements() / rows;
    const bool wide = columns >= rows;
    const std::size_t count = wide ? rows : columns, length = wide ? columns : rows;
    double worst = 0;
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double product = 0;
        for (std::size_t i = 0; i < length; ++i) {
          const auto at = [&](std::size_t row) {
            return static_cast<double>(
                weight.data<float>()[wide ? row * columns + i : i * columns + row]);
          };
          product += at(a) * at(b);
        }
        worst = std::max(worst, std::fabs(product - (a == b ? 9 : 0)));
      }
    // Elements of at most 3, each rounded to fp32 once.
    CHECK(worst < 9 * 2 * 0x1p-24 * std::sqrt(static_cast<double>(length)));
  }
  // No direction is preferred: the first elements of many rows have variance 1 / columns.
  const Tensor big = nn::orthogonal(context, {200, 400}, draw);
  check_moments(big, std::sqrt(1.0 / 400));
  CHECK_THROWS_AS(nn::orthogonal(context, {4}, draw), Error);
}

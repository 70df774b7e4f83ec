// Losses of single elements: against the scalar reference in double, at their ends, every type and
// layout against plain fp32.

#include <soma/kernels/reference/loss.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/floating_dtypes.hpp"
#include "support/matrices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr double u = 0x1p-24;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr ElementLoss smooth_losses[] = {ElementLoss::squared_error,
                                         ElementLoss::binary_cross_entropy_logits};
constexpr ElementLoss bent_losses[] = {ElementLoss::absolute_error, ElementLoss::huber,
                                       ElementLoss::smooth_absolute, ElementLoss::hinge,
                                       ElementLoss::divergence};

// Loss and slope of one element.
struct OneLoss {
  float loss, slope;
};
OneLoss one_loss(const Target& target, ElementLoss loss, float x, float t, float parameter) {
  const std::vector<float> xs{x}, ts{t};
  std::vector<float> losses(1), dx(1);
  ElementLossArgs args{.loss = loss, .rows = 1, .columns = 1, .parameter = parameter};
  args.x = plain(xs, 1);
  args.target = plain(ts, 1);
  args.losses = losses.data();
  args.dx = plain_target(dx, 1);
  target.kernels->loss.element_loss(args);
  target.kernels->loss.element_loss_backward(args);
  return {losses[0], dx[0]};
}

}  // namespace

TEST_CASE("element losses agree with the reference", "[unit][loss]") {
  auto any = make_context();
  RandomFloats random(53, 30), wide(54, 2), positive(55, 1);
  const std::size_t rows = 3, columns = 345, size = rows * columns;
  std::vector<float> x = random.many(size), t = wide.many(size);
  const std::vector<float> factors = positive.many(size);
  for (std::size_t i = 0; i < size; i += 3) t[i] = std::fabs(std::round(t[i] / 2));
  x[0] = 0, x[3] = -100, x[6] = 100, x[7] = -0.0f;
  for (const Target& target : any.targets().targets)
    for (const ElementLoss loss : smooth_losses)
      for (const bool own : {false, true}) {
        std::vector<float> losses(size), dx(size);
        ElementLossArgs args;
        args.loss = loss;
        args.rows = rows;
        args.columns = columns;
        args.x = plain(x, columns);
        args.target = plain(t, columns);
        args.losses = losses.data();
        args.factor = 0.3f;
        if (own) args.factors = factors.data();
        args.dx = plain_target(dx, columns);
        target.kernels->loss.element_loss(args);
        target.kernels->loss.element_loss_backward(args);
        double worst = 0, worst_gradient = 0;
        const bool squared = loss == ElementLoss::squared_error;
        for (std::size_t i = 0; i < size; ++i) {
          const double a = x[i], b = t[i], factor = own ? factors[i] : 0.3f;
          const double wanted = reference::element_loss(loss, a, b);
          // Squared: three roundings. The other: the linear part is one, log(1 + exp) 1.9 ulp (3.8
          // u), their sum another.
          const double smooth = std::log1p(std::exp(-std::fabs(a)));
          const double linear = (a > 0 ? a : 0) - a * b;
          const double allowed =
              squared ? 4 * u * wanted : u * (std::fabs(linear) + 4 * smooth + std::fabs(wanted));
          worst = (std::max)(worst, std::fabs(losses[i] - wanted) / (allowed + 0x1p-149));
          const double slope = reference::element_loss_derivative(loss, a, b);
          // Sigmoid: 2.5 ulp (5 u).
          const double slope_error = squared ? 2 * u * std::fabs(slope)
                                             : u * (5 / (1 + std::exp(-a)) + 2 * std::fabs(slope));
          worst_gradient =
              (std::max)(worst_gradient, std::fabs(dx[i] - slope * factor) /
                                             (std::fabs(factor) * slope_error + 0x1p-149));
        }
        INFO(std::string(target.name)
             << ": loss " << static_cast<int>(loss) << ", own factors " << own);
        CHECK(worst <= 1);
        CHECK(worst_gradient <= 1);
        const std::vector<float> mine = losses, mine_dx = dx;
        any.targets().targets[0].kernels->loss.element_loss(args);
        any.targets().targets[0].kernels->loss.element_loss_backward(args);
        CHECK(same_bits(mine, losses));
        CHECK(same_bits(mine_dx, dx));
      }
}

TEST_CASE("losses with corners agree with the reference", "[unit][loss]") {
  auto any = make_context();
  RandomFloats random(57, 4), wide(58, 4);
  const std::vector<float> x = random.many(200), t = wide.many(200);
  for (const Target& target : any.targets().targets)
    for (const ElementLoss loss : bent_losses)
      for (const float parameter : {0.5f, 1.0f, 3.0f}) {
        INFO(std::string(target.name) << ": loss " << static_cast<int>(loss) << ", " << parameter);
        double worst = 0, worst_slope = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double a = x[i];
          const float other = loss == ElementLoss::divergence ? std::fabs(t[i]) : t[i];
          const double b = other, p = parameter;
          const OneLoss given = one_loss(target, loss, x[i], other, parameter);
          // Cancellation: five roundings of the largest term, 1.8 u of a logarithm.
          const double scale = 1 + std::fabs(a) + std::fabs(b);
          const double most =
              loss == ElementLoss::absolute_error ? scale : scale * scale + p * scale;
          worst = (std::max)(worst, std::fabs(given.loss - reference::element_loss(loss, a, b, p)) /
                                        (6 * u * most / (std::min)(p, 1.0)));
          const double slope = reference::element_loss_derivative(loss, a, b, p);
          worst_slope = (std::max)(
              worst_slope, std::fabs(given.slope - slope) / (4 * u * scale / (std::min)(p, 1.0)));
        }
        CHECK(worst <= 1);
        CHECK(worst_slope <= 1);
      }
}

TEST_CASE("losses with corners at ties and infinities", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    INFO(std::string(target.name));
    const auto of = [&](ElementLoss loss, float x, float t) {
      return one_loss(target, loss, x, t, 2);
    };
    for (const ElementLoss loss :
         {ElementLoss::absolute_error, ElementLoss::huber, ElementLoss::smooth_absolute}) {
      CHECK(of(loss, 3, 3).loss == 0);
      CHECK(of(loss, 3, 3).slope == 0);
      CHECK(of(loss, infinity, 1).loss == infinity);
      CHECK(of(loss, -infinity, 1).loss == infinity);
      const float steepest = loss == ElementLoss::huber ? 2 : 1;
      CHECK(of(loss, infinity, 1).slope == steepest);
      CHECK(of(loss, -infinity, 1).slope == -steepest);
      CHECK(std::isnan(of(loss, infinity, infinity).loss));
      CHECK(std::isnan(of(loss, std::nanf(""), 1).slope));
    }
    CHECK(of(ElementLoss::hinge, 2, 1).loss == 0);  // just at the margin
    CHECK(of(ElementLoss::hinge, 2, 1).slope == 0);
    CHECK(of(ElementLoss::hinge, infinity, 1).loss == 0);
    CHECK(of(ElementLoss::hinge, infinity, -1).loss == infinity);
    CHECK(of(ElementLoss::hinge, infinity, -1).slope == 1);
    CHECK(of(ElementLoss::divergence, -infinity, 0).loss == 0);
    CHECK(of(ElementLoss::divergence, -infinity, 0.5f).loss == infinity);
    CHECK(of(ElementLoss::divergence, 0, 1).loss == 0);
    CHECK(of(ElementLoss::divergence, -3, 0.5f).slope == -0.5f);
  }
}

TEST_CASE("binary cross entropy at its ends", "[unit][loss]") {
  auto any = make_context();
  const float largest = std::numeric_limits<float>::max();
  for (const Target& target : any.targets().targets)
    for (const float x :
         {infinity, largest, 100.0f, 30.0f, 17.0f, 0.0f, -17.0f, -100.0f, -largest, -infinity})
      for (const float t : {0.0f, 1.0f, 0.25f}) {
        INFO(std::string(target.name) << ": x " << x << ", target " << t);
        float loss = -7, dx = -7;
        ElementLossArgs args{
            .loss = ElementLoss::binary_cross_entropy_logits, .rows = 1, .columns = 1};
        const std::vector<float> xs{x}, ts{t};
        args.x = plain(xs, 1);
        args.target = plain(ts, 1);
        args.losses = &loss;
        args.factor = 1;
        std::vector<float> gradient(1);
        args.dx = plain_target(gradient, 1);
        target.kernels->loss.element_loss(args);
        target.kernels->loss.element_loss_backward(args);
        dx = gradient[0];
        const double wanted = reference::element_loss<double>(args.loss, x, t);
        const double slope = reference::element_loss_derivative<double>(args.loss, x, t);
        // Two terms of one sign: 4 u of each. The slope is a difference of the target's share and
        // a tail of 2.5 ulp (5 u), each exact where the other vanishes.
        if (std::isinf(wanted))
          CHECK(loss == infinity);
        else
          CHECK(std::fabs(loss - wanted) <= 4 * u * wanted + 0x1p-149);
        const double tail = 1 / (1 + std::exp(std::fabs(static_cast<double>(x))));
        CHECK(std::fabs(dx - slope) <= u * (5 * tail + std::fabs(slope)) + 0x1p-126);
      }
}

TEST_CASE("element losses take operands and gradients of every type and layout", "[unit][loss]") {
  auto any = make_context();
  const std::size_t rows = 3, columns = 523;
  for (const Target& target : any.targets().targets)
    for (const ElementLoss loss :
         {ElementLoss::squared_error, ElementLoss::binary_cross_entropy_logits,
          ElementLoss::absolute_error, ElementLoss::huber, ElementLoss::smooth_absolute,
          ElementLoss::hinge, ElementLoss::divergence})
      for (const DType dtype : floating_dtypes)
        for (const Layout layout : layouts) {
          RandomFloats random(56);
          const StoredMatrix x = store_matrix(rows, columns, dtype, layout, random);
          const StoredMatrix t =
              store_matrix(rows, columns, DType::bf16, Layout::every_other, random);
          const std::vector<float> factors = random.many(rows * columns);
          std::vector<float> losses(rows * columns), plain_losses(rows * columns),
              plain_dx(rows * columns);
          TargetMatrix dx(rows, columns, dtype, Rounding::stochastic);
          ElementLossArgs args;
          args.loss = loss;
          args.rows = rows;
          args.columns = columns;
          args.x = x.operand;
          args.target = t.operand;
          args.losses = losses.data();
          args.factors = factors.data();
          args.dx = dx.target;
          ElementLossArgs simple = args;
          simple.x = plain(x.values, columns);
          simple.target = plain(t.values, columns);
          simple.losses = plain_losses.data();
          simple.dx = plain_target(plain_dx, columns);
          for (const ElementLossArgs* each : {&args, &simple}) {
            target.kernels->loss.element_loss(*each);
            target.kernels->loss.element_loss_backward(*each);
          }
          INFO(std::string(target.name)
               << ": " << std::string(to_string(dtype)) << ", layout " << static_cast<int>(layout));
          CHECK(same_bits(losses, plain_losses));
          CHECK(dx.holds(plain_dx, columns));
        }
}

TEST_CASE("element losses of nothing write nothing", "[unit][loss]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    target.kernels->loss.element_loss({});
    target.kernels->loss.element_loss_backward({});
  }
  SUCCEED("neither reads nor writes through null pointers");
}

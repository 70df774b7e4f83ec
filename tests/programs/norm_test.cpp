// The program of layer norm beside double, for rows whose numbers are equal or nearly equal and
// rows that sums find hard. (Other rows: element_test.cpp.)

#include <soma/ops/all.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace soma;

namespace {

constexpr double u = 0x1p-24;

struct Row {
  std::vector<float> x, gamma, beta;
};

Outputs on_core(Context& context, const Row& row, float epsilon, neuroncore::ReduceOrder order) {
  neuroncore::CoreOptions options = soma_test::stressed(3);
  options.reduce_order = order;
  const soma_test::OnDevice on(context, options);
  const std::size_t columns = row.x.size();
  const auto tensor = [&](const std::vector<float>& values, const Shape& shape) {
    return Tensor::from(context, std::span<const float>(values), shape);
  };
  return run(context, ops::norm, NormSetting{epsilon, false},
             {tensor(row.x, Shape{1, columns}), tensor(row.gamma, Shape{columns}),
              tensor(row.beta, Shape{columns})});
}

Row row_of(std::size_t columns, float value) {
  Row row{std::vector<float>(columns, value), {}, {}};
  for (std::size_t i = 0; i < columns; ++i) {
    row.gamma.push_back(static_cast<float>(random_word({.seed = 1}, i)) * 0x1p-32f + 0.5f);
    row.beta.push_back(static_cast<float>(random_word({.seed = 2}, i)) * 0x1p-32f - 0.5f);
  }
  return row;
}

// The largest error beside double as a multiple of the bounds in programs/rows/norm.hpp.
double excess(const Row& row, float epsilon, const Outputs& outputs) {
  const auto count = static_cast<double>(row.x.size());
  double mean = 0, size = 0, variance = 0;
  for (const float x : row.x) {
    mean += static_cast<double>(x) / count;
    size += std::fabs(static_cast<double>(x)) / count;
  }
  for (const float x : row.x) variance += std::pow(static_cast<double>(x) - mean, 2) / count;
  const double rstd = 1 / std::sqrt(variance + static_cast<double>(epsilon));
  const double s = 300 + 4 * std::floor(count / 4096);
  const double mean_error = u * (std::fabs(mean) + 1.2 * (s + 2) * std::sqrt(variance));
  const double spread = (variance + std::pow((s + 1) * u * size, 2)) * rstd * rstd;
  const double slope_error = u * (2.5 * (s + 3) * spread + 11);
  double worst = std::fabs(static_cast<double>(outputs[1].span<float>()[0]) - mean) / mean_error;
  for (std::size_t i = 0; i < row.x.size(); ++i) {
    const double gamma = static_cast<double>(row.gamma[i]), beta = static_cast<double>(row.beta[i]);
    const double xhat = (static_cast<double>(row.x[i]) - mean) * rstd, wanted = xhat * gamma + beta;
    const double allowed = gamma * (mean_error * rstd + std::fabs(xhat) * slope_error) +
                           2 * u * (std::fabs(wanted) + std::fabs(beta));
    worst = (std::max)(
        worst, std::fabs(static_cast<double>(outputs[0].span<float>()[i]) - wanted) / allowed);
  }
  return worst;
}

constexpr neuroncore::ReduceOrder orders[] = {neuroncore::ReduceOrder::lanes,
                                              neuroncore::ReduceOrder::ascending};

}  // namespace

TEST_CASE("the program of layer norm gives beta for equal numbers", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  for (const auto order : orders)
    for (const std::size_t columns : {1, 2, 5, 100, 768, 1000, 4097, 9001})
      for (const float value : {0.0f, 0.1f, -0.7f, 3.3f, 1234.567f, 100000.7f, -1e10f, 1e-40f}) {
        const Row row = row_of(columns, value);
        for (const float epsilon : {1e-12f, 0x1p-149f}) {  // the engine's root begins at 2^-116
          const Outputs outputs = on_core(context, row, epsilon, order);
          INFO(columns << " times " << value << ", epsilon " << epsilon);
          const auto y = outputs[0].span<float>();
          CHECK(std::equal(y.begin(), y.end(), row.beta.begin()));
          CHECK(outputs[1].span<float>()[0] == value);
        }
      }
}

TEST_CASE("the program of layer norm keeps its bound for rows that sums find hard",
          "[unit][programs]") {
  auto context = make_context({.threads = 1});
  for (const auto order : orders)
    for (const std::size_t columns : {2, 100, 768, 4097, 9001})
      for (const float value : {0.1f, 1234.567f, -1e10f})
        for (const char* kind : {"some floats apart", "one float apart", "the first is huge"})
          for (const float epsilon : {1e-12f, 1e-5f}) {
            Row row = row_of(columns, value);
            const std::string name = kind;
            for (std::size_t i = 0; i < columns; ++i) {
              const float up = std::nextafter(value, 2 * value);
              if (name == "some floats apart")
                row.x[i] =
                    value + (up - value) * static_cast<float>(random_word({.seed = 3}, i) % 9);
              if (name == "one float apart" && i == columns / 2) row.x[i] = up;
              if (name == "the first is huge") row.x[i] = i == 0 ? 1e6f * value : row.beta[i];
            }
            INFO(columns << " columns, " << name << ", " << value << ", epsilon " << epsilon);
            CHECK(excess(row, epsilon, on_core(context, row, epsilon, order)) <= 1);
          }
}

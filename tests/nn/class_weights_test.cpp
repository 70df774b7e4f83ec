// Cross entropy with weights of classes, against its formula in double.

#include <soma/nn/class_weights.hpp>
#include <soma/nn/task.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr std::size_t rows = 7, classes = 3;
const std::vector<std::int64_t> labels{0, 2, -100, 1, 1, 0, 0};

std::vector<float> logits_of_rows() {
  std::vector<float> logits;
  for (std::size_t i = 0; i < rows * classes; ++i)
    logits.push_back(std::sin(static_cast<float>(i) * 1.7f) * 2);
  return logits;
}

struct Reference {
  double loss = 0;
  std::vector<double> gradient{};
};

// Sum of w[label] * -log softmax[label], over the sum of w[label].
Reference reference(const std::vector<float>& logits, const std::vector<float>& weights) {
  double total = 0, weight_sum = 0;
  Reference result{0, std::vector<double>(logits.size())};
  for (std::size_t row = 0; row < rows; ++row)
    if (labels[row] >= 0) weight_sum += double{weights[static_cast<std::size_t>(labels[row])]};
  for (std::size_t row = 0; row < rows; ++row) {
    if (labels[row] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[row]);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(double{logits[row * classes + c]});
    total += double{weights[label]} * (std::log(sum) - double{logits[row * classes + label]});
    for (std::size_t c = 0; c < classes; ++c)
      result.gradient[row * classes + c] =
          double{weights[label]} / weight_sum *
          (std::exp(double{logits[row * classes + c]}) / sum - (c == label ? 1 : 0));
  }
  result.loss = total / weight_sum;
  return result;
}

data::Batch batch_of(Context& context) {
  data::Batch batch;
  batch.inputs.sequences = Sequences::uniform(context, rows, 8);
  batch.labels = Tensor::from(context, std::span<const std::int64_t>(labels), Shape{rows});
  return batch;
}

struct Found {
  float loss = 0;
  std::vector<float> gradient{};
};

Found loss_of(Context& context, const data::Batch& batch, const std::vector<float>& weights,
              float whole = 1) {
  const std::vector<float> numbers = logits_of_rows();
  Tape tape(context);
  const Var logits = Var::parameter(
      context, Tensor::from(context, std::span<const float>(numbers), Shape{rows, classes}));
  const Var loss = nn::class_loss(tape, logits, batch, weights);
  tape.backward(loss, whole);
  const Tensor gradient = logits.gradient().values;
  const std::span<const float> list = gradient.span<float>();
  return {loss.value().item<float>(), {list.begin(), list.end()}};
}

}  // namespace

TEST_CASE("the loss is the weighted mean, its gradient the weighted one", "[unit]") {
  auto context = make_context();
  const std::vector<float> numbers = logits_of_rows();
  // A few roundings of sums of 7 numbers below 10: 32 units in the last place of 16.
  const double error = 32 * 16 * double{std::numeric_limits<float>::epsilon()};
  for (const std::vector<float>& weights :
       {std::vector<float>{1, 1, 1}, std::vector<float>{0.2f, 3, 11},
        std::vector<float>{0, 2, 1}}) {
    const Reference wanted = reference(numbers, weights);
    data::Batch batch = batch_of(context);
    const Found found = loss_of(context, batch, weights);
    CHECK(std::abs(double{found.loss} - wanted.loss) < error);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      CHECK(std::abs(double{found.gradient[i]} - wanted.gradient[i]) < error);
    // The loss of a part is a sum; the gradient, divided by the weight of the whole batch, has the
    // same bits.
    const double weight = nn::counted_labels(batch, weights);
    batch.part = true;
    const Found part = loss_of(context, batch, weights, 1 / static_cast<float>(weight));
    CHECK(part.loss / static_cast<float>(weight) == found.loss);
    CHECK(part.gradient == found.gradient);
  }
  // Without weights the mean is over labels that count.
  const data::Batch batch = batch_of(context);
  CHECK(nn::counted_labels(batch) == 6);
  CHECK(nn::counted_labels(batch, std::vector<float>{1, 10, 100}) == 3 + 20 + 100);
  const Found plain = loss_of(context, batch, {});
  CHECK(std::abs(double{plain.loss} - reference(numbers, {1, 1, 1}).loss) < error);
  // Where no label has a weight there is nothing to learn.
  const std::vector<std::int64_t> zeros(rows, 0);
  data::Batch nothing = batch_of(context);
  nothing.labels = Tensor::from(context, std::span<const std::int64_t>(zeros), Shape{rows});
  const Found none = loss_of(context, nothing, {0, 1, 1});
  CHECK(none.loss == 0);
  for (const float gradient : none.gradient) CHECK(gradient == 0);
}

TEST_CASE("balanced weights let each class count as much as the others", "[unit]") {
  const std::vector<std::uint64_t> counts{90, 10};
  const std::vector<float> weights = nn::balanced_class_weights(counts);
  CHECK(weights == std::vector<float>{static_cast<float>(100.0 / 180), 5});
  CHECK(nn::balanced_class_weights(std::vector<std::uint64_t>{7, 7, 7}) ==
        std::vector<float>{1, 1, 1});
  CHECK(nn::balanced_class_weights(std::vector<std::uint64_t>{4, 0}) ==
        std::vector<float>{0.5f, 0});
}

TEST_CASE("weights that are none are refused", "[unit]") {
  const auto message = [](const std::vector<float>& weights) {
    return message_of([&] { nn::check_class_weights("task", weights, 2); });
  };
  CHECK(message({}) == "no error");
  CHECK(message({0, 2}) == "no error");
  CHECK(message({1}) ==
        "task: class_weights is 1, wanted none, or one for each of 2 classes [operator.value]");
  CHECK(message({1, -1}) ==
        "task: class_weights[1] is -1.0, wanted a finite number from 0 [operator.value]");
  CHECK(message({1, std::numeric_limits<float>::quiet_NaN()}).ends_with("[operator.value]"));
  CHECK(message({std::numeric_limits<float>::infinity(), 1}).ends_with("[operator.value]"));
  CHECK(message({0, 0}) ==
        "task: class_weights is all 0, wanted one above 0 at least [operator.value]");
}

// Losses with lists of labels: over all classes they are the losses that dense labels give, and a
// sampled one reaches the rows of its set alone.

#include <soma/sparse.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::random_parameter;
using soma_test::random_tensor;

namespace {

constexpr std::size_t batch = 12, width = 24, classes = 5000;  // two panels

data::LabelLists lists(Context& context, const std::vector<std::vector<std::int32_t>>& labels) {
  data::IdLists all;
  for (const std::vector<std::int32_t>& list : labels) all.add(list);
  const std::vector<std::int64_t> offsets(all.offsets.begin(), all.offsets.end());
  return {Tensor::from(context, std::span<const std::int64_t>(offsets), Shape{offsets.size()}),
          Tensor::from(context, std::span<const std::int32_t>(all.ids), Shape{all.ids.size()})};
}
// A label each.
std::vector<std::vector<std::int32_t>> single_labels() {
  std::vector<std::vector<std::int32_t>> labels;
  for (std::size_t i = 0; i < batch; ++i)
    labels.push_back({static_cast<std::int32_t>(i * 431 % classes)});
  return labels;
}

struct Layer {
  explicit Layer(Context& context)
      : h(random_parameter(context, Shape{batch, width}, "h")),
        weight(random_parameter(context, Shape{classes, width}, "w")),
        bias(random_parameter(context, Shape{classes, 1}, "b")) {}
  Var h, weight, bias;
};

struct Result {
  float loss;
  std::vector<std::vector<float>> gradients;
};
template <class Loss>
Result result_of(Context& context, const Loss& loss) {
  const Layer layer(context);
  Tape tape(context);
  const Var value = loss(tape, layer);
  Result result{value.value().data<float>()[0], {}};
  tape.backward(value);
  for (const Var& var : {layer.h, layer.weight, layer.bias})
    result.gradients.push_back(soma_test::gradient_values(context, var));
  return result;
}
double distance(const Result& a, const Result& b) {
  double worst = std::abs(static_cast<double>(a.loss) - static_cast<double>(b.loss)) /
                 (std::max)(1.0, std::abs(static_cast<double>(b.loss)));
  for (std::size_t k = 0; k < a.gradients.size(); ++k) {
    REQUIRE(a.gradients[k].size() == b.gradients[k].size());
    for (std::size_t i = 0; i < a.gradients[k].size(); ++i)
      worst = (std::max)(worst, std::abs(static_cast<double>(a.gradients[k][i]) -
                                         static_cast<double>(b.gradients[k][i])));
  }
  return worst;
}

ClassSet all_classes(Context& context, const std::vector<std::vector<std::int32_t>>& labels) {
  std::vector<std::int64_t> ids(classes);
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return {Tensor::from(context, std::span<const std::int64_t>(ids), Shape{classes}),
          lists(context, labels)};
}

}  // namespace

TEST_CASE("losses with lists of labels pass the checks of operators", "[unit][grad]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const char* const name :
       {"sparse::list_loss", "head_loss", "sparse::bag_logits", "sparse::bag_loss"}) {
    const testing::Report report = testing::check_operator(context, name);
    INFO(report);
    CHECK(report.passed());
  }
}

TEST_CASE("over all classes sampled losses are the dense ones", "[unit][grad]") {
  auto context = make_context({.threads = 2});
  add_sparse(context);
  const auto labels = single_labels();
  std::vector<std::int64_t> flat;
  for (const auto& list : labels) flat.push_back(list.front());
  const Result dense = result_of(context, [&](Tape& tape, const Layer& layer) {
    const Var logits =
        linear(tape, layer.h, layer.weight, reshape(tape, layer.bias, Shape{classes}));
    return cross_entropy(
        tape, logits,
        tape.constant(Tensor::from(context, std::span<const std::int64_t>(flat), Shape{batch})));
  });
  const Result sampled = result_of(context, [&](Tape& tape, const Layer& layer) {
    return sampled_cross_entropy(tape, layer.h, layer.weight, layer.bias,
                                 all_classes(context, labels));
  });
  const Result streamed = result_of(context, [&](Tape& tape, const Layer& layer) {
    return full_softmax_loss(tape, layer.h, layer.weight, reshape(tape, layer.bias, Shape{classes}),
                             lists(context, labels));
  });
  CHECK(distance(sampled, dense) < 1e-6);
  CHECK(distance(streamed, dense) < 1e-6);

  // Several labels, and none: against dense targets.
  auto several = labels;
  several[0] = {1, 2, 4999};
  several[3] = {};
  const Result binary = result_of(context, [&](Tape& tape, const Layer& layer) {
    return sampled_bce(tape, layer.h, layer.weight, layer.bias, all_classes(context, several));
  });
  const Result dense_binary = result_of(context, [&](Tape& tape, const Layer& layer) {
    const Var logits =
        linear(tape, layer.h, layer.weight, reshape(tape, layer.bias, Shape{classes}));
    const Var sum = binary_cross_entropy_with_logits(
        tape, logits, tape.constant(lists(context, several).dense(context, classes)),
        LossReduction::sum);
    return mul(tape, sum, tape.constant(Tensor::full(context, Shape{}, 1.0f / batch)));
  });
  // Gradients are below 1; the loss adds up 5000 numbers near 1.
  CHECK(distance(binary, dense_binary) < 1e-5);
  const Result shared = result_of(context, [&](Tape& tape, const Layer& layer) {
    return sampled_cross_entropy(tape, layer.h, layer.weight, layer.bias,
                                 all_classes(context, several));
  });
  const Result streamed_several = result_of(context, [&](Tape& tape, const Layer& layer) {
    return full_softmax_loss(tape, layer.h, layer.weight, reshape(tape, layer.bias, Shape{classes}),
                             lists(context, several));
  });
  CHECK(distance(shared, streamed_several) < 1e-6);

  // A set for each sample, all of which are all classes.
  const auto each = [&](const std::vector<std::vector<std::int32_t>>& lists_of_labels) {
    return result_of(context, [&](Tape& tape, const Layer& layer) {
      std::vector<std::int32_t> ids(classes);
      std::iota(ids.begin(), ids.end(), 0);
      const std::vector<std::vector<std::int32_t>> sets(batch, ids);
      return sampled_cross_entropy(
          tape, layer.h, layer.weight, layer.bias,
          ClassSets{make_ragged<std::int32_t>(context, sets), lists(context, lists_of_labels)});
    });
  };
  CHECK(distance(each(labels), dense) < 1e-6);
  CHECK(distance(each(several), streamed_several) < 1e-6);
}

TEST_CASE("samples with sets of their own reach the rows of these alone, the same on any threads",
          "[unit][invariance]") {
  const std::vector<std::vector<std::int32_t>> sets = {{1, 7}, {}, {0, 7, 4999}, {7}};
  const std::vector<std::vector<std::int32_t>> labels = {{1}, {}, {0, 2}, {0}};
  std::vector<std::byte> one;
  for (const int threads : {1, 2, 8}) {
    auto context = make_context({.threads = threads});
    add_sparse(context);
    const Var h = random_parameter(context, Shape{4, 300}, "h");
    const Var weight = random_parameter(context, Shape{classes, 300}, "w");
    const Var bias = random_parameter(context, Shape{classes, 1}, "b");
    Tape tape(context);
    const auto loss_of = [&](const auto& own, const auto& lists_of_labels) {
      return sampled_cross_entropy(
          tape, h, weight, bias,
          ClassSets{make_ragged<std::int32_t>(context, own), lists(context, lists_of_labels)});
    };
    const Var loss = loss_of(std::span(sets), labels);
    // By hand: log(sum of exponentials) - mean of the labels' logits, over the sets.
    double wanted = 0;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      std::vector<double> logits;
      double sum = 0;
      for (const std::int32_t id : sets[i]) {
        double logit = static_cast<double>(bias.value().data<float>()[id]);
        for (std::size_t k = 0; k < 300; ++k)
          logit += static_cast<double>(h.value().data<float>()[i * 300 + k]) *
                   static_cast<double>(
                       weight.value().data<float>()[static_cast<std::size_t>(id) * 300 + k]);
        logits.push_back(logit);
        sum += std::exp(logit);
      }
      for (const std::int32_t place : labels[i])
        wanted += (std::log(sum) - logits[static_cast<std::size_t>(place)]) /
                  static_cast<double>(labels[i].size()) / 4;
    }
    // 300 products of numbers below 1 are rounded, by half of a unit of a number below 300.
    CHECK(std::abs(static_cast<double>(loss.value().data<float>()[0]) - wanted) < 300 * 0x1p-20);
    tape.backward(loss);
    for (const Var& var : {weight, bias}) {
      const auto rows = var.gradient().rows.span<std::int64_t>();
      CHECK(std::vector<std::int64_t>(rows.begin(), rows.end()) ==
            std::vector<std::int64_t>{0, 1, 7, 4999});
    }
    const std::vector<std::byte> bits =
        soma_test::gradient_bits(context, {{"h", h}, {"w", weight}, {"b", bias}});
    if (threads == 1) one = bits;
    CHECK(bits == one);
    const auto id_with = [&](const std::vector<std::int32_t>& own, std::int32_t place) {
      return id_of([&] {
        const std::vector<std::vector<std::int32_t>> changed = {own, {}, {}, {}};
        loss_of(std::span(changed), std::vector<std::vector<std::int32_t>>{{place}, {}, {}, {}});
      });
    };
    CHECK(id_with({1, 2}, 1) == "no error");
    CHECK(id_with({1, 2}, 2) == "operator.value");
    CHECK(id_with({1, 2}, -1) == "operator.value");
    CHECK(id_with({1, 5000}, 0) == "operator.value");
    CHECK(id_with({-1, 2}, 0) == "operator.value");
  }
}

TEST_CASE("a sampled loss reaches the rows of its set alone", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const Layer layer(context);
  const std::vector<std::int64_t> chosen = {3, 40, 41, 4999};
  const ClassSet set{Tensor::from(context, std::span<const std::int64_t>(chosen), Shape{4}),
                     lists(context, std::vector<std::vector<std::int32_t>>(batch, {0, 2}))};
  Tape tape(context);
  tape.backward(sampled_cross_entropy(tape, layer.h, layer.weight, layer.bias, set));
  for (const Var& var : {layer.weight, layer.bias}) {
    REQUIRE(var.gradient().sparse());
    const auto rows = var.gradient().rows.span<std::int64_t>();
    CHECK(std::vector<std::int64_t>(rows.begin(), rows.end()) == chosen);
  }
  const auto id_with = [&](const std::vector<std::int32_t>& labels) {
    return id_of([&] {
      list_loss(tape, tape.constant(random_tensor(context, Shape{1, 4}, "z")),
                lists(context, {labels}));
    });
  };
  CHECK(id_with({0, 3}) == "no error");
  CHECK(id_with({4}) == "operator.value");
  CHECK(id_with({-1}) == "operator.value");
  CHECK(id_with({2, 1}) == "operator.value");
  CHECK(id_with({2, 2}) == "operator.value");
}

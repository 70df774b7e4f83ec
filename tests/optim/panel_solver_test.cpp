// The panel solver: weights of a long run against those of another method in double, dual values
// and the gap between objectives, bits on every target and with any number of threads, odd rows,
// and what is refused.

#include <soma/data/order.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/every_target.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

#include "panel_solver.inc"

struct Numbers {
  std::uint64_t state;
  std::uint64_t below(std::uint64_t count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % count;
  }
};

struct Problem {
  std::vector<std::int64_t> begins{0}, label_begins{0};
  std::vector<std::int32_t> features, labels;
  std::vector<float> values;
  std::int64_t feature_count = 40, class_count = 1;

  void add(const std::vector<std::int32_t>& of_row, const std::vector<float>& numbers,
           const std::vector<std::int32_t>& own) {
    features.insert(features.end(), of_row.begin(), of_row.end());
    values.insert(values.end(), numbers.begin(), numbers.end());
    labels.insert(labels.end(), own.begin(), own.end());
    begins.push_back(static_cast<std::int64_t>(features.size()));
    label_begins.push_back(static_cast<std::int64_t>(labels.size()));
  }
  optim::PanelProblem view() const {
    return {begins, features, values, label_begins, labels, feature_count, class_count};
  }
  std::size_t rows() const { return begins.size() - 1; }
};

// The rows and labels of panel_solver.py. A problem of one class has label 1 of two as its own.
Problem drawn(std::uint64_t classes, bool several, std::size_t rows = 60) {
  const std::uint64_t drawn_classes = classes > 1 ? classes : 2;
  Numbers draws{drawn_classes * 2 + (several ? 1 : 0)};
  Problem problem;
  problem.class_count = static_cast<std::int64_t>(classes);
  for (std::size_t row = 0; row < rows; ++row) {
    std::vector<std::int32_t> features;
    std::vector<float> values;
    for (std::int32_t feature = 0; feature < 40; ++feature)
      if (draws.below(5) == 0) {
        features.push_back(feature);
        values.push_back((static_cast<float>(draws.below(65)) - 32) / 32);
      }
    const std::uint64_t count = several ? draws.below(4) : 1;
    std::set<std::int32_t> own;
    for (std::uint64_t i = 0; i < count; ++i)
      own.insert(static_cast<std::int32_t>(draws.below(drawn_classes)));
    if (classes == 1) {
      const bool first = own.count(1) != 0;
      own.clear();
      if (first) own.insert(0);
    }
    problem.add(features, values, {own.begin(), own.end()});
  }
  return problem;
}

bool has(const Problem& problem, std::size_t row, std::size_t of_class) {
  for (auto i = problem.label_begins[row]; i < problem.label_begins[row + 1]; ++i)
    if (problem.labels[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(of_class))
      return true;
  return false;
}

// The objective by its formula, for weight(feature, class). Feature 40 is the bias.
template <class Weight>
double objective(const Problem& problem, const Weight& weight) {
  double sum = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(problem.class_count); ++c) {
    for (std::size_t f = 0; f <= 40; ++f) sum += weight(f, c) * weight(f, c) / 2;
    for (std::size_t row = 0; row < problem.rows(); ++row) {
      double s = weight(40, c);
      for (auto i = problem.begins[row]; i < problem.begins[row + 1]; ++i) {
        const auto k = static_cast<std::size_t>(i);
        s += weight(static_cast<std::size_t>(problem.features[k]), c) *
             static_cast<double>(problem.values[k]);
      }
      const double miss = 1 - (has(problem, row, c) ? s : -s);
      if (miss > 0) sum += miss * miss;
    }
  }
  return sum;
}

double weight_of(const optim::PanelModel& model, std::size_t feature, std::size_t of_class) {
  return static_cast<double>(feature == 40 ? model.bias[of_class]
                                           : model.weight(feature, of_class));
}

std::vector<float> all_of(const optim::PanelSolver& solver) {
  std::vector<float> numbers(solver.model().weights.begin(), solver.model().weights.end());
  numbers.insert(numbers.end(), solver.model().bias.begin(), solver.model().bias.end());
  numbers.insert(numbers.end(), solver.duals().begin(), solver.duals().end());
  return numbers;
}
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Context sparse_context(int threads = 1) { return make_context({.threads = threads}); }

}  // namespace

TEST_CASE("panel solver: two hundred passes reach the least objective") {
  auto context = sparse_context();
  add_sparse(context);
  struct Case {
    std::uint64_t classes;
    bool several;
    std::span<const double> least;
  };
  const Case cases[] = {{1, false, least_1_one},    {3, false, least_3_one},
                        {17, false, least_17_one},  {1, true, least_1_several},
                        {3, true, least_3_several}, {17, true, least_17_several}};
  for (const Case& one : cases) {
    INFO(one.classes << " classes, several labels " << one.several);
    const Problem problem = drawn(one.classes, one.several);
    REQUIRE(one.least.size() == 41 * one.classes);
    const double least =
        objective(problem, [&](std::size_t f, std::size_t c) { return one.least[41 * c + f]; });
    optim::PanelSolver solver(context, problem.view());
    for (int pass = 0; pass < 200; ++pass) solver.pass();
    const double ours = objective(
        problem, [&](std::size_t f, std::size_t c) { return weight_of(solver.model(), f, c); });
    CHECK(ours >= least * (1 - 1e-9));
    CHECK(ours <= least * (1 + 1e-4));
    // The stored weights are the only least ones: 1 is the least curvature, so that a distance d
    // costs d^2 / 2 at least.
    double distance = 0;
    for (std::size_t c = 0; c < one.classes; ++c)
      for (std::size_t f = 0; f <= 40; ++f) {
        const double difference = weight_of(solver.model(), f, c) - one.least[41 * c + f];
        distance += difference * difference;
      }
    CHECK(distance <= 2e-4 * least);
    const auto [primal, dual] = solver.objectives();
    CHECK(std::abs(primal - ours) <= 1e-6 * ours);
    CHECK(std::abs(primal - dual) <= 1e-4 * ours);
  }
}

// Rows like those of texts: length 1, more features than rows, and some features tell the class.
Problem learnable(std::int64_t classes) {
  Problem problem;
  problem.class_count = classes;
  problem.feature_count = 2000;
  const auto drawn_classes = static_cast<std::uint64_t>((std::max)(classes, std::int64_t{2}));
  Numbers draws{drawn_classes};
  for (std::size_t row = 0; row < 300; ++row) {
    const std::uint64_t label = draws.below(drawn_classes);
    std::set<std::int32_t> features;
    for (int i = 0; i < 5; ++i)
      features.insert(static_cast<std::int32_t>(draws.below(20) * drawn_classes + label));
    while (features.size() < 25) features.insert(static_cast<std::int32_t>(draws.below(2000)));
    std::vector<std::int32_t> own;
    if (static_cast<std::int64_t>(label) < classes) own.push_back(static_cast<std::int32_t>(label));
    problem.add({features.begin(), features.end()}, std::vector<float>(25, 0.2f), own);
  }
  return problem;
}

TEST_CASE("panel solver: the gap falls in each pass, and no dual value is negative") {
  auto context = sparse_context();
  add_sparse(context);
  for (const std::int64_t classes : {1, 3, 17}) {
    const Problem problem = learnable(classes);
    optim::PanelSolver solver(context, problem.view());
    optim::PanelSolver::Objectives before = solver.objectives();
    CHECK(before.dual == 0);
    for (int pass = 0; pass < 6; ++pass) {
      solver.pass();
      const optim::PanelSolver::Objectives now = solver.objectives();
      INFO(classes << " classes, pass " << pass << ": " << before.gap() << " to " << now.gap());
      CHECK(now.gap() < before.gap());
      CHECK(now.dual > before.dual);
      CHECK(now.gap() >= -1e-5 * now.primal);
      for (const float a : solver.duals()) CHECK(a >= 0);
      before = now;
    }
    CHECK(before.gap() < 0.03 * before.primal);
  }
}

TEST_CASE("panel solver: one bit pattern for all targets, threads and resumptions") {
  const Problem problem = drawn(37, true, 200);
  std::vector<float> bias_values, row_weights;
  for (std::size_t row = 0; row < problem.rows(); ++row) {
    bias_values.push_back(0.5f + static_cast<float>(row % 7) / 8);
    row_weights.push_back(1 + static_cast<float>(row % 3));
  }
  const optim::PanelOptions options{
      .c = 0.5, .row_weights = row_weights, .bias_values = bias_values, .seed = 7};
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 7}) {
    auto context = sparse_context(threads);
    add_sparse(context);
    optim::PanelSolver solver(context, problem.view(), options);
    for (int pass = 0; pass < 5; ++pass) solver.pass();
    if (expected.empty()) expected = all_of(solver);
    INFO(threads);
    CHECK(same_bits(all_of(solver), expected));
  }
  soma_test::on_every_target([&](Context& context) {
    add_sparse(context);
    optim::PanelSolver solver(context, problem.view(), options);
    for (int pass = 0; pass < 5; ++pass) solver.pass();
    CHECK(same_bits(all_of(solver), expected));
  });
  auto context = sparse_context();
  add_sparse(context);
  for (int stopped = 0; stopped <= 5; ++stopped) {
    optim::PanelSolver first(context, problem.view(), options);
    for (int pass = 0; pass < stopped; ++pass) first.pass();
    optim::PanelSolver second(context, problem.view(), options);
    second.restore(first.passes(), {first.model().weights.data(), first.model().weights.size()},
                   {first.model().bias.data(), first.model().bias.size()}, first.duals());
    for (int pass = stopped; pass < 5; ++pass) second.pass();
    INFO(stopped);
    CHECK(same_bits(all_of(second), expected));
  }
}

TEST_CASE("panel solver: a pass is the formula of its kernel, step by step") {
  for (const std::uint64_t classes : {1u, 3u, 17u}) {
    const Problem problem = drawn(classes, true);
    auto context = sparse_context();
    add_sparse(context);
    optim::PanelSolver solver(context, problem.view(), {.c = 2, .seed = 3});
    std::vector<float> weights(40 * classes), bias(classes), duals(60 * classes);
    const float diagonal = 0.25f;
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      solver.pass();
      for (const std::uint32_t row : data::shuffled_order(60, 3, pass)) {
        const auto begin = static_cast<std::size_t>(problem.begins[row]);
        const auto end = static_cast<std::size_t>(problem.begins[row + 1]);
        double square = 1 + 0.25;
        for (std::size_t i = begin; i < end; ++i)
          square += static_cast<double>(problem.values[i]) * static_cast<double>(problem.values[i]);
        const auto inverse = static_cast<float>(1 / square);
        for (std::size_t c = 0; c < classes; ++c) {
          float chains[4] = {};
          for (std::size_t i = begin; i < end; ++i)
            chains[(i - begin) % 4] = fused_multiply_add(
                problem.values[i],
                weights[static_cast<std::size_t>(problem.features[i]) * classes + c],
                chains[(i - begin) % 4]);
          const float s = (chains[0] + chains[1]) + (chains[2] + chains[3]) + bias[c];
          const float y = has(problem, row, c) ? 1.0f : -1.0f;
          float& a = duals[row * classes + c];
          const float next = (std::max)(
              0.0f, fused_multiply_add(-fused_multiply_add(a, diagonal, y * s - 1), inverse, a));
          const float change = (next - a) * y;
          a = next;
          bias[c] += change;
          for (std::size_t i = begin; i < end; ++i) {
            float& w = weights[static_cast<std::size_t>(problem.features[i]) * classes + c];
            w = fused_multiply_add(problem.values[i], change, w);
          }
        }
      }
    }
    bool equal = true;
    for (std::size_t c = 0; c < classes; ++c) {
      equal = equal && solver.model().bias[c] == bias[c];
      for (std::size_t f = 0; f < 40; ++f)
        equal = equal && solver.model().weight(f, c) == weights[f * classes + c];
    }
    INFO(classes);
    CHECK(equal);
    // Scores of rows have the order of sums of the passes.
    std::vector<float> scores(solver.model().panels * solver.model().width);
    const std::int32_t features[] = {3, 1, 4, 15, 9, 26};
    const float values[] = {1, -2, 3, -4, 5, -6};
    solver.model().score(context, features, values, 0.5f, scores);
    for (std::size_t c = 0; c < classes; ++c) {
      float chains[4] = {};
      for (std::size_t i = 0; i < 6; ++i)
        chains[i % 4] = fused_multiply_add(
            values[i], weights[static_cast<std::size_t>(features[i]) * classes + c], chains[i % 4]);
      CHECK(scores[c] ==
            fused_multiply_add(bias[c], 0.5f, (chains[0] + chains[1]) + (chains[2] + chains[3])));
    }
  }
}

TEST_CASE("panel solver: odd rows") {
  auto context = sparse_context();
  add_sparse(context);
  const auto solved = [&](const Problem& problem) {
    optim::PanelSolver solver(context, problem.view());
    for (int pass = 0; pass < 50; ++pass) solver.pass();
    for (const float number : all_of(solver)) REQUIRE(std::isfinite(number));
    for (const float a : solver.duals()) CHECK(a >= 0);
    return solver.take();
  };
  SECTION("a row without features, and a class without rows") {
    Problem problem;
    problem.class_count = 3;
    problem.add({}, {}, {0});
    problem.add({1}, {1}, {1});
    problem.add({}, {}, {});
    const optim::PanelModel model = solved(problem);
    CHECK(model.weight(1, 1) > 0);
    CHECK(model.bias[2] < 0);
    CHECK(model.weight(0, 0) == 0);
  }
  SECTION("a feature of all rows, with one label: the bias shares with it") {
    Problem problem;
    for (int row = 0; row < 10; ++row) problem.add({7}, {1}, {0});
    const optim::PanelModel model = solved(problem);
    // Least of (w^2 + b^2) / 2 + 10 (1 - w - b)^2: w = b = 20 / 41.
    CHECK(std::abs(model.weight(7, 0) - 20.0f / 41) < 1e-4f);
    CHECK(std::abs(model.bias[0] - 20.0f / 41) < 1e-4f);
  }
  SECTION("equal rows with both labels: their mean") {
    Problem problem;
    for (int row = 0; row < 30; ++row)
      problem.add({2, 3}, {0.5f, 0.5f},
                  row % 3 == 0 ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{});
    const optim::PanelModel model = solved(problem);
    std::vector<float> score(1);
    const std::int32_t features[] = {2, 3};
    const float values[] = {0.5f, 0.5f};
    model.score(context, features, values, 1, score);
    // s minimises s^2 / (2 * 1.5) + 10 (1 - s)^2 + 20 (1 + s)^2: s = -20 / (60 + 2 / 3).
    CHECK(std::abs(score[0] + 20 / (60 + 2.0f / 3)) < 1e-3f);
  }
  SECTION("very large and very small values") {
    for (const float size : {1e10f, 1e-10f}) {
      Problem problem;
      for (int row = 0; row < 20; ++row)
        problem.add({row % 5}, {size},
                    row % 5 < 2 ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{});
      const optim::PanelModel model = solved(problem);
      std::vector<float> score(1);
      const std::int32_t feature[] = {0};
      const float value[] = {size};
      model.score(context, feature, value, 1, score);
      if (size > 1)
        CHECK(std::abs(score[0] - 1) < 0.01f);  // separable: all margins are reached
      else
        CHECK(std::abs(score[0] + 0.195f) < 0.01f);  // the bias alone: -8 / 41
    }
  }
}

TEST_CASE("panel solver: what is refused") {
  auto context = sparse_context();
  const Problem problem = drawn(3, false);
  CHECK(id_of([&] { optim::PanelSolver(context, problem.view()); }) == error_id::no_sparse.name);
  add_sparse(context);
  const auto refused = [&](const auto& change) {
    Problem changed = problem;
    optim::PanelOptions options;
    change(changed, options);
    return id_of([&] { optim::PanelSolver(context, changed.view(), options); }) ==
           error_id::operator_value.name;
  };
  const float nan = std::nanf("");
  const std::vector<float> zeros(60), few(59, 1.0f), nans(60, nan);
  CHECK(refused([](Problem&, optim::PanelOptions& o) { o.c = 0; }));
  CHECK(refused([](Problem&, optim::PanelOptions& o) { o.c = std::nan(""); }));
  CHECK(refused([&](Problem&, optim::PanelOptions& o) { o.row_weights = zeros; }));
  CHECK(refused([&](Problem&, optim::PanelOptions& o) { o.row_weights = few; }));
  CHECK(refused([&](Problem&, optim::PanelOptions& o) { o.bias_values = few; }));
  CHECK(refused([&](Problem&, optim::PanelOptions& o) { o.bias_values = nans; }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.class_count = 0; }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.class_count = 2; }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.feature_count = 39; }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.features[5] = -1; }));
  CHECK(refused([&](Problem& p, optim::PanelOptions&) { p.values[5] = nan; }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.values.pop_back(); }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { std::swap(p.begins[3], p.begins[4]); }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.label_begins.pop_back(); }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p = Problem(); }));
  CHECK(refused([](Problem& p, optim::PanelOptions&) { p.add({}, {}, {2, 1}); }));
  optim::PanelSolver solver(context, problem.view());
  const auto& model = solver.model();
  const std::vector<float> negative(solver.duals().size(), -1.0f);
  CHECK(id_of([&] {
          solver.restore(1, {model.weights.data(), model.weights.size()},
                         {model.bias.data(), model.bias.size()}, negative);
        }) == error_id::operator_value.name);
  CHECK(id_of([&] {
          solver.restore(1, {}, {model.bias.data(), model.bias.size()}, solver.duals());
        }) == error_id::operator_value.name);
  StopFlag stop;
  stop.request();
  CHECK(id_of([&] { solver.pass(&stop); }) == error_id::stopped.name);
}

TEST_CASE("panel solver: it takes the memory that it says") {
  for (const std::uint64_t classes : {1u, 3u, 17u}) {
    const Problem problem = drawn(classes, false, 5000);
    auto context = sparse_context();
    add_sparse(context);
    const std::uint64_t before = context.heap().bytes_in_use();
    const optim::PanelSolver solver(context, problem.view());
    const std::uint64_t said = optim::PanelSolver::memory_bytes(5000, 40, classes);
    const std::uint64_t taken = context.heap().bytes_in_use() - before;
    INFO(classes << ": " << taken << " of " << said);
    CHECK(taken <= said + 1024);
    CHECK(taken + 5000 * 4 + 1024 >= said);  // the order of a pass
  }
}

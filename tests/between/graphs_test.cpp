// Random programs of operators (soma/testing/between.hpp): the fixed seed, and the generator.

#include <soma/neuroncore.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
#include <soma/testing.hpp>
#include <soma/testing/between.hpp>

#include "between/guard.hpp"
#include "catch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace {

using soma::testing::Between;
using soma::testing::BetweenReport;

// Programs on a core, in one mode of its device. Transfers end as late as they may.
void add_core(Between& between, const std::string& name, const soma::RunOptions& run,
              std::uint64_t stress) {
  between.add_place("core:" + name, 4, [=](const std::function<void(soma::Context&)>& function) {
    auto context = soma::make_context({.threads = 1});
    soma::add_sparse(context);
    auto core = soma::neuroncore::make_core(
        context, soma::neuroncore::trn1(),
        {.uninitialised = soma::neuroncore::Uninitialised::error, .dma_stress_seed = stress});
    auto device = soma::neuroncore::make_device(core, run);
    context.set_device(&device);
    function(context);
    context.set_device(nullptr);
  });
}

// Ahead of time: a dry run makes the executables, and another core runs them. It compiles what the
// dry run refused, and graphs that depend on numbers which a dry run does not have.
struct Ahead {
  std::uint64_t loaded = 0, compiled = 0;
};
void add_ahead(Between& between, Ahead& ahead) {
  between.add_place("core:ahead", 4, [&ahead](const std::function<void(soma::Context&)>& function) {
    auto context = soma::make_context({.threads = 1});
    soma::add_sparse(context);
    auto dry_core =
        soma::neuroncore::make_core(context, soma::neuroncore::trn1(), {.compute = false});
    auto dry = soma::neuroncore::make_device(dry_core, {.mode = soma::RunMode::lazy});
    context.set_device(&dry);
    function(context);
    context.set_device(nullptr);
    auto core = soma::neuroncore::make_core(
        context, soma::neuroncore::trn1(),
        {.uninitialised = soma::neuroncore::Uninitialised::error, .dma_stress_seed = 3});
    auto device = soma::neuroncore::make_device(core, {.mode = soma::RunMode::lazy});
    for (const soma::Executable& executable : dry.executables().executables())
      device.executables().add(executable);
    context.set_device(&device);
    function(context);
    context.set_device(nullptr);
    ahead.loaded += device.executables().hits();
    ahead.compiled += device.executables().compilations();
  });
}

BetweenReport run_graphs(std::uint64_t seed, std::size_t programs, bool cores,
                         Ahead* ahead = nullptr) {
  soma_test::Guard guard(10 + 20);  // a program, and its reduction
  auto context = soma::make_context({.threads = 1});
  soma::add_sparse(context);
  Between between({.threads = 1}, context.operators());
  between.prepare([&](soma::Context& own) { soma::share_sparse(context, own); });
  Ahead unseen;
  if (cores) {
    add_core(between, "eager", {}, 0);
    add_core(between, "late", {}, 7);
    add_core(between, "jit", {.mode = soma::RunMode::jit}, 0);
    add_core(between, "lazy", {.mode = soma::RunMode::lazy}, 5);
    add_ahead(between, ahead != nullptr ? *ahead : unseen);
  }
  between.before_each([&](const std::string& text) { guard.begins(text); });
  BetweenReport report;
  for (std::size_t i = 0; i < programs; ++i)
    if (static_cast<int>(report.failures.size()) < soma_test::most_failures())
      between.run(seed, 1, report, i);
  return report;
}

// FNV-1a of a text.
std::uint64_t hash_of(const std::string& text, std::uint64_t hash) {
  for (const char character : text)
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3u;
  return hash;
}

// y = x / 2, and mistakes of it.
enum class Mistake { none, strides, gradient, sum };
template <Mistake mistake>
void halve(const soma::OperatorCall& call) {
  const soma::Tensor x =
      mistake == Mistake::strides ? call.inputs[0] : contiguous(call.context, call.inputs[0]);
  const float* from = x.data<float>();
  float* to = call.outputs[0].mutable_data<float>();
  for (std::size_t i = 0; i < x.elements(); ++i)
    to[i] = from[i] * (mistake == Mistake::sum && i > 20 ? 0.51f : 0.5f);
}
template <Mistake mistake>
soma::Operator halving(const char* name) {
  return {.name = name,
          .shape =
              [](const soma::ShapeCall& call) {
                if (call.inputs[0].dtype() != soma::DType::fp32)
                  soma::fail(soma::error_id::tensor_dtype, "halve", "x", call.inputs[0].describe(),
                             "fp32");
                call.outputs[0] = {call.inputs[0].shape(), soma::DType::fp32};
              },
          .host = &halve<mistake>,
          .gradient =
              [](const soma::GradientCall& call) {
                const float factor = mistake == Mistake::gradient ? 1.0f : 0.5f;
                const soma::Tensor dy = contiguous(call.context, call.output_gradients[0]);
                const soma::Tensor dx = soma::Tensor::empty(call.context, dy.shape());
                for (std::size_t i = 0; i < dy.elements(); ++i)
                  dx.mutable_data<float>()[i] = dy.data<float>()[i] * factor;
                call.input_gradients[0].values = dx;
              },
          .samples =
              [] {
                soma::OperatorSamples samples;
                for (const soma::Shape& shape : {soma::Shape{7}, soma::Shape{3, 24}})
                  samples.samples.push_back(
                      {.name = "halve", .inputs = {{.shape = shape, .low = -9, .high = 9}}});
                samples.reference = [](const soma::Sample&,
                                       const std::vector<soma::ReferenceTensor>& inputs) {
                  std::vector<soma::ReferenceTensor> y{inputs[0]};
                  for (double& value : y[0].values) value /= 2;
                  return y;
                };
                return samples;
              }};
}
template <Mistake mistake>
BetweenReport run_with(const char* name) {
  auto context = soma::make_context({.threads = 1});
  context.operators().add(halving<mistake>(name));
  Between between({.threads = 1}, context.operators());
  BetweenReport report;
  between.run(3, 500, report);
  return report;
}

}  // namespace

TEST_CASE("between: 1,500 graphs of a fixed seed", "[between][fixed][graphs]") {
  const BetweenReport report = run_graphs(1, 1500, false);
  INFO(report);
  CHECK(report.passed());
  CHECK(report.programs == 1500);
  CHECK(report.refused < 30);
}

TEST_CASE("between: 400 graphs of a fixed seed on a core", "[between][fixed][cores]") {
  Ahead ahead;
  const BetweenReport report = run_graphs(2, 400, true, &ahead);
  INFO(report);
  CHECK(report.passed());
  INFO(ahead.loaded << " loaded, " << ahead.compiled << " compiled");
  CHECK(ahead.loaded >= 400);
  CHECK(ahead.compiled == 0);
}

TEST_CASE("between: graphs of today's seed", "[between][slow]") {
  const std::uint64_t seed = soma_test::slow_seed();
  const BetweenReport report = run_graphs(seed, soma_test::slow_programs(60000), true);
  INFO("seed " << seed);
  INFO(report);
  CHECK(report.passed());
}

TEST_CASE("between: a seed gives the same programs everywhere", "[between]") {
  auto context = soma::make_context({.threads = 1});
  Between between({.threads = 1}, context.operators());
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (std::size_t i = 0; i < 200; ++i) hash = hash_of(between.text(7, i), hash);
  CHECK(hash == 0xdac51755e98b66b4u);
}

TEST_CASE("between: each pair of neighbours comes in 2,500 programs", "[between]") {
  auto context = soma::make_context({.threads = 1});
  Between between({.threads = 1}, context.operators());
  std::string missing;
  for (const std::string& pair : between.missing_pairs(1, 2500)) missing += pair + "\n";
  CHECK(missing == "");
}

TEST_CASE("between: texts are read back", "[between]") {
  auto context = soma::make_context({.threads = 1});
  Between between({.threads = 1}, context.operators());
  for (std::size_t i = 0; i < 200; ++i) {
    const BetweenReport report = between.replay(between.text(5, i));
    INFO(between.text(5, i) << report);
    CHECK(report.passed());
    CHECK(report.checks > 1);
  }
  CHECK_THROWS_WITH(between.replay("a0 fp33 [2] -1 1 draw 0\n"),
                    "Between::replay: line is a0 fp33 [2] -1 1 draw 0, wanted a line of a "
                    "program's text [operator.value]");
  CHECK_THROWS_AS(between.replay("a0 fp32 [2] -1 1 draw 0 view slice 0 1 4 1\n"), soma::Error);
}

TEST_CASE("between: a bag without weights beside sequences of its table, run twice", "[between]") {
  auto context = soma::make_context({.threads = 1});
  soma::add_sparse(context);
  Between between({.threads = 1}, context.operators());
  between.prepare([&](soma::Context& own) { soma::share_sparse(context, own); });
  const BetweenReport report = between.replay(
      "a0 fp32 [8,80] parameter -1 1 draw 1\n"
      "a1 int64 [143] 0 7 draw 2\n"
      "a2 fp32 [8,80] parameter -1 1 draw 3\n"
      "n0 sparse::embedding_bag(a0,a1,-) sample=3 lengths=3,140 mode=1\n"
      "n1 sequence_pool(a0) lengths=7,1 largest=1\n"
      "n2 copy(a2)\n"
      "gradient n2 fp32 [8,80] -1 1 draw 4\n"
      "where recompute\n");
  INFO(report);
  CHECK(report.passed());
  CHECK(report.refused == 0);
  CHECK(report.checks > 1);
}

TEST_CASE("between: bags of a table that bags have made", "[between]") {
  auto context = soma::make_context({.threads = 1});
  soma::add_sparse(context);
  Between between({.threads = 1}, context.operators());
  between.prepare([&](soma::Context& own) { soma::share_sparse(context, own); });
  const BetweenReport report = between.replay(
      "a0 fp32 [6,5] parameter -1 1 draw 1\n"
      "a1 int64 [4] 0 5 draw 2\n"
      "a2 int32 [3] 0 1 draw 3\n"
      "n0 sparse::embedding_bag(a0,a1) sample=1 lengths=3,1\n"
      "n1 sparse::embedding_bag(n0,a2) sample=1 lengths=0,2,1\n"
      "gradient n1 fp32 [3,5] -1 1 draw 4\n"
      "where recompute threads2\n");
  INFO(report);
  CHECK(report.passed());
  CHECK(report.refused == 0);
}

TEST_CASE("between: an operator of a host joins by its samples", "[between]") {
  const BetweenReport report = run_with<Mistake::none>("my::halve");
  INFO(report);
  CHECK(report.passed());
}

TEST_CASE("between: mistakes of a host's operator are found and made small", "[between]") {
  const auto check = [](const BetweenReport& report, const std::string& kind) {
    INFO(report);
    REQUIRE(report.failures.size() >= 3);
    for (const soma::testing::BetweenFailure& failure : report.failures) {
      CHECK(failure.kind == kind);
      CHECK(failure.calls <= 4);
      CHECK(failure.program.find("my::halve") != std::string::npos);
      CHECK(failure.test().find(failure.program) != std::string::npos);
    }
  };
  check(run_with<Mistake::strides>("my::halve_strides"), "results");
  check(run_with<Mistake::gradient>("my::halve_gradient"), "gradients");
  check(run_with<Mistake::sum>("my::halve_sum"), "results");
}

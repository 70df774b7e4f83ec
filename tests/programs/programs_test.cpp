// Every program against its operator's reference and host kernel: all samples, forward and
// backward, every type of the machine, and whatever must not change the bits.

#include <soma/sparse.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using soma_test::Table;
namespace check = soma::testing::detail;

namespace {

struct Case {
  int threads = 1;
  neuroncore::CoreOptions core = soma_test::strict;
  neuroncore::Machine machine = soma_test::at_once();
};

// A sample on the device; what the device did, by operator.
check::Result on_device(const Operator& op, const Sample& sample, const check::Variation& variation,
                        const Case& how, std::vector<NeuronCoreDevice::Count>* counts = nullptr) {
  auto context = make_context({.threads = how.threads});
  add_sparse(context);
  const soma_test::OnDevice on(context, how.core, {}, how.machine);
  check::Result result = check::run_sample(context, op, sample, variation);
  if (counts != nullptr) *counts = on.device().counts();
  return result;
}

// The tolerance that the executed programs may add to the bound of an operator and its gradient.
struct Bound {
  double error = 1, roundings = 0;
};
Bound bound_of(const std::vector<NeuronCoreDevice::Count>& counts) {
  Bound bound;
  for (const NeuronCoreDevice::Count& count : counts)
    if (count.program != nullptr) {
      bound.error = (std::max)(bound.error, count.program->error);
      bound.roundings += count.program->roundings;
    }
  return bound;
}

void expect_close(const std::string& what, const check::Result& result,
                  const std::vector<ReferenceTensor>& outputs,
                  const std::vector<ReferenceTensor>& gradients, const Sample& sample,
                  const Bound& bound, DType inner) {
  const double rounding = bound.roundings * check::rounding_of(inner);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    INFO(what << ", output " << i);
    REQUIRE(result.outputs[i].shape == outputs[i].shape);
    const DType type = result.output_types[i];
    CHECK(check::compare(result.outputs[i].values, outputs[i].values,
                         bound.error * sample.error + rounding + check::rounding_of(type),
                         type) == "");
  }
  for (std::size_t i = 0; i < gradients.size() && i < result.gradients.size(); ++i) {
    if (!result.gradients[i].defined) continue;
    INFO(what << ", gradient " << i);
    CHECK(check::compare(
              result.gradients[i].values, gradients[i].values,
              bound.error * sample.gradient_error + rounding + check::difference_error) == "");
  }
}

void check_sample(Context& context, const Operator& op, const OperatorSamples& samples,
                  const Sample& sample, const check::Variation& variation, const Case& how = {}) {
  const std::string what = std::string(to_string(variation.dtype)) + " " + sample.name;
  std::vector<NeuronCoreDevice::Count> counts;
  const check::Result host = check::run_sample(context, op, sample, variation);
  const check::Result device = on_device(op, sample, variation, how, &counts);
  INFO(what);
  if (!host.refused.empty()) {
    CHECK(!device.refused.empty());
    return;
  }
  REQUIRE(device.refused == "");
  const std::vector<ReferenceTensor> inputs = check::reference_inputs(sample, variation);
  std::vector<ReferenceTensor> gradients;
  for (std::size_t i = 0; variation.dtype == DType::fp32 && i < device.gradients.size(); ++i)
    gradients.push_back(device.gradients[i].defined
                            ? ReferenceTensor{inputs[i].shape, check::difference_quotients(
                                                                   samples, sample, inputs, i)}
                            : ReferenceTensor{});
  const Bound bound = bound_of(counts);
  expect_close("reference", device, samples.reference(sample, inputs), gradients, sample, bound,
               variation.dtype);
  // Both err by at most their bound.
  Bound both = bound;
  both.error += 1;
  both.roundings += 1;
  expect_close("host", device, host.outputs, {}, sample, both, variation.dtype);
}

// It has no program, or one that refuses the sample: the core has neither integer sums nor integers
// of 64 bits.
bool only_on_host(const Operator& op) {
  constexpr std::string_view names[] = {"quantize",
                                        "sparse::list_loss",
                                        "sparse::bag_logits",
                                        "sparse::bag_loss",
                                        "power",
                                        "gather",
                                        "top_k",
                                        "average_pool",
                                        "batch_norm",
                                        "nll_loss",
                                        "cosine_loss",
                                        "cumsum",
                                        "resize",
                                        "scatter_add",
                                        "sequence_pool",
                                        "rnn",
                                        "ctc_loss",
                                        "gated",
                                        "head_loss"};
  return std::find(std::begin(names), std::end(names), op.name) != std::end(names);
}
bool only_on_host(const Operator& op, const Sample& sample) {
  if (op.name == "cast") return sample.inputs[0].dtype == DType::int64;
  // With a mask, queries that are other rows, or keys that several heads share.
  if (op.name == "attention")
    return !sample.inputs[2].left_out || !sample.inputs[3].left_out ||
           sample.attributes.as<AttentionSetting>().key_value_heads != 0;
  // Sequences that go on from earlier rows.
  if (op.name == "rotary") return sample.inputs.size() > 1;
  return op.name == "matmul" && sample.attributes.as<MatmulSetting>().output == DType::int32;
}

// Calls check(op, samples, sample) for all samples that programs compute; an operator is a section.
template <class Check>
void for_samples(Context& context, const Check& check) {
  for (const Operator* op : context.operators().all()) {
    if (!op->has_samples() || op->makes_views || only_on_host(*op)) continue;
    const OperatorSamples samples = soma::testing::samples_of(*op);
    if (samples.reference == nullptr) continue;
    DYNAMIC_SECTION(op->name) {
      for (const Sample& sample : samples.samples)
        if (!only_on_host(*op, sample)) check(*op, samples, sample);
    }
  }
}

}  // namespace

static void samples_of_programs(Table table) {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for_samples(context, [&](const Operator& op, const auto& samples, const Sample& sample) {
    for (const DType dtype : entries(table, {DType::fp32, DType::bf16, DType::fp8_e4m3},
                                     {DType::fp32, DType::tf32, DType::fp16, DType::bf16,
                                      DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2}))
      check_sample(context, op, samples, sample, {.dtype = dtype});
  });
}

TEST_CASE("a program computes what its operator says", "[unit][grad]") {
  samples_of_programs(Table::part);
}
TEST_CASE("a program computes what its operator says: all", "[slow][grad]") {
  samples_of_programs(Table::whole);
}

// One type of each width: the machines differ in what passes PSUM, and in what copies keep. fp32,
// whose gradients take most of the time, on the last one only, which has all that is new.
static void samples_on_machines(Table table) {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for_samples(context, [&](const Operator& op, const auto& samples, const Sample& sample) {
    for (const neuroncore::Machine& machine : {neuroncore::trn2(), neuroncore::trn3()})
      for (const DType dtype :
           entries(table, {DType::bf16}, {DType::fp32, DType::bf16, DType::fp8_e5m2}))
        if (dtype != DType::fp32 || machine.has(neuroncore::Feature::matmul_mx))
          check_sample(context, op, samples, sample, {.dtype = dtype}, {.machine = machine});
  });
}

TEST_CASE("a program computes the same on every machine", "[unit][grad]") {
  samples_on_machines(Table::part);
}
TEST_CASE("a program computes the same on every machine: all", "[slow][grad]") {
  samples_on_machines(Table::whole);
}

TEST_CASE("the operators without a program are known", "[unit]") {
  // Any format's rounding; powers, of which GpSimd's are not accurate enough; choices by numbers;
  // and what has no program yet.
  const std::set<std::string_view> wanted{"adafactor step", "average_pool",
                                          "batch_norm",     "cosine_loss",
                                          "cumsum",         "gather",
                                          "nll_loss",       "power",
                                          "power backward", "quantize",
                                          "resize",         "rms step",
                                          "scatter_add",    "sequence_pool",
                                          "top_k",          "rnn",
                                          "rnn backward",   "ctc_loss",
                                          "gated",          "gated backward",
                                          "head_loss",      "head_loss backward"};
  auto context = make_context({.threads = 1});
  const soma_test::OnDevice on(context);
  std::set<std::string_view> found;
  for (const Operator* op : context.operators().all())
    if (!op->makes_views && !op->composite && on.device().program_of(*op) == nullptr)
      found.insert(op->name);
  CHECK(found == wanted);
}

TEST_CASE("a device reads nothing on the host for an operator that has a program", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const Operator* op : context.operators().all()) {
    if (!op->has_samples() || op->makes_views || only_on_host(*op)) continue;
    DYNAMIC_SECTION(op->name) {
      for (const Sample& sample : soma::testing::samples_of(*op).samples) {
        if (only_on_host(*op, sample)) continue;
        INFO(sample.name);
        auto dry = make_context({.threads = 1});
        add_sparse(dry);
        const soma_test::OnDevice on(dry, {.compute = false});
        check::run_sample(dry, *op, sample, {});
        CHECK(on.device().host_reads() == 0);
      }
    }
  }
}

static void program_invariances(Table table) {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  for (const Operator* op : context.operators().all()) {
    if (!op->has_samples() || op->makes_views || only_on_host(*op)) continue;
    DYNAMIC_SECTION(op->name) {
      for (const Sample& sample : soma::testing::samples_of(*op).samples) {
        if (only_on_host(*op, sample)) continue;
        INFO(sample.name);
        const check::Result plain = on_device(*op, sample, {}, {});
        CHECK(check::same(plain, on_device(*op, sample, {.gaps = true}, {})));
        for (const int threads : entries(table, {7}, {2, 7}))
          CHECK(check::same(plain, on_device(*op, sample, {}, {.threads = threads})));
        for (const std::uint64_t seed : entries<std::uint64_t>(table, {1}, {1, 2, 3})) {
          CHECK(
              check::same(plain, on_device(*op, sample, {}, {.core = soma_test::stressed(seed)})));
        }
      }
    }
  }
}

TEST_CASE("nothing that must not changes the bits of a program", "[unit][invariance]") {
  program_invariances(Table::part);
}
TEST_CASE("nothing that must not changes the bits of a program: all", "[slow][invariance]") {
  program_invariances(Table::whole);
}

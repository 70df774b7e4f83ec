// The properties of a run, besides its settings, that decide its bits.

#include <soma/neuroncore.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/soma.hpp>
#include <soma/state/arithmetic.hpp>

#include "catch.hpp"

#include <string>

using namespace soma;

namespace {

std::string device_of(const Context& context) {
  Record record;
  add_arithmetic(record, context);
  return std::string(record.text("soma.device"));
}

}  // namespace

TEST_CASE("who computes is part of the arithmetic, and who looks on is not", "[unit]") {
  auto context = make_context({.threads = 1});
  CHECK(device_of(context) == "host");
  {
    const Profiler profiler(context);
    CHECK(device_of(context) == "host");
  }
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  auto device = neuroncore::make_device(core);
  auto study = neuroncore::make_core(
      context, neuroncore::trn1(),
      {.everything_fp32 = true, .dma_stress_seed = 3, .sum_order = neuroncore::SumOrder::wide});
  auto other = neuroncore::make_device(study);
  context.set_device(&device);
  const std::string name(core.machine().name);
  CHECK(device_of(context) == name);
  {
    const Profiler profiler(context);
    CHECK(device_of(context) == name);
  }
  // The description leaves out settings that change no bit.
  context.set_device(&other);
  CHECK(device_of(context) == name + " everything_fp32=1 sum_order=2");
  context.set_device(nullptr);
}

// Two cores as one: a sum of two halves, what each waits for, and its time.

#include <soma/neuroncore/clock/timeline.hpp>
#include <soma/neuroncore/logical_core.hpp>

#include "neuroncore/test_core.hpp"

#include <cstddef>
#include <vector>

using namespace soma_test;
using Catch::Matchers::WithinRel;
using soma::DType;

TEST_CASE("two cores share tensors, and meet at a barrier", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const nc::Machine machine = nc::trn2();
  auto first = nc::make_core(context, machine, {.record = true}),
       second = nc::make_core(context, machine, {.record = true});
  nc::LogicalCore both(first, second);
  const auto x = soma::Tensor::full(context, {256, 64}, 1.5f);
  const auto sums = soma::Tensor::empty(context, {256, 1}),
             total = soma::Tensor::empty(context, {2, 1});
  const auto halves = [&](nc::Core& core, std::size_t program_id) {
    const nc::Core::Scope scope(core);
    const nc::Tile rows = core.sbuf.tile(DType::fp32, 128, 64),
                   sum = core.sbuf.tile(DType::fp32, 128, 1);
    const std::size_t begin = 128 * program_id;
    core.dma.load(rows, nc::hbm(x).rows(begin, begin + 128));
    // The second core has twice as much to do.
    for (std::size_t i = 0; i <= program_id; ++i)
      core.vector.tensor_reduce(sum, rows, nc::Alu::add);
    core.dma.store(nc::hbm_target(sums).rows(begin, begin + 128), sum);
  };
  // Each core needs the sums of the other.
  const auto add = [&](nc::Core& core, std::size_t program_id) {
    const nc::Core::Scope scope(core);
    const nc::Tile other = core.sbuf.tile(DType::fp32, 128, 1),
                   one = core.sbuf.tile(DType::fp32, 1, 1);
    const std::size_t begin = 128 * (1 - program_id);
    core.dma.load(other, nc::hbm(sums).rows(begin, begin + 128));
    core.gpsimd.partition_reduce(one, other, nc::Alu::add);
    core.dma.store(nc::hbm_target(total).rows(program_id, program_id + 1), one);
  };
  both.run(halves);
  const double longer = nc::timeline(second.recorded(), machine).ns;
  CHECK(longer > nc::timeline(first.recorded(), machine).ns);
  both.core_barrier();
  both.run(add);
  CHECK(total.view<float>()(0, 0) == 128 * 64 * 1.5f);
  CHECK(total.view<float>()(1, 0) == 128 * 64 * 1.5f);
  nc::Machine running = machine;
  running.launch_ns = 0;  // they are launched once
  const double behind = nc::timeline(first.recorded(), running).ns;
  CHECK_THAT(both.ns(), WithinRel(longer + 100 / 0.96 + behind, 1e-12));
  CHECK(both.ns() == both.ns());
}

TEST_CASE("a machine without logical cores has none", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  auto first = nc::make_core(context, nc::trn1()), second = nc::make_core(context, nc::trn1());
  CHECK_THAT(message_of([&] { nc::LogicalCore both(first, second); }),
             contains("machine is trn1") && contains("[neuroncore.instance]"));
  auto v3 = nc::make_core(context, nc::trn2());
  CHECK(id_of([&] { nc::LogicalCore both(v3, v3); }) == "neuroncore.instance");
  CHECK(id_of([&] { nc::LogicalCore both(v3, first); }) == "neuroncore.instance");
}

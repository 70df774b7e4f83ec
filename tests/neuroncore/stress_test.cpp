// stress(): the first difference between runs whose transfers end at other times.

#include "neuroncore/test_core.hpp"

#include <vector>

using namespace soma_test;
using nc::Tile;
using soma::DType;

namespace {

// x doubled, and x once more.
std::vector<soma::Tensor> doubled(soma::Context& context, std::uint64_t seed, bool wait) {
  auto core = nc::make_core(context, nc::trn1(),
                            {.synchronization = nc::Synchronization::manual,
                             .check_races = false,
                             .dma_stress_seed = seed});
  const soma::Tensor x = soma::Tensor::full(context, {16, 8}, 0.5f);
  const soma::Tensor y = soma::Tensor::zeros(context, {16, 8});
  const Tile tile = core.sbuf.tile(DType::fp32, 16, 8);
  nc::Semaphore loaded = core.semaphore(), computed = core.semaphore();
  core.dma.load(tile, nc::hbm(x)).signal(loaded);
  if (wait) core.vector.wait(loaded, 16);
  core.vector.tensor_scalar(tile, tile, nc::Alu::multiply, 2).signal(computed);
  core.dma.queue(1).wait(computed, 1).store(nc::hbm_target(y), tile);
  core.finish();
  return {x, y};
}

}  // namespace

TEST_CASE("a program with all its waits gives the same bits under stress", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  int runs = 0;
  const nc::StressResult result = nc::stress(12, [&](std::uint64_t seed) {
    ++runs;
    return doubled(context, seed, true);
  });
  CHECK(result.equal());
  CHECK(runs == 13);
  CHECK(result.text() == "all runs give the same bits");
}

TEST_CASE("the first difference under stress is named", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const nc::StressResult result =
      nc::stress(20, [&](std::uint64_t seed) { return doubled(context, seed, false); });
  REQUIRE(!result.equal());
  CHECK(result.seed <= 20);
  CHECK(result.tensor == 1);
  CHECK(result.element == 0);
  // The load came last: x itself was stored, or what nobody had written.
  CHECK(result.wanted == "1 (0x3f800000)");
  CHECK_THAT(result.text(), contains(": element 0 of tensor 1 is ") &&
                                contains(", 1 (0x3f800000) where transfers end at once"));
}

TEST_CASE("bits of every type are compared", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const auto differ = [&](const soma::Tensor& first, const soma::Tensor& other) {
    return nc::stress(1,
                      [&](std::uint64_t seed) { return std::vector{seed == 0 ? first : other}; });
  };
  const auto tensor = [&](std::int32_t value) {
    return soma::Tensor::from<std::int32_t>(context, {1, 2, value}, {3});
  };
  CHECK(differ(tensor(3), tensor(3)).equal());
  CHECK(differ(tensor(3), tensor(-1)).text() ==
        "seed 1: element 2 of tensor 0 is -1 (0xffffffff), 3 (0x00000003) where transfers end at "
        "once");
  // Zeros of two signs, and a view with strides.
  const soma::Tensor zeros = soma::Tensor::zeros(context, {2, 2});
  const soma::Tensor other = soma::Tensor::from<float>(context, {0, 0, -0.0f, 0}, {2, 2});
  CHECK(differ(zeros, other).element == 2);
  CHECK(differ(zeros.transpose(0, 1), other.transpose(0, 1)).element == 1);
  CHECK(differ(zeros.transpose(0, 1), other.transpose(0, 1)).given == "-0 (0x80000000)");
  CHECK(id_of([&] { static_cast<void>(differ(zeros, tensor(1))); }) == "neuroncore.rule_broken");
}

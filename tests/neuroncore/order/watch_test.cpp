// Following a program step by step: what ran, in which order, and what it wrote.

#include "neuroncore/test_core.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace soma_test;
using soma::DType;

namespace {

// The instructions of a small program as the watcher sees them, each with the first element of what
// it wrote.
std::vector<std::string> steps(const nc::CoreOptions& options) {
  TestCore test(options);
  nc::Core& core = test.core;
  std::vector<std::string> seen;
  core.watch([&](nc::Opcode opcode, const nc::Tile& written) {
    seen.push_back(std::string(to_string(opcode)) + " " + written.describe() + " " +
                   std::to_string(static_cast<int>(core.values(written)[0])));
  });
  const soma::Tensor x = soma::Tensor::full(test.context, {2, 4}, 3.0f);
  const nc::Tile a = core.sbuf.tile(DType::fp32, 2, 4), b = core.sbuf.tile(DType::bf16, 2, 4);
  const nc::Tile sums = core.psum.tile(4, 4);
  core.dma.load(a, nc::hbm(x));
  core.vector.tensor_scalar(b, a, nc::Alu::multiply, 2);
  core.tensor.matmul(sums, b, b);
  core.unwatch();
  core.scalar.copy(a, b);
  return seen;
}

}  // namespace

TEST_CASE("a program can be followed step by step", "[unit]") {
  const std::vector<std::string> wanted{"dma_copy fp32 SBUF [2, 4] 3",
                                        "tensor_scalar bf16 SBUF [2, 4] 6",
                                        "matmul fp32 PSUM [4, 4] 72"};
  CHECK(steps({}) == wanted);
  // A transfer that ends late is seen when it ends, under its own name.
  CHECK(steps({.dma_stress_seed = 3}) == wanted);
}

TEST_CASE("a watcher may end itself", "[unit]") {
  TestCore test;
  nc::Core& core = test.core;
  const nc::Tile a = core.sbuf.tile(DType::fp32, 2, 4);
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = kept;
  int calls = 0;
  bool outlived = false;
  core.watch([&, kept = std::move(kept)](nc::Opcode, const nc::Tile&) {
    ++calls;
    core.unwatch();
    outlived = !alive.expired();
  });
  core.vector.memset(a, 1);
  core.vector.memset(a, 2);
  CHECK(calls == 1);
  CHECK(outlived);
  CHECK(alive.expired());
}

TEST_CASE("a watcher is called once for an instruction, with all of the tile", "[unit]") {
  TestCore test;
  nc::Core& core = test.core;
  std::vector<std::string> seen;
  const auto called = [&](const auto& run) {
    seen.clear();
    core.watch([&](nc::Opcode opcode, const nc::Tile& written) {
      seen.push_back(std::string(to_string(opcode)) + " " + written.describe());
    });
    run();
    core.finish();
    core.unwatch();
    return seen;
  };
  using Seen = std::vector<std::string>;
  const nc::Tile a = core.sbuf.tile(DType::fp32, 32, 4), b = core.sbuf.tile(DType::fp32, 32, 4);
  core.vector.memset(a, 1);
  nc::ShuffleMask mask{};
  CHECK(called([&] { core.vector.stream_shuffle(b, a, mask); }) ==
        Seen{"stream_shuffle fp32 SBUF [32, 4]"});
  mask[3] = nc::shuffle_keep;
  CHECK(called([&] { core.vector.stream_shuffle(b, a, mask); }) ==
        Seen{"stream_shuffle fp32 SBUF [32, 4]"});

  const nc::Tile predicate = core.sbuf.tile(DType::uint8, 32, 4);
  for (const float chosen : {0.0f, 1.0f}) {
    const nc::Tile fresh = core.sbuf.tile(DType::fp32, 32, 4);
    core.vector.memset(predicate, chosen);
    CHECK(called([&] { core.vector.copy_predicated(fresh, a, predicate); }) ==
          Seen{"copy_predicated fp32 SBUF [32, 4]"});
  }

  const soma::Tensor table = soma::Tensor::full(test.context, {8, 4}, 2.0f);
  for (const std::int32_t step : {0, 1}) {  // all rows are there, or eight of them
    const nc::Tile indices = core.sbuf.tile(DType::int32, 32, 1);
    core.gpsimd.iota(indices, {.loops = {{1, 1}}, .channel_multiplier = step});
    CHECK(called([&] { core.dma.gather(b, nc::hbm(table), indices, nc::OutOfBounds::skip); }) ==
          Seen{"dma_gather fp32 SBUF [32, 4]"});
  }
}

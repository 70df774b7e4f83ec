// Advice: small programs with one bottleneck each, and the advice that each must get first.

#include "kernels/causal_attention.hpp"
#include "neuroncore/clock/anchor_programs.hpp"

#include <soma/models/bert.hpp>
#include <soma/neuroncore_clock.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using soma::neuroncore::Alu;
using soma::neuroncore::Function;
using soma::neuroncore::Tile;
namespace nc = soma::neuroncore;

namespace {

struct Dry {
  Context context = make_context({.threads = 1});
  nc::Core core;
  explicit Dry(const nc::CoreOptions& options = {.record = true, .compute = false})
      : core(nc::make_core(context, soma_test::at_once(), options)) {}
  Tensor tensor(Shape shape, DType dtype = DType::fp32) {
    return Tensor::empty(context, shape, dtype);
  }
  Tile tile(std::size_t columns, DType dtype = DType::fp32) {
    return core.sbuf.tile(dtype, 128, columns);
  }
  std::vector<nc::Advice> advice() {
    core.finish();
    const nc::Timeline timeline = nc::timeline(core.recorded(), core.machine());
    return nc::advice(core.recorded(), core.machine(), timeline);
  }
};

// The first advice of a program has these words and a line of this file, and gains that much.
template <class Program>
void first(const Program& program, std::string_view words, double least) {
  Dry dry;
  program(dry);
  const std::vector<nc::Advice> all = dry.advice();
  std::string text;
  for (const nc::Advice& advice : all) text += "\n" + to_string(advice);
  INFO(text << "\nwanted first: " << words);
  REQUIRE(!all.empty());
  CHECK(all[0].text.find(words) != std::string::npos);
  CHECK(all[0].gain >= least);
  REQUIRE(!all[0].lines.empty());
  CHECK(all[0].lines[0].starts_with("advice_test.cpp:"));
  CHECK(std::is_sorted(all.begin(), all.end(), [](const nc::Advice& a, const nc::Advice& b) {
    return a.gain > b.gain + 1e-6;
  }));
  CHECK(all.back().gain >= nc::advice_least);
}

}  // namespace

TEST_CASE("fp32 products: bf16", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile w = dry.tile(128), x = dry.tile(512), sums = dry.core.psum.tile(128, 512);
        dry.core.vector.memset(w, 1).memset(x, 1);
        for (int i = 0; i < 64; ++i) dry.core.tensor.matmul(sums, w, x);
      },
      "fp32 products", 0.6);
}

TEST_CASE("short rows: contiguous transfers", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tensor x = dry.tensor({128, 4096});
        const Tile tile = dry.tile(4096);
        for (std::size_t i = 0; i < 4096; i += 8)
          dry.core.dma.load(tile.columns(i, i + 8), nc::hbm(x).columns(i, i + 8));
      },
      "short pieces", 0.5);
}

TEST_CASE("one tensor loaded 64 times: load it once", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tensor x = dry.tensor({128, 4096}), y = dry.tensor({128, 4096});
        const Tile tile = dry.tile(4096);
        for (int i = 0; i < 64; ++i) {
          dry.core.dma.load(tile, nc::hbm(x));
          dry.core.vector.tensor_scalar(tile.columns(0, 64), tile.columns(0, 64), Alu::add, 1);
        }
        dry.core.dma.store(nc::hbm_target(y), tile);
      },
      "the same bytes are loaded up to 64 times", 0.8);
}

TEST_CASE("what was written in between is loaded again", "[unit][neuroncore]") {
  Dry dry;
  const Tensor x = dry.tensor({128, 4096});
  const Tile tile = dry.tile(4096);
  for (int i = 0; i < 8; ++i) {
    dry.core.dma.load(tile, nc::hbm(x));
    dry.core.dma.store(nc::hbm_target(x), tile);
  }
  for (const nc::Advice& advice : dry.advice())
    CHECK(advice.text.find("the same bytes") == std::string::npos);
}

TEST_CASE("one buffer: two that take turns", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tensor x = dry.tensor({64 * 128, 1024}), y = dry.tensor({64 * 128, 1024});
        const Tile in = dry.tile(1024), out = dry.tile(1024);
        for (std::size_t row = 0; row < 64 * 128; row += 128) {
          dry.core.dma.load(in, nc::hbm(x).rows(row, row + 128));
          dry.core.scalar.activation(out, in, Function::exp);
          dry.core.scalar.activation(out, out, Function::exp);
          dry.core.scalar.activation(out, out, Function::exp);
          dry.core.dma.queue(1).store(nc::hbm_target(y).rows(row, row + 128), out);
        }
      },
      "two tiles (buffers)", 0.2);
}

TEST_CASE("two engines in turns over semaphores: fewer hops", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(64);
        dry.core.vector.memset(a, 1);
        for (int i = 0; i < 100; ++i) {
          dry.core.vector.tensor_scalar(a, a, Alu::add, 1);
          dry.core.scalar.activation(a, a, Function::exp);
        }
      },
      "semaphores", 0.25);
}

TEST_CASE("small instructions: merge them", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(2048), b = dry.tile(2048);
        dry.core.vector.memset(a, 1);
        for (std::size_t i = 0; i < 2048; i += 4)
          dry.core.vector.tensor_scalar(b.columns(i, i + 4), a.columns(i, i + 4), Alu::add, 1);
      },
      "merge neighbours", 0.6);
}

TEST_CASE("an engine alone: move work to an idle one", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(2048), b = dry.tile(2048);
        dry.core.scalar.activation(a, a, Function::exp);
        for (int i = 0; i < 64; ++i) dry.core.scalar.activation(b, a, Function::exp);
      },
      "the Scalar engine is busy", 0.4);
}

TEST_CASE("reciprocal on the Vector engine", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(512), b = dry.tile(512);
        dry.core.vector.memset(a, 1);
        for (int i = 0; i < 32; ++i) dry.core.vector.reciprocal(b, a);
      },
      "reciprocal takes 8 cycles", 0.7);
}

TEST_CASE("a reduction over partitions", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(512), row = dry.core.sbuf.tile(DType::fp32, 1, 512);
        dry.core.vector.memset(a, 1);
        for (int i = 0; i < 16; ++i) dry.core.gpsimd.partition_reduce(row, a, Alu::add);
      },
      "partition_reduce", 0.7);
}

TEST_CASE("a transposed load", "[unit][neuroncore]") {
  Dry dry;
  const Tensor x = dry.tensor({96, 512});
  const Tile t = dry.tile(384), u = dry.tile(384);
  for (std::size_t m = 0; m < 4; ++m)
    dry.core.dma.load_transposed(t.columns(m * 96, (m + 1) * 96),
                                 nc::hbm(x).columns(m * 128, (m + 1) * 128).swap(0, 1));
  dry.core.vector.tensor_tensor(u, t, t, Alu::multiply);
  dry.core.finish();
  const std::string text = nc::report(dry.core).text();
  const std::string advice = text.substr(text.find("advice:"));
  INFO(text);
  CHECK(advice.find("transposing loads") < advice.find('\n'));
  CHECK(advice.find("Vector") == std::string::npos);
}

TEST_CASE("elements far apart halve a port's rate", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(8192), b = dry.tile(512);
        dry.core.vector.memset(b, 1);
        for (int i = 0; i < 32; ++i)
          dry.core.vector.tensor_scalar(b, a.columns(0, 8192, 16), Alu::add, 1);
      },
      "16 bytes apart", 0.4);
}

TEST_CASE("transposes on the array", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(128, DType::bf16), w = dry.tile(128, DType::bf16);
        const Tile turned = dry.core.psum.tile(128, 128, DType::bf16);
        const Tile sums = dry.core.psum.tile(128, 128);
        dry.core.vector.memset(a, 1).memset(w, 1);
        for (int i = 0; i < 64; ++i) dry.core.tensor.transpose(turned, a);
        dry.core.tensor.matmul(sums, w, a);
      },
      "transposes take the Tensor engine's time", 0.5);
}

TEST_CASE("transposes by a product with an identity", "[unit][neuroncore]") {
  // One product of the model, and 64 that only turn their operand: marked, or not.
  struct Found {
    nc::Summary summary;
    bool advised = false;
    double ns = 0;
  };
  const auto of = [](nc::ProductUse use) {
    Dry dry;
    const Tile a = dry.tile(128, DType::bf16), identity = dry.tile(128, DType::bf16);
    const Tile turned = dry.core.psum.tile(128, 128), sums = dry.core.psum.tile(128, 128);
    dry.core.vector.memset(a, 1).memset(identity, 1);
    for (int i = 0; i < 64; ++i)
      dry.core.tensor.matmul(turned, a, identity, nc::Accumulate::no, use);
    dry.core.tensor.matmul(sums, identity, a);
    const nc::Report report = nc::report(dry.core);
    Found found{report.summary(), false, report.ns()};
    for (const nc::Advice& advice : dry.advice())
      found.advised = found.advised || advice.text.starts_with("transposes take");
    return found;
  };
  const Found marked = of(nc::ProductUse::transpose), plain = of(nc::ProductUse::product);
  const double one = 2.0 * 128 * 128 * 128;
  CHECK(marked.ns == plain.ns);
  CHECK(marked.summary.array_operations == 65 * one);
  CHECK(marked.summary.transpose_operations == 64 * one);
  CHECK(plain.summary.transpose_operations == 0);
  CHECK(marked.summary.hfu == plain.summary.hfu);
  CHECK_THAT(marked.summary.mfu * 65, Catch::Matchers::WithinRel(plain.summary.mfu, 1e-12));
  CHECK(marked.advised);
  CHECK(!plain.advised);
}

TEST_CASE("engines that hold each other's port", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tile a = dry.tile(512), b = dry.tile(512), c = dry.tile(512), d = dry.tile(512);
        dry.core.vector.memset(a, 1).memset(c, 1);
        for (int i = 0; i < 32; ++i) {
          dry.core.vector.tensor_scalar(b, a, Alu::add, 1);
          dry.core.gpsimd.copy(d, c);
        }
      },
      "memory port", 0.3);
}

TEST_CASE("descriptors of a gather: rows that are known beforehand", "[unit][neuroncore]") {
  first(
      [](Dry& dry) {
        const Tensor table = dry.tensor({4096, 64});
        const Tile indices = dry.tile(1, DType::int32);
        dry.core.vector.memset(indices, 1);
        for (int i = 0; i < 32; ++i) dry.core.dma.gather(dry.tile(64), nc::hbm(table), indices);
      },
      "a descriptor for each row", 0.8);
}

namespace {

// The gain that "short pieces" promises for a program; 0: none.
template <class Program>
double gain_of_long_pieces(const Program& program) {
  Dry dry;
  program(dry);
  for (const nc::Advice& advice : dry.advice())
    if (advice.text.find("short pieces") != std::string::npos) return advice.gain;
  return 0;
}

}  // namespace

TEST_CASE("a transfer has a piece for each partition", "[unit][neuroncore]") {
  // Blocks of 128 rows of 256 bytes, each from another place: nothing lies side by side.
  CHECK(gain_of_long_pieces([](Dry& dry) {
          const Tensor x = dry.tensor({128 * 64, 256});
          for (std::size_t i = 0; i < 64; i += 2)
            dry.core.dma.load(dry.tile(64), nc::hbm(x).rows(128 * i, 128 * i + 128).columns(0, 64));
        }) == 0);
  // The same bytes without gaps: eight rows make one piece of 2 KiB.
  CHECK(gain_of_long_pieces([](Dry& dry) {
          const Tensor x = dry.tensor({128 * 64, 64});
          for (std::size_t i = 0; i < 64; ++i)
            dry.core.dma.load(dry.tile(64), nc::hbm(x).rows(128 * i, 128 * i + 128));
        }) > 0.7);
  // Pieces within a partition's row become one.
  CHECK(gain_of_long_pieces([](Dry& dry) {
          const Tensor x = dry.tensor({128, 32, 128});
          for (int i = 0; i < 8; ++i)
            dry.core.dma.load(dry.tile(32 * 64).reshape({32, 64}), nc::hbm(x).slice(2, 0, 64));
        }) > 0.7);
}

namespace {

// No gain is below the least that is said or larger than the program's time; each names its lines.
void check_advice(const std::vector<nc::Advice>& all, std::string_view program) {
  std::string text(program);
  for (const nc::Advice& advice : all) text += "\n" + to_string(advice);
  INFO(text);
  CHECK(!all.empty());
  for (const nc::Advice& advice : all) {
    CHECK(advice.gain >= nc::advice_least);
    CHECK(advice.gain < 1);
    CHECK(!advice.lines.empty());
  }
}

}  // namespace

TEST_CASE("flash attention, layers of BERT-base and a product: no advice below three per cent",
          "[unit][neuroncore]") {
  {
    Dry dry;
    const Tensor x = dry.tensor({512, 128}), sums = dry.tensor({512, 1});
    kernels::causal_attention(dry.core, x, x, x, dry.tensor({512, 128}), sums);
    check_advice(dry.advice(), "flash attention");
  }
  {
    Dry dry;
    soma_test::product_blocked(dry.core, soma_test::Product(dry.context, 2048, 1024, 2048));
    check_advice(dry.advice(), "product");
  }
  Dry dry;
  models::BertConfig config = models::BertConfig::base();
  config.layers = 1;
  config.vocabulary = 1000;
  config.positions = 128;
  const models::BertClassifier model({dry.context}, config, 2);
  auto device = nc::make_device(dry.core);
  dry.context.set_device(&device);
  {
    Tape tape(dry.context);
    const std::vector<std::vector<std::int64_t>> lists(8, std::vector<std::int64_t>(128, 7));
    const Tensor labels = Tensor::zeros(dry.context, {8}, DType::int64);
    tape.backward(cross_entropy(
        tape, model(tape, tape.constant(make_ragged<std::int64_t>(dry.context, lists))),
        tape.constant(labels)));
  }
  dry.context.set_device(nullptr);
  check_advice(dry.advice(), "a layer of BERT-base");
}

TEST_CASE("an empty record has no advice", "[unit][neuroncore]") {
  Dry dry;
  CHECK(dry.advice().empty());
}

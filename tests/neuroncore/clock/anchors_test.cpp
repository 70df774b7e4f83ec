// The clock against timings that the vendor published. docs/neuroncore.md has the table, and says
// which parameters were read off which of them.

#include "kernels/image_attention.hpp"
#include "kernels/resize.hpp"
#include "kernels/rms_norm_product.hpp"
#include "neuroncore/clock/anchor_programs.hpp"

#include <soma/neuroncore/clock/timeline.hpp>

#include <string>
#include <string_view>

using namespace soma_test;
using Catch::Matchers::WithinRel;
using soma::DType;

namespace {

template <class Run>
double microseconds(const Run& run) {
  TestCore test(dry);
  run(test.core);
  return nc::timeline(test.core.recorded(), test.core.machine()).ns * 1e-3;
}
double product_ms(void (*run)(nc::Core&, const Product&), std::size_t m = 4096,
                  std::size_t n = 8192, std::size_t k = 8192) {
  return 1e-3 * microseconds([&](nc::Core& core) { run(core, Product(core.context(), m, n, k)); });
}
double error(double predicted, double published) { return predicted / published - 1; }

// The published resize: each transfer gathers one pixel of every image, an image in each partition.
void resize_by_pixel(nc::Core& core, const soma::Tensor& images, const soma::Tensor& rows,
                     const soma::Tensor& results) {
  const nc::Core::Scope scope(core);
  const std::size_t count = rows.size(0), pixels = rows.size(1), channels = images.size(1);
  const nc::Tile indices = core.sbuf.tile(DType::int32, count, pixels);
  core.dma.load(indices, nc::hbm(rows));
  std::vector<nc::Tile> tiles;
  for (int i = 0; i < 24; ++i) tiles.push_back(core.sbuf.tile(images.dtype(), count, channels));
  for (std::size_t i = 0; i < pixels; ++i) {
    const nc::Tile& pixel = tiles[i % tiles.size()];
    core.dma.gather(pixel, nc::hbm(images), indices.columns(i, i + 1));
    core.dma.queue(1).store(nc::hbm_first_target(results).pattern(
                                {{pixels * channels, count}, {1, channels}}, i * channels),
                            pixel);
  }
}

// How long the last instruction of a program occupies its engine.
template <class Run>
double last_ns(const Run& run) {
  TestCore test(dry);
  run(test.core);
  const nc::Timeline timeline = nc::timeline(test.core.recorded(), test.core.machine());
  return timeline.instructions.back().end - timeline.instructions.back().start;
}

}  // namespace

TEST_CASE("products: [4096, 8192] x [8192, 8192] in bf16", "[slow][neuroncore]") {
  const double tiled = product_ms(product_tiled), hoisted = product_ms(product_hoisted),
               free = product_ms(product_blocked_free), blocked = product_ms(product_blocked);
  WARN("A1 " << tiled << " ms of 51.80, A2 " << hoisted << " of 42.96, A3 " << free
             << " of 22.07, A4 " << blocked << " of 6.97");
  CHECK(std::fabs(error(hoisted, 42.96)) < 0.10);
  CHECK(std::fabs(error(free, 22.07)) < 0.10);
  CHECK(std::fabs(error(blocked, 6.97)) < 0.15);
  // The first variant is faster than its loads: the compiler keeps tiles that the program loads
  // anew. Its time lies between that of the loads as written and that of hoisted ones.
  CHECK(hoisted <= 51.80);
  CHECK(51.80 <= tiled);
}

TEST_CASE("a product's parts: buffers where rows are short, the array where they are long",
          "[unit][neuroncore]") {
  // A sixteenth of the anchor in M and an eighth in N: 142 ns a buffer on 16 engines.
  const double buffers = 4.0 * 2 * 64 * 256 + 4 * 2 * 128;
  CHECK_THAT(product_ms(product_tiled, 512, 1024), WithinRel(buffers * 142e-6 / 16, 0.01));
  // 512 cycles a product; before them the first loads, after them 16 stores of 1.14 us.
  const double blocked = product_ms(product_blocked, 2048, 1024, 2048);
  const double array = 16 * 2 * 16 * 512 / 2.8e6;
  CHECK(blocked > array + 0.016);
  CHECK(blocked < array + 0.030);
}

TEST_CASE("scans: a Mamba layer in fp32", "[slow][neuroncore]") {
  const auto vector_share = [](const nc::Core& core) {
    const nc::Timeline timeline = nc::timeline(core.recorded(), core.machine());
    double busy = 0;
    for (std::size_t i = 0; i < core.recorded().size(); ++i)
      if (core.recorded()[i].position.lane == nc::lane_of(nc::Engine::vector))
        busy += timeline.instructions[i].end - timeline.instructions[i].start;
    return busy / timeline.ns;
  };
  double share = 0;
  const double hoisted = microseconds([&](nc::Core& core) {
    Mamba(core, 4096).hoisted();
    share = vector_share(core);
  });
  const double first = microseconds([](nc::Core& core) { Mamba(core, 4096).first(); });
  const double small = microseconds([](nc::Core& core) { Mamba(core, 256).hoisted(); });
  WARN("B 4096 hoisted " << hoisted << " us of 1610, Vector " << 100 * share << " %, first "
                         << first << " of 2340, 256 " << small << " of 172.9");
  CHECK(std::fabs(error(hoisted, 1610)) < 0.35);
  CHECK(share >= 0.95);
  CHECK(std::fabs(error(first, 2340)) < 0.30);
  CHECK(small >= 0.6 * 172.93);
  CHECK(small <= 1.1 * 172.93);
}

// The kernels of the vendor's samples, with a launch each. Published is what their tests allow, so
// the measured time is at most that.
TEST_CASE("kernels whose time is published as at most so much", "[unit][neuroncore]") {
  auto context = soma::make_context({.threads = 1});
  const auto empty = [&](const soma::Shape& shape, DType dtype) {
    return soma::Tensor::empty(context, shape, dtype);
  };
  std::string text;
  const auto check = [&](const std::string& name, double at_most, double low, double high,
                         const auto& kernel) {
    const double us = kernels::microseconds(context, kernel);
    const double off = error(us, at_most);
    text.append("\n").append(name).append(": ").append(soma::fixed(us, 1));
    text.append(" us of at most ").append(soma::fixed(at_most, 0));
    INFO(text);
    CHECK(off >= low);
    CHECK(off <= high);
  };
  const auto attention = [&](std::size_t tokens, DType dtype, double at_most) {
    check("attention " + std::to_string(tokens) + " x 128, " + std::string(to_string(dtype)),
          at_most, -0.1, 0.1, [&](nc::Core& core) {
            const soma::Tensor columns = empty({128, tokens}, dtype),
                               rows = empty({tokens, 128}, dtype);
            kernels::image_attention(core, columns, columns, rows, empty({tokens, 128}, dtype));
          });
  };
  attention(4096, DType::bf16, 380);
  attention(4096, DType::fp32, 410);
  attention(5120, DType::bf16, 586);
  const auto norm = [&](std::size_t rows, std::size_t hidden, std::size_t columns, double at_most,
                        double low, double high) {
    check("RMS norm and product " + std::to_string(rows) + " x " + std::to_string(hidden) + " x " +
              std::to_string(columns),
          at_most, low, high, [&](nc::Core& core) {
            kernels::rms_norm_product(core, empty({rows, hidden}, DType::bf16),
                                      empty({hidden, columns}, DType::bf16),
                                      empty({rows, columns}, DType::bf16), 1e-6f);
          });
  };
  norm(128, 512, 512, 25, -0.3, 0);
  norm(512, 1024, 384, 40, -0.15, 0);
  norm(128, 1024, 512, 28, -0.25, 0);
  norm(1024, 8192, 512, 301, -0.15, 0.15);
  // Read off these two.
  const auto resize = [&](std::size_t images, DType dtype, double at_most) {
    check("resize of " + std::to_string(images) + ", a pixel of each at a time", at_most, -0.02,
          0.02, [&](nc::Core& core) {
            resize_by_pixel(core, empty({images * 600, 1280}, dtype),
                            empty({images, 2242}, DType::int32),
                            empty({images * 2242, 1280}, dtype));
          });
    check("the same, 128 pixels at a time", at_most, -0.85, 0, [&](nc::Core& core) {
      const std::size_t steps = (images * 2242 + 127) / 128;
      kernels::resize(core, empty({images * 600, 1280}, dtype), empty({128, steps}, DType::int32),
                      empty({images * 2242, 1280}, dtype));
    });
  };
  resize(1, DType::fp16, 659);
  resize(10, DType::fp32, 1740);
  WARN(text);
}

TEST_CASE("single instructions and transfers", "[unit][neuroncore]") {
  const auto tile = [](nc::Core& core, DType dtype, std::size_t elements) {
    return core.sbuf.tile(dtype, 128, elements);
  };
  const auto within = [](double ns) { return WithinRel(ns, 0.01); };
  const auto matmul_ns = [&](DType dtype, std::size_t moving) {
    return last_ns([&](nc::Core& core) {
      core.tensor.matmul(core.psum.tile(128, moving), tile(core, dtype, 128),
                         tile(core, dtype, moving));
    });
  };
  // C: 182.9 ns, four times that in fp32, 64 cycles where little moves.
  CHECK_THAT(matmul_ns(DType::bf16, 512), within(182.9));
  CHECK_THAT(matmul_ns(DType::fp32, 512), within(731));
  CHECK_THAT(matmul_ns(DType::bf16, 8), within(64 / 2.8));
  // E, of [128, 512]
  const auto of_tiles = [&](DType dtype, const auto& run) {
    return last_ns([&](nc::Core& core) {
      run(core, tile(core, dtype, 512), tile(core, dtype, 512), tile(core, dtype, 1));
    });
  };
  using Tile = nc::Tile;
  CHECK_THAT(of_tiles(DType::fp32,
                      [](nc::Core& core, const Tile& to, const Tile& from, const Tile&) {
                        core.scalar.activation(to, from, nc::Function::exp);
                      }),
             within(366));
  CHECK_THAT(of_tiles(DType::fp32,
                      [](nc::Core& core, const Tile& to, const Tile& from, const Tile&) {
                        core.scalar.activation(to, from, nc::Function::reciprocal);
                      }),
             within(366));
  CHECK_THAT(of_tiles(DType::fp32,
                      [](nc::Core& core, const Tile&, const Tile& from, const Tile& sum) {
                        core.vector.tensor_reduce(sum, from, nc::Alu::add);
                      }),
             within(457));
  CHECK_THAT(of_tiles(DType::bf16,
                      [](nc::Core& core, const Tile&, const Tile& from, const Tile& sum) {
                        core.vector.tensor_reduce(sum, from, nc::Alu::add);
                      }),
             within(229));
  CHECK_THAT(of_tiles(DType::fp32, [](nc::Core& core, const Tile& to, const Tile& from,
                                      const Tile&) { core.vector.reciprocal(to, from); }),
             within(3657));
  CHECK_THAT(1e3 * microseconds([&](nc::Core& core) {
               core.scalar.activation_reduce(tile(core, DType::fp32, 512),
                                             tile(core, DType::fp32, 512), nc::Function::exp,
                                             tile(core, DType::fp32, 1));
             }),
             within(411));
  // F: eight buffers of 2 KiB on each engine, after the start.
  CHECK_THAT(microseconds([&](nc::Core& core) {
               const auto x = soma::Tensor::empty(core.context(), soma::Shape{128, 512});
               core.dma.load(tile(core, DType::fp32, 512), nc::hbm(x));
             }),
             within(1.136 + 1.3));
  // D: activations of one element that need each other's results, 189 ns each.
  const int chain = 1000;
  CHECK_THAT(1e3 * microseconds([&](nc::Core& core) {
               const Tile x = tile(core, DType::fp32, 1);
               for (int i = 0; i < chain; ++i) core.scalar.activation(x, x, nc::Function::exp);
             }) / chain,
             within(189));
}

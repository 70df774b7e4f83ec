// Tiles: what slices, reshapes and broadcasts of them mean, read back element by element.

#include "neuroncore/test_core.hpp"

#include <iterator>
#include <set>
#include <vector>

using namespace soma_test;
using nc::Tile;
using soma::DType;

namespace {

// Copies a view into a plain tile to see its elements.
std::vector<float> seen(TestCore& test, const Tile& view) {
  const Tile plain = test.core.sbuf.tile(view.dtype(), view.partitions(), view.free_size());
  test.core.vector.copy(plain, view);
  return test.values(plain);
}

}  // namespace

TEST_CASE("views of a tile read the elements that they say", "[unit][neuroncore]") {
  // Every type: widths of 1, 2 and 4 bytes. Element (p, i) is p * 24 + i, within 0 to 47.
  for (const DType dtype : {DType::fp32, DType::bf16, DType::uint8, DType::int32}) {
    TestCore test;
    nc::Core& core = test.core;
    const Tile tile = core.sbuf.tile(dtype, 2, 24);
    core.gpsimd.iota(tile, {.loops = {{1, 24}}, .channel_multiplier = 24});
    const auto expect = [&](const Tile& view, const auto& element) {
      const std::vector<float> values = seen(test, view);
      REQUIRE(values.size() == view.partitions() * view.free_size());
      for (std::size_t p = 0; p < view.partitions(); ++p)
        for (std::size_t i = 0; i < view.free_size(); ++i)
          CHECK(values[p * view.free_size() + i] == static_cast<float>(24 * p + element(i)));
    };
    expect(tile, [](std::size_t i) { return i; });
    expect(tile.columns(3, 9), [](std::size_t i) { return 3 + i; });
    expect(tile.columns(1, 24, 5), [](std::size_t i) { return 1 + 5 * i; });
    expect(tile.columns(2, 20).columns(3, 9, 2), [](std::size_t i) { return 5 + 2 * i; });
    const Tile cube = tile.reshape({2, 3, 4});
    expect(cube, [](std::size_t i) { return i; });
    expect(cube.slice(1, 1, 3), [](std::size_t i) { return i / 8 * 12 + 4 + i % 8; });
    expect(cube.slice(0, 1, 2), [](std::size_t i) { return 12 + i; });
    expect(cube.columns(0, 4, 3), [](std::size_t i) { return i / 2 * 4 + i % 2 * 3; });
    expect(cube.swap(0, 2), [](std::size_t i) { return i % 2 * 12 + i / 2 % 3 * 4 + i / 6; });
    expect(tile.reshape({6, 4}).swap(0, 1), [](std::size_t i) { return i % 6 * 4 + i / 6; });
    expect(cube.slice(1, 2, 3).broadcast(1, 5),
           [](std::size_t i) { return i / 20 * 12 + 8 + i % 4; });
    expect(tile.reshape({2, 2, 2, 3}).slice(2, 1, 2),
           [](std::size_t i) { return i / 6 * 12 + i / 3 % 2 * 6 + 3 + i % 3; });
  }
}

TEST_CASE("what is written through a view lands where it reads", "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::fp8_e5m2, DType::int8}) {
    TestCore test;
    nc::Core& core = test.core;
    const Tile tile = core.sbuf.tile(dtype, 4, 12);
    core.vector.memset(tile, 0);
    core.vector.memset(tile.columns(1, 12, 3), 2);
    core.vector.memset(tile.reshape({3, 4}).swap(0, 1).slice(0, 2, 3), 3);
    const std::vector<float> values = test.values(tile);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t column = i % 12;
      CHECK(values[i] == (column % 4 == 2 ? 3.0f : column % 3 == 1 ? 2.0f : 0.0f));
    }
  }
}

TEST_CASE("rows of a tile start at its partitions", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::fp32, 128, 2);
  core.gpsimd.iota(tile, {.loops = {{0, 2}}, .channel_multiplier = 1});
  const Tile part = tile.rows(64, 128).rows(32, 40);
  CHECK(part.first_partition() == 96);
  CHECK(part.partitions() == 8);
  CHECK(test.values(part) ==
        std::vector<float>{96, 96, 97, 97, 98, 98, 99, 99, 100, 100, 101, 101, 102, 102, 103, 103});
}

TEST_CASE("the same bytes as another type", "[unit][neuroncore]") {
  TestCore test;
  const Tile tile = test.tile(DType::fp32, 1, std::vector<float>{1, -2});
  CHECK(test.integers_of(tile.as(DType::int32)) ==
        std::vector<std::int32_t>{0x3F800000, static_cast<std::int32_t>(0xC0000000)});
  CHECK(id_of([&] { return tile.as(DType::bf16); }) == "neuroncore.rule_broken");
  const Tile biased = test.core.sbuf.tile(DType::fp8_e4m3, 1, 1).with_bias(3);
  CHECK(biased.as(DType::uint8).bias_offset() == 0);
}

TEST_CASE("a cFP8 tile with another exponent bias", "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2}) {
    TestCore test;
    std::vector<std::byte> codes(256);
    for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::byte>(i);
    const Tile tile = test.core.sbuf.tile(dtype, 1, 256);
    test.put_codes(tile, codes);
    const int own = soma::format_of(dtype).bias;
    const std::vector<float> plain = test.values(tile);
    for (const int bias : {own - 3, own, own + 5}) {
      const Tile biased = tile.with_bias(bias);
      CHECK(biased.bias_offset() == bias - own);
      const std::vector<float> values = test.values(biased);
      for (std::size_t i = 0; i < 256; ++i)
        if (!std::isnan(plain[i])) CHECK(values[i] == std::ldexp(plain[i], own - bias));
      // And back: rounding to the biased tile is rounding a scaled value to the plain one.
      const std::vector<float> wide = steps(512, 4, 0x1p-9f, 3);
      const Tile source = test.tile(DType::fp32, 1, wide);
      const Tile narrow = test.core.sbuf.tile(dtype, 1, 512);
      test.core.vector.copy(narrow.with_bias(bias), source);
      const std::vector<std::byte> found = test.codes(narrow);
      for (std::size_t i = 0; i < wide.size(); ++i)
        CHECK(static_cast<std::uint32_t>(found[i]) ==
              soma::encode(soma::format_of(dtype).with_bias(bias), wide[i]));
    }
  }
}

TEST_CASE("tiles can be looked at as tensors and as C++ objects", "[unit][neuroncore]") {
  TestCore test({.dma_stress_seed = 3});
  nc::Core& core = test.core;
  const Tile tile = core.sbuf.tile(DType::int32, 64, 12);
  core.gpsimd.iota(tile, {.loops = {{1, 12}}, .channel_multiplier = 100});
  const Tile part = tile.rows(32, 64).reshape({3, 4}).columns(1, 3);
  const soma::Tensor copied = core.copy_out(part);
  REQUIRE(copied.shape() == soma::Shape{32, 6});
  const nc::TileView<std::int32_t> view = core.view<std::int32_t>(part);
  for (std::size_t p = 0; p < 32; ++p)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 2; ++j) {
        const auto wanted = static_cast<std::int32_t>((32 + p) * 100 + 4 * i + 1 + j);
        CHECK(copied.data<std::int32_t>()[p * 6 + 2 * i + j] == wanted);
        CHECK(view(p, i, j) == wanted);
      }
  view(3, 2, 1) = -7;
  CHECK(core.values(tile)[35 * 12 + 10] == -7);
  CHECK(id_of([&] { core.view<float>(tile); }) == "tensor.dtype");
  // A transfer under way ends first.
  const soma::Tensor ones = soma::Tensor::full(test.context, soma::Shape{64, 12}, 1);
  core.dma.load(tile, nc::hbm(ones));
  CHECK(core.view<std::int32_t>(tile)(63, 11) == 1);
}

TEST_CASE("booleans are read as 0 or 1 whatever their bytes", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const auto bytes = [](const soma::Tensor& tensor) {
    return std::vector<std::byte>(tensor.raw(), tensor.raw() + tensor.bytes());
  };
  const std::vector<std::byte> ones(3, std::byte{1});
  const Tile tile = core.sbuf.tile(DType::boolean, 1, 3),
             again = core.sbuf.tile(DType::boolean, 1, 3);
  for (const bool arithmetic : {true, false}) {
    core.vector.memset(arithmetic ? tile : tile.as(DType::uint8), 6);
    CHECK(test.values(tile) == std::vector<float>(3, 1.0f));
    CHECK(test.codes(tile) == ones);  // by a store
    CHECK(bytes(core.copy_out(tile)) == ones);
    core.vector.copy(again, tile);
    CHECK(test.codes(again.as(DType::uint8)) == ones);
    for (std::size_t i = 0; i < 3; ++i) CHECK(core.view<bool>(tile)(0, i));
  }
  CHECK(test.codes(tile.as(DType::uint8)) == ones);  // as C++ was shown them
  core.vector.tensor_scalar(tile, tile, nc::Alu::invert, 0);
  CHECK(test.codes(tile) == std::vector<std::byte>(3, std::byte{0}));
  // From another type, and by an addition.
  const soma::Tensor table = soma::Tensor::full(test.context, {1, 3}, true);
  const Tile numbers = test.tile(DType::fp32, 1, std::vector<float>{5, -3, 0.25f});
  const std::vector<std::byte> first{std::byte{1}, std::byte{0}, std::byte{0}};
  core.dma.store(nc::hbm_target(table), numbers);
  CHECK(bytes(table) == first);
  core.dma.scatter(nc::hbm_target(table), numbers, test.integers(1, std::vector<std::int32_t>{0}),
                   nc::Scatter::add);
  CHECK(bytes(table) == first);
}

TEST_CASE("the region of a view", "[unit][neuroncore]") {
  TestCore test;
  const Tile tile = test.core.sbuf.tile(DType::bf16, 64, 100);
  const nc::Region all = region_of(tile), part = region_of(tile.rows(0, 32).columns(10, 20));
  CHECK(all.last_byte - all.first_byte == 200);
  CHECK(part.first_byte - all.first_byte == 20);
  CHECK(part.last_byte - all.first_byte == 40);
  CHECK(all.holds(part));
  CHECK(!part.holds(all));
  CHECK(!part.meets(region_of(tile.columns(20, 30))));
  CHECK(!part.meets(region_of(tile.rows(32, 64))));
  CHECK(part.meets(region_of(tile.columns(0, 100, 11))));
  CHECK(!part.meets(region_of(tile.columns(0, 100, 20))));
  CHECK(region_of(tile.columns(0, 100, 3)).holds(region_of(tile.columns(30, 60, 3))));
  CHECK(!region_of(tile.columns(0, 100, 3)).holds(region_of(tile.columns(30, 60))));
}

TEST_CASE("regions meet and hold as the sets of their bytes do", "[unit][neuroncore]") {
  using Bytes = std::set<std::uintptr_t>;
  // Up to three dimensions of up to four steps, up or down, of 1 to 24 bytes, around byte 500.
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint32_t limit) {
    return soma::random_word({.seed = 9}, drawn++) % limit;
  };
  const auto draw = [&](Bytes& bytes) {
    std::vector<nc::Step> steps;
    const std::uintptr_t first = 480 + below(40);
    const std::size_t width = std::size_t{1} << below(3);
    bytes = {first};
    for (std::uint32_t left = below(4); left != 0; --left) {
      const nc::Step step{1 + below(4), static_cast<std::ptrdiff_t>(below(49)) - 24};
      steps.push_back(step);
      Bytes all;
      for (const std::uintptr_t byte : bytes)
        for (std::size_t i = 0; i < step.count; ++i)
          all.insert(byte + static_cast<std::uintptr_t>(step.stride) * i);
      bytes = all;
    }
    Bytes all;
    for (const std::uintptr_t byte : bytes)
      for (std::size_t i = 0; i < width; ++i) all.insert(byte + i);
    bytes = all;
    return nc::Region(nc::Region::Space::sbuf, 0, 1, first, width, steps.data(), steps.size());
  };
  std::size_t meeting = 0, apart = 0, held = 0, found_held = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes a, b, both;
    const nc::Region x = draw(a), y = draw(b);
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(both, both.end()));
    REQUIRE(x.first_byte == *a.begin());
    REQUIRE(x.last_byte == *a.rbegin() + 1);
    REQUIRE(x.meets(y) == !both.empty());
    REQUIRE(y.meets(x) == !both.empty());
    if (x.holds(y)) REQUIRE(both == b);
    REQUIRE(x.holds(x));
    // Those that only look as if they met.
    apart += both.empty() && x.first_byte < y.last_byte && y.first_byte < x.last_byte;
    meeting += !both.empty();
    held += both == b;
    found_held += x.holds(y);
  }
  CHECK(apart > 1000);
  CHECK(meeting > 1000);
  CHECK(held > 500);
  CHECK(found_held > 500);
}

TEST_CASE("views that do not exist are refused", "[unit][neuroncore]") {
  TestCore test;
  const Tile tile = test.core.sbuf.tile(DType::fp32, 64, 24);
  const auto refused = [](const auto& action) { return id_of(action) == "neuroncore.rule_broken"; };
  CHECK(refused([&] { return tile.rows(0, 65); }));
  CHECK(refused([&] { return tile.rows(3, 2); }));
  CHECK(refused([&] { return tile.columns(0, 25); }));
  CHECK(refused([&] { return tile.columns(0, 24, 0); }));
  CHECK(refused([&] { return tile.slice(1, 0, 1); }));
  CHECK(refused([&] { return tile.reshape({5, 5}); }));
  CHECK(refused([&] { return tile.reshape({2, 2, 2, 3, 1}); }));
  CHECK(refused([&] { return tile.columns(0, 24, 2).reshape({6, 2}); }));
  CHECK(refused([&] { return tile.broadcast(0, 3); }));
  CHECK(refused([&] { return tile.swap(0, 1); }));
  CHECK(refused([&] { return tile.with_bias(3); }));
  CHECK(nc::Tile().describe() == "no tile");
  CHECK(tile.reshape({4, 6}).describe() == "fp32 SBUF [64, 4 x 6]");
}

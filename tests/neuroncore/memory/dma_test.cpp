// Transfers between device memory and SBUF: views, conversions, gathers and scatters, sums.

#include "neuroncore/test_core.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace soma_test;
using nc::OutOfBounds;
using nc::Scatter;
using nc::Tile;
using soma::DType;
using soma::Shape;
using soma::Tensor;

namespace {

Tensor stored_tensor(TestCore& test, const Shape& shape, DType dtype,
                     const std::vector<float>& values) {
  Tensor tensor = Tensor::empty(test.context, shape, dtype);
  const std::vector<std::byte> codes = stored(dtype, values);
  std::memcpy(tensor.mutable_raw(), codes.data(), codes.size());
  return tensor;
}
std::vector<float> floats_of(const Tensor& tensor) {
  return values_of(tensor.dtype(), {tensor.raw(), tensor.bytes()});
}

}  // namespace

TEST_CASE("transfers of one type move bits; others go through fp32", "[unit][neuroncore]") {
  const std::vector<float> values = steps(16 * 24, 3, 0x1p-20f, 1);
  for (const DType from : tile_floats)
    for (const DType to : tile_floats) {
      INFO(to_string(from) << " to " << to_string(to));
      TestCore test;
      const Tensor source = stored_tensor(test, Shape{16, 24}, from, values);
      const Tile tile = test.core.sbuf.tile(to, 16, 24);
      test.core.dma.load(tile, nc::hbm(source));
      std::vector<float> expected = floats_of(source);
      for (float& value : expected) value = through(to, value);
      CHECK(same_bits(test.values(tile), expected));
      const Tensor back = Tensor::zeros(test.context, Shape{16, 24}, from);
      test.core.dma.store(nc::hbm_target(back), tile);
      test.core.finish();
      for (float& value : expected) value = through(from, value);
      CHECK(same_bits(floats_of(back), expected));
    }
}

TEST_CASE("integers of 64 bits narrow, or are refused", "[unit][neuroncore]") {
  TestCore test;
  const Tile tile = test.core.sbuf.tile(DType::int32, 1, 3);
  test.core.dma.load(tile, nc::hbm(Tensor::from<std::int64_t>(
                               test.context, {5, -2147483648LL, 2147483647}, Shape{3})));
  CHECK(test.integers_of(tile) == std::vector<std::int32_t>{5, -2147483647 - 1, 2147483647});
  const Tensor wide = Tensor::zeros(test.context, Shape{3}, DType::int64);
  test.core.dma.store(nc::hbm_target(wide), tile);
  CHECK(wide.data<std::int64_t>()[1] == -2147483648LL);
  const Tensor large = Tensor::from<std::int64_t>(test.context, {0, 2147483648LL, 0}, Shape{3});
  CHECK_THAT(message_of([&] { test.core.dma.load(tile, nc::hbm(large)); }), contains("2147483648"));
  // Other casts of integers are those of fp32: rounded and saturated.
  const Tile bytes = test.core.sbuf.tile(DType::int8, 1, 3);
  test.core.dma.load(bytes,
                     nc::hbm(Tensor::from<float>(test.context, {2.5f, -300, 127.6f}, Shape{3})));
  CHECK(test.values(bytes) == std::vector<float>{2, -128, 127});
}

TEST_CASE("views of device memory", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> values = counting(6 * 8 * 10);
  const Tensor cube = Tensor::from<float>(test.context, values, Shape{6, 8, 10});
  const auto expect = [&](const nc::HbmView& view, std::size_t rows, std::size_t columns,
                          const auto& element) {
    nc::Core::Scope scope(test.core);
    REQUIRE(view.rows() == rows);
    REQUIRE(view.row_elements() == columns);
    const Tile tile = test.core.sbuf.tile(DType::fp32, rows, columns);
    test.core.dma.load(tile, view);
    const std::vector<float> seen = test.values(tile);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c)
        REQUIRE(seen[r * columns + c] == values[element(r, c)]);
  };
  const nc::HbmView all = nc::hbm(cube);
  expect(all, 6, 80, [](std::size_t r, std::size_t c) { return 80 * r + c; });
  expect(all.rows(2, 5), 3, 80, [](std::size_t r, std::size_t c) { return 80 * (r + 2) + c; });
  expect(all.columns(3, 7), 6, 32,
         [](std::size_t r, std::size_t c) { return 80 * r + c / 4 * 10 + 3 + c % 4; });
  expect(all.swap(0, 1), 8, 60,
         [](std::size_t r, std::size_t c) { return 10 * r + c / 10 * 80 + c % 10; });
  expect(all.swap(0, 2), 10, 48,
         [](std::size_t r, std::size_t c) { return r + c / 6 * 10 + c % 6 * 80; });
  expect(all.rows(1, 2).broadcast_rows(5), 5, 80,
         [](std::size_t, std::size_t c) { return 80 + c; });
  expect(all.as_rows(48), 10, 48, [](std::size_t r, std::size_t c) { return 48 * r + c; });
  expect(nc::hbm(Tensor::from<float>(test.context, counting(5), Shape{5})), 1, 5,
         [](std::size_t, std::size_t c) { return c; });
  const nc::PatternStep walk[] = {{80, 4}, {0, 2}, {20, 3}};
  expect(all.pattern(walk, 85), 4, 6,
         [](std::size_t r, std::size_t c) { return 85 + 80 * r + c % 3 * 20; });
  // And a store through one.
  const Tensor target = Tensor::zeros(test.context, Shape{8, 6});
  const Tile tile = test.tile(DType::fp32, 6, counting(48));
  test.core.dma.store(nc::hbm_target(target).swap(0, 1), tile);
  test.core.finish();
  for (std::size_t i = 0; i < 48; ++i)
    CHECK(target.data<float>()[i] == static_cast<float>(i % 6 * 8 + i / 6));
  test.core.dma.load_transposed(tile, nc::hbm(target).swap(0, 1));
  CHECK(test.values(tile) == counting(48));
  CHECK(test.core.statistics().instructions[static_cast<std::size_t>(nc::Opcode::dma_transpose)] ==
        1);
}

TEST_CASE("a view as another type has the same bytes", "[unit][neuroncore]") {
  TestCore test;
  const Tensor wide = Tensor::from<std::int64_t>(test.context, {1, -2, 1LL << 40, 7, 5, 6}, {3, 2});
  const auto words = [&](const nc::HbmView& view) {
    const Tile tile = test.core.sbuf.tile(DType::int32, view.rows(), view.row_elements());
    test.core.dma.load(tile, view);
    return test.integers_of(tile);
  };
  using Words = std::vector<std::int32_t>;
  CHECK(words(nc::hbm(wide).as(DType::int32)) == Words{1, 0, -2, -1, 0, 256, 7, 0, 5, 0, 6, 0});
  // Elements that are apart: their words are a dimension of their own.
  const nc::HbmView turned = nc::hbm(wide).swap(0, 1).as(DType::int32);
  CHECK(turned.rank() == 3);
  CHECK(words(turned) == Words{1, 0, 0, 256, 5, 0, -2, -1, 7, 0, 6, 0});
}

TEST_CASE("memory that a core holds lives until it has finished", "[unit][neuroncore]") {
  TestCore test;
  const Tensor tensor = test.core.hold(Tensor::zeros(test.context, Shape{4}));
  CHECK(tensor.storage().handles() == 2);
  test.core.finish();
  CHECK(tensor.storage().handles() == 1);
  test.core.hold(tensor);
  test.core.abandon();
  CHECK(tensor.storage().handles() == 1);
}

TEST_CASE("the host reads no memory that the launch writes", "[unit][neuroncore]") {
  TestCore test;
  const Tensor rows = Tensor::zeros(test.context, Shape{4, 6});
  test.core.dma.store(nc::hbm_target(rows.slice(0, 2, 3)), test.tile(DType::fp32, 1, counting(6)));
  const auto look = [&](const Tensor& part) {
    return id_of([&] { test.core.check_host_read("test", part); });
  };
  CHECK(look(rows.slice(0, 0, 2)) == "no error");
  CHECK(look(rows.slice(0, 3, 4)) == "no error");
  CHECK(look(rows.slice(0, 2, 3)) == "neuroncore.rule_broken");
  CHECK(look(rows.select(1, 5)) == "neuroncore.rule_broken");
  CHECK(look(rows.slice(0, 0, 0)) == "no error");
  test.core.finish();
  CHECK(look(rows) == "no error");
}

TEST_CASE("gathers take rows by index", "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3}) {
    TestCore test;
    const std::vector<float> values = steps(50 * 12, 4, 0.25f, 1);
    const Tensor table = stored_tensor(test, Shape{50, 12}, dtype, values);
    std::vector<std::int32_t> at{49, 0, 7, 7, 12};
    const Tile indices = test.integers(5, at), tile = test.core.sbuf.tile(DType::fp32, 5, 12);
    test.core.dma.gather(tile, nc::hbm(table), indices);
    const std::vector<float> seen = test.values(tile), all = floats_of(table);
    for (std::size_t i = 0; i < 60; ++i)
      CHECK(seen[i] == all[static_cast<std::size_t>(at[i / 12]) * 12 + i % 12]);
    // Outside: an error, or the partition stays as it is.
    for (const std::int32_t outside : {-1, 50}) {
      at[2] = outside;
      test.put_integers(indices, at);
      CHECK_THAT(message_of([&] { test.core.dma.gather(tile, nc::hbm(table), indices); }),
                 contains(outside < 0 ? ") is -1 in partition 2" : ") is 50 in partition 2"));
      test.core.vector.memset(tile, 99);
      test.core.dma.gather(tile, nc::hbm(table), indices, OutOfBounds::skip);
      const std::vector<float> skipped = test.values(tile);
      for (std::size_t i = 0; i < 60; ++i) CHECK(skipped[i] == (i / 12 == 2 ? 99 : seen[i]));
    }
  }
  // Skipping moves no integer through fp32.
  TestCore test;
  const Tensor table = Tensor::from<std::int32_t>(test.context, {16777217, 16777219}, Shape{2, 1});
  const Tile tile = test.integers(2, std::vector<std::int32_t>{1, 2147483647});
  test.core.dma.gather(tile, nc::hbm(table), test.integers(2, std::vector<std::int32_t>{1, 9}),
                       OutOfBounds::skip);
  CHECK(test.integers_of(tile) == std::vector<std::int32_t>{16777219, 2147483647});
}

TEST_CASE("scatters write rows, or add to them in the order of partitions", "[unit][neuroncore]") {
  TestCore test;
  const Tensor table = Tensor::zeros(test.context, Shape{6, 4});
  const std::vector<float> x = steps(5 * 4, 1, 0x1p-22f, 1);
  const Tile tile = test.tile(DType::fp32, 5, x),
             indices = test.integers(5, std::vector<std::int32_t>{4, 1, 4, 0, 4});
  test.core.dma.scatter(nc::hbm_target(table), tile, indices, Scatter::add);
  test.core.finish();
  for (std::size_t c = 0; c < 4; ++c) {
    const volatile float first = x[c] + x[8 + c];
    CHECK(table.data<float>()[16 + c] == first + x[16 + c]);
    CHECK(table.data<float>()[4 + c] == x[4 + c]);
    CHECK(table.data<float>()[20 + c] == 0);
  }
  test.core.dma.scatter(nc::hbm_target(table), tile, indices);
  test.core.finish();
  CHECK(table.data<float>()[16] == x[16]);  // the last one stays
  test.put_integers(indices, std::vector<std::int32_t>{6, 1, 6, 0, 5});
  CHECK(id_of([&] { test.core.dma.scatter(nc::hbm_target(table), tile, indices); }) ==
        "neuroncore.undefined");
  test.core.dma.scatter(nc::hbm_target(table), tile, indices, Scatter::overwrite,
                        OutOfBounds::skip);
  test.core.finish();
  CHECK(table.data<float>()[20] == x[16]);
}

TEST_CASE("sums of views are in fp32, in their order, without scales", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = steps(6, 1, 0x1p-22f, 1), y = steps(6, 1, 0x1p-22f, 2);
  const Tensor a = Tensor::from<float>(test.context, x, Shape{2, 3});
  const Tensor b = Tensor::from<float>(test.context, y, Shape{2, 3});
  const Tensor c = Tensor::full(test.context, Shape{2, 3}, 0.3f);
  const Tile tile = test.core.sbuf.tile(DType::bf16, 2, 3);
  test.core.dma.sum(tile, {nc::hbm(a), nc::hbm(b), nc::hbm(c)});
  const std::vector<float> sums = test.values(tile);
  for (std::size_t i = 0; i < 6; ++i) {
    const volatile float first = x[i] + y[i];
    CHECK(sums[i] == through(DType::bf16, first + 0.3f));
  }
  CHECK(test.core.statistics().hbm_bytes_read == 3 * 24);
}

TEST_CASE("statistics count bytes, and records say what a transfer moved", "[unit][neuroncore]") {
  TestCore test({.record = true});
  const Tensor table = Tensor::zeros(test.context, Shape{1000, 64});
  const Tile tile = test.core.sbuf.tile(DType::bf16, 32, 64),
             indices = test.core.sbuf.tile(DType::int32, 32, 1);
  test.core.gpsimd.iota(indices, {.loops = {{1, 1}}, .channel_multiplier = 3});
  test.core.dma.load(tile, nc::hbm(table).rows(0, 32))
      .gather(tile, nc::hbm(table), indices)
      .store(nc::hbm_target(table).rows(32, 64), tile)
      .load(tile.columns(0, 32), nc::hbm(table).rows(0, 32).columns(5, 37))
      .load_transposed(tile.columns(0, 32), nc::hbm(table).rows(0, 32).columns(0, 32).swap(0, 1));
  const auto all = test.core.recorded();
  REQUIRE(all.size() == 6);
  const std::uint64_t bytes[] = {8192, 8192, 8192, 4096, 4096};
  const std::uint32_t buffers[] = {32, 32, 32, 32, 1024};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(all[i + 1].cost.bytes == bytes[i]);
    CHECK(all[i + 1].cost.partitions == 32);
    CHECK(all[i + 1].cost.buffers == buffers[i]);
  }
  CHECK(test.core.statistics().hbm_bytes_read == 8192 * 2 + 4096 * 2);
  CHECK(test.core.statistics().hbm_bytes_written == 8192);
}

TEST_CASE("views of device memory that do not exist are refused", "[unit][neuroncore]") {
  TestCore test;
  const Tensor tensor = Tensor::zeros(test.context, Shape{4, 6});
  const nc::HbmView view = nc::hbm(tensor);
  const auto refused = [](const auto& action) { return id_of(action) == "neuroncore.rule_broken"; };
  CHECK(refused([&] { return view.rows(0, 5); }));
  CHECK(refused([&] { return view.slice(2, 0, 1); }));
  CHECK(refused([&] { return view.swap(0, 2); }));
  CHECK(refused([&] { return view.broadcast_rows(2); }));
  CHECK(refused([&] { return view.as_rows(5); }));
  CHECK(refused([&] { return view.columns(0, 3).as_rows(3); }));
  const nc::PatternStep one[] = {{6, 4}}, four[] = {{12, 2}, {6, 2}, {3, 2}, {2, 2}};
  CHECK(refused([&] { return view.pattern(one); }));
  CHECK(refused([&] { return view.as(DType::int64); }));
  CHECK(refused([&] { return view.pattern(four).as(DType::uint8); }));
  CHECK(refused([&] { return nc::hbm(Tensor()); }));
  CHECK(refused([&] { return nc::hbm_target(Tensor()); }));
  CHECK(refused([&] { return nc::hbm(Tensor::zeros(test.context, Shape{1, 1, 1, 1, 1})); }));
}

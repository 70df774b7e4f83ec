// Embedding: gathered rows and their sums, on every target and for every element type.

#include <soma/kernels/reference/embedding.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/floating_dtypes.hpp"
#include "support/samples.hpp"
#include "support/stored_run.hpp"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace soma;
using soma_test::floating_dtypes;
using soma_test::on_every_target;
using soma_test::same_bits;
using soma_test::small_floats;
using soma_test::stored;
using soma_test::values_of;

namespace {

constexpr std::size_t vocabulary = 11;

std::vector<std::int64_t> some_ids(std::size_t count) {
  std::vector<std::int64_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = random_word({.seed = 8}, i) % vocabulary;
  return ids;
}

// y as a plain reference and the scalar codec make it; gaps between rows are 0xEE.
std::vector<std::byte> expected_rows(DType from, const std::vector<std::byte>& table,
                                     const std::vector<std::int64_t>& ids, std::size_t columns,
                                     const MatrixTarget& y) {
  const std::vector<float> values = values_of(from, table);
  std::vector<float> rows(ids.size() * columns);
  reference::gather<float>(ids, columns, values.data(), rows.data());
  const std::size_t width = size_of(y.dtype);
  std::vector<std::byte> bytes(ids.size() * y.row_stride * width, std::byte{0xEE});
  for (std::size_t r = 0; r < ids.size(); ++r) {
    Draw draw = y.draw;
    draw.index += y.row_indices != nullptr ? y.row_indices[r] : r * y.draw_row_stride;
    const auto row =
        stored(y.dtype, std::span(rows).subspan(r * columns, columns), y.rounding, draw);
    if (!row.empty()) std::memcpy(bytes.data() + r * y.row_stride * width, row.data(), row.size());
  }
  return bytes;
}

void check_gather(Context& context, DType from, const std::vector<std::byte>& table,
                  const std::vector<std::int64_t>& ids, std::size_t columns, MatrixTarget y) {
  const auto expected = expected_rows(from, table, ids, columns, y);
  std::vector<std::byte> out(expected.size(), std::byte{0xEE});
  y.data = out.data();
  GatherArgs args{.rows = ids.size(),
                  .columns = columns,
                  .table = {.data = table.data(), .dtype = from, .row_stride = columns},
                  .ids = ids.data(),
                  .y = y};
  context.kernels().embedding.gather(args);
  INFO(std::string(to_string(from))
       << " to " << std::string(to_string(y.dtype)) << ", " << columns << " columns");
  CHECK(out == expected);
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  std::fill(out.begin(), out.end(), std::byte{0xEE});
  args.ids = narrow.data();
  args.id_dtype = DType::int32;
  context.kernels().embedding.gather(args);
  CHECK(out == expected);
}

}  // namespace

TEST_CASE("gathered rows are rounded once, whatever the types", "[unit][embedding]") {
  on_every_target([](Context& context) {
    const auto ids = some_ids(7);
    const std::vector<std::uint64_t> places{90, 3, 1 << 20, 5, 17, 0, 33};
    for (const DType from : floating_dtypes)
      for (const DType to : floating_dtypes)
        for (const std::size_t columns : std::vector<std::size_t>{1, 17, 520}) {
          const auto table = stored(from, small_floats(from, vocabulary * columns));
          MatrixTarget y{.dtype = to, .row_stride = columns + 3};
          check_gather(context, from, table, ids, columns, y);
          y.rounding = Rounding::stochastic;
          y.draw = {.seed = 4, .stream = 9, .step = 2, .index = 1003};
          y.draw_row_stride = columns;
          check_gather(context, from, table, ids, columns, y);
          y.row_indices = places.data();
          check_gather(context, from, table, ids, columns, y);
        }
    const auto table = stored(DType::fp32, small_floats(DType::fp32, vocabulary * 5));
    check_gather(context, DType::fp32, table, {}, 5, {.dtype = DType::bf16, .row_stride = 5});
    check_gather(context, DType::fp32, table, ids, 0, {.dtype = DType::fp32, .row_stride = 5});
  });
}

TEST_CASE("every code of a type survives a gather", "[unit][embedding]") {
  on_every_target([](Context& context) {
    for (const DType dtype : floating_dtypes) {
      const std::size_t width = size_of(dtype), columns = width == 1 ? 256 : 65536;
      std::vector<std::byte> table(columns * width);
      for (std::size_t i = 0; i < columns; ++i) {
        const auto code = static_cast<std::uint32_t>(i);
        // The codes of bf16 in wider types: all exponents, infinities and NaN.
        soma_test::put(table, i, width, width == 4 ? code << 16 : code);
      }
      const std::int64_t id = 0;
      std::vector<std::byte> out(table.size());
      context.kernels().embedding.gather(
          {.rows = 1,
           .columns = columns,
           .table = {.data = table.data(), .dtype = dtype, .row_stride = columns},
           .ids = &id,
           .y = {.data = out.data(), .dtype = dtype, .row_stride = columns}});
      INFO(std::string(to_string(dtype)));
      CHECK(out == table);
    }
  });
}

TEST_CASE("quantised tables are gathered by scale and zero point", "[unit][embedding]") {
  on_every_target([](Context& context) {
    const std::size_t columns = 37;
    std::vector<std::int8_t> table(vocabulary * columns);
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<std::int8_t>(random_word({.seed = 6}, i));
    const auto ids = some_ids(9);
    std::vector<float> out(ids.size() * columns), expected(out.size());
    context.kernels().embedding.gather({.rows = ids.size(),
                                        .columns = columns,
                                        .table = {.data = table.data(),
                                                  .dtype = DType::int8,
                                                  .row_stride = columns,
                                                  .scale = 0.07f,
                                                  .zero_point = -5},
                                        .ids = ids.data(),
                                        .y = {.data = out.data(), .row_stride = columns}});
    std::vector<float> values(table.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(table[i] + 5) * 0.07f;
    reference::gather<float>(ids, columns, values.data(), expected.data());
    CHECK(out == expected);
  });
}

TEST_CASE("rows of a list add up in the fixed tree", "[unit][embedding]") {
  on_every_target([](Context& context) {
    for (const DType dtype : floating_dtypes)
      for (const std::size_t columns : std::vector<std::size_t>{1, 16, 50, 300})
        for (const std::size_t count : std::vector<std::size_t>{0, 1, 6, 29}) {
          const auto bytes = stored(dtype, small_floats(dtype, 40 * columns));
          const std::vector<float> values = values_of(dtype, bytes);
          std::vector<std::uint32_t> list(count);
          for (std::size_t i = 0; i < count; ++i) list[i] = random_word({.seed = 12}, i) % 40;
          const std::vector<std::size_t> bounds{0, count / 3, count / 3, count / 2, count};

          std::vector<float> expected(columns), parts(4 * columns);
          for (std::size_t s = 0; s < 4; ++s)
            reference::gather_sum<float>(
                std::span(list).subspan(bounds[s], bounds[s + 1] - bounds[s]), columns,
                values.data(), parts.data() + s * columns);
          for (std::size_t c = 0; c < columns; ++c)
            expected[c] =
                (parts[c] + parts[columns + c]) + (parts[2 * columns + c] + parts[3 * columns + c]);

          // Any order is within (n - 1) half units of the sum of magnitudes.
          std::vector<double> wide(values.begin(), values.end()), plain(columns), most(columns);
          reference::gather_sum<double>(list, columns, wide.data(), plain.data());
          for (double& value : wide) value = std::fabs(value);
          reference::gather_sum<double>(list, columns, wide.data(), most.data());

          INFO(std::string(to_string(dtype)) << ", " << columns << " columns, " << count);
          GatherSumArgs args{.columns = columns,
                             .x = {.data = bytes.data(), .dtype = dtype, .row_stride = columns},
                             .list = list.data(),
                             .count = count,
                             .segments = {bounds.data(), 4}};
          std::vector<float> out(columns, 5.0f);
          args.out = out.data();
          context.kernels().embedding.gather_sum(args);
          CHECK(same_bits(out, expected));
          bool close = true;
          for (std::size_t c = 0; c < columns; ++c)
            close = close && std::fabs(static_cast<double>(out[c]) - plain[c]) <=
                                 static_cast<double>(count) * 0x1p-24 * most[c];
          CHECK(close);
          args.accumulate = true;
          context.kernels().embedding.gather_sum(args);
          for (float& value : expected) value += value;
          CHECK(same_bits(out, expected));
        }
  });
}

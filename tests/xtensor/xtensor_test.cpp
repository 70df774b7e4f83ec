// The bridge: xtensor's containers as code spans and back, without a copy.

#include <soma/soma.hpp>
#include <soma/xtensor.hpp>

#include "catch.hpp"

#include <vector>

#if __has_include(<xtensor/views/xview.hpp>)
#include <xtensor/views/xstrided_view.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xview.hpp>
#endif

using namespace soma;

TEST_CASE("a container converts in place of a copy", "[unit]") {
  auto context = make_context();
  xt::xarray<float> values = xt::arange<float>(0, 60).reshape({4, 3, 5});
  xt::xarray<bf16> codes = xt::xarray<bf16>::from_shape({4, 3, 5});
  const CodeSpan from = xtensor::code_span(values);
  CHECK(static_cast<void*>(from.data) == static_cast<void*>(values.data()));
  CHECK(from.rows == 12);
  CHECK(from.columns == 5);
  CHECK(from.format == formats::fp32);
  CHECK(xtensor::code_span(codes).format == formats::bf16);
  convert(context, from, xtensor::code_span(codes));
  CHECK(static_cast<float>(codes(3, 2, 4)) == 59);
  CHECK(static_cast<float>(codes(1, 0, 2)) == 17);
}

TEST_CASE("views with regular rows convert where they lie", "[unit]") {
  auto context = make_context();
  xt::xarray<float> values = xt::arange<float>(0, 60).reshape({4, 3, 5});
  auto part = xt::view(values, xt::all(), 1, xt::range(1, 4));  // one row of each 3 x 5
  const CodeSpan from = xtensor::code_span(part);
  CHECK(from.rows == 4);
  CHECK(from.columns == 3);
  CHECK(from.row_stride == 15 * sizeof(float));
  std::vector<fp16> codes(12);
  convert(context, from,
          CodeSpan{formats::fp16, std::as_writable_bytes(std::span(codes)).data(), 4, 3, 6});
  CHECK(static_cast<float>(codes[0]) == 6);
  CHECK(static_cast<float>(codes[5]) == 23);
  CHECK(static_cast<float>(codes[11]) == 53);
}

TEST_CASE("layouts that are no matrix are refused", "[unit]") {
  xt::xarray<float> values = xt::arange<float>(0, 60).reshape({4, 3, 5});
  const auto refused = [](auto&& container) {
    try {
      static_cast<void>(xtensor::code_span(container));
      return false;
    } catch (const Error& error) {
      return error.id() == error_id::xtensor_layout;
    }
  };
  CHECK(refused(xt::strided_view(values, {xt::all(), xt::all(), xt::range(0, 5, 2)})));
  CHECK(refused(xt::view(values, xt::all(), xt::range(0, 2), xt::all())));  // rows at two distances
  xt::xarray<float, xt::layout_type::column_major> columns =
      xt::xarray<float, xt::layout_type::column_major>::from_shape({3, 4});
  CHECK(refused(columns));
  xt::xarray<float> scalar = 3.0f;
  CHECK(xtensor::code_span(scalar).size() == 1);
}

TEST_CASE("a span is an adaptor over the same memory", "[unit]") {
  std::vector<float> memory(12, 2.0f);
  auto matrix = xtensor::adapt(std::span(memory), {3, 4});
  matrix(1, 1) = 7;
  CHECK(memory[5] == 7);
  try {
    static_cast<void>(xtensor::adapt(std::span(memory), {3, 5}));
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.id() == error_id::size_mismatch);
    CHECK(error.given() == "15 elements");
  }
}

// ops::quantize against the scalings of low-precision recipes as NumPy and ml_dtypes compute them,
// stored by recipe_reference.py: one scale from the tensor's amax, OCP Microscaling, and powers of
// two for 1 x 128 blocks.

#include <soma/ops/product/quantize.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace numpy {
#include "recipe_reference.inc"
}

namespace {

constexpr std::size_t columns = numpy::columns;

// Rows of the inputs, as bf16.
Tensor stored_rows(Context& context, std::span<const std::size_t> chosen) {
  const Tensor x = Tensor::empty(context, Shape{chosen.size(), columns}, DType::bf16);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    std::memcpy(x.mutable_raw() + i * columns * sizeof(std::uint16_t),
                numpy::inputs + chosen[i] * columns, columns * sizeof(std::uint16_t));
  return x;
}

struct TensorCase {
  FloatFormat format;
  std::uint32_t scale;
  std::span<const std::uint8_t> codes;
};

struct BlockCase {
  FloatFormat format;
  std::size_t size;
  std::span<const std::int16_t> exponents;
  std::span<const std::uint8_t> codes;
};

}  // namespace

TEST_CASE("one scale from the amax is what ml_dtypes makes of x / scale", "[unit][quantize]") {
  auto context = make_context({.threads = 2});
  const std::array<std::size_t, 5> rows{0, 1, 2, 5, 6};
  for (const TensorCase& stored :
       {TensorCase{formats::fp8_e4m3fn, numpy::fp8_e4m3fn_tensor_scale[0],
                   numpy::fp8_e4m3fn_tensor_codes},
        TensorCase{formats::fp8_e5m2, numpy::fp8_e5m2_tensor_scale[0],
                   numpy::fp8_e5m2_tensor_codes},
        TensorCase{formats::fp8_e4m3, numpy::fp8_e4m3_tensor_scale[0],
                   numpy::fp8_e4m3_tensor_codes},
        TensorCase{formats::fp8_e3m4, numpy::fp8_e3m4_tensor_scale[0],
                   numpy::fp8_e3m4_tensor_codes}}) {
    const QuantizeSetting setting{
        .quantizer = {.format = stored.format, .scaling = {.policy = ScalePolicy::current}}};
    const Outputs y = run(context, ops::quantize, setting, {stored_rows(context, rows)});
    INFO(to_string(stored.format));
    CHECK(std::bit_cast<std::uint32_t>(values(context, y[1])[0]) == stored.scale);
    const std::span<const std::byte> codes = std::as_bytes(stored.codes);
    CHECK((bits(context, y[0]) == std::vector<std::byte>(codes.begin(), codes.end())));
  }
}

TEST_CASE("blocks with powers of two are those of the specifications", "[unit][quantize]") {
  auto context = make_context({.threads = 2});
  const std::array<std::size_t, numpy::rows> rows{0, 1, 2, 3, 4, 5, 6};
  for (const BlockCase& stored :
       {BlockCase{formats::fp8_e4m3fn, 32, numpy::fp8_e4m3fn_mx_exponents,
                  numpy::fp8_e4m3fn_mx_codes},
        BlockCase{formats::fp8_e5m2, 32, numpy::fp8_e5m2_mx_exponents, numpy::fp8_e5m2_mx_codes},
        BlockCase{formats::fp6_e3m2, 32, numpy::fp6_e3m2_mx_exponents, numpy::fp6_e3m2_mx_codes},
        BlockCase{formats::fp6_e2m3, 32, numpy::fp6_e2m3_mx_exponents, numpy::fp6_e2m3_mx_codes},
        BlockCase{formats::fp4_e2m1, 32, numpy::fp4_e2m1_mx_exponents, numpy::fp4_e2m1_mx_codes},
        BlockCase{formats::fp8_e4m3fn, 128, numpy::fp8_e4m3fn_block_exponents,
                  numpy::fp8_e4m3fn_block_codes},
        BlockCase{formats::fp8_e5m2, 128, numpy::fp8_e5m2_block_exponents,
                  numpy::fp8_e5m2_block_codes}}) {
    const bool mx = stored.size == 32;
    QuantizeSetting setting{
        .quantizer = {
            .format = stored.format,
            .scaling = {.policy = ScalePolicy::current,
                        .granularity = mx ? Granularity::group_32 : Granularity::block_1x128,
                        .format = mx ? ScaleFormat::mx : ScaleFormat::power_of_two}}};
    const Tensor x = stored_rows(context, rows);
    const Outputs y = run(context, ops::quantize, setting, {x});
    INFO(to_string(stored.format) << " in blocks of " << stored.size);
    std::vector<float> scales;
    for (const std::int16_t exponent : stored.exponents)
      scales.push_back(std::ldexp(1.0f, exponent));
    CHECK(values(context, y[1]) == scales);
    const std::size_t per_row = (columns + stored.size - 1) / stored.size;
    std::vector<std::uint16_t> wanted;
    for (std::size_t i = 0; i < stored.codes.size(); ++i) {
      const float scale = scales[i / columns * per_row + i % columns / stored.size];
      const auto code = encode(formats::bf16, decode(stored.format, stored.codes[i]) * scale);
      wanted.push_back(static_cast<std::uint16_t>(code));
    }
    REQUIRE(y[0].dtype() == DType::bf16);
    const auto bytes = std::as_bytes(std::span<const std::uint16_t>(wanted));
    CHECK((bits(context, y[0]) == std::vector<std::byte>(bytes.begin(), bytes.end())));

    // The same down the columns of the transposed matrix, which is no batch.
    setting.along_rows = setting.parameter = true;
    const Outputs turned = run(context, ops::quantize, setting, {x.transpose(0, 1)});
    CHECK((bits(context, turned[0].transpose(0, 1)) == bits(context, y[0])));
    CHECK((bits(context, turned[1].transpose(0, 1)) == bits(context, y[1])));
  }
}

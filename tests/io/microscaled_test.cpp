// Tensors in MXFP4 as public files hold them. Expected numbers are computed here in float64 from
// the layout's description.

#include <soma/io.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr double positive[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
double number_of(int code) { return (code & 8) != 0 ? -positive[code & 7] : positive[code & 7]; }

// Every pair of codes under every scale: 3 x 256 groups.
StateDict every_code(Context& context) {
  const Tensor blocks = Tensor::empty(context, Shape{3, 256, 16}, DType::uint8);
  const Tensor scales = Tensor::empty(context, Shape{3, 256}, DType::uint8);
  for (std::size_t g = 0; g < 3 * 256; ++g) {
    scales.mutable_data<std::uint8_t>()[g] = static_cast<std::uint8_t>(g % 256);
    for (std::size_t i = 0; i < 16; ++i)
      blocks.mutable_data<std::uint8_t>()[16 * g + i] =
          static_cast<std::uint8_t>(g * 37 + i * 16 + i);
  }
  StateDict tensors;
  tensors.set("w_blocks", blocks);
  tensors.set("w_scales", scales);
  return tensors;
}

}  // namespace

TEST_CASE("numbers of MXFP4 are code times scale, the low half first", "[unit][io][microscaling]") {
  auto context = make_context({.threads = 2});
  const StateDict tensors = every_code(context);
  const std::uint8_t* blocks = tensors.at("w_blocks").data<std::uint8_t>();
  const TemporaryFolder folder;
  save_safetensors(folder / "x", tensors);
  const SafetensorsFile file = load_safetensors(context, folder / "x");
  CHECK(microscaled_names(file.tensors) == std::vector<std::string>{"w"});
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Tensor read = read_microscaled(context, file.tensors, "w", dtype);
    CHECK(read.dtype() == dtype);
    REQUIRE(read.shape() == Shape{3, 256 * 32});
    const Tensor numbers = run(context, *context.built_in().cast, CastSetting{}, {read})[0];
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < numbers.elements(); ++i) {
      const int exponent = static_cast<int>(i / 32 % 256) - 127;
      const int pair = blocks[i / 2];
      double wanted = std::ldexp(number_of(i % 2 == 0 ? pair & 15 : pair >> 4), exponent);
      if (std::fabs(wanted) >= 0x1p128) wanted = std::copysign(HUGE_VAL, wanted);
      const double got = numbers.data<float>()[i];
      const bool same = exponent == 128
                            ? std::isnan(got)
                            : got == wanted && std::signbit(got) == std::signbit(wanted);
      wrong += same ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what is written in MXFP4 is read again", "[unit][io][microscaling]") {
  auto context = make_context({.threads = 2});
  std::vector<float> values(5 * 7 * 96);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(number_of(static_cast<int>(i * 7919 % 16))),
                           static_cast<int>(i / 32 % 40) - 20);
  for (std::size_t i = 0; i < values.size(); i += 32)  // so that the group's scale is as above
    values[i] = std::ldexp(6.0f, static_cast<int>(i / 32 % 40) - 20);
  values[32 * 5 + 3] = std::numeric_limits<float>::infinity();
  const Tensor tensor = Tensor::from(context, std::span<const float>(values), Shape{5, 7, 96});
  for (const ScaleRule rule : {ScaleRule::floor, ScaleRule::up}) {
    StateDict tensors;
    set_microscaled(context, tensors, "w", tensor, rule);
    CHECK(tensors.at("w_blocks").shape() == Shape{5, 7, 3, 16});
    CHECK(tensors.at("w_scales").shape() == Shape{5, 7, 3});
    CHECK(tensors.at("w_scales").data<std::uint8_t>()[0] == 107);
    CHECK(tensors.at("w_scales").data<std::uint8_t>()[5] == 255);
    const Tensor read = read_microscaled(context, tensors, "w", DType::fp32);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float got = read.data<float>()[i];
      wrong += (i / 32 == 5 ? std::isnan(got) : got == values[i]) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("parts of MXFP4 that do not match are refused", "[unit][io][microscaling]") {
  auto context = make_context({.threads = 1});
  const auto bytes = [&](const Shape& shape, DType dtype = DType::uint8) {
    return Tensor::zeros(context, shape, dtype);
  };
  const auto refused = [&](const Tensor& blocks, const Tensor& scales) {
    StateDict tensors;
    tensors.set("w_blocks", blocks);
    if (scales.defined()) tensors.set("w_scales", scales);
    return id_of([&] { static_cast<void>(read_microscaled(context, tensors, "w")); });
  };
  const Tensor good = bytes(Shape{4, 3, 16});
  CHECK(refused(good, bytes(Shape{4, 3})) == "no error");
  CHECK(refused(good, bytes(Shape{4, 3}, DType::e8m0)) == "no error");
  CHECK(refused(good, {}) == "state.missing_name");
  CHECK(refused(good, bytes(Shape{4, 4})) == "safetensors.size");
  CHECK(refused(good, bytes(Shape{12})) == "safetensors.size");
  CHECK(refused(good, bytes(Shape{4, 3, 1})) == "safetensors.size");
  CHECK(refused(bytes(Shape{4, 3, 15}), bytes(Shape{4, 3})) == "safetensors.size");
  CHECK(refused(bytes(Shape{16}), bytes(Shape{1})) == "safetensors.size");
  CHECK(refused(good, bytes(Shape{4, 3}, DType::fp32)) == "safetensors.dtype");
  CHECK(refused(bytes(Shape{4, 3, 16}, DType::int8), bytes(Shape{4, 3})) == "safetensors.dtype");
  StateDict tensors;
  CHECK(id_of([&] {
          set_microscaled(context, tensors, "w", bytes(Shape{4, 33}, DType::fp32));
        }) == "safetensors.size");
  CHECK(id_of([&] {
          set_microscaled(context, tensors, "w", bytes(Shape{4, 32}));
        }) == "tensor.dtype");
  CHECK(tensors.empty());
}

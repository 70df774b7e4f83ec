// Tensors as text. Numbers and notations are those that PyTorch prints for the same values.

#include <soma/soma.hpp>
#include <soma/tensor/print.hpp>

#include "catch.hpp"

#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

using namespace soma;

namespace {

Tensor counting(Context& context, const Shape& shape) {
  const Tensor tensor = Tensor::empty(context, shape, DType::int32);
  std::iota(tensor.mutable_span<std::int32_t>().begin(), tensor.mutable_span<std::int32_t>().end(),
            0);
  return tensor;
}

}  // namespace

TEST_CASE("fixed, integral and scientific notation", "[unit][print]") {
  auto context = make_context();
  const auto text = [&](std::initializer_list<float> values, const PrintOptions& options = {}) {
    return to_string(Tensor::from(context, values, {values.size()}), options);
  };
  CHECK(text({1, -2.5f, 3, 0.125f}) == "[ 1.0000, -2.5000,  3.0000,  0.1250], shape [4], fp32");
  CHECK(text({1, 2, -30}) == "[  1.,   2., -30.], shape [3], fp32");
  CHECK(text({0, 0}) == "[0., 0.], shape [2], fp32");
  CHECK(text({1, 2000.5f}) == "[1.0000e+00, 2.0005e+03], shape [2], fp32");
  CHECK(text({1, 2000}) == "[1.0000e+00, 2.0000e+03], shape [2], fp32");
  CHECK(text({2, 2000}) == "[   2., 2000.], shape [2], fp32");
  CHECK(text({0.00005f, 0.00002f}) == "[5.0000e-05, 2.0000e-05], shape [2], fp32");
  CHECK(text({2e8f}) == "[2.0000e+08], shape [1], fp32");
  CHECK(text({1e8f}) == "[100000000.], shape [1], fp32");
  CHECK(text({1, 2.25f}, {.precision = 1}) == "[1.0, 2.2], shape [2], fp32");
  CHECK(text({1, 2.75f}, {.precision = 0}) == "[1, 3], shape [2], fp32");
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(text({1.5f, -infinity, nan, -nan, infinity}) ==
        "[1.5000,   -inf,    nan,    nan,    inf], shape [5], fp32");
  CHECK(text({1, infinity}) == "[ 1., inf], shape [2], fp32");
  CHECK(text({-0.0f, 1}) == "[-0.,  1.], shape [2], fp32");
  CHECK(text({std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) ==
        "[3.4028e+38, 1.4013e-45], shape [2], fp32");
  CHECK(text({std::numeric_limits<float>::denorm_min()}, {.precision = 99}) ==
        "[1.40129846432481707092e-45], shape [1], fp32");
}

TEST_CASE("every dtype is printed as the numbers it holds", "[unit][print]") {
  auto context = make_context();
  for (const DType dtype : dtypes) {
    if (!is_floating(dtype) || dtype == DType::e8m0) continue;
    const Tensor tensor = Tensor::empty(context, {2}, dtype);
    const FloatFormat& format = format_of(dtype);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint32_t bits = encode(format, i == 0 ? 1.5f : -3.0f) << format.storage_shift();
      std::memcpy(tensor.mutable_raw() + i * size_of(dtype), &bits, size_of(dtype));
    }
    CHECK(to_string(tensor) == "[ 1.5000, -3.0000], shape [2], " + std::string(to_string(dtype)));
  }
  CHECK(to_string(Tensor::from(context, {e8m0(0.5f), e8m0(4.0f)}, {2})) ==
        "[0.5000, 4.0000], shape [2], e8m0");
  CHECK(to_string(Tensor::from<std::int8_t>(context, {-128, 127}, {2})) ==
        "[-128,  127], shape [2], int8");
  CHECK(to_string(Tensor::from<std::uint8_t>(context, {0, 255}, {2})) ==
        "[  0, 255], shape [2], uint8");
  CHECK(to_string(Tensor::from<std::int16_t>(context, {-32768, 7}, {2})) ==
        "[-32768,      7], shape [2], int16");
  CHECK(to_string(Tensor::from<std::uint16_t>(context, {65535, 7}, {2})) ==
        "[65535,     7], shape [2], uint16");
  CHECK(to_string(Tensor::from<std::uint32_t>(context, {4294967295}, {1})) ==
        "[4294967295], shape [1], uint32");
  CHECK(to_string(Tensor::from<std::int32_t>(context, {-2147483647 - 1}, {1})) ==
        "[-2147483648], shape [1], int32");
  CHECK(to_string(Tensor::full(context, {1}, std::numeric_limits<std::int64_t>::min())) ==
        "[-9223372036854775808], shape [1], int64");
  CHECK(to_string(Tensor::from(context, {true, false}, {2})) == "[ true, false], shape [2], bool");
}

TEST_CASE("scalars, nothing, and no tensor", "[unit][print]") {
  auto context = make_context();
  CHECK(to_string(Tensor::scalar(context, 2.5f)) == "2.5000, shape [], fp32");
  CHECK(to_string(Tensor::scalar(context, 7)) == "7, shape [], int32");
  CHECK(to_string(Tensor::zeros(context, {0})) == "[], shape [0], fp32");
  CHECK(to_string(Tensor::zeros(context, {2, 0, 3}, DType::bf16)) == "[], shape [2, 0, 3], bf16");
  CHECK(to_string(Tensor()) == "no tensor");
}

TEST_CASE("rows and blocks are aligned", "[unit][print]") {
  auto context = make_context();
  CHECK(to_string(counting(context, {2, 6})) ==
        "[[ 0,  1,  2,  3,  4,  5],\n"
        " [ 6,  7,  8,  9, 10, 11]], shape [2, 6], int32");
  CHECK(to_string(counting(context, {2, 2, 2})) ==
        "[[[0, 1],\n"
        "  [2, 3]],\n"
        "\n"
        " [[4, 5],\n"
        "  [6, 7]]], shape [2, 2, 2], int32");
  CHECK(to_string(counting(context, {1, 1, 1, 1, 1, 1, 1, 1})) ==
        "[[[[[[[[0]]]]]]]], shape [1, 1, 1, 1, 1, 1, 1, 1], int32");
}

TEST_CASE("views are printed as they read", "[unit][print]") {
  auto context = make_context();
  const Tensor tensor = counting(context, {2, 3});
  CHECK(to_string(tensor.transpose(0, 1)) ==
        "[[0, 3],\n"
        " [1, 4],\n"
        " [2, 5]], shape [3, 2], int32");
  CHECK(to_string(tensor.slice(1, 0, 3, 2)) ==
        "[[0, 2],\n"
        " [3, 5]], shape [2, 2], int32");
  CHECK(to_string(tensor.select(1, 1).broadcast_to({2, 2})) ==
        "[[1, 4],\n"
        " [1, 4]], shape [2, 2], int32");
}

TEST_CASE("beyond the threshold the middle is left out", "[unit][print]") {
  auto context = make_context();
  CHECK(to_string(counting(context, {1001})) ==
        "[   0,    1,    2, ...,  998,  999, 1000], shape [1001], int32");
  CHECK(to_string(counting(context, {40, 50})) ==
        "[[   0,    1,    2, ...,   47,   48,   49],\n"
        " [  50,   51,   52, ...,   97,   98,   99],\n"
        " [ 100,  101,  102, ...,  147,  148,  149],\n"
        " ...,\n"
        " [1850, 1851, 1852, ..., 1897, 1898, 1899],\n"
        " [1900, 1901, 1902, ..., 1947, 1948, 1949],\n"
        " [1950, 1951, 1952, ..., 1997, 1998, 1999]], shape [40, 50], int32");
  CHECK(to_string(counting(context, {3, 2, 3}), {.edge = 1, .threshold = 10}) ==
        "[[[ 0, ...,  2],\n"
        "  [ 3, ...,  5]],\n"
        "\n"
        " ...,\n"
        "\n"
        " [[12, ..., 14],\n"
        "  [15, ..., 17]]], shape [3, 2, 3], int32");
  CHECK(to_string(counting(context, {4, 2}), {.edge = 2, .threshold = 0}) ==
        "[[0, 1],\n"
        " [2, 3],\n"
        " [4, 5],\n"
        " [6, 7]], shape [4, 2], int32");
  CHECK(to_string(counting(context, {5}), {.edge = 0, .threshold = 0}) ==
        "[...], shape [5], int32");
  CHECK(to_string(counting(context, {5}), {.edge = ~std::size_t{0}, .threshold = 0}) ==
        "[0, 1, 2, 3, 4], shape [5], int32");
  // The notation follows from what is shown.
  const Tensor tensor = Tensor::zeros(context, {2000});
  tensor.mutable_span<float>()[1000] = 0.5f;
  CHECK(to_string(tensor) == "[0., 0., 0., ..., 0., 0., 0.], shape [2000], fp32");
  // Only what is shown is read: a tensor of 2^50 elements is printed at once.
  CHECK(to_string(Tensor::scalar(context, 1).broadcast_to({std::size_t{1} << 50}))
            .starts_with("[1, 1, 1, ..., 1, 1, 1], shape"));
}

TEST_CASE("long rows are broken", "[unit][print]") {
  auto context = make_context();
  CHECK(to_string(counting(context, {2, 5}), {.line_width = 12}) ==
        "[[0, 1, 2,\n"
        "  3, 4],\n"
        " [5, 6, 7,\n"
        "  8, 9]], shape [2, 5], int32");
  CHECK(to_string(counting(context, {3}), {.line_width = 0}) == "[0,\n 1,\n 2], shape [3], int32");
}

TEST_CASE("streams print the same", "[unit][print]") {
  auto context = make_context();
  std::ostringstream out;
  out << counting(context, {3});
  CHECK(out.str() == "[0, 1, 2], shape [3], int32");
}

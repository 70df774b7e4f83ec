// The programs of element-wise functions, norms, losses and reductions where the samples of their
// operators do not reach: several tiles, long rows, special values, the bits of random draws.

#include <soma/ops/all.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/on_device.hpp"
#include "support/table.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::Table;
namespace check = soma::testing::detail;

namespace {

constexpr double unit = 0x1p-24;

// A host and a core that refuses arguments outside a function's range and elements nobody wrote,
// and whose transfers end late.
struct Pair {
  Context context = make_context({.threads = 1});
  neuroncore::CoreOptions options = soma_test::stressed(7);

  explicit Pair(neuroncore::OutOfRange out_of_range = neuroncore::OutOfRange::error) {
    options.out_of_range = out_of_range;
  }

  Outputs on_device(const Operator& op, const Attributes& attributes,
                    const std::vector<Tensor>& inputs, const Sequences& sequences = {}) {
    const soma_test::OnDevice on(context, options);
    return run(context, op, attributes, inputs, sequences);
  }
  // Every output within `error` of the host kernel's, relative to the largest, and one rounding.
  void expect_close(const std::string& what, const Operator& op, const Attributes& attributes,
                    const std::vector<Tensor>& inputs, double error,
                    const Sequences& sequences = {}) {
    INFO(op.name << " " << what);
    const Outputs wanted = run(context, op, attributes, inputs, sequences);
    const Outputs given = on_device(op, attributes, inputs, sequences);
    for (std::size_t i = 0; i < op.outputs; ++i) {
      INFO("output " << i);
      REQUIRE(given[i].shape() == wanted[i].shape());
      const DType dtype = wanted[i].dtype();
      const double rounding = dtype == DType::fp32 ? 0 : 2 * check::rounding_of(dtype);
      CHECK(check::compare(check::to_reference(context, given[i]).values,
                           check::to_reference(context, wanted[i]).values, error + rounding,
                           dtype) == "");
    }
  }
  Tensor uniform(const Shape& shape, double low, double high, DType dtype = DType::fp32,
                 std::uint32_t stream = 0) {
    Tensor tensor = Tensor::empty(context, shape, dtype);
    const std::size_t width = size_of(dtype);
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const double part = random_word({.seed = 11, .stream = stream}, i) * 0x1p-32;
      check::store(tensor.mutable_raw() + i * width, dtype, low + (high - low) * part);
    }
    return tensor;
  }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

template <std::size_t... i>
std::array<std::array<const Operator*, 2>, unary_count> unary_operators(std::index_sequence<i...>) {
  return {{{&ops::unary<static_cast<Unary>(i)>, &ops::unary_backward<static_cast<Unary>(i)>}...}};
}

}  // namespace

static void element_tiles(Table table) {
  Pair pair;
  const auto operators = unary_operators(std::make_index_sequence<unary_count>());
  for (const std::size_t count :
       entries<std::size_t>(table, {1, 512, 513, 70001}, {1, 512, 513, 70001, 300000}))
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      if (count == 300000 && dtype == DType::bf16) continue;
      for (std::size_t function = 0; function < unary_count; ++function) {
        const auto unary = static_cast<Unary>(function);
        const bool positive =
            unary == Unary::square_root || unary == Unary::logarithm || unary == Unary::reciprocal;
        const Tensor x = pair.uniform(Shape{count}, positive ? 0.1 : -6, 6, dtype);
        const Tensor dy = pair.uniform(Shape{count}, -2, 2, dtype, 1);
        const std::string what = std::to_string(count) + " " + std::string(to_string(dtype));
        pair.expect_close(what, *operators[function][0], {}, {x}, 8 * unit);
        pair.expect_close(what, *operators[function][1], {}, {x, dy}, 16 * unit);
      }
    }
}

TEST_CASE("element-wise programs work in several tiles", "[unit]") { element_tiles(Table::part); }
TEST_CASE("element-wise programs work in several tiles: all", "[slow]") {
  element_tiles(Table::whole);
}

TEST_CASE("element-wise programs treat special values as the host does", "[unit]") {
  auto context = make_context({.threads = 1});
  auto core = neuroncore::make_core(context, neuroncore::trn1());
  auto device = neuroncore::make_device(core);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto expect = [&](const Operator& op, const std::vector<Tensor>& inputs) {
    const Tensor wanted = run(context, op, {}, inputs)[0];
    context.set_device(&device);
    const Tensor given = run(context, op, {}, inputs)[0];
    context.set_device(nullptr);
    for (std::size_t i = 0; i < wanted.elements(); ++i) {
      const float y = given.span<float>()[i], z = wanted.span<float>()[i];
      INFO(op.name << " of " << inputs[0].span<float>()[i] << " is " << y << ", wanted " << z);
      const bool close = std::fabs(y - z) <= 4e-6f * std::fabs(z) + 1e-7f;
      CHECK((y == z || close || (std::isnan(y) && std::isnan(z))));
    }
  };
  const Tensor x = Tensor::from(
      context,
      {0.0f, -0.0f, 1e-30f, 1e-38f, 1e-42f, -1.0f, -1e-30f, 1e10f, 3e18f, infinity, nan, -3.0f},
      Shape{12});
  const Tensor ordinary = Tensor::full(context, Shape{12}, 0.5f);
  for (const Unary unary :
       {Unary::square_root, Unary::logarithm,  Unary::reciprocal,   Unary::exponential,
        Unary::absolute,    Unary::relu,       Unary::gelu,         Unary::gelu_tanh,
        Unary::silu,        Unary::softplus,   Unary::gelu_sigmoid, Unary::gelu_clipped,
        Unary::mish,        Unary::leaky_relu, Unary::relu6,        Unary::relu_squared,
        Unary::laplace,     Unary::elu,        Unary::hard_sigmoid, Unary::hard_swish,
        Unary::hard_tanh})
    expect(*context.built_in().unary[static_cast<std::size_t>(unary)], {x});
  expect(ops::unary_backward<Unary::relu>, {x, ordinary});
  for (const float bad : {infinity, -infinity, nan, 0.5f}) {
    const Tensor dy = Tensor::full(context, Shape{12}, bad);
    expect(ops::unary_backward<Unary::relu>, {x, dy});
    expect(ops::unary_backward<Unary::relu6>, {x, dy});
  }
  for (const Operator* cut :
       {&ops::unary_backward<Unary::relu_squared>, &ops::unary_backward<Unary::gelu_clipped>,
        &ops::unary_backward<Unary::gelu_sigmoid>, &ops::unary_backward<Unary::mish>,
        &ops::unary_backward<Unary::leaky_relu>, &ops::unary_backward<Unary::laplace>,
        &ops::unary_backward<Unary::elu>, &ops::unary_backward<Unary::hard_sigmoid>,
        &ops::unary_backward<Unary::hard_swish>, &ops::unary_backward<Unary::hard_tanh>})
    expect(*cut, {x, ordinary});
  expect(ops::unary_backward<Unary::gelu_tanh>, {x, ordinary});
  expect(ops::unary_backward<Unary::tanh>, {x, ordinary});
  // dy / x^2, where x^2 is above or below all numbers.
  expect(ops::unary_backward<Unary::reciprocal>,
         {Tensor::from(context, {1e-25f, -1e25f, 1e-20f, infinity, 2.0f}, Shape{5}),
          Tensor::from(context, {1e-20f, 1e20f, 1e-5f, 1.0f, nan}, Shape{5})});
  // Quotients of numbers whose reciprocal is above or below all normal ones, and their signs.
  const std::vector<float> ends = {0.0f,  -0.0f, 1e-45f, -1e-39f, 1e-38f, 5e-20f,   -6e-20f, 1e-10f,
                                   -1.0f, 3e18f, -3e19f, 1e38f,   3e38f,  infinity, nan};
  std::vector<float> above, below;
  for (const float a : ends)
    for (const float b : ends) {
      above.push_back(a);
      below.push_back(b);
    }
  expect(ops::binary<Binary::divide>, {Tensor::from<float>(context, above, Shape{above.size()}),
                                       Tensor::from<float>(context, below, Shape{below.size()})});
  const Tensor angles = Tensor::from(
      context, {0.0f, 3.14159274f, -1.57079637f, 100.0f, -30000.5f, infinity, nan}, Shape{7});
  expect(ops::unary<Unary::sine>, {angles});
  expect(ops::unary<Unary::cosine>, {angles});
  const Tensor y = Tensor::from(
      context, {nan, 1.0f, 0.0f, 0.0f, 1e10f, 1.0f, nan, 0.0f, -1.0f, 2.0f, 0.5f, nan}, Shape{12});
  expect(ops::binary<Binary::maximum>, {x, y});
  expect(ops::binary<Binary::minimum>, {x, y});
  expect(ops::binary<Binary::maximum>, {y, x});
}

static void broadcasts(Table table) {
  Pair pair;
  const auto& binary = pair.context.built_in().binary;
  for (const auto& [a, b] :
       std::vector<std::pair<Shape, Shape>>{{{300, 700}, {700}},
                                            {{300, 700}, {300, 1}},
                                            {{300, 1}, {1, 700}},
                                            {{3, 130, 5}, {130, 1}},
                                            {{2, 3, 1, 130, 3}, {3, 1, 3}},
                                            {{2, 1, 3, 1, 2, 1}, {3, 1, 5, 1, 4}},
                                            {{100003}, {}},
                                            {{300000}, {1}},
                                            {{129, 4100}, {129, 4100}},
                                            {{129, 4100}, {4100}},
                                            {{1}, {1}}})
    for (std::size_t function = 0; function < binary_count; ++function) {
      // A part has all functions where tensors are small, three where they are large.
      if (table == Table::part && a.elements() > 200000 && function % 4 != 0) continue;
      const Tensor x = pair.uniform(a, -2, 2), y = pair.uniform(b, 0.5, 4, DType::fp32, 1);
      pair.expect_close(to_string(a) + " " + to_string(b), *binary[function], {}, {x, y}, 2 * unit);
      pair.expect_close(to_string(b) + " " + to_string(a), *binary[function], {}, {y, x}, 8 * unit);
    }
  // Strides of every kind.
  const Tensor x = pair.uniform(Shape{40, 6, 70}, -2, 2, DType::bf16).transpose(0, 1);
  const Tensor y = pair.uniform(Shape{140, 40}, -2, 2).slice(0, 1, to_end, 2).transpose(0, 1);
  pair.expect_close("strides", ops::binary<Binary::subtract>, {}, {x, y}, 2 * unit);
}

TEST_CASE("programs of two inputs broadcast as NumPy does", "[unit]") { broadcasts(Table::part); }
TEST_CASE("programs of two inputs broadcast as NumPy does: all", "[slow]") {
  broadcasts(Table::whole);
}

static void long_rows(Table table) {
  Pair pair;
  for (const Shape& shape :
       entries<Shape>(table, {Shape{1, 1}, Shape{2, 65, 768}, Shape{3, 9000}, Shape{700, 3}},
                      {Shape{1, 1}, Shape{300, 768}, Shape{2, 65, 4096}, Shape{129, 5001},
                       Shape{3, 9000}, Shape{700, 3}})) {
    const double columns = static_cast<double>(shape.columns());
    const double rows = static_cast<double>(shape.rows());
    for (const DType dtype : {DType::fp32, DType::bf16, DType::tf32}) {
      const std::string what = to_string(shape) + " " + std::string(to_string(dtype));
      const Tensor x = pair.uniform(shape, -4, 4, dtype);
      const Tensor dy = pair.uniform(shape, -1, 1, dtype, 1);
      for (const bool logarithm : {false, true}) {
        const SoftmaxSetting setting{logarithm};
        pair.expect_close(what, ops::softmax, setting, {x}, (columns + 16) * unit);
        const Tensor y = run(pair.context, ops::softmax, setting, {x})[0];
        pair.expect_close(what, ops::softmax_backward, setting, {y, dy}, 4 * (columns + 16) * unit);
      }
      const Tensor gamma = pair.uniform(Shape{shape.columns()}, 0.5, 1.5, dtype, 2);
      const Tensor beta = pair.uniform(Shape{shape.columns()}, -1, 1, dtype, 3);
      for (const bool rms : {false, true})
        for (const bool shifted : {false, true}) {
          const NormSetting setting{1e-5f, rms};
          const std::vector<Tensor> inputs =
              shifted ? std::vector<Tensor>{x, gamma, beta} : std::vector<Tensor>{x, gamma};
          pair.expect_close(what, ops::norm, setting, inputs, 4 * (columns + 16) * unit);
          const Outputs forward = run(pair.context, ops::norm, setting, inputs);
          pair.expect_close(what, ops::norm_backward, setting,
                            {x, gamma, forward[1], forward[2], dy},
                            16 * (columns + rows + 16) * unit);
        }
    }
  }
  // A large common offset costs no digits: the mean is that of the row, to the last bits.
  const Tensor far = pair.uniform(Shape{5, 5001}, 4096, 4097);
  const Tensor ones = Tensor::full(pair.context, Shape{5001}, 1.0f);
  pair.expect_close("offset", ops::norm, NormSetting{}, {far, ones}, 2 * 4097 * 2 * unit);
  // No rows, and rows without columns.
  const Outputs none = pair.on_device(
      ops::norm_backward, NormSetting{},
      {Tensor::empty(pair.context, Shape{0, 7}), Tensor::full(pair.context, Shape{7}, 1.0f),
       Tensor::empty(pair.context, Shape{0}), Tensor::empty(pair.context, Shape{0}),
       Tensor::empty(pair.context, Shape{0, 7})});
  CHECK(none[1].span<float>()[6] == 0);
  CHECK(none[2].span<float>()[0] == 0);
  const Outputs empty = pair.on_device(
      ops::norm, NormSetting{},
      {Tensor::empty(pair.context, Shape{3, 0}), Tensor::empty(pair.context, Shape{0})});
  CHECK(std::isnan(empty[2].span<float>()[2]));
}

TEST_CASE("programs of rows work with many rows and long ones", "[unit]") {
  long_rows(Table::part);
}
TEST_CASE("programs of rows work with many rows and long ones: all", "[slow]") {
  long_rows(Table::whole);
}

TEST_CASE("masked logits get no probability and spoil no other row", "[unit]") {
  Pair pair;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = pair.uniform(Shape{130, 40}, -4, 4);
  for (std::size_t row = 0; row < 130; ++row)
    for (std::size_t column = row % 39 + 1; column < 40; ++column)
      x.mutable_span<float>()[row * 40 + column] = -infinity;
  pair.expect_close("masked", ops::softmax, SoftmaxSetting{}, {x}, 64 * unit);
  const Tensor labels = Tensor::zeros(pair.context, Shape{130}, DType::int64);
  pair.expect_close("masked", ops::cross_entropy, CrossEntropySetting{}, {x, labels}, 256 * unit);
}

TEST_CASE("the program of cross entropy works with many classes", "[unit]") {
  Pair pair;
  for (const Shape& shape : {Shape{130, 30522}, Shape{300, 2}, Shape{5, 4096}, Shape{1, 1}})
    for (const LossReduction reduction :
         {LossReduction::mean, LossReduction::sum, LossReduction::none})
      for (const float smoothing : {0.0f, 0.1f}) {
        const std::size_t rows = shape[0], classes = shape[1];
        const bool large = classes == 30522;
        if (large && reduction == LossReduction::sum) continue;
        const CrossEntropySetting setting{.reduction = reduction, .label_smoothing = smoothing};
        const Tensor x = pair.uniform(shape, -8, 8, large ? DType::bf16 : DType::fp32);
        const Tensor labels = Tensor::empty(pair.context, Shape{rows}, DType::int64);
        for (std::size_t i = 0; i < rows; ++i)
          labels.mutable_span<std::int64_t>()[i] =
              i % 5 == 3 ? -100 : static_cast<std::int64_t>((i + 1) * 7919 % classes);
        const double error = static_cast<double>(classes + rows + 32) * unit;
        pair.expect_close(to_string(shape), ops::cross_entropy, setting, {x, labels}, error);
        const Tensor lse = run(pair.context, ops::cross_entropy, setting, {x, labels})[1];
        const Tensor dloss = reduction == LossReduction::none ? pair.uniform(Shape{rows}, -2, 2)
                                                              : Tensor::scalar(pair.context, 3.0f);
        pair.expect_close(to_string(shape), ops::cross_entropy_backward, setting,
                          {x, labels, lse, dloss}, 64 * unit);
      }
}

TEST_CASE("cross entropy takes rows that do not count, gaps and nothing", "[unit]") {
  Pair pair(neuroncore::OutOfRange::value);
  const Tensor x = pair.uniform(Shape{140, 20}, -8, 8).slice(0, 2, 137).slice(1, 1, to_end, 2);
  const Tensor labels = Tensor::zeros(pair.context, Shape{135}, DType::int32);
  labels.mutable_span<std::int32_t>()[131] = -100;
  labels.mutable_span<std::int32_t>()[130] = 9;
  const Tensor spoilt = x.select(0, 131);
  *reinterpret_cast<float*>(spoilt.mutable_raw()) = std::numeric_limits<float>::quiet_NaN();
  pair.expect_close("gaps", ops::cross_entropy, CrossEntropySetting{}, {x, labels}, 256 * unit);
  const Tensor lse = run(pair.context, ops::cross_entropy, CrossEntropySetting{}, {x, labels})[1];
  pair.expect_close("gaps", ops::cross_entropy_backward, CrossEntropySetting{},
                    {x, labels, lse, Tensor::scalar(pair.context, 1.0f)}, 64 * unit);
  // No rows, and rows without classes.
  const Tensor none = Tensor::empty(pair.context, Shape{0, 3});
  const Tensor no_labels = Tensor::empty(pair.context, Shape{0}, DType::int64);
  pair.expect_close("no rows", ops::cross_entropy, CrossEntropySetting{}, {none, no_labels}, 0);
  const Tensor ignored = Tensor::full(pair.context, Shape{2}, std::int64_t{-100});
  for (const LossReduction reduction : {LossReduction::sum, LossReduction::none})
    pair.expect_close("no classes", ops::cross_entropy, CrossEntropySetting{reduction},
                      {Tensor::empty(pair.context, Shape{2, 0}), ignored}, 0);
  // Labels are checked as on the host.
  labels.mutable_span<std::int32_t>()[3] = 10;
  CHECK_THROWS_WITH(pair.on_device(ops::cross_entropy, CrossEntropySetting{}, {x, labels}),
                    soma_test::contains("labels[3]"));
}

TEST_CASE("programs sum over any dimensions", "[unit]") {
  Pair pair;
  for (const auto& [shape, dimensions] :
       std::vector<std::pair<Shape, std::uint32_t>>{{{70001}, 1},
                                                    {{1000, 7}, 1},
                                                    {{1000, 7}, 2},
                                                    {{7, 1000}, 1},
                                                    {{300, 5000}, 1},
                                                    {{300, 5000}, 2},
                                                    {{70000, 3}, 1},
                                                    {{736, 128}, 1},
                                                    {{1, 9000}, 1},
                                                    {{3, 50, 4, 70}, 0b0101},
                                                    {{3, 50, 4, 70}, 0b1010},
                                                    {{3, 50, 4, 70}, 0b1001},
                                                    {{2, 3, 2, 5, 2, 3}, 0b010101},
                                                    {{4, 5, 6}, 0}})
    for (const bool mean : {false, true})
      for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3}) {
        const ReduceSetting setting{dimensions, mean};
        // Sums of positive numbers, of half each: relative to the largest the bound is that of
        // adding so many.
        const double count = static_cast<double>(shape.elements());
        pair.expect_close(to_string(shape) + " " + std::to_string(dimensions), ops::reduce, setting,
                          {pair.uniform(shape, 0, 1, dtype)}, (std::min)(count, 2e4) * unit);
      }
  const Tensor none = Tensor::empty(pair.context, Shape{0, 5});
  CHECK(pair.on_device(ops::reduce, ReduceSetting{1, false}, {none})[0].span<float>()[4] == 0);
  CHECK(
      std::isnan(pair.on_device(ops::reduce, ReduceSetting{1, true}, {none})[0].span<float>()[4]));
}

TEST_CASE("programs of losses of elements work in several tiles", "[unit]") {
  Pair pair;
  for (const std::size_t count : std::vector<std::size_t>{1, 70001})
    for (const ElementLoss loss :
         {ElementLoss::squared_error, ElementLoss::binary_cross_entropy_logits})
      for (const LossReduction reduction :
           {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
        const ElementLossSetting setting{loss, reduction, 0};
        const Tensor x = pair.uniform(Shape{count}, -30, 30);
        const Tensor t = pair.uniform(Shape{count}, 0, 1, DType::bf16, 1);
        pair.expect_close(std::to_string(count), ops::element_loss, setting, {x, t}, 4096 * unit);
        const Tensor dloss = reduction == LossReduction::none
                                 ? pair.uniform(Shape{count}, -2, 2, DType::fp32, 2)
                                 : Tensor::scalar(pair.context, 3.0f);
        pair.expect_close(std::to_string(count), ops::element_loss_backward, setting, {x, t, dloss},
                          64 * unit);
      }
}

TEST_CASE("the program of binary cross entropy has its limits at infinity", "[unit]") {
  Pair pair(neuroncore::OutOfRange::value);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x{infinity,  infinity,  infinity, -infinity,
                             -infinity, -infinity, 200,      -200};
  const std::vector<float> t{1, 0, 0.25f, 0, 1, 0.25f, 1, 0};
  const ElementLossSetting setting{.loss = ElementLoss::binary_cross_entropy_logits,
                                   .reduction = LossReduction::none};
  const std::vector<Tensor> in{Tensor::from<float>(pair.context, x, Shape{8}),
                               Tensor::from<float>(pair.context, t, Shape{8})};
  const Tensor loss = pair.on_device(ops::element_loss, setting, in)[0];
  const std::vector<float> wanted{0, infinity, infinity, 0, infinity, infinity, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) CHECK(loss.span<float>()[i] == wanted[i]);
  const Tensor ones = Tensor::full(pair.context, Shape{8}, 1.0f);
  const Tensor slope = pair.on_device(ops::element_loss_backward, setting, {in[0], in[1], ones})[0];
  const std::vector<float> slopes{0, 1, 0.75f, 0, -1, -0.25f, 0, 0};
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(std::fabs(slope.span<float>()[i] - slopes[i]) <= 2 * unit);
}

TEST_CASE("programs draw what the host draws", "[unit]") {
  Pair pair;
  const DropoutSetting setting{.probability = 0.3f, .draw = {.seed = 5, .stream = 2, .step = 9}};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const Tensor x = pair.uniform(Shape{300, 5000}, 1, 2, dtype);
    const std::vector<std::size_t> lengths{130, 0, 169, 1};
    for (const Sequences& sequences :
         {Sequences(), Sequences::from_lengths(pair.context, lengths)}) {
      const Tensor wanted = run(pair.context, ops::dropout, setting, {x}, sequences)[0];
      CHECK(same_bits(pair.on_device(ops::dropout, setting, {x}, sequences)[0], wanted));
    }
  }
  const Tensor x = pair.uniform(Shape{7, 100003}, -2, 2);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::tf32, DType::fp8_e4m3})
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
      const CastSetting cast{dtype, rounding, {.seed = 3, .stream = 1, .step = 4, .index = 1001}};
      const Tensor wanted = run(pair.context, ops::cast, cast, {x})[0];
      CHECK(same_bits(pair.on_device(ops::cast, cast, {x})[0], wanted));
    }
}

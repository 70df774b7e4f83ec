// Programs of products at sizes that fill many tiles and none: against the host's kernels.

#include "programs/device_run.hpp"
#include "support/table.hpp"

using namespace soma;
using soma_test::difference;
using soma_test::random_of;
using soma_test::run_on_device;
using soma_test::Table;

namespace {

// Sums of k products of numbers below 1, added in two orders.
double sum_bound(std::size_t k) { return static_cast<double>(k + 16) * 0x1p-23; }

void check_matmul(std::size_t m, std::size_t n, std::size_t k, const MatmulSetting& setting,
                  DType a_type, DType b_type) {
  auto context = make_context({.threads = 2});
  INFO(m << " x " << n << " x " << k << " " << setting.transpose_a << setting.transpose_b << " "
         << to_string(a_type) << " " << to_string(b_type));
  const Tensor a = random_of(context, setting.transpose_a ? Shape{k, m} : Shape{m, k}, a_type, "a");
  const Tensor b = random_of(context, setting.transpose_b ? Shape{n, k} : Shape{k, n}, b_type, "b");
  const Outputs host = run(context, ops::matmul, setting, {a, b});
  const Outputs device = run_on_device(context, ops::matmul, setting, {a, b});
  CHECK(difference(context, device[0], host[0], sum_bound(k)) == "");
}

}  // namespace

TEST_CASE("matmul's program takes any size, layout and pair of types", "[unit][programs]") {
  constexpr DType fp32 = DType::fp32, bf16 = DType::bf16;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const MatmulSetting setting{.transpose_a = ta, .transpose_b = tb};
      check_matmul(1, 1, 1, setting, fp32, fp32);
      check_matmul(129, 513, 127, setting, fp32, fp32);
      check_matmul(300, 1100, 700, setting, bf16, bf16);
      check_matmul(257, 100, 640, setting, bf16, fp32);
      check_matmul(130, 70, 260, setting, DType::fp8_e4m3, bf16);
      check_matmul(3, 4700, 40, setting, fp32, bf16);
      check_matmul(33, 20, 9000, setting, fp32, fp32);     // inner pieces, one strip
      check_matmul(140, 2500, 2600, setting, fp32, fp32);  // and strips
    }
  for (const DType dtype : {DType::tf32, DType::fp16, DType::fp8_e3m4, DType::fp8_e5m2})
    check_matmul(200, 600, 300, {.transpose_b = true}, dtype, dtype);
}

TEST_CASE("matmul's program dequantises large operands", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  const auto codes = [&](const Shape& shape, DType dtype) {
    const Tensor tensor = Tensor::empty(context, shape, dtype);
    for (std::size_t i = 0; i < tensor.elements(); ++i)
      tensor.mutable_raw()[i] = static_cast<std::byte>(i * 37 % 251);
    return tensor;
  };
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const DType dtype : {DType::int8, DType::uint8}) {
        const std::size_t m = 150, n = 530, k = 600;
        const MatmulSetting setting{.transpose_a = ta,
                                    .transpose_b = tb,
                                    .a = {0.01f, dtype == DType::int8 ? -3 : 120},
                                    .b = {0.02f, 5}};
        const Tensor a = codes(ta ? Shape{k, m} : Shape{m, k}, dtype);
        const Tensor b = codes(tb ? Shape{n, k} : Shape{k, n}, DType::int8);
        const Outputs host = run(context, ops::matmul, setting, {a, b});
        const Outputs device = run_on_device(context, ops::matmul, setting, {a, b});
        CHECK(difference(context, device[0], host[0], 8 * sum_bound(k)) == "");
        // Numbers of a wider type beside them, and only a scale.
        const Tensor x = random_of(context, ta ? Shape{k, m} : Shape{m, k}, DType::bf16, "x");
        MatmulSetting scaled = setting;
        scaled.a = {0.25f, 0};
        const Outputs mixed = run(context, ops::matmul, scaled, {x, b});
        CHECK(difference(context, run_on_device(context, ops::matmul, scaled, {x, b})[0], mixed[0],
                         8 * sum_bound(k)) == "");
      }
}

static void fused_steps(Table table) {
  const DropoutSetting drop{.probability = 0.3f, .draw = {.seed = 5, .stream = 6, .step = 7}};
  auto context = make_context({.threads = 2});
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const auto& [m, n, k] :
         {std::array<std::size_t, 3>{300, 1100, 200}, {129, 4200, 30}, {131, 520, 4500}})
      for (const Activation activation :
           entries(table, {Activation::relu, Activation::gelu},
                   {Activation::none, Activation::relu, Activation::gelu, Activation::relu6}))
        for (const bool dropped : {false, true})
          for (const bool residual : {false, true}) {
            // A part has one of both, and numbers of four bytes in the first size.
            if (table == Table::part && (dropped == residual || (dtype == DType::fp32 && m != 300)))
              continue;
            const LinearSetting setting{.activation = activation,
                                        .dropout = dropped ? drop : DropoutSetting{}};
            INFO(m << " x " << n << " x " << k << " " << to_string(dtype) << " "
                   << static_cast<int>(activation) << dropped << residual);
            const float range = 2.0f / std::sqrt(static_cast<float>(k));
            const std::vector<Tensor> inputs{
                random_of(context, Shape{m, k}, dtype, "x"),
                random_of(context, Shape{n, k}, dtype, "w", range),
                activation == Activation::relu ? Tensor()
                                               : random_of(context, Shape{n}, DType::fp32, "b"),
                residual ? random_of(context, Shape{m, n}, dtype, "r") : Tensor()};
            const Sequences sequences =
                Sequences::from_lengths(context, std::vector<std::size_t>{m - 7, 0, 7});
            const Outputs host = run(context, ops::linear, setting, inputs, sequences);
            const Outputs device = run_on_device(context, ops::linear, setting, inputs, sequences);
            CHECK(difference(context, device[0], host[0], 2 * sum_bound(k)) == "");
            CHECK(difference(context, device[1], host[1], sum_bound(k)) == "");
          }
}

TEST_CASE("linear's program fuses the same steps over many tiles", "[unit][programs]") {
  fused_steps(Table::part);
}
TEST_CASE("linear's program fuses the same steps over many tiles: all", "[slow][programs]") {
  fused_steps(Table::whole);
}

TEST_CASE("products span banks on a machine that lets them", "[unit][programs]") {
  // Sizes of a [m, k] b [k, n]: b is not transposed, so its columns lie side by side.
  struct Size {
    std::size_t m, n, k;
  };
  for (const Size size : {Size{130, 1030, 200}, Size{70, 2100, 300}, Size{140, 2500, 2600}}) {
    auto context = make_context({.threads = 2});
    INFO(size.m << " x " << size.n << " x " << size.k);
    const Tensor a = random_of(context, Shape{size.m, size.k}, DType::bf16, "a"),
                 b = random_of(context, Shape{size.k, size.n}, DType::bf16, "b");
    const MatmulSetting setting{};
    const Outputs host = run(context, ops::matmul, setting, {a, b});
    std::vector<std::uint64_t> products;
    for (const neuroncore::Machine& machine : neuroncore::machines) {
      soma_test::OnDevice on(context, soma_test::stressed(7), {}, machine);
      const Outputs device = run(context, ops::matmul, setting, {a, b});
      CHECK(difference(context, device[0], host[0], sum_bound(size.k)) == "");
      products.push_back(on.device().core().statistics().instructions[static_cast<std::size_t>(
          neuroncore::Opcode::matmul)]);
    }
    const auto pieces = [&](std::size_t columns) {
      return (size.n + columns - 1) / columns * ((size.m + 127) / 128) * ((size.k + 127) / 128);
    };
    CHECK(products[0] == pieces(512));
    CHECK(products[1] == pieces(512));
    CHECK(products[2] == pieces(1024));
  }
}

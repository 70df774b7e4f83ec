// Kernels of GPSIMD processors from shared libraries: what they compute, what they count, and what
// they say.

#include <soma/processors.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "plugin/kernels.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
namespace nc = soma::neuroncore;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::numbers;
using soma_test::plugins;
using soma_test::run_named;
using soma_test::tensor;
using soma_test::values;
using soma_test::Which;

namespace {

struct ClampAndScale {
  double low, high, scale;
  std::int64_t shift;
};

// The lines of a context's log.
struct Lines {
  std::vector<std::string> all;
  LogSink sink() {
    return {this, [](void* self, LogLevel, std::string_view line) {
              static_cast<Lines*>(self)->all.emplace_back(line);
            }};
  }
  bool has(const std::string& line) const {
    for (const std::string& one : all)
      if (one == line) return true;
    return false;
  }
};

// The counts of the last call.
nc::ProcessorCounts counts_of(Context& context, std::string_view name, std::size_t processor = 0) {
  return processor_report(context.operators().at(name)).counts[processor];
}

std::vector<float> relu(std::vector<float> x) {
  for (float& value : x) value = value > 0 ? value : 0;
  return x;
}

}  // namespace

TEST_CASE("kernels compute what they say, with every accessor", "[unit][processors]") {
  auto context = make_context({.threads = 2});
  CHECK(load_operators(context, plugins + "libsingle.so").size() == 9);
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 1}, Shape{2, 4}, Shape{3, 3}, Shape{1, 1025},
                             Shape{33, 4097}, Shape{0, 5}}) {
    INFO(to_string(shape));
    const Tensor x = tensor(context, shape);
    CHECK(values(context, run_named(context, "single::relu_elements", {x})) ==
          relu(numbers(shape.elements())));
    std::vector<float> negated = numbers(shape.elements()), doubled = negated;
    for (float& value : negated) value *= -1;
    for (float& value : doubled) value += value;
    CHECK(values(context, run_named(context, "single::negate_tcm", {x})) == negated);
    const Tensor sum = run_named(context, "single::add_streams", {x, x});
    CHECK(sum.shape() == Shape{shape.elements()});
    CHECK(values(context, sum) == doubled);
  }
  // Inputs with gaps arrive without.
  const Tensor turned = tensor(context, {4, 3}).transpose(0, 1);
  CHECK(values(context, run_named(context, "single::relu_elements", {turned})) ==
        relu(values(context, turned)));

  const Tensor y = run_named(context, "single::layer",
                             {Tensor::from<float>(context, {1, 2, 3, 4}, {2, 2}),
                              Tensor::from<float>(context, {1, 0, 0, 1, 1, 1}, {3, 2}),
                              Tensor::from<float>(context, {10, 20, 30}, {3})});
  CHECK(values(context, y) == std::vector<float>{11, 22, 33, 13, 24, 37});
  CHECK(values(context, run_named(context, "single::clamp_and_scale",
                                  {Tensor::from<float>(context, {-9, 0.5f, 9}, {3})},
                                  ClampAndScale{-1, 2, 0.5, 3})) ==
        std::vector<float>{1, 1.75f, 2.5f});
}

TEST_CASE("kernels have integers and 16-bit floats", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libsingle.so");
  const auto bits = [&]<class T>(T) {
    const std::vector<T> a{T(0), T(1), T(-1), T(100), T(-128)}, b{T(5), T(3), T(77), T(-1), T(127)};
    const Tensor y = run_named(context, "single::integer_bits",
                               {Tensor::from(context, a, {5}), Tensor::from(context, b, {5})});
    for (std::size_t i = 0; i < a.size(); ++i)
      CHECK(y.span<T>()[i] == static_cast<T>((a[i] & b[i]) | ~a[i]));
  };
  bits(std::int32_t{});
  bits(std::int16_t{});
  bits(std::int8_t{});
  bits(std::uint8_t{});

  const auto half = [&](DType dtype) {
    const FloatFormat& format = format_of(dtype);
    std::vector<std::uint16_t> codes(65536);
    const Tensor x = Tensor::empty(context, {codes.size()}, dtype);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    std::memcpy(x.mutable_raw(), codes.data(), x.bytes());
    const Tensor y = run_named(context, "single::halves", {x});
    std::memcpy(codes.data(), y.raw(), y.bytes());
    std::size_t wrong = 0;
    for (std::uint32_t i = 0; i < codes.size(); ++i) {
      const float value = decode(format, i) * 0.5f;
      const bool good = std::isnan(value) ? std::isnan(decode(format, codes[i]))
                                          : encode(format, value) == codes[i];
      wrong += good ? 0 : 1;
    }
    CHECK(wrong == 0);
  };
  half(DType::bf16);
  half(DType::fp16);
  CHECK(message_of([&] {
          run_named(context, "single::halves", {Tensor::zeros(context, {13}, DType::bf16)});
        }) ==
        "single::halves: processor 0 is status 2: \"thirteen elements\", wanted status 0 "
        "[plugin.failed]");
  CHECK(message_of([&] {
          run_named(context, "single::halves", {Tensor::zeros(context, {2}, DType::int64)});
        }) ==
        "single::halves: input 0 is [2] int64, wanted one of fp32 bf16 fp16 int32 int8 int16 uint8 "
        "[neuroncore.rule_broken]");
}

TEST_CASE("eight processors share the work, whatever its size", "[unit][processors]") {
  std::vector<float> on_one;
  for (const int threads : {1, 3}) {
    auto context = make_context({.threads = threads});
    load_operators(context, plugins + "libmany.so");
    for (const Shape& shape :
         {Shape{0}, Shape{1}, Shape{3}, Shape{8}, Shape{9}, Shape{1025}, Shape{33, 4097}}) {
      INFO(to_string(shape));
      const std::vector<float> x = numbers(shape.elements());
      const Tensor y = run_named(context, "many::relu", {tensor(context, shape)});
      CHECK(values(context, y) == relu(x));
      const Tensor dy = Tensor::full(context, shape, 3.0f);
      std::vector<float> wanted = x;
      for (float& value : wanted) value = value > 0 ? 3.0f : 0.0f;
      CHECK(values(context, run_named(context, "many::relu_back", {dy, tensor(context, shape)})) ==
            wanted);
    }
    const nc::ProcessorReport report = processor_report(context.operators().at("many::relu"));
    CHECK(report.processors == 8);
    CHECK(report.sum(&nc::ProcessorCounts::staged_elements) == 2 * 33 * 4097);
    CHECK(report.bytes_read() == 4 * 33 * 4097);
    CHECK(report.bytes_written() == 4 * 33 * 4097);
  }
}

TEST_CASE("pool, streams, policies and what is left over", "[unit][processors]") {
  Lines lines;
  auto context = make_context({.log = lines.sink(), .threads = 1});
  load_operators(context, plugins + "libwrong.so");
  const Tensor x = Tensor::from<float>(context, {1, 2, 3, 4, 5, 6}, {2, 3});
  const auto odd = [&](double which) {
    return values(context, run_named(context, "wrong::odd", {x}, Which{which}));
  };
  CHECK(odd(0) == std::vector<float>(6, 1));
  CHECK(odd(1) == std::vector<float>(6, 105));
  const nc::ProcessorCounts five = counts_of(context, "wrong::odd");
  CHECK(five.element_accesses == 6);  // through the fifth stream
  CHECK(five.stream_blocks == 4);
  CHECK(lines.all == std::vector<std::string>(
                         2,
                         "wrong::odd: processor 0 got a null pointer from tcm_malloc(1): 0 bytes "
                         "are left"));
  lines.all.clear();
  CHECK(odd(2) == std::vector<float>{7, 0, 0, 0, 0, 0});
  CHECK(lines.all.empty());
  CHECK(odd(3) == std::vector<float>{0, 3, 4, 0, 0, 0});
  CHECK(lines.all ==
        std::vector<std::string>{
            "wrong::odd: processor 0, tensor 0 of the kernel may be incoherent: touched by an "
            "element accessor while a stream is open"});
  odd(4);
  CHECK(lines.all.back() ==
        "wrong::odd: processor 0 leaves 1 block with 100 bytes of local memory allocated");
  // A handle that a library keeps does no harm, now or when it is unloaded.
  CHECK(odd(5) == std::vector<float>(6, 0));
  CHECK(odd(5) == std::vector<float>(6, 0));
  CHECK(odd(6) == std::vector<float>{6, 8, 8, 8, 6, 8});
}

TEST_CASE("printf goes to the log, as much of it as the queue holds", "[unit][processors]") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{64}, std::size_t{131072}}) {
    Lines lines;
    auto context = make_context({.log = lines.sink(), .threads = 1});
    load_operators(context, plugins + "libsingle.so", {.printf_bytes = bytes});
    run_named(context, "single::prints", {Tensor::zeros(context, {9})});
    CHECK(counts_of(context, "single::prints").print_calls == 15);
    const std::string name = "single::prints: ", digits = name + "0123456789";
    if (bytes == 0) {
      CHECK(lines.all.empty());
    } else if (bytes == 64) {
      REQUIRE(lines.all.size() == 7);
      CHECK(lines.all[0] == name + "printf: 65 bytes were overwritten by later ones");
      CHECK(lines.all[1] == name + "23456789");
      CHECK(lines.all[6] == digits);
    } else {
      REQUIRE(lines.all.size() == 13);
      CHECK(lines.all[0] == name + "9 elements of x");
      CHECK(lines.all[1] == name + "a line");
      CHECK(lines.all[2] == name + "cd");
      CHECK(lines.all[3] == name + "put");
      for (std::size_t i = 4; i < 13; ++i) CHECK(lines.all[i] == digits);
    }
  }
  auto context = make_context({.threads = 1});
  CHECK(message_of(
            [&] { load_operators(context, plugins + "libsingle.so", {.printf_bytes = 100}); }) ==
        "load_operators: printf_bytes is 100, wanted 0, or a power of two up to 131072 "
        "[neuroncore.rule_broken]");
}

TEST_CASE("an operator of the framework's style makes its output", "[unit][processors]") {
  auto context = make_context({.threads = 1});
  load_operators(context, plugins + "libcpu_style.so");
  const Tensor y =
      run_named(context, "cpu_style::doubled", {Tensor::from<float>(context, {1, 2, 3}, {3})});
  CHECK(values(context, y) == std::vector<float>{2, 4, 6});
}

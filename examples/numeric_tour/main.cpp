// A tour of the numeric core: stochastic rounding where rounding to nearest makes no progress, the
// formats, and this machine.

#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace {

// The classic demonstration: adds 0.5 to 1024 in fp16, 2,048 times. Neighbouring numbers are 1
// apart there. Rounding to nearest returns to 1024 each time; stochastic rounding moves up half of
// the time and arrives near 2048.
void add_a_half(soma::Context& context) {
  constexpr int additions = 2048, runs = 1000;
  soma::fp16 nearest(1024.0f);
  for (int i = 0; i < additions; ++i) nearest = soma::fp16(static_cast<float>(nearest) + 0.5f);

  // A thousand runs at once: each addition is one bulk conversion, and run r uses the random number
  // of index r.
  std::vector<float> sums(runs, 1024.0f);
  std::vector<soma::fp16> rounded(runs);
  for (std::uint32_t step = 0; step < additions; ++step) {
    for (float& sum : sums) sum += 0.5f;
    soma::convert(context, sums, rounded,
                  {soma::Rounding::stochastic,
                   {.seed = 2026, .stream = soma::stream_id("tour", "sum"), .step = step}});
    soma::convert(context, rounded, sums);
  }
  double mean = 0, spread = 0;
  for (const float sum : sums) mean += sum / runs;
  for (const float sum : sums) spread += (sum - mean) * (sum - mean) / runs;

  std::cout << "1024 + 2048 x 0.5 in fp16 (exactly 2048)\n"
            << "  nearest      " << nearest << "\n"
            << "  stochastic   " << sums[0] << " in the first of " << runs << " runs; mean " << mean
            << ", standard deviation " << std::sqrt(spread) << " (theory: 2048, 22.6)\n\n";
}

void table_of_formats() {
  std::printf("%-13s %5s %5s %5s %12s %12s %12s %8s  %s\n", "format", "bits", "e-m", "bias",
              "largest", "normal from", "smallest", "epsilon", "infinity, NaN");
  for (const auto& [name, format] : soma::named_formats) {
    const auto value = [&format = format](std::uint32_t code) {
      return static_cast<double>(soma::decode(format, code));
    };
    const std::string fields =
        std::to_string(format.exponent_bits) + "-" + std::to_string(format.mantissa_bits);
    std::printf("%-13s %5d %5s %5d %12.6g %12.6g %12.6g %8.3g  %s\n", std::string(name).c_str(),
                format.bits(), fields.c_str(), format.bias, value(format.max_finite_code()),
                std::ldexp(1.0, format.min_normal_exponent()), value(format.min_positive_code()),
                std::ldexp(1.0, -format.mantissa_bits),
                format.has_infinity() ? "both"
                : format.has_nan()    ? "NaN"
                                      : "neither");
  }
  std::cout << "\n";
}

// One value through a format that no library names: the configurable FP8 with another bias.
void a_format_of_ones_own(soma::Context& context) {
  const soma::FloatFormat mine =
      soma::formats::fp8_e4m3.with_bias(10).with(soma::Overflow::saturate);
  const std::vector<float> values{0.0001f, 0.001f, 0.01f, 0.1f, 1.0f, 10.0f, 100.0f};
  std::vector<std::byte> codes(values.size());
  std::vector<float> back(values.size());
  soma::convert(context, soma::code_span(soma::formats::fp32, std::as_bytes(std::span(values))),
                soma::code_span(mine, std::span(codes)));
  soma::convert(context, soma::ConstCodeSpan(soma::code_span(mine, std::span(codes))),
                soma::code_span(soma::formats::fp32, std::as_writable_bytes(std::span(back))));
  std::cout << "A format chosen at run time: " << mine << "\n";
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("  %-8g -> 0x%02X -> %g\n", static_cast<double>(values[i]),
                static_cast<unsigned>(codes[i]), static_cast<double>(back[i]));
  std::cout << "\n";
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    std::cerr << "usage: numeric_tour (no arguments)\n";
    return 2;
  }
  try {
    auto context = soma::make_context();
    add_a_half(context);
    table_of_formats();
    a_format_of_ones_own(context);
    std::cout << to_string(soma::describe_host(context));
  } catch (const soma::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

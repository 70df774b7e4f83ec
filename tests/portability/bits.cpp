// Prints a hash for each promise of "the same bits": compare_bits.sh compiles this in many ways and
// compares the output.

#include <soma/soma.hpp>
#include <soma/system/threads.hpp>

#include "oracle/tiny_training.hpp"
#include "support/samples.hpp"

#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

using namespace soma;

namespace {

void print(const std::string& what, std::uint64_t hash) {
  std::printf("%-40s %016" PRIx64 "\n", what.c_str(), hash);
}

template <class T>
std::uint64_t hash_of(const std::vector<T>& values) {
  return soma_test::hash(std::as_bytes(std::span(values)));
}

CodeSpan span_of(const FloatFormat& format, std::vector<std::byte>& bytes) {
  return code_span(format, std::span(bytes));
}

void conversions(Context& context, const std::vector<float>& values) {
  for (const NamedFormat& known : named_formats) {
    const auto width = static_cast<std::size_t>(known.format.bytes());
    std::vector<std::byte> codes(values.size() * width);
    std::vector<float> back(values.size());
    for (const Rounding& rounding :
         {Rounding::nearest_even, Rounding::nearest_away, Rounding::toward_zero, Rounding::up,
          Rounding::down, Rounding::stochastic, Rounding{RoundingMode::stochastic, 9}}) {
      convert(context, code_span(formats::fp32, std::as_bytes(std::span(values))),
              span_of(known.format, codes),
              {.rounding = rounding, .draw = {.seed = 99, .stream = 5, .step = 1, .index = 3}});
      print(std::string(known.name) + " " + std::string(to_string(rounding.mode)) + " " +
                std::to_string(rounding.random_bits),
            hash_of(codes));
    }
    convert(context, ConstCodeSpan(span_of(known.format, codes)),
            code_span(formats::fp32, std::as_writable_bytes(std::span(back))));
    print(std::string(known.name) + " decoded", hash_of(back));
  }
}

void scales(Context& context, const std::vector<float>& values) {
  for (const ScaleFormat format : {ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx}) {
    const Scaling scaling{
        .policy = ScalePolicy::current, .granularity = Granularity::group_32, .format = format};
    std::vector<float> scale(scale_grid(scaling.granularity, 1, values.size()).size()),
        amax(scale.size());
    std::vector<fp8_e4m3fn> codes(values.size());
    std::vector<float> back(values.size());
    convert(context, values, codes, {.scaling = scaling, .scales = scale, .amax = amax});
    convert(context, codes, back,
            {.source_granularity = scaling.granularity, .source_scales = scale});
    print("scaled " + std::to_string(static_cast<int>(format)),
          hash_of(codes) ^ hash_of(scale) ^ hash_of(back));
  }
}

void draws(Context& context) {
  std::vector<float> out(200003);
  const Draw draw{.seed = 123456789012345u, .stream = stream_id("a", "b"), .step = 7, .index = 1};
  fill_uniform(context, out, draw);
  print("uniform", hash_of(out));
  fill_normal(context, out, draw);
  print("normal", hash_of(out));
  fill_bernoulli(context, out, draw, 0.1);
  print("bernoulli", hash_of(out));
}

// Twenty training steps: only targets with fused multiply-add promise the same bits.
void training() {
  auto any = make_context();
  if (!any.target().fused_multiply_add) return;
  auto context = make_context({.math = Math::portable});
  soma_test::TinyTraining run(context);
  run.steps(20);
  print("training", run.weights_hash());
  Precision stochastic = Precision::fp8_block();
  stochastic.name = "fp8_block, gradients stochastic";
  stochastic.gemm_gradients.rounding = Rounding::stochastic;
  for (const Precision& precision : {Precision::mxfp8(), Precision::fp8_delayed(), stochastic}) {
    PrecisionState state(context, precision, 11);
    soma_test::TinyTraining narrow(context, &state);
    narrow.steps(20);
    print("training " + precision.name, narrow.weights_hash());
  }
}

// The scalar types, in arithmetic that a compiler might want to contract.
void arithmetic(const std::vector<float>& values) {
  std::vector<float> results;
  for (std::size_t i = 2; i < values.size(); ++i) {
    const bf16 a(values[i]), b(values[i - 1]), c(values[i - 2]);
    const float x = a * b + c, y = a / b - c;
    results.push_back(x == x ? x : 0.0f);  // which NaN an operation makes is the machine's choice
    results.push_back(y == y ? y : 0.0f);
  }
  print("bf16 arithmetic", hash_of(results));
}

}  // namespace

int main(int argc, char**) {
  auto context = make_context({.threads = system::has_threads ? 2 : 1});
  if (argc > 1) std::fprintf(stderr, "%s\n", std::string(context.target().name).c_str());
  conversions(context, soma_test::hard_floats(30011));
  scales(context, soma_test::finite_floats(30011));
  draws(context);
  arithmetic(soma_test::finite_floats(3001));
  training();
}

// Matrix products and attention on one thread, through the kernel table: GFLOP/s, and the share of
// the peak speed of multiply-adds in registers (of the bf16 instruction for products that use it).
// The peak is measured again before every product, because clock rates vary; `of_peak` is the
// median share.
//
//   build/release/bin/soma_bench --benchmark_filter='^(gemm|attention)/' --benchmark_repetitions=7

#include <soma/kernels/table.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/soma.hpp>

#include <benchmark/benchmark.h>

#include <time.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

// Normal numbers as a type keeps them.
std::vector<std::byte> random_numbers(soma::Context& context, std::size_t count, std::uint64_t seed,
                                      soma::DType dtype) {
  std::vector<float> values(count);
  soma::fill_normal(context, values, {.seed = seed});
  std::vector<std::byte> bytes(count * soma::size_of(dtype));
  soma::convert(context, soma::code_span(soma::formats::fp32, std::as_bytes(std::span(values))),
                soma::code_span(soma::format_of(dtype), std::span(bytes)));
  return bytes;
}

class Workspace {
 public:
  explicit Workspace(std::size_t size) : bytes_(size + 64) {}
  std::byte* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - at % 64) % 64;
  }

 private:
  std::vector<std::byte> bytes_;
};

// The processor time of this thread: time of other processes on the machine does not count.
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double seconds(const Work& work) {
  const double start = now();
  work();
  return now() - start;
}

// Times work() of that many operations against the rate of Context::rate(products).
template <class Work>
void race(benchmark::State& state, const soma::Context& context, soma::Bf16Products products,
          double operations, const Work& work) {
  // The rate has internal linkage and no effects: through a volatile, so that every call is made.
  double (*volatile rate)(std::uint64_t) noexcept = context.rate(products);
  const soma::FloatEnvironment environment;
  std::vector<double> shares;
  work();
  for (auto _ : state) {
    double done = 0;
    const double peak_time = seconds([&] { done = rate(200000); });
    const double time = seconds(work);
    state.SetIterationTime(time);
    shares.push_back(operations / time / (done / peak_time));
  }
  std::nth_element(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2),
                   shares.end());
  state.counters["GFLOP/s"] = benchmark::Counter(
      operations * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["of_peak"] = shares[shares.size() / 2];  // their median
}

struct Product {
  const char* name;
  std::size_t m, n, k;
  bool a_transposed, b_transposed;
  std::size_t segments;
};

constexpr Product shapes[] = {
    // y = x W^T
    {"gemm/y_1024x768x768", 1024, 768, 768, false, true, 1},
    {"gemm/y_1024x3072x768", 1024, 3072, 768, false, true, 1},
    {"gemm/y_1024x768x3072", 1024, 768, 3072, false, true, 1},
    {"gemm/y_1024x384x384", 1024, 384, 384, false, true, 1},
    // dx = dy W
    {"gemm/dx_1024x768x3072", 1024, 768, 3072, false, false, 1},
    {"gemm/dx_1024x3072x768", 1024, 3072, 768, false, false, 1},
    // dW = dy^T x
    {"gemm/dw_768x3072x1024_segments_8", 768, 3072, 1024, true, false, 8},
    {"gemm/dw_768x768x1024_segments_8", 768, 768, 1024, true, false, 8},
};

void gemm(benchmark::State& state, const Product& shape, const std::string& target,
          soma::DType dtype, soma::Math math) {
  auto context = soma::make_context({.threads = 1, .math = math, .target = target});
  const auto [name, m, n, k, a_transposed, b_transposed, segments] = shape;
  const auto operand = [&](std::size_t rows, std::size_t columns, bool transposed) {
    soma::MatrixOperand matrix;
    matrix.row_stride = transposed ? 1 : columns;
    matrix.column_stride = transposed ? rows : 1;
    matrix.dtype = dtype;
    return matrix;
  };
  const std::vector<std::byte> a = random_numbers(context, m * k, 1, dtype);
  const std::vector<std::byte> b = random_numbers(context, k * n, 2, dtype);
  // Activations and their gradients have the operands' type, gradients of weights fp32.
  const bool narrow = dtype != soma::DType::fp32 && segments == 1;
  std::vector<float> c(m * n);
  std::vector<std::size_t> bounds;
  for (std::size_t s = 0; s <= segments; ++s) bounds.push_back(k * s / segments);
  soma::GemmArgs args;
  args.m = m, args.n = n, args.k = k;
  args.a = operand(m, k, a_transposed);
  args.a.data = a.data();
  args.b = operand(k, n, b_transposed);
  args.b.data = b.data();
  args.c.data = c.data();
  args.c.row_stride = n;
  args.c.dtype = narrow ? soma::DType::bf16 : soma::DType::fp32;
  if (segments > 1) args.segments = {bounds.data(), segments};
  args.bf16_products = context.bf16().products;
  args.fp32_products = context.fp32_products();
  Workspace workspace(context.kernels().gemm.workspace_bytes(args));
  args.workspace = workspace.data();
  race(state, context,
       dtype == soma::DType::fp32 ? soma::Bf16Products::widened : context.bf16().products,
       2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
       [&] { context.kernels().gemm.multiply(args); });
}

// Useful operations: two products forward, and those four plus the recomputed scores backward.
struct Head {
  std::size_t length, width;
  soma::DType dtype;
  bool backward;
  float drop;
};
void attention(benchmark::State& state, const Head& head, soma::Math math) {
  auto context = soma::make_context({.threads = 1, .math = math});
  const soma::AttentionKernels& kernels = context.kernels().attention;
  const auto [length, width, dtype, backward, drop] = head;
  const std::size_t count = length * width;
  std::vector<std::byte> inputs[4], outputs[4];
  std::vector<float> log_sum_exp(length);
  soma::AttentionArgs args{.queries = length, .keys = length, .width = width};
  args.scale = 0.125f;
  args.bf16_products = context.bf16().products;
  Workspace workspace(kernels.workspace_bytes(args));
  soma::MatrixOperand* const operands[] = {&args.q, &args.k, &args.v, &args.dout};
  soma::MatrixTarget* const targets[] = {&args.out, &args.dq, &args.dk, &args.dv};
  for (std::size_t i = 0; i < 4; ++i) {
    inputs[i] = random_numbers(context, count, i + 1, dtype);
    outputs[i].resize(inputs[i].size());
    *operands[i] = {.data = inputs[i].data(), .dtype = dtype, .row_stride = width};
    *targets[i] = {.data = outputs[i].data(), .dtype = dtype, .row_stride = width};
  }
  args.forward_out = {.data = outputs[0].data(), .dtype = dtype, .row_stride = width};
  args.log_sum_exp = log_sum_exp.data();
  args.dropout.threshold = static_cast<std::uint32_t>(static_cast<double>(drop) * 0x1p32);
  args.dropout.keep_scale = 1 / (1 - drop);
  args.workspace = workspace.data();
  kernels.forward(args);
  const auto products = backward ? 5.0 : 2.0;
  race(state, context, soma::Bf16Products::widened,
       products * 2 * static_cast<double>(length) * static_cast<double>(count),
       [&] { (backward ? kernels.backward : kernels.forward)(args); });
}

const int registered = [] {
  const auto add = [](const std::string& name, auto... arguments) {
    benchmark::RegisterBenchmark(name.c_str(), arguments...)->UseManualTime();
  };
  for (const Product& shape : shapes)
    add(shape.name, gemm, shape, "", soma::DType::fp32, soma::Math::fast);
  for (const std::string target : {"AVX2", "SSE4"})
    add(shapes[0].name + ("/" + target), gemm, shapes[0], target, soma::DType::fp32,
        soma::Math::fast);
  for (const Product& shape : {shapes[0], shapes[4], shapes[6]})
    add(shape.name + std::string("/portable"), gemm, shape, "", soma::DType::fp32,
        soma::Math::portable);
  for (const Product& shape : {shapes[0], shapes[4], shapes[6]})
    for (const soma::DType dtype : {soma::DType::bf16, soma::DType::fp8_e4m3})
      for (const soma::Math math : {soma::Math::fast, soma::Math::portable}) {
        const std::string type(soma::to_string(dtype));
        add(shape.name + ("/" + type) + (math == soma::Math::portable ? "/portable" : ""), gemm,
            shape, "", dtype, math);
      }
  const auto add_attention = [&](const std::string& name, const Head& head, soma::Math math) {
    std::string all = head.backward ? "attention/backward_" : "attention/forward_";
    all.append(std::to_string(head.length)).append(name);
    if (head.drop != 0) all.append("/dropout");
    add(all, attention, head, math);
  };
  for (const bool backward : {false, true}) {
    for (const std::size_t length : {std::size_t{23}, std::size_t{128}, std::size_t{512}})
      for (const float drop : {0.0f, 0.1f})
        add_attention("", {length, 64, soma::DType::fp32, backward, drop}, soma::Math::fast);
    for (const std::size_t length : {std::size_t{64}, std::size_t{128}, std::size_t{512}})
      for (const std::size_t width : {std::size_t{32}, std::size_t{64}}) {
        const Head head{length, width, soma::DType::bf16, backward, 0.1f};
        const std::string name = width == 32 ? "x32/bf16" : "x64/bf16";
        add_attention(name, head, soma::Math::fast);
        add_attention(name + "/portable", head, soma::Math::portable);
      }
  }
  return 0;
}();

}  // namespace

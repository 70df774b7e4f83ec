// Attention's programs over long sequences, wide heads and packs of short ones: against the host's
// kernels.

#include "programs/device_run.hpp"
#include "support/errors.hpp"

#include <cmath>
#include <cstring>

using namespace soma;
using soma_test::difference;
using soma_test::random_of;
using soma_test::run_on_device;

namespace {

void check_attention(std::size_t heads, std::size_t width, const std::vector<std::size_t>& lengths,
                     float probability, DType dtype, bool apart = false, bool first_rows = false,
                     bool causal = false, const std::vector<std::size_t>& used = {}) {
  auto context = make_context({.threads = 2});
  const Sequences sequences =
      Sequences::from_lengths(context, lengths, {.first_ordinal = 3, .used = used});
  const AttentionSetting setting{
      heads,
      {.probability = probability, .draw = {.seed = 1, .stream = 2, .step = 3}},
      first_rows,
      causal};
  INFO(heads << " heads of " << width << ", " << sequences.rows() << " rows, longest "
             << sequences.longest() << ", " << probability << " " << to_string(dtype)
             << (apart ? ", queries apart" : "") << (first_rows ? ", first rows" : "")
             << (causal ? ", causal" : "") << (used.empty() ? "" : ", padded"));
  const std::size_t results = first_rows ? sequences.count() : sequences.rows();
  const Tensor qkv =
      random_of(context, Shape{sequences.rows(), (apart ? 2 : 3) * heads * width}, dtype, "qkv", 2);
  const Tensor queries =
      apart ? random_of(context, Shape{results, heads * width}, dtype, "q", 2) : Tensor();
  const Tensor dout = random_of(context, Shape{results, heads * width}, dtype, "dout");
  const Outputs host = run(context, ops::attention, setting, {qkv, queries}, sequences);
  const Outputs device = run_on_device(context, ops::attention, setting, {qkv, queries}, sequences);
  // Scores add up `width` products of numbers up to 2, results weigh `longest` of them.
  const double sums = 16 * static_cast<double>(sequences.longest() + 4 * width) * 0x1p-24;
  // Probabilities beside narrow values are as narrow (8-bit values: bf16).
  const bool narrow = dtype != DType::fp32 && dtype != DType::tf32;
  const double rounded =
      narrow ? 4 * testing::detail::rounding_of(dtype == DType::fp16 ? DType::fp16 : DType::bf16)
             : 0;
  CHECK(difference(context, device[0], host[0], sums + rounded) == "");
  CHECK(difference(context, device[1], host[1], sums) == "");

  const std::vector<Tensor> inputs{qkv, host[0], host[1], dout, queries};
  const Outputs wanted = run(context, ops::attention_backward, setting, inputs, sequences);
  const Outputs given = run_on_device(context, ops::attention_backward, setting, inputs, sequences);
  CHECK(difference(context, given[0], wanted[0], 16 * (sums + rounded)) == "");
  if (apart) CHECK(difference(context, given[1], wanted[1], 16 * (sums + rounded)) == "");
}

}  // namespace

TEST_CASE("attention's programs take sequences and heads of any size", "[unit][programs]") {
  const std::vector<std::size_t> mixed{5, 0, 3, 100, 30, 128, 129, 1, 0, 700, 2, 513, 40, 60, 0};
  for (const float probability : {0.0f, 0.25f})
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3}) {
      check_attention(2, 20, mixed, probability, dtype);
      check_attention(1, 150, {300, 4, 2, 0, 130}, probability, dtype);
    }
  for (const float probability : {0.0f, 0.25f}) {
    check_attention(1, 16, {2500, 1, 7}, probability, DType::fp32);  // two passes
    check_attention(3, 1, {1, 1, 1}, probability, DType::fp32);
    check_attention(1, 600, {150, 20}, probability, DType::fp32);  // columns in pieces
    check_attention(2, 1100, {140}, probability, DType::bf16);
  }
}

TEST_CASE("attention's programs take queries that are apart", "[unit][programs]") {
  for (const float probability : {0.0f, 0.25f}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3})
      check_attention(2, 20, {5, 0, 3, 100, 30, 129, 513}, probability, dtype, true);
    check_attention(1, 600, {150, 20}, probability, DType::fp32, true);  // columns in pieces
  }
}

TEST_CASE("attention's programs take first rows as queries", "[unit][programs]") {
  const std::vector<std::size_t> mixed{5, 3, 100, 30, 128, 129, 1, 700, 2, 513, 40, 60};
  std::vector<std::size_t> many(150, 1);
  many[70] = 4;
  for (const float probability : {0.0f, 0.25f}) {
    for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e4m3})
      check_attention(2, 20, mixed, probability, dtype, true, true);
    check_attention(1, 150, {300, 4, 2, 130}, probability, DType::fp32, true, true);
    check_attention(1, 16, {2500, 1, 7}, probability, DType::fp32, true, true);  // two passes
    check_attention(3, 8, many, probability, DType::fp32, true, true);
    check_attention(1, 600, {150, 20}, probability, DType::fp32, true, true);  // in pieces
    check_attention(1, 4, {}, probability, DType::fp32, true, true);
  }
}

TEST_CASE("attention's programs are causal", "[unit][programs]") {
  const auto check = [](std::size_t width, const std::vector<std::size_t>& lengths,
                        float probability, DType dtype, bool apart = false) {
    check_attention(1, width, lengths, probability, dtype, apart, false, true);
  };
  check(20, {5, 0, 3, 100, 30, 129, 513, 1}, 0.25f, DType::fp32);
  check(20, {40, 3, 260}, 0, DType::bf16);
  check(16, {2200, 7}, 0, DType::fp32);         // two passes
  check(600, {150, 20}, 0, DType::fp32, true);  // in pieces
}

TEST_CASE("attention's programs do not look at padding", "[unit][programs]") {
  // Packs of several sequences, one alone, one of several blocks of queries, one in two passes.
  const std::vector<std::size_t> lengths{5, 0, 40, 40, 40, 128, 300, 1};
  const std::vector<std::size_t> used{2, 0, 40, 1, 39, 100, 131, 1};
  for (const float probability : {0.0f, 0.25f})
    for (const DType dtype : {DType::fp32, DType::bf16})
      check_attention(2, 20, lengths, probability, dtype, false, false, false, used);
  check_attention(1, 16, {2500, 7}, 0, DType::fp32, false, false, false, {2100, 3});
  check_attention(1, 20, {40, 3, 260}, 0, DType::fp32, false, false, true, {7, 3, 200});
  const std::vector<std::size_t> full{5, 40, 40, 128, 300}, own{2, 1, 39, 100, 131};
  check_attention(2, 20, full, 0.25f, DType::fp32, true, true, false, own);
  check_attention(2, 20, full, 0, DType::bf16, true, false, false, own);
}

TEST_CASE("attention's programs refuse what only the host has", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{2});
  const Tensor kv = random_of(context, Shape{2, 16}, DType::fp32, "kv"),
               q = random_of(context, Shape{2, 8}, DType::fp32, "q"),
               mask = Tensor::full<std::uint8_t>(context, Shape{4}, 1),
               begins = Tensor::from<std::int64_t>(context, {0, 2}, {2});
  const auto says = [&](const std::vector<Tensor>& inputs) {
    return soma_test::message_of([&] {
      run_on_device(context, ops::attention, AttentionSetting{.heads = 1}, inputs, sequences);
    });
  };
  CHECK(says({kv, q, mask}) ==
        "attention: mask is [4] uint8 on a NeuronCore, wanted no such input: only the host "
        "supports it "
        "[operator.value]");
  CHECK(says({kv, q, {}, begins}) ==
        "attention: query_begins is [2] int64 on a NeuronCore, wanted no such input: only the host "
        "supports it "
        "[operator.value]");
}

TEST_CASE("rows of a pack do not see each other's sequences", "[unit][programs]") {
  // Scores that differ by thousands between sequences: a largest one taken over the whole pack
  // would leave nothing of the others.
  auto context = make_context({.threads = 1});
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{4, 3, 5});
  const Tensor qkv = soma_test::random_tensor(context, Shape{12, 24}, "qkv");
  float* values = qkv.mutable_data<float>();
  for (std::size_t i = 0; i < 4 * 24; ++i) values[i] *= 100;
  for (std::size_t i = 7 * 24; i < 12 * 24; ++i) values[i] *= 0.01f;
  const AttentionSetting setting{.heads = 2};
  const Outputs host = run(context, ops::attention, setting, {qkv}, sequences);
  const Outputs device = run_on_device(context, ops::attention, setting, {qkv}, sequences);
  CHECK(difference(context, device[0], host[0], 1e-4) == "");
  CHECK(difference(context, device[1], host[1], 1e-5) == "");
}

// Else bf16 would be as exact, and slow.
TEST_CASE("attention on the host forms products as the context says", "[unit][programs]") {
  const std::size_t length = 70, width = 32;
  for (const Math math : {Math::fast, Math::portable}) {
    auto context = make_context({.threads = 1, .math = math});
    const Tensor qkv = random_of(context, Shape{length, 3 * width}, DType::bf16, "qkv", 2);
    const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{length});
    const Outputs host =
        run(context, ops::attention, AttentionSetting{1, {}, false}, {qkv}, sequences);

    AttentionArgs args{.queries = length, .keys = length, .width = width};
    const auto columns = [&](std::size_t part) {
      const detail::TensorRows qkv_rows = detail::rows_of(context, qkv);
      MatrixOperand operand = detail::operand(qkv_rows);
      operand.data = qkv.raw() + part * width * size_of(DType::bf16);
      return operand;
    };
    args.q = columns(0), args.k = columns(1), args.v = columns(2);
    args.scale = 1.0f / std::sqrt(static_cast<float>(width));
    args.bf16_products = context.bf16().products;
    std::vector<float> out(length * width), log_sum_exp(length);
    args.out = {.data = out.data(), .row_stride = width};
    args.log_sum_exp = log_sum_exp.data();
    const AttentionKernels& kernels = context.kernels().attention;
    const Storage workspace = Storage::allocate(context.heap(), kernels.workspace_bytes(args));
    args.workspace = workspace.data();
    kernels.forward(args);
    CHECK(std::memcmp(host[1].data<float>(), log_sum_exp.data(), length * sizeof(float)) == 0);
  }
}

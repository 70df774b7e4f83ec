// Attention whose heads share keys and values, beside attention of keys and values that are
// repeated by hand; scaled rotary positions; the gate of a feed-forward part.

#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::message_of;
using soma_test::random_tensor;

namespace {

// Rows of keys, or of values, of `shared` heads of `width` columns: each for every head of a group.
Var repeated(Tape& tape, const Var& x, std::size_t shared, std::size_t group, std::size_t width) {
  Var all;
  for (std::size_t head = 0; head < shared; ++head)
    for (std::size_t i = 0; i < group; ++i) {
      const Var own = slice(tape, x, 1, head * width, (head + 1) * width);
      all = all.defined() ? concatenate(tape, {all, own}, 1) : own;
    }
  return all;
}

struct Result {
  Tensor y;
  std::vector<std::byte> bits;
  std::vector<float> gradient;
};

struct Case {
  std::size_t heads, shared, width;
  bool causal = true;
  float dropout = 0;
  DType dtype = DType::fp32;
  bool again = false;  // recomputed
};

enum class Way { grouped, by_hand };
Result attend(Context& context, const Case& of, Way way, const std::vector<std::size_t>& lengths) {
  const Sequences sequences = Sequences::from_lengths(context, lengths);
  const std::size_t columns = (of.heads + 2 * of.shared) * of.width;
  Tensor values = random_tensor(context, Shape{sequences.rows(), columns}, "qkv", 2);
  if (of.dtype != DType::fp32)
    values = run(context, *context.built_in().cast, CastSetting{.dtype = of.dtype}, {values})[0];
  const Var qkv = Var::parameter(context, values);
  Tape tape(context, {.seed = 3});
  const AttentionSetting plain{
      of.heads, {.probability = of.dropout, .draw = {.seed = 1, .stream = 2}}, false, of.causal};
  const auto attended = [of, way, plain](Tape& on, const Var& x) {
    AttentionSetting setting = plain;
    if (way == Way::grouped) {
      setting.key_value_heads = of.shared;
      setting.head_width = of.width;
      return attention(on, x, setting);
    }
    const std::size_t group = of.heads / of.shared, q = of.heads * of.width,
                      k = of.shared * of.width;
    return attention(
        on,
        concatenate(on,
                    {slice(on, x, 1, 0, q),
                     repeated(on, slice(on, x, 1, q, q + k), of.shared, group, of.width),
                     repeated(on, slice(on, x, 1, q + k), of.shared, group, of.width)},
                    1),
        setting);
  };
  const Var rows = tape.with_sequences(qkv, sequences);
  const Var y = of.again ? recompute(tape, std::span<const Var>(&rows, 1),
                                     [attended](Tape& on, std::span<const Var> inputs) {
                                       return attended(on, inputs[0]);
                                     })
                         : attended(tape, rows);
  Result result{y.value(), bits(context, y.value()), {}};
  tape.backward(y, random_tensor(context, y.shape(), "dy"));
  const Tensor gradient = soma_test::dense_gradient(context, qkv);
  const auto own = bits(context, gradient);
  result.bits.insert(result.bits.end(), own.begin(), own.end());
  result.gradient = soma_test::values(
      context,
      run(context, *context.built_in().cast, CastSetting{.dtype = DType::fp32}, {gradient})[0]);
  return result;
}

// The norm of the difference by the norm.
double difference(const std::vector<float>& x, const std::vector<float>& y) {
  REQUIRE(x.size() == y.size());
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    all += std::pow(static_cast<double>(y[i]), 2);
  }
  return std::sqrt(sum / all);
}

}  // namespace

TEST_CASE("heads that share keys and values attend as if these were repeated",
          "[unit][attention][grad]") {
  const std::vector<std::size_t> lengths{70, 0, 33, 1, 130};
  auto context = make_context({.threads = 2});
  for (const Case& of : {Case{6, 1, 8}, Case{6, 2, 8}, Case{6, 6, 8}, Case{4, 2, 10, false},
                         Case{4, 1, 16, true, 0.2f}, Case{9, 3, 64}}) {
    INFO(of.heads << " heads, " << of.shared << " of keys, width " << of.width);
    const Result grouped = attend(context, of, Way::grouped, lengths),
                 by_hand = attend(context, of, Way::by_hand, lengths);
    CHECK((bits(context, grouped.y) == bits(context, by_hand.y)));
    CHECK(grouped.y.shape() == Shape{234, of.heads * of.width});
    CHECK(difference(grouped.gradient, by_hand.gradient) < 1e-6);
  }
  // bf16: by hand each head's gradient is rounded, and their sums; grouped, the sum alone.
  const Case narrow{6, 2, 16, true, 0, DType::bf16};
  CHECK(difference(attend(context, narrow, Way::grouped, lengths).gradient,
                   attend(context, narrow, Way::by_hand, lengths).gradient) < 0x1p-7);
}

TEST_CASE("as many heads of keys as of queries is attention as it was", "[unit][attention]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::size_t> lengths{40, 7};
  const Case of{4, 4, 6};
  CHECK((attend(context, of, Way::grouped, lengths).bits ==
         attend(context, of, Way::by_hand, lengths).bits));
}

TEST_CASE("grouped attention has the same bits on any threads and recomputed",
          "[unit][attention][invariance]") {
  const std::vector<std::size_t> lengths{200, 0, 70, 1, 33};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    std::vector<std::byte> first;
    for (const int threads : {1, 2, 3, 7})
      for (const bool again : {false, true}) {
        auto context = make_context({.threads = threads});
        const auto own =
            attend(context, {6, 2, 16, true, 0.1f, dtype, again}, Way::grouped, lengths).bits;
        if (first.empty()) first = own;
        CHECK((own == first));
      }
  }
}

TEST_CASE("what attention refuses of heads", "[unit][attention]") {
  auto context = make_context({.threads = 1});
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{2, 3});
  const auto says = [&](std::size_t columns, const AttentionSetting& setting) {
    return message_of([&] {
      Tape tape(context);
      attention(tape, tape.constant(random_tensor(context, Shape{5, columns}, "qkv"), sequences),
                setting);
    });
  };
  CHECK(says(64, {.heads = 4, .key_value_heads = 2, .head_width = 8}) == "no error");
  CHECK(says(64, {.heads = 4, .key_value_heads = 3}) ==
        "attention: key_value_heads is 3, wanted a divisor of the number of heads, 4 "
        "[operator.value]");
  CHECK(says(64, {.heads = 4, .key_value_heads = 8}) ==
        "attention: key_value_heads is 8, wanted a divisor of the number of heads, 4 "
        "[operator.value]");
  CHECK(says(66, {.heads = 4, .key_value_heads = 2}) ==
        "attention: heads is 4, wanted a number of heads such that heads + 2 * key_value_heads "
        "divides the columns of qkv, [5, 66] fp32 [operator.value]");
  CHECK(says(64, {.heads = 4, .key_value_heads = 2, .head_width = 16}) ==
        "attention: head_width is 16, wanted 8, as 8 heads lie side by side in [5, 64] fp32 "
        "[operator.value]");
}

TEST_CASE("queries and keys turn in one call, values stay", "[unit][sequence]") {
  auto context = make_context({.threads = 1});
  const std::size_t heads = 6, shared = 2, width = 8, turned = (heads + shared) * width;
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{5, 9});
  const Tensor qkv = random_tensor(context, Shape{14, turned + shared * width}, "qkv");
  Tape tape(context);
  const Var all = tape.constant(qkv, sequences);
  const RotaryScaling scaling{.kind = RotaryScaling::Kind::llama3,
                              .factor = 8,
                              .low_frequency_factor = 1,
                              .high_frequency_factor = 4,
                              .original_positions = 64};
  const Var together = rotary(
      tape, all, {.heads = heads + shared, .columns = turned, .base = 5e5f, .scaling = scaling});
  const auto part = [&](const Tensor& tensor, std::size_t begin, std::size_t end) {
    return bits(context, tensor.slice(1, begin, end));
  };
  const auto alone = [&](std::size_t begin, std::size_t count) {
    const Tensor own = contiguous(context, qkv.slice(1, begin, begin + count * width));
    return bits(context, rotary(tape, tape.constant(own, sequences),
                                {.heads = count, .base = 5e5f, .scaling = scaling})
                             .value());
  };
  const std::size_t keys = heads * width;
  CHECK((part(together.value(), 0, keys) == alone(0, heads)));
  CHECK((part(together.value(), keys, turned) == alone(keys, shared)));
  CHECK((part(together.value(), turned, turned + shared * width) ==
         part(qkv, turned, turned + shared * width)));
}

TEST_CASE("sequences that go on turn as whole sequences", "[unit][sequence]") {
  auto context = make_context({.threads = 2});
  const Sequences whole = Sequences::from_lengths(context, std::vector<std::size_t>{90, 40});
  const Tensor x = random_tensor(context, Shape{130, 24}, "x");
  const RotarySetting setting{.heads = 2, .columns = 16};
  const auto turned = [&](const std::vector<Tensor>& inputs, const Sequences& sequences) {
    return run(context, *context.built_in().rotary, setting, inputs, sequences)[0];
  };
  const Tensor all = turned({x}, whole);
  const auto last = [&](const Tensor& of) {  // rows 70 to 89, and 39
    const Tensor rows = Tensor::empty(context, Shape{21, 24});
    copy(of.slice(0, 70, 90), rows.slice(0, 0, 20));
    copy(of.slice(0, 129, 130), rows.slice(0, 20, 21));
    return rows;
  };
  const Sequences part = Sequences::from_lengths(context, std::vector<std::size_t>{20, 1});
  const auto begins = [&](std::int64_t first, std::int64_t second) {
    return Tensor::from<std::int64_t>(context, std::vector{first, second}, Shape{2});
  };
  CHECK((bits(context, turned({last(x), begins(70, 39)}, part)) == bits(context, last(all))));
  CHECK((bits(context, turned({last(x), begins(71, 39)}, part)) != bits(context, last(all))));
  const auto says = [&](const Tensor& begin, const RotarySetting& with = {.heads = 2}) {
    return message_of([&] {
      run(context, *context.built_in().rotary, with, {last(x), begin}, part);
    });
  };
  CHECK(says(begins(-1, 0)) ==
        "rotary: begins is -1 for a sequence of 20 rows, wanted positions from 0 to below 2^20 "
        "[operator.value]");
  CHECK(says(begins((1 << 20) - 19, 0)).find("1048557 for a sequence of 20 rows") !=
        std::string::npos);
  CHECK(says(Tensor::from<std::int64_t>(context, std::vector<std::int64_t>{0}, Shape{1})) ==
        "rotary: begins is [1] int64, wanted [2] [tensor.shape]");
  CHECK(says(begins(0, 0), {.heads = 2, .first_position = 3}) ==
        "rotary: begins is given beside first_position 3, wanted rows that form sequences, and no "
        "first_position [operator.inputs]");
}

TEST_CASE("turns are scaled by the formulas of linear and llama3", "[unit][sequence]") {
  auto context = make_context({.threads = 1});
  // Llama 3.1: wavelengths from 6 to 2.5 million positions beside 8,192 / 4 and 8,192.
  const std::size_t width = 64, rows = 300;
  const double base = 5e5, factor = 8, low = 1, high = 4, original = 8192;
  for (const RotaryScaling::Kind kind :
       {RotaryScaling::Kind::none, RotaryScaling::Kind::linear, RotaryScaling::Kind::llama3}) {
    std::vector<float> first(rows * width);  // (1, 0) in each pair: cosines and sines
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < width / 2; ++k) first[i * width + k] = 1;
    Tape tape(context);
    const Var x = tape.constant(Tensor::from<float>(context, first, Shape{rows, width}),
                                Sequences::from_lengths(context, std::vector<std::size_t>{rows}));
    const std::size_t begin = 20000;
    const auto y = soma_test::values(
        context, rotary(tape, x,
                        {.base = 5e5f,
                         .first_position = begin,
                         .scaling = {.kind = kind, .factor = 8, .original_positions = 8192}})
                     .value());
    std::size_t kept = 0, slowed = 0, between = 0;
    for (std::size_t k = 0; k < width / 2; ++k) {
      double f = std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(width));
      const double w = 2 * std::acos(-1.0) / f;
      if (kind == RotaryScaling::Kind::linear) f /= factor;
      if (kind == RotaryScaling::Kind::llama3) {
        if (w < original / high) {
          ++kept;
        } else if (w > original / low) {
          f /= factor;
          ++slowed;
        } else {
          const double s = (original / w - low) / (high - low);
          f = (1 - s) * f / factor + s * f;
          ++between;
        }
      }
      for (std::size_t i = 0; i < rows; ++i) {
        const double angle = static_cast<double>(begin + i) * f;
        // Both angles are rounded, to 2^-53 of some ten thousand.
        CHECK(std::abs(static_cast<double>(y[i * width + k]) - std::cos(angle)) < 0x1p-24);
        CHECK(std::abs(static_cast<double>(y[i * width + k + width / 2]) - std::sin(angle)) <
              0x1p-24);
      }
    }
    if (kind == RotaryScaling::Kind::llama3) {
      CHECK(kept > 5);
      CHECK(slowed > 5);
      CHECK(between > 1);
    }
  }
  const auto says = [&](const RotaryScaling& scaling) {
    return message_of([&] {
      Tape tape(context);
      rotary(tape, tape.constant(Tensor::zeros(context, Shape{2, 3, 4})), {.scaling = scaling});
    });
  };
  CHECK(says({.kind = RotaryScaling::Kind::llama3,
              .low_frequency_factor = 4,
              .high_frequency_factor = 4}) ==
        "rotary: scaling.low_frequency_factor is 4.000000, wanted below high_frequency_factor, "
        "4.000000 [operator.value]");
  CHECK(says({.kind = RotaryScaling::Kind::linear, .factor = 0.5f}) ==
        "rotary: scaling.factor is 0.5, wanted a finite number from 1 [operator.value]");
}

TEST_CASE("the gate of a feed-forward part is silu times the other half", "[unit][grad]") {
  auto context = make_context({.threads = 2});
  const std::size_t rows = 37, inner = 1500;
  const Var x = Var::parameter(context, random_tensor(context, Shape{rows, 2 * inner}, "x", 9));
  Tape tape(context);
  const Var y = gated(tape, x);
  CHECK(y.shape() == Shape{rows, inner});
  const Tensor dy = random_tensor(context, y.shape(), "dy");
  const auto out = soma_test::values(context, y.value());
  tape.backward(y, dy);
  const auto dx = soma_test::gradient_values(context, x);
  double worst = 0;
  const auto note = [&](float got, double wanted) {
    // Near the zero of silu's slope, -1.28, the error is absolute.
    worst = (std::max)(
        worst, std::abs(static_cast<double>(got) - wanted) / (std::max)(std::abs(wanted), 1.0));
  };
  for (std::size_t i = 0; i < rows * inner; ++i) {
    const std::size_t at = i / inner * 2 * inner + i % inner;
    const auto a = static_cast<double>(x.value().data<float>()[at]),
               b = static_cast<double>(x.value().data<float>()[at + inner]),
               given = static_cast<double>(dy.data<float>()[i]);
    const double s = 1 / (1 + std::exp(-a));
    note(out[i], a * s * b);
    note(dx[at], given * b * (s + a * s * (1 - s)));
    note(dx[at + inner], given * a * s);
  }
  CHECK(worst < 8 * 0x1p-24);
  CHECK(message_of([&] {
          gated(tape, tape.constant(Tensor::zeros(context, Shape{2, 3})));
        }) == "gated: x is [2, 3] fp32, wanted an even number of columns [tensor.shape]");
}

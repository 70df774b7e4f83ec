// head_loss against the logits as a whole: panels of any width, rows without labels, extreme
// logits, the bits of threads and of parts of a batch, memory, refusals.

#include <soma/kernels/table.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::message_of;
using soma_test::random_tensor;

namespace {

constexpr std::int32_t none = -100;
constexpr std::size_t width = 20;

Tensor labels_of(Context& context, std::size_t rows, std::size_t classes) {
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < rows; ++i)
    labels.push_back(i % 5 == 3 ? none : static_cast<std::int32_t>(i * 7919 % classes));
  if (rows != 0) labels[0] = static_cast<std::int32_t>(classes - 1);
  return Tensor::from<std::int32_t>(context, labels, Shape{rows});
}

struct Result {
  Tensor loss, dx, dweight;
};

enum class Way { head, logits };
Result loss_of(Context& context, Way way, const Tensor& x, const Tensor& weight,
               const Tensor& labels, const CrossEntropySetting& setting,
               const Sequences& sequences = {}) {
  const Var own_x = Var::parameter(context, x), own_weight = Var::parameter(context, weight);
  Tape tape(context);
  const Var rows = sequences.defined() ? tape.with_sequences(own_x, sequences) : own_x;
  const Var given = tape.constant(labels);
  const Var loss =
      way == Way::head
          ? head_loss(tape, rows, own_weight, given, setting)
          : cross_entropy(tape, linear(tape, rows, own_weight, {}, {.output = DType::fp32}), given,
                          setting);
  const Tensor value = loss.value();
  tape.backward(loss, random_tensor(context, value.shape(), "dloss"));
  return {value, soma_test::dense_gradient(context, own_x),
          soma_test::dense_gradient(context, own_weight)};
}

// The norm of the difference by the norm.
double difference(Context& context, const Tensor& a, const Tensor& b) {
  const auto wide = [&](const Tensor& tensor) {
    return soma_test::values(context, run(context, *context.built_in().cast,
                                          CastSetting{.dtype = DType::fp32}, {tensor})[0]);
  };
  const std::vector<float> x = wide(a), y = wide(b);
  REQUIRE(x.size() == y.size());
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
    all += std::pow(static_cast<double>(y[i]), 2);
  }
  return all == 0 ? sum : std::sqrt(sum / all);
}
double worst(Context& context, const Result& a, const Result& b) {
  return (std::max)({difference(context, a.loss, b.loss), difference(context, a.dx, b.dx),
                     difference(context, a.dweight, b.dweight)});
}

std::vector<std::byte> all_bits(Context& context, const Result& result) {
  std::vector<std::byte> all = bits(context, result.loss);
  for (const Tensor& tensor : {result.dx, result.dweight}) {
    const std::vector<std::byte> own = bits(context, tensor);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// The formulas in double.
struct Wanted {
  std::vector<double> losses, dx, dweight;
};
class Reference {
 public:
  Reference(Context& context, const Tensor& x, const Tensor& weight, const Tensor& labels)
      : x_(soma_test::values(context, x)),
        weight_(soma_test::values(context, weight)),
        labels_(labels.span<std::int32_t>().begin(), labels.span<std::int32_t>().end()),
        rows_(x.size(0)),
        classes_(weight.size(0)),
        logits_(rows_ * classes_) {
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t c = 0; c < classes_; ++c)
        for (std::size_t k = 0; k < width; ++k)
          logits_[i * classes_ + c] +=
              static_cast<double>(x_[i * width + k]) * static_cast<double>(weight_[c * width + k]);
  }
  // `factors`: of the rows' gradients.
  Wanted of(double smoothing, const std::vector<double>& factors) const {
    Wanted wanted{std::vector<double>(rows_), std::vector<double>(rows_ * width),
                  std::vector<double>(classes_ * width)};
    for (std::size_t i = 0; i < rows_; ++i) {
      if (labels_[i] == none) continue;
      const double* const z = &logits_[i * classes_];
      const auto label = static_cast<std::size_t>(labels_[i]);
      double sum = 0, mean = 0;
      for (std::size_t c = 0; c < classes_; ++c) {
        sum += std::exp(z[c]);
        mean += z[c] / static_cast<double>(classes_);
      }
      wanted.losses[i] = std::log(sum) - (1 - smoothing) * z[label] - smoothing * mean;
      for (std::size_t c = 0; c < classes_; ++c) {
        const double share =
            (c == label ? 1 - smoothing : 0) + smoothing / static_cast<double>(classes_);
        const double d = factors[i] * (std::exp(z[c]) / sum - share);
        for (std::size_t k = 0; k < width; ++k) {
          wanted.dx[i * width + k] += d * static_cast<double>(weight_[c * width + k]);
          wanted.dweight[c * width + k] += d * static_cast<double>(x_[i * width + k]);
        }
      }
    }
    return wanted;
  }

 private:
  std::vector<float> x_, weight_;
  std::vector<std::int32_t> labels_;
  std::size_t rows_, classes_;
  std::vector<double> logits_;
};

// The norm of the difference by the norm.
double distance(const std::vector<float>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    sum += std::pow(static_cast<double>(got[i]) - wanted[i], 2);
    all += wanted[i] * wanted[i];
  }
  return std::sqrt(all < 1e-20 ? sum : sum / all);
}

}  // namespace

TEST_CASE("head_loss is cross entropy of a linear layer for any number of classes",
          "[unit][grad]") {
  auto context = make_context({.threads = 2});
  const std::size_t rows = 23, counted = 19;
  for (const std::size_t classes : {1u, 7u, 4095u, 4096u, 4097u, 8193u, 50257u}) {
    const Tensor x = random_tensor(context, Shape{rows, width}, "x"),
                 weight = random_tensor(context, Shape{classes, width}, "w");
    const Tensor labels = labels_of(context, rows, classes);
    const Reference reference(context, x, weight, labels);
    for (const CrossEntropySetting& setting :
         {CrossEntropySetting{}, CrossEntropySetting{.label_smoothing = 0.1f},
          CrossEntropySetting{.reduction = LossReduction::sum},
          CrossEntropySetting{.reduction = LossReduction::none},
          CrossEntropySetting{.denominator = 100}}) {
      if (classes > 10000 && setting.reduction != LossReduction::mean) continue;
      INFO(classes << " classes, smoothing " << setting.label_smoothing);
      const Result head = loss_of(context, Way::head, x, weight, labels, setting);
      const bool each = setting.reduction == LossReduction::none;
      const double divisor = setting.reduction != LossReduction::mean ? 1
                             : setting.denominator != 0               ? setting.denominator
                                                                      : counted;
      const Tensor dloss = random_tensor(context, head.loss.shape(), "dloss");
      std::vector<double> factors;
      for (std::size_t i = 0; i < rows; ++i)
        factors.push_back(static_cast<double>(dloss.data<float>()[each ? i : 0]) / divisor);
      Wanted wanted = reference.of(static_cast<double>(setting.label_smoothing), factors);
      if (!each) {
        double total = 0;
        for (const double loss : wanted.losses) total += loss;
        wanted.losses = {total / divisor};
      }
      CHECK(distance(soma_test::values(context, head.loss), wanted.losses) < 1e-6);
      // A run of 4,096 products that are rounded one by one.
      CHECK(distance(soma_test::values(context, head.dx), wanted.dx) < 2e-6);
      CHECK(distance(soma_test::values(context, head.dweight), wanted.dweight) < 1e-6);
      // With logits as a whole dx is one sum over all classes, whose error grows with their number.
      const Result whole = loss_of(context, Way::logits, x, weight, labels, setting);
      const double bound = classes < 5000 ? 2e-6 : 1e-5;
      CHECK(worst(context, head, whole) < bound);
    }
  }
}

TEST_CASE("head_loss reads and multiplies bf16", "[unit][grad]") {
  auto context = make_context({.threads = 1});
  const auto narrow = [&](const Shape& shape, const char* name) {
    return run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16},
               {random_tensor(context, shape, name)})[0];
  };
  const Tensor x = narrow(Shape{30, width}, "x"), weight = narrow(Shape{5000, width}, "w");
  const auto wide = [&](const Tensor& tensor) {
    return run(context, *context.built_in().cast, CastSetting{.dtype = DType::fp32}, {tensor})[0];
  };
  const Tensor labels = labels_of(context, 30, 5000);
  // With sequences x is hidden states, whose gradients have their type.
  const Sequences sequences = Sequences::from_lengths(context, std::vector<std::size_t>{30});
  const Result one = loss_of(context, Way::head, x, weight, labels, {}, sequences);
  const Result two = loss_of(context, Way::logits, wide(x), wide(weight), labels, {}, sequences);
  // Logits and losses are fp32; gradients of logits are rounded to 8 bits.
  CHECK(difference(context, one.loss, two.loss) < 1e-6);
  CHECK(difference(context, one.dx, two.dx) < 0x1p-9);
  CHECK(difference(context, one.dweight, two.dweight) < 0x1p-9);
  CHECK(difference(context, one.dx, two.dx) > 0x1p-13);
}

TEST_CASE("rows without labels count nothing, whatever they hold", "[unit]") {
  auto context = make_context({.threads = 1});
  Tensor x = random_tensor(context, Shape{4, width}, "x");
  const Tensor weight = random_tensor(context, Shape{9, width}, "w");
  const Tensor labels = soma_test::ints(context, {none, 3, none, 8});
  const Result plain = loss_of(context, Way::head, x, weight, labels, {});
  for (std::size_t i = 0; i < width; ++i)
    x.mutable_data<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  const Result spoilt = loss_of(context, Way::head, x, weight, labels, {});
  CHECK((all_bits(context, plain) == all_bits(context, spoilt)));
  for (const std::size_t row : {0u, 2u})
    for (std::size_t i = 0; i < width; ++i) CHECK(spoilt.dx.data<float>()[row * width + i] == 0);

  // No row has a label: as cross_entropy(), 0 over 0 rows, or over the rows of a larger batch.
  const Tensor nothing = soma_test::ints(context, {none, none, none, none});
  const Tensor clean = random_tensor(context, Shape{4, width}, "x");
  const Result empty = loss_of(context, Way::head, clean, weight, nothing, {});
  CHECK(std::isnan(empty.loss.item<float>()));
  const Result part = loss_of(context, Way::head, clean, weight, nothing, {.denominator = 5});
  CHECK(part.loss.item<float>() == 0);
  for (const float value : soma_test::values(context, part.dx)) CHECK(value == 0);
  for (const float value : soma_test::values(context, part.dweight)) CHECK(value == 0);
}

TEST_CASE("head_loss takes logits of 10,000 and of -infinity, in any panel", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t classes = 9000;
  // The logits of a row are a column of the weight.
  const auto losses = [&](const std::vector<std::pair<std::size_t, float>>& set, float others,
                          std::int32_t label) {
    Tensor weight = Tensor::full(context, Shape{classes, 1}, others);
    for (const auto& [at, value] : set) weight.mutable_data<float>()[at] = value;
    const Tensor x = Tensor::full(context, Shape{1, 1}, 1.0f);
    const Tensor labels = soma_test::ints(context, {label});
    const Result head = loss_of(context, Way::head, x, weight, labels, {});
    const Result whole = loss_of(context, Way::logits, x, weight, labels, {});
    return std::array{head.loss.item<float>(), whole.loss.item<float>()};
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::size_t at : {0u, 5000u, 8999u}) {
    INFO(at);
    const auto own = static_cast<std::int32_t>(at);
    const std::int32_t other = own == 0 ? 1 : 0;
    CHECK(losses({{at, 1e4f}}, 0, own)[0] == 0);
    CHECK(losses({{at, 1e4f}}, 0, other)[0] == 1e4f);
    // The label far ahead: exp(-20) of 8,999 others, with all its digits.
    const auto near = losses({{at, 20.0f}}, 0, own);
    CHECK(std::abs(static_cast<double>(near[0]) / (8999 * std::exp(-20.0)) - 1) < 1e-5);
    CHECK(std::abs(near[0] / near[1] - 1) < 1e-5f);
    CHECK(losses({{at, 1.0f}}, -infinity, own)[0] == 0);  // the only class that is possible
    CHECK(losses({{at, -infinity}}, 0, own)[0] == infinity);
    CHECK(std::abs(losses({{at, -infinity}}, 0, other)[0] - std::log(8999.0f)) < 1e-5f);
    CHECK(losses({{at, infinity}}, 0, own)[0] == 0);
    CHECK(losses({{at, infinity}}, 0, other)[0] == infinity);
    CHECK(std::isnan(losses({{at, std::nanf("")}}, 0, other)[0]));
  }
  CHECK(std::isnan(losses({}, -infinity, 1)[0]));
  CHECK(std::isnan(losses({{3, infinity}, {8000, infinity}}, 0, 3)[0]));
}

TEST_CASE("threads and parts of a batch give head_loss the same bits", "[unit][invariance]") {
  // Eight shards of three sequences each; each part of the batch has whole shards.
  const std::size_t shards = 8, rows = 8 * 24, classes = 9001;
  for (const bool narrow : {false, true}) {
    std::vector<std::byte> first;
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      const auto made = [&](const Shape& shape, const char* name) {
        const Tensor wide = random_tensor(context, shape, name);
        if (!narrow) return wide;
        return run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16}, {wide})[0];
      };
      const Tensor x = made(Shape{rows, width}, "x"), weight = made(Shape{classes, width}, "w");
      const Tensor labels = labels_of(context, rows, classes);
      const CrossEntropySetting setting{.denominator = 150};
      const std::vector<std::size_t> lengths(shards, rows / shards);
      const Result whole = loss_of(context, Way::head, x, weight, labels, setting,
                                   Sequences::from_lengths(context, lengths));
      const std::vector<std::byte> all = all_bits(context, whole);
      if (first.empty()) first = all;
      CHECK((all == first));
      for (const std::size_t parts : {2u, 4u}) {
        INFO(threads << " threads, " << parts << " parts");
        std::vector<Tensor> sums;
        std::vector<std::byte> dx;
        for (std::size_t i = 0; i < parts; ++i) {
          const std::size_t begin = rows / parts * i, end = rows / parts * (i + 1);
          const std::vector<std::size_t> own(shards / parts, rows / shards);
          const Result part =
              loss_of(context, Way::head, contiguous(context, x.slice(0, begin, end)), weight,
                      contiguous(context, labels.slice(0, begin, end)), setting,
                      Sequences::from_lengths(context, own, {.shards = shards / parts}));
          sums.push_back(part.dweight);
          const std::vector<std::byte> rows_of_part = bits(context, part.dx);
          dx.insert(dx.end(), rows_of_part.begin(), rows_of_part.end());
        }
        for (std::size_t step = 1; step < parts; step *= 2)  // the upper levels of the tree
          for (std::size_t i = 0; i < parts; i += 2 * step)
            sums[i] =
                run(context, context.built_in().of(Binary::add), {}, {sums[i], sums[i + step]})[0];
        CHECK((bits(context, sums[0]) == bits(context, whole.dweight)));
        CHECK((dx == bits(context, whole.dx)));
      }
    }
  }
}

TEST_CASE("head_loss stores the logits of a panel, and no more", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t rows = 512, classes = 20000, channels = 64;
  const Var x = Var::parameter(context, random_tensor(context, Shape{rows, channels}, "x"));
  const Var weight = Var::parameter(context, random_tensor(context, Shape{classes, channels}, "w"));
  const Tensor labels = labels_of(context, rows, classes);
  Heap& heap = context.heap();
  // A fifth of the rows has no label.
  const std::size_t counted = rows - (rows + 1) / 5, panel = counted * (4096 + 16) * sizeof(float);
  // The memory in which products pack, as their kernels say.
  const auto packed = [&](std::size_t m, std::size_t n, std::size_t k, std::size_t segments) {
    GemmArgs args{.m = m, .n = n, .k = k};
    args.segments.count = segments;
    args.bf16_products = context.bf16().products;
    args.fp32_products = context.fp32_products();
    return context.kernels().gemm.workspace_bytes(args);
  };
  const std::size_t logits = packed(counted, 4096, channels, 1),
                    backward = (std::max)({logits, packed(4096, channels, counted, 8),
                                           packed(counted, channels, 4096, 1)});
  // The rows with labels once more, in x and in dx; and their lists.
  const std::size_t some = counted * channels * sizeof(float), lists = std::size_t{96} << 10;
  Tape tape(context);
  std::size_t before = heap.bytes_in_use();
  heap.reset_peak();
  const Var loss = head_loss(tape, x, weight, tape.constant(labels));
  CHECK(heap.peak_bytes() - before >= panel + logits + some);
  CHECK(heap.peak_bytes() - before <= panel + logits + some + lists);
  CHECK(heap.bytes_in_use() - before <= 16 * rows + 4096);  // kept for backward
  before = heap.bytes_in_use();
  heap.reset_peak();
  tape.backward(loss);
  const std::size_t gradients = (classes + rows) * channels * sizeof(float);
  CHECK(heap.peak_bytes() - before >= panel + gradients + backward + 2 * some);
  CHECK(heap.peak_bytes() - before <= panel + gradients + backward + 2 * some + lists);
}

TEST_CASE("what head_loss refuses", "[unit]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const Var x = tape.constant(random_tensor(context, Shape{3, 4}, "x")),
            weight = tape.constant(random_tensor(context, Shape{5, 4}, "w"));
  const auto says = [&](const Var& given_x, const Var& given_weight, const Tensor& labels) {
    return message_of([&] { head_loss(tape, given_x, given_weight, tape.constant(labels)); });
  };
  CHECK(says(x, weight, soma_test::ints(context, {0, none, 4})) == "no error");
  CHECK(says(x, weight, soma_test::ints(context, {0, 5, 4})) ==
        "head_loss: labels[1] is 5, wanted 0 to 5 - 1, or ignore_index [operator.value]");
  CHECK(says(x, weight, soma_test::ints(context, {0, -1, 4})) ==
        "head_loss: labels[1] is -1, wanted 0 to 5 - 1, or ignore_index [operator.value]");
  CHECK(says(x, weight, soma_test::ints(context, {0, 1})) ==
        "head_loss: labels is [2] int32, wanted [3] [tensor.shape]");
  CHECK(says(x, x, soma_test::ints(context, {0, 1, 2})) == "no error");
  CHECK(says(x, tape.constant(random_tensor(context, Shape{5, 3}, "w")),
             soma_test::ints(context, {0, 1, 2})) ==
        "head_loss: weight is [5, 3] fp32, wanted at least one row as wide as x, [3, 4] fp32 "
        "[tensor.shape]");
  CHECK(says(x, weight, random_tensor(context, Shape{3}, "l")) ==
        "head_loss: labels is [3] fp32, wanted int32 or int64 [tensor.dtype]");
}

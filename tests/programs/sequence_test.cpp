// Programs of recurrent layers and rotary positions at sizes that samples do not have, beside the
// host's kernels.

#include <soma/ops/all.hpp>

#include "catch.hpp"
#include "programs/device_run.hpp"
#include "support/on_device.hpp"

#include <cstddef>
#include <vector>

using namespace soma;
using soma_test::difference;
using soma_test::random_of;
using soma_test::run_on_device;

namespace {

// One output after another beside the host's.
void check(Context& context, const Operator& op, const Attributes& attributes,
           const std::vector<Tensor>& inputs, const Sequences& sequences, double bound) {
  const Outputs host = run(context, op, attributes, inputs, sequences);
  const Outputs device = run_on_device(context, op, attributes, inputs, sequences);
  for (std::size_t i = 0; i < op.outputs; ++i) {
    INFO(std::string(op.name) << ", output " << i);
    CHECK(difference(context, device[i], host[i], bound) == "");
  }
}

struct Batch {
  std::vector<std::size_t> lengths;
  std::size_t rows = 0;
  // Every third sequence is short, one is empty: rows of a step have no common distance.
  Batch(std::size_t count, std::size_t longest) {
    for (std::size_t i = 0; i < count; ++i) {
      lengths.push_back(i == 1 ? 0 : i % 3 == 2 ? 1 : longest);
      rows += lengths.back();
    }
  }
};

}  // namespace

TEST_CASE("recurrent layers larger than a block in every dimension", "[unit][programs]") {
  struct Size {
    std::size_t hidden, sequences, longest;
  };
  // Two blocks of sequences; two pieces of hidden columns; weights that SBUF cannot keep.
  for (const Size& size : {Size{130, 150, 3}, Size{600, 3, 2}, Size{1300, 2, 1}}) {
    auto context = make_context({.threads = 2});
    const Batch batch(size.sequences, size.longest);
    const Sequences sequences = Sequences::from_lengths(context, batch.lengths);
    const std::size_t h = size.hidden;
    const auto tensor = [&](const Shape& shape, const char* name, float range = 1) {
      return random_of(context, shape, DType::fp32, name, range);
    };
    // A sum of h products and the steps of the longest sequence; the gates keep numbers below 1.
    const double bound = 8 * static_cast<double>(size.longest * (h + 12)) * 0x1p-24;
    for (const bool reverse : {false, true}) {
      const Tensor state = tensor(Shape{size.sequences, h}, "state"),
                   cell = tensor(Shape{size.sequences, h}, "cell");
      const auto check_layer = [&](std::size_t gates, const Operator& op, const Operator& back) {
        const Tensor x = tensor(Shape{batch.rows, gates * h}, "x"),
                     weight = tensor(Shape{gates * h, h}, "weight", 0.03f),
                     bias = tensor(Shape{gates * h}, "bias");
        std::vector<Tensor> inputs{x, weight, bias, state};
        if (gates == 4) inputs.push_back(cell);
        check(context, op, RecurrentSetting{reverse}, inputs, sequences, bound);
        const Outputs outputs = run(context, op, RecurrentSetting{reverse}, inputs, sequences);
        inputs = {outputs[op.outputs - 1], weight, tensor(Shape{batch.rows, h}, "dy"), state};
        if (gates == 4) inputs.push_back(cell);
        check(context, back, RecurrentSetting{reverse}, inputs, sequences, 4 * bound);
      };
      check_layer(3, ops::gru, ops::gru_backward);
      check_layer(4, ops::lstm, ops::lstm_backward);
    }
  }
}

TEST_CASE("rotary positions of heads and rows of any size", "[unit][programs]") {
  auto context = make_context({.threads = 2});
  const double bound = 4 * 0x1p-24;
  struct Case {
    std::size_t columns;
    RotarySetting setting;
  };
  // Many heads of a piece; a head that is longer than a piece; columns that do not turn.
  for (const Case& one : {Case{96, {.heads = 3}}, Case{5000, {.heads = 50, .columns = 4800}},
                          Case{5200, {.heads = 1, .columns = 5002, .first_position = 7}}})
    for (const Operator* op : {&ops::rotary, &ops::rotary_backward}) {
      const Batch batch(70, 5);
      const Sequences sequences = Sequences::from_lengths(context, batch.lengths);
      const Tensor x = random_of(context, Shape{batch.rows, one.columns}, DType::fp32, "x");
      check(context, *op, one.setting, {x}, sequences, bound);
      // Positions along a dimension of views: columns side by side, and not.
      const Tensor cube = random_of(context, Shape{2, 9, 3, one.columns}, DType::bf16, "cube");
      check(context, *op, one.setting, {cube.transpose(1, 2)}, {}, bound);
      check(context, *op, one.setting, {cube.slice(3, 0, one.columns, 1).transpose(0, 2)}, {},
            bound);
      const Tensor turned = random_of(context, Shape{one.columns, 11, 2}, DType::fp32, "turned");
      check(context, *op, one.setting, {turned.transpose(0, 2)}, {}, bound);
    }
}

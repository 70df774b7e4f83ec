// These tests check operators of one's own that have a host function: on views, with outputs whose
// sizes depend on the data, in place, and with draws at random.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "autograd/custom_operators.hpp"
#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using soma_test::expect_passed;
using soma_test::Fixture;
using soma_test::floats;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::Slope;
using soma_test::unit_rows;
using soma_test::values;

namespace {

// The positions of all elements that are not zero, ascending.
CustomOperator<> nonzero() {
  return {.host =
              [](const OperatorCall& call) {
                const std::span<const float> x = call.inputs[0].span<float>();
                std::vector<std::int64_t> found;
                for (std::size_t i = 0; i < x.size(); ++i)
                  if (x[i] != 0) found.push_back(static_cast<std::int64_t>(i));
                call.outputs[0] = Tensor::from<std::int64_t>(call.context, found, {found.size()});
              },
          .samples =
              [] {
                OperatorSamples samples;
                samples.samples = {{.name = "[2, 3]",
                                    .inputs = {{.shape = {2, 3}, .values = {0, 1, 0, 2, 3, 0}}}}};
                samples.reference = [](const Sample&, const std::vector<ReferenceTensor>&) {
                  return std::vector<ReferenceTensor>{{.shape = {3}, .values = {1, 3, 4}}};
                };
                return samples;
              },
          .allocates_outputs = true};
}

}  // namespace

TEST_CASE("a function on views keeps values for its gradient", "[unit][grad]") {
  Fixture f;
  const auto op = register_operator(f.operators, "test::unit_rows", unit_rows());
  expect_passed(testing::check_operator(f.context, "test::unit_rows"));

  const Var x = Var::parameter(f.context, Tensor::from<float>(f.context, {3, 4, 0, 2}, {2, 2}));
  const VarOutputs outputs = op.all(f.tape, {x});
  CHECK(values(f.context, outputs[0].value()) == std::vector<float>{0.6f, 0.8f, 0, 1});
  CHECK(values(f.context, outputs[1].value()) == std::vector<float>{5, 2});
  CHECK(id_of([&] { op(f.tape, reshape(f.tape, x, {4})); }) == "tensor.rank");

  // Any floating type, in any layout: computed in fp32 and rounded once.
  const Var narrow = cast(f.tape, transpose(f.tape, x, 0, 1), DType::bf16);
  const Var y = op(f.tape, narrow);
  CHECK(y.value().dtype() == DType::bf16);
  CHECK(values(f.context, cast(f.tape, y, DType::fp32).value()) ==
        std::vector<float>{1, 0, 0.89453125f, 0.447265625f});
  f.tape.backward(sum(f.tape, cast(f.tape, y, DType::fp32)));
  CHECK(x.gradient().values.dtype() == DType::fp32);
}

TEST_CASE("sizes of outputs may depend on the data", "[unit]") {
  Fixture f;
  const auto op = register_operator(f.operators, "test::nonzero", nonzero());
  const auto positions = [&](std::initializer_list<float> numbers) {
    const Tensor found = op(f.tape, f.tape.constant(floats(f.context, numbers))).value();
    const std::span<const std::int64_t> all = found.span<std::int64_t>();
    return std::vector<std::int64_t>(all.begin(), all.end());
  };
  CHECK(positions({0, 5, 0, 0, 1}) == std::vector<std::int64_t>{1, 4});
  CHECK(positions({0, 0}).empty());
  expect_passed(testing::check_operator(f.context, "test::nonzero"));

  CustomOperator<> forgetful = nonzero();
  forgetful.host = [](const OperatorCall&) {};
  const auto nothing = register_operator(f.operators, "test::forgetful", forgetful);
  CHECK(message_of([&] { nothing(f.tape, f.tape.constant(floats(f.context, {1}))); }) ==
        "test::forgetful: output 0 is not made, wanted a tensor from the host kernel "
        "[operator.outputs]");
}

TEST_CASE("an operator may write its inputs, and says so", "[unit]") {
  Fixture f;
  const CustomOperator<Slope> in_place{
      .inputs = 2,
      .outputs = 0,
      .shape = [](const ShapeCall&, const Slope&) {},
      .host =
          [](const OperatorCall& call, const Slope& slope) {
            const std::span<float> to = call.inputs[0].mutable_span<float>();
            const std::span<const float> from = call.inputs[1].span<float>();
            for (std::size_t i = 0; i < to.size(); ++i) to[i] += slope.value * from[i];
          },
      .samples =
          [] {
            OperatorSamples samples;
            samples.samples = {{.name = "[4, 3]",
                                .inputs = {{.shape = {4, 3}}, {.shape = {4, 3}}},
                                .attributes = Slope{}}};
            return samples;
          },
      .writes_inputs = 1};
  const auto op = register_operator(f.operators, "test::add_to", in_place);
  expect_passed(testing::check_operator(f.context, "test::add_to"));

  // Through gaps, and into another type.
  const Tensor wide = Tensor::full(f.context, {2, 4}, 1.0f);
  const Var from = f.tape.constant(Tensor::full(f.context, {2, 2}, 8.0f));
  op(f.tape, f.tape.constant(wide.slice(1, 0, 4, 2)), from);
  CHECK(values(f.context, wide) == std::vector<float>{3, 1, 3, 1, 3, 1, 3, 1});
  const Var narrow = cast(f.tape, f.tape.constant(wide), DType::bf16);
  op(f.tape, narrow, f.tape.constant(Tensor::full(f.context, {2, 4}, 4.0f)));
  CHECK(values(f.context, cast(f.tape, narrow, DType::fp32).value()) ==
        std::vector<float>{4, 2, 4, 2, 4, 2, 4, 2});

  // Backward notices what has changed; a parameter is not written behind its gradient's back.
  const Var w = Var::parameter(f.context, Tensor::full(f.context, {2, 2}, 1.0f));
  CHECK(id_of([&] { op(f.tape, w, from); }) == "autograd.not_differentiable");
  const Var loss = sum(f.tape, square(f.tape, w));
  {
    const auto pause = f.tape.no_gradient();
    op(f.tape, w, from);
  }
  CHECK(id_of([&] { f.tape.backward(loss); }) == "autograd.changed_in_place");
  CustomOperator<Slope> wrong = in_place;
  wrong.gradient = [](const GradientCall&, const Slope&) {};
  CHECK(message_of([&] { register_operator(f.operators, "test::wrong", wrong); }) ==
        "OperatorRegistry::add: operator is \"test::wrong\" that has a gradient and writes its "
        "inputs, wanted one or the other [operator.incomplete]");
}

TEST_CASE("what draws at random gets its draw from the call", "[unit][invariance]") {
  // Adds noise whose element (row, column) is that of the row's logical index.
  const CustomOperator<DropoutSetting> noise{
      .shape =
          [](const ShapeCall& call, const DropoutSetting&) {
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
          },
      .host =
          [](const OperatorCall& call, const DropoutSetting& setting) {
            const View<const float> x = call.inputs[0].view<float>();
            const View<float> y = call.outputs[0].mutable_view<float>();
            detail::for_ranges(
                call.context, x.shape[0], 100'000, [&](std::size_t begin, std::size_t end) {
                  for (std::size_t r = begin; r < end; ++r)
                    for (std::size_t c = 0; c < x.shape[1]; ++c) {
                      const std::uint32_t word =
                          random_word(setting.draw, call.sequences.row_indices()[r] + c);
                      y(r, c) = x(r, c) + static_cast<float>(word >> 8) * 0x1p-24f;
                    }
                });
          }};
  const std::size_t lengths[] = {3, 1, 2};
  std::vector<float> whole, parts;
  for (const int threads : {1, 3}) {
    auto context = make_context({.threads = threads});
    const auto op = register_operator(context.operators(), "test::noise", noise);
    Tape tape(context, {.seed = 5, .step = 9});
    const auto draw = [&](std::size_t rows, std::span<const std::size_t> own, std::size_t first) {
      const Var x = tape.constant(Tensor::zeros(context, {rows, 4}),
                                  Sequences::from_lengths(context, own, {.first_ordinal = first}));
      return values(context, op(tape, x, dropout_setting(tape, 0.5f, 77)).value());
    };
    if (threads == 1) {
      whole = draw(6, lengths, 0);
      continue;
    }
    // The same sequences in two batches, on other threads.
    parts = draw(3, std::span(lengths).first(1), 0);
    const std::vector<float> rest = draw(3, std::span(lengths).subspan(1), 1);
    parts.insert(parts.end(), rest.begin(), rest.end());
  }
  CHECK(whole == parts);
  CHECK(whole[0] != whole[1]);
}

TEST_CASE("a host function that puts another tensor in an output's place", "[unit][custom]") {
  Fixture f;
  // A tensor with the rule's sizes is accepted like a written output, whatever its layout and type.
  CustomOperator<> custom{.shape =
                              [](const ShapeCall& call) {
                                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                              },
                          .host =
                              [](const OperatorCall& call) {
                                call.outputs[0] = Tensor::full(call.context, {3, 2}, 7.0f);
                              }};
  const auto sevens = register_operator(f.operators, "test::sevens", custom);
  custom.host = [](const OperatorCall& call) {
    call.outputs[0] = Tensor::full(call.context, {5}, 7.0f);
  };
  const auto five = register_operator(f.operators, "test::five", custom);
  custom.host = [](const OperatorCall& call) {
    call.outputs[0] = Tensor::full(call.context, {3, 2}, std::int32_t{7});
  };
  const auto integers = register_operator(f.operators, "test::integers", custom);
  custom.host = [](const OperatorCall& call) { call.outputs[0] = Tensor(); };
  const auto none = register_operator(f.operators, "test::none", custom);
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const bool gaps : {false, true}) {
      const Tensor zeros = gaps ? Tensor::zeros(f.context, {3, 4}, dtype).slice(1, 0, 4, 2)
                                : Tensor::zeros(f.context, {3, 2}, dtype);
      const Var x = f.tape.constant(zeros);
      const std::string wanted = ", wanted [3, 2] " + std::string(to_string(dtype)) +
                                 ", as the shape rule says [operator.outputs]";
      INFO(x.value().describe());
      CHECK(values(f.context, cast(f.tape, sevens(f.tape, x), DType::fp32).value()) ==
            std::vector<float>(6, 7.0f));
      CHECK(message_of([&] { five(f.tape, x); }) == "test::five: output 0 is [5] fp32" + wanted);
      CHECK(message_of([&] { integers(f.tape, x); }) ==
            "test::integers: output 0 is [3, 2] int32" + wanted);
      CHECK(message_of([&] { none(f.tape, x); }) ==
            "test::none: output 0 is not made, wanted a tensor from the host kernel "
            "[operator.outputs]");
    }
}

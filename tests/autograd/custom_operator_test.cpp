// Operators of one's own on a tape: written in each of the ways, differentiated, called by name.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::random_parameter;
using soma_test::values;

namespace {

struct Slope {
  float value = 0.25f;
};

const auto leaky = [](float x, const Slope& slope) { return x > 0 ? x : slope.value * x; };
const auto leaky_gradient = [](float x, float dy, const Slope& slope) {
  return x > 0 ? dy : slope.value * dy;
};

struct Fixture {
  Context context{{.threads = 2}, make_context().targets()};
  OperatorRegistry& operators = context.operators();
  Tape tape{context};
};

// Rows divided by their length; the lengths are a second output, kept for the gradient.
CustomOperator<> unit_rows() {
  return {.inputs = 1,
          .outputs = 2,
          .shape =
              [](const ShapeCall& call) {
                detail::check_rank("test::unit_rows", "x", call.inputs[0], 2);
                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                call.outputs[1] = {Shape{call.inputs[0].size(0)}, DType::fp32};
              },
          .host =
              [](const OperatorCall& call) {
                const View<const float> x = call.inputs[0].view<float>();
                const View<float> y = call.outputs[0].mutable_view<float>();
                const View<float> length = call.outputs[1].mutable_view<float>();
                for (std::size_t r = 0; r < x.shape[0]; ++r) {
                  float sum = 0;
                  for (std::size_t c = 0; c < x.shape[1]; ++c) sum += x(r, c) * x(r, c);
                  length(r) = std::sqrt(sum);
                  for (std::size_t c = 0; c < x.shape[1]; ++c) y(r, c) = x(r, c) / length(r);
                }
              },
          // dx = (dy - y (dy . y)) / length
          .gradient =
              [](const GradientCall& call) {
                const View<const float> y = call.outputs[0].view<float>();
                const View<const float> length = call.outputs[1].view<float>();
                const View<const float> dy = call.output_gradients[0].view<float>();
                const Tensor& x = call.inputs[0];  // its elements were not kept
                const Tensor gradient = Tensor::empty(call.context, x.shape(), x.dtype());
                const View<float> dx = gradient.mutable_view<float>();
                for (std::size_t r = 0; r < y.shape[0]; ++r) {
                  float dot = 0;
                  for (std::size_t c = 0; c < y.shape[1]; ++c) dot += dy(r, c) * y(r, c);
                  for (std::size_t c = 0; c < y.shape[1]; ++c)
                    dx(r, c) = (dy(r, c) - y(r, c) * dot) / length(r);
                }
                call.input_gradients[0].values = gradient;
              },
          .samples =
              [] {
                OperatorSamples samples;
                samples.samples = {{.name = "[3, 5]", .inputs = {{.shape = {3, 5}}}},
                                   {.name = "[0, 2]", .inputs = {{.shape = {0, 2}}}}};
                return samples;
              },
          .keeps_inputs = 0};
}

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

void expect_passed(const testing::Report& report) {
  INFO(to_string(report));
  CHECK(report.passed());
  CHECK(report.checks > 20);
}

}  // namespace

TEST_CASE("a scalar function and its derivative are an operator", "[unit][grad]") {
  Fixture f;
  const auto op = register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const Var x = Var::parameter(f.context, floats(f.context, {-4, 2, -1}));
  CHECK(values(f.context, op(f.tape, x).value()) == std::vector<float>{-1, 2, -0.25f});
  const Var y = op(f.tape, x, {.value = 0.5f});
  CHECK(values(f.context, y.value()) == std::vector<float>{-2, 2, -0.5f});
  f.tape.backward(sum(f.tape, y));
  CHECK(gradient_values(f.context, x) == std::vector<float>{0.5f, 1, 0.5f});

  // By name: the defaults, attributes of its own, and those of somebody else.
  CHECK(values(f.context, apply(f.tape, "test::leaky", {x}).value())[0] == -1);
  CHECK(values(f.context, apply(f.tape, "test::leaky", {x}, Slope{2}).value())[0] == -8);
  CHECK(values(f.context,
               find_operator<Slope>(f.operators, "test::leaky")(f.tape, x, {2}).value())[0] == -8);
  CHECK(id_of([&] { apply(f.tape, "test::leaky", {x}, 2.0f); }) == "operator.attributes");
  CHECK(id_of([&] { apply(f.tape, "test::leaki", {x}); }) == "operator.unknown");
  CHECK(id_of([&] { op(f.tape, f.tape.constant(soma_test::ints(f.context, {1}))); }) ==
        "tensor.dtype");
  expect_passed(testing::check_operator(f.context, "test::leaky"));
}

namespace one {
inline Attributes made() {
  struct Setting {
    int value;
  };
  return Setting{1};
}
}  // namespace one
namespace two {
inline float read(const Attributes& attributes) {
  struct Setting {
    float value;
  };
  return attributes.as<Setting>().value;
}
}  // namespace two

TEST_CASE("settings of another type of the same name are refused", "[unit][custom]") {
  // Of the first two clang, of the others g++ prints the same name.
  CHECK(id_of([] { two::read(one::made()); }) == "operator.attributes");
  auto first = [value = 1] { return value; };
  auto second = [value = 1.0f] { return static_cast<int>(value); };
  CHECK(id_of([&] { Attributes(first).as<decltype(second)>(); }) == "operator.attributes");
  CHECK(Attributes(first).as<decltype(first)>()() == 1);
}

TEST_CASE("element-wise functions see any layout and any number of elements", "[unit]") {
  Fixture f;
  const auto op = register_elementwise(
      f.operators, "test::cube", [](float x) { return x * x * x; },
      [](float x, float dy) { return 3 * x * x * dy; });
  for (const Shape& shape :
       {Shape{1, 5}, Shape{5, 1}, Shape{513, 3}, Shape{2, 700}, Shape{70000}}) {
    const Var x = random_parameter(f.context, shape, "x");
    const std::size_t last = shape.rank() - 1;
    const Var turned = transpose(f.tape, x, 0, last);
    const Var half = slice(f.tape, x, last, 0, to_end, 2);
    for (const Var& view : {x, turned, half}) {
      const std::vector<float> in = values(f.context, view.value());
      const std::vector<float> out = values(f.context, op(f.tape, view).value());
      REQUIRE(in.size() == out.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < in.size(); ++i) wrong += out[i] != in[i] * in[i] * in[i];
      CHECK(wrong == 0);
    }
  }
  // A single column has no stride to speak of, for built-in operators neither.
  const Var column =
      f.tape.constant(Tensor::from<float>(f.context, {1, 2, 3, 4}, {1, 4}).transpose(0, 1));
  CHECK(values(f.context, square(f.tape, column).value()) == std::vector<float>{1, 4, 9, 16});
}

TEST_CASE("what captures is told apart at compile time", "[unit]") {
  int seen = 0;
  const auto capturing = [&seen](float x) { return x + static_cast<float>(seen); };
  static_assert(!detail::captures_nothing<decltype(capturing)>);
  static_assert(!detail::captures_nothing<float (*)(float)>);
  static_assert(detail::captures_nothing<decltype(leaky)>);
  CHECK(capturing(1) == 1);
}

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

TEST_CASE("a formula of other operators is differentiated by recording it", "[unit][grad]") {
  Fixture f;
  register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const auto op = register_operator(
      f.operators, "test::gated",
      CustomOperator<Slope>{.inputs = 2,
                            .optional_inputs = 1,
                            .compose =
                                [](Tape& tape, std::span<const Var> in, const Slope& slope) {
                                  const Var gate = apply(tape, "test::leaky", {in[1]}, slope);
                                  const Var y = mul(tape, in[0], sigmoid(tape, gate));
                                  return in.size() > 2 ? add(tape, y, in[2]) : y;
                                },
                            .samples =
                                [] {
                                  OperatorSamples samples;
                                  samples.samples = {
                                      {.name = "[3, 4]",
                                       .inputs = {{.shape = {3, 4}}, {.shape = {3, 4}}},
                                       .attributes = Slope{}},
                                      {.name = "with a third",
                                       .inputs = {{.shape = {5}}, {.shape = {5}}, {.shape = {5}}},
                                       .attributes = Slope{}}};
                                  return samples;
                                }});
  expect_passed(testing::check_operator(f.context, "test::gated"));

  const auto direct = [&](Tape& tape, const Var& x, const Var& gate) {
    return mul(tape, x, sigmoid(tape, apply(tape, "test::leaky", {gate}, Slope{0.5f})));
  };
  std::vector<float> found[2];
  for (const bool composed : {false, true}) {
    const Var x = random_parameter(f.context, {6}, "x"),
              gate = random_parameter(f.context, {6}, "g");
    const Var y = composed ? op(f.tape, x, gate, {.value = 0.5f}) : direct(f.tape, x, gate);
    f.tape.backward(sum(f.tape, square(f.tape, y)));
    found[composed] = gradient_values(f.context, x);
    const std::vector<float> more = gradient_values(f.context, gate);
    found[composed].insert(found[composed].end(), more.begin(), more.end());
  }
  CHECK(found[0] == found[1]);

  // A formula that is no more than its input.
  const auto same = register_operator(
      f.operators, "test::same",
      CustomOperator<>{.compose = [](Tape&, std::span<const Var> in) { return in[0]; }});
  const Var w = Var::parameter(f.context, floats(f.context, {1, 2}));
  f.tape.backward(sum(f.tape, square(f.tape, same(f.tape, w))));
  CHECK(gradient_values(f.context, w) == std::vector<float>{2, 4});

  CustomOperator<> both = unit_rows();
  both.compose = [](Tape&, std::span<const Var> in) { return in[0]; };
  CHECK(id_of([&] { register_operator(f.operators, "test::both", both); }) ==
        "operator.incomplete");
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

TEST_CASE("a part that is missing is named where it is needed", "[unit]") {
  Fixture f;
  const auto op =
      register_elementwise(f.operators, "test::step", [](float x) { return x > 0 ? 1.0f : 0.0f; });
  const Var x = Var::parameter(f.context, floats(f.context, {-1, 1}));
  CHECK(values(f.context, op(f.tape, f.tape.detach(x)).value()) == std::vector<float>{0, 1});
  CHECK(message_of([&] { op(f.tape, x); }) ==
        "test::step: operator is without a gradient, wanted one that has it, or constant inputs "
        "(Tape::detach) [autograd.not_differentiable]");
  CustomOperator<> no_shape = unit_rows();
  no_shape.shape = nullptr;
  CHECK(message_of([&] { register_operator(f.operators, "test::no_shape", no_shape); }) ==
        "OperatorRegistry::add: operator is \"test::no_shape\" without a shape rule, wanted one, "
        "or allocates_outputs [operator.incomplete]");
  CHECK(message_of([&] { register_operator(f.operators, "test::empty", CustomOperator<>{}); }) ==
        "OperatorRegistry::add: operator is \"test::empty\" without a host kernel, wanted a "
        "function that computes it [operator.incomplete]");
  CustomOperator<> no_samples = unit_rows();
  no_samples.samples = nullptr;
  register_operator(f.operators, "test::no_samples", no_samples);
  const testing::Report report = testing::check_operator(f.context, "test::no_samples");
  CHECK(report.checks == 0);
  CHECK(to_string(report) ==
        "test::no_samples: not checked, 0 checks\n"
        "  not checked: anything: the operator has no samples\n");
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

TEST_CASE("a custom operator allocates nothing that a built-in one would not", "[unit]") {
  Fixture f;
  const auto op = register_elementwise<Slope>(f.operators, "test::leaky", leaky, leaky_gradient);
  const Var x = random_parameter(f.context, {64}, "x");
  const auto step = [&] {
    f.tape.backward(sum(f.tape, op(f.tape, x)));
    x.clear_gradient();
  };
  step();
  step();
  const std::size_t before = f.context.memory_use().allocations;
  for (int i = 0; i < 10; ++i) step();
  CHECK(f.context.memory_use().allocations == before);
}

TEST_CASE("a gradient of one's own that fits no input is refused by name", "[unit][custom]") {
  Fixture f;
  CustomOperator<> custom{
      .shape =
          [](const ShapeCall& call) {
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
          },
      .host = [](const OperatorCall& call) { copy(call.inputs[0], call.outputs[0]); },
      .gradient =
          [](const GradientCall& call) {
            call.input_gradients[0].values = Tensor::full(call.context, Shape{1}, 1.0f);
          }};
  const auto short_one = register_operator(f.operators, "test::short", custom);
  custom.gradient = [](const GradientCall& call) {
    call.input_gradients[0].values =
        Tensor::full(call.context, call.inputs[0].shape(), std::int32_t{1});
  };
  const auto integer = register_operator(f.operators, "test::integer", custom);
  // Where the kernel behind would read the gradient at its own sizes.
  const Var image =
      Var::parameter(f.context, soma_test::random_tensor(f.context, Shape{2, 4, 8, 8}, "image"));
  const auto backward = [&](const OperatorFunction<>& op) {
    return message_of([&] {
      const Var pooled = max_pool2d(f.tape, image, {});
      f.tape.backward(sum(f.tape, op(f.tape, pooled)));
    });
  };
  CHECK(backward(short_one) ==
        "test::short: gradient of input 0 is [1] fp32, wanted [2, 4, 4, 4] [tensor.shape]");
  CHECK(backward(integer) ==
        "test::integer: gradient of input 0 is [2, 4, 4, 4] int32, wanted a floating type "
        "[tensor.dtype]");
  CHECK_FALSE(image.gradient().defined());
}

TEST_CASE("a host function that puts another tensor in an output's place", "[unit][custom]") {
  Fixture f;
  // Of the sizes of the rule: as good as one that was written, whatever layouts and types are.
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

TEST_CASE("a shape rule that leaves an output out is refused by name", "[unit][custom]") {
  Fixture f;
  const auto first_only = register_operator(
      f.operators, "test::first_only",
      CustomOperator<>{.outputs = 2,
                       .shape = [](const ShapeCall& call) { call.outputs[0] = {}; },
                       .host = [](const OperatorCall&) {}});
  CHECK(message_of([&] { first_only(f.tape, f.tape.constant(Tensor::scalar(f.context, 1.0f))); }) ==
        "test::first_only: output 1 is left out by the shape rule, wanted its sizes and its type "
        "[operator.outputs]");
}

TEST_CASE("a formula that gives no variable is refused by name", "[unit][custom]") {
  Fixture f;
  for (const bool as_given : {false, true}) {
    const auto nothing = register_operator(
        f.operators, as_given ? "test::nothing" : "test::nothing_plain",
        CustomOperator<>{.compose = [](Tape&, std::span<const Var>) { return Var(); },
                         .as_given = as_given});
    for (const DType dtype : {DType::fp32, DType::bf16}) {
      const Var x = Var::parameter(f.context, Tensor::zeros(f.context, Shape{3}, dtype));
      CHECK(id_of([&] { nothing(f.tape, x); }) == "operator.outputs");
    }
  }
}

// Every way to misuse a tape, an operator or a registry ends in an error that says what and where.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <array>
#include <string>
#include <vector>

using namespace soma;
using soma_test::floats;
using soma_test::gradient_values;
using soma_test::id_of;
using soma_test::message_of;

namespace {

struct Times {
  float factor;
};

// An operator of this test's own: y = factor x, one number for all elements.
void times_shape(const ShapeCall& call) {
  static_cast<void>(call.attributes.as<Times>());
  call.outputs[0] = {call.inputs[0].shape(), DType::fp32};
}
void times_host(const OperatorCall& call) {
  const Tensor x = contiguous(call.context, call.inputs[0]);
  float* y = call.outputs[0].mutable_data<float>();
  for (std::size_t i = 0; i < x.elements(); ++i)
    y[i] = call.attributes.as<Times>().factor * x.data<float>()[i];
}
void times_gradient(const GradientCall& call);

constexpr Operator times{
    .name = "times", .shape = &times_shape, .host = &times_host, .gradient = &times_gradient};
constexpr Operator times_without_gradient{
    .name = "times only", .shape = &times_shape, .host = &times_host};

void times_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, times, call.attributes, {call.output_gradients[0]})[0];
}

struct Fixture {
  Context context{{.threads = 1}, make_context().targets()};
  Var w = Var::parameter(context, floats(context, {1, 2, 3}));
  Tape tape{context};
};

}  // namespace

TEST_CASE("an operator of the user's own is like any other", "[unit][tape]") {
  Fixture f;
  const Var y = f.tape.apply(times, Times{3}, {f.w});
  CHECK(soma_test::values(f.context, y.value()) == std::vector<float>{3, 6, 9});
  f.tape.backward(sum(f.tape, square(f.tape, y)));
  CHECK(gradient_values(f.context, f.w) == std::vector<float>{18, 36, 54});
}

TEST_CASE("settings of another operator are refused", "[unit][tape]") {
  Fixture f;
  CHECK(message_of([&] { f.tape.apply(times, 3.0f, {f.w}); }) ==
        "Attributes::as: attributes is of another type, wanted those of this operator "
        "[operator.attributes]");
  CHECK(id_of([&] { f.tape.apply(times, {}, {f.w}); }) == "operator.attributes");
  CHECK(f.tape.size() == 0);
}

TEST_CASE("backward twice over one recording is refused", "[unit][tape]") {
  Fixture f;
  const Var y = square(f.tape, f.w), loss = sum(f.tape, y);
  f.tape.backward(loss);
  CHECK(message_of([&] { f.tape.backward(loss); }) ==
        "Tape::backward: variable is of a recording that backward or reset has ended, wanted one "
        "computed since, or a constant (Tape::detach) [autograd.freed]");
  CHECK(message_of([&] { sum(f.tape, y); }) ==
        "reduce: variable is of a recording that backward or reset has ended, wanted one computed "
        "since, or a constant (Tape::detach) [autograd.freed]");
  CHECK(gradient_values(f.context, f.w) == std::vector<float>{2, 4, 6});
  const Var again = square(f.tape, f.w);
  f.tape.reset();
  CHECK(id_of([&] { neg(f.tape, again); }) == "autograd.freed");
}

TEST_CASE("a result of another tape is refused", "[unit][tape]") {
  Fixture f;
  Tape other(f.context);
  const Var y = square(other, f.w);
  CHECK(message_of([&] { mul(f.tape, f.w, y); }) ==
        "multiply: variable is the result of another tape, wanted one of this tape, or a constant "
        "(Tape::detach) [autograd.foreign_tape]");
  CHECK(id_of([&] {
          f.tape.backward(y, floats(f.context, {1, 1, 1}));
        }) == "autograd.foreign_tape");
  // Both go on.
  f.tape.backward(sum(f.tape, mul(f.tape, f.w, f.tape.detach(y))));
  other.backward(sum(other, y));
  CHECK(gradient_values(f.context, f.w) == std::vector<float>{3, 8, 15});
}

TEST_CASE("a result of a tape that has ended is refused, also by one in its place",
          "[unit][tape]") {
  // Contexts number their recordings alike, and the tapes most likely have one address.
  auto a = make_context({.threads = 1}), b = make_context({.threads = 1});
  std::vector<Var> kept;
  for (Context* context : {&a, &b, &a}) {
    Tape tape(*context);
    for (const Var& var : kept) {
      const std::string id = id_of([&] { neg(tape, var); });
      CHECK((id == "autograd.freed" || id == "autograd.foreign_tape"));
    }
    kept.push_back(square(tape, Var::parameter(*context, floats(*context, {1}))));
  }
}

TEST_CASE("a kept tensor that has changed is noticed and named", "[unit][tape]") {
  Fixture f;
  const Var y = square(f.tape, f.w);
  const Var loss = sum(f.tape, y);
  f.w.value().mutable_span<float>()[0] = 5;
  CHECK(message_of([&] { f.tape.backward(loss); }) ==
        "square: input 0 is changed since, wanted the value that backward needs (write to a copy) "
        "[autograd.changed_in_place]");
  CHECK(f.tape.size() == 0);  // and the recording is gone
  CHECK(id_of([&] { f.tape.backward(loss); }) == "autograd.freed");

  // Through a view; and of an output that is kept.
  const Var x = f.tape.constant(soma_test::random_tensor(f.context, Shape{2, 3}, "x"));
  const Var soft = softmax(f.tape, mul(f.tape, x, f.w));
  const Var total = sum(f.tape, square(f.tape, soft));
  soft.value().slice(0, 0, 1).mutable_raw();
  CHECK(id_of([&] { f.tape.backward(total); }) == "autograd.changed_in_place");

  // A tensor that no gradient reads may change.
  const Var shifted = add(f.tape, f.w, f.w);
  const Var last = sum(f.tape, shifted);
  shifted.value().mutable_raw();
  f.w.value().mutable_raw();
  f.tape.backward(last);
}

TEST_CASE("a loss is one element", "[unit][tape]") {
  Fixture f;
  const Var y = square(f.tape, f.w);
  CHECK(message_of([&] { f.tape.backward(y); }) ==
        "Tape::backward: loss is [3] fp32, wanted one element, or the gradient of the result "
        "beside it [autograd.not_scalar]");
  CHECK(message_of([&] {
          f.tape.backward(y, floats(f.context, {1, 2}));
        }) == "Tape::backward: gradient is [2] fp32, wanted [3] fp32 [tensor.shape]");
  CHECK(id_of([&] {
          f.tape.backward(y, soma_test::ints(f.context, {1, 2, 3}));
        }) == "tensor.dtype");
  const Var loss = sum(f.tape, y);
  CHECK(id_of([&] { f.tape.backward(loss, Tensor()); }) == "tensor.undefined");
  // A refused call leaves the recording.
  f.tape.backward(y, floats(f.context, {1, 1, 2}));
  CHECK(gradient_values(f.context, f.w) == std::vector<float>{2, 4, 12});
}

TEST_CASE("nothing to differentiate is an error", "[unit][tape]") {
  Fixture f;
  const std::string message =
      "Tape::backward: result is not computed from a parameter on this tape, wanted one that was, "
      "while recording [autograd.no_gradient]";
  const Var constant = f.tape.constant(floats(f.context, {4}));
  CHECK(message_of([&] { f.tape.backward(square(f.tape, constant)); }) == message);
  CHECK(message_of([&] { f.tape.backward(constant); }) == message);
  CHECK(message_of([&] { f.tape.backward(Var()); }) == message);
  CHECK(message_of([&] { f.tape.backward(Var::parameter(f.context, floats(f.context, {4}))); }) ==
        message);
}

TEST_CASE("an operator without a gradient takes constants only", "[unit][tape]") {
  Fixture f;
  CHECK(message_of([&] { f.tape.apply(times_without_gradient, Times{2}, {f.w}); }) ==
        "times only: operator is without a gradient, wanted one that has it, or constant inputs "
        "(Tape::detach) [autograd.not_differentiable]");
  // It has not run: optimizer steps write their inputs.
  const Operator& step = *f.context.built_in().sgd_step;
  CHECK(id_of([&] {
          f.tape.apply(step, SgdSetting{.rate = 1},
                       {f.w, f.tape.constant(floats(f.context, {1, 1, 1})), Var(), Var()});
        }) == "autograd.not_differentiable");
  CHECK(soma_test::values(f.context, f.w.value()) == std::vector<float>{1, 2, 3});
  const Var y = f.tape.apply(times_without_gradient, Times{2}, {f.tape.detach(f.w)});
  CHECK_FALSE(y.requires_gradient());
  const auto pause = f.tape.no_gradient();
  f.tape.apply(times_without_gradient, Times{2}, {f.w});
}

TEST_CASE("the number of inputs is checked, and that they are there", "[unit][tape]") {
  Fixture f;
  CHECK(message_of([&] {
          f.tape.apply(times, Times{1}, {f.w, f.w});
        }) == "times: inputs is 2, wanted 1 [operator.inputs]");
  CHECK(message_of([&] { f.tape.apply(*f.tape.operators().linear, LinearSetting{}, {f.w}); }) ==
        "linear: inputs is 1, wanted 2 to 4 [operator.inputs]");
  CHECK(message_of([&] { square(f.tape, Var()); }) ==
        "square: input 0 is not defined, wanted a tensor [operator.inputs]");
  CHECK(id_of([&] { sequence_first(f.tape, Var()); }) == "operator.inputs");
  CHECK(id_of([&] { sequence_first(f.tape, f.w); }) == "tensor.rank");
  const Var matrix = f.tape.constant(soma_test::random_tensor(f.context, Shape{2, 3}, "m"));
  CHECK(message_of([&] { sequence_first(f.tape, matrix); }) ==
        "sequence_first: input is [2, 3] fp32 without sequences, wanted rows that form sequences "
        "(Tape::constant of a Ragged) [operator.sequences]");
  CHECK(id_of([&] { softmax(f.tape, f.tape.constant(soma_test::ints(f.context, {1}))); }) ==
        "tensor.dtype");
}

TEST_CASE("queries of attention fit its keys and values", "[unit][tape]") {
  Fixture f;
  const std::size_t lengths[] = {2, 3};
  const Sequences sequences = Sequences::from_lengths(f.context, lengths);
  const auto rows = [&](const Shape& shape, DType dtype = DType::fp32) {
    return f.tape.constant(Tensor::zeros(f.context, shape, dtype));
  };
  const auto applied = [&](std::size_t columns, const AttentionSetting& setting,
                           const Var& queries = {}) {
    const Var all =
        f.tape.constant(Tensor::zeros(f.context, Shape{5, columns}, DType::fp32), sequences);
    return message_of([&] { attention(f.tape, all, setting, queries); });
  };
  CHECK(applied(8, {.heads = 2}) ==
        "attention: heads is 2, wanted a number whose triple divides the columns of qkv, [5, 8] "
        "fp32 [operator.value]");
  CHECK(applied(6, {.heads = 2}, rows({5, 3})) ==
        "attention: heads is 2, wanted a number whose double divides the columns of keys and "
        "values, [5, 6] fp32 [operator.value]");
  CHECK(applied(12, {.heads = 2, .first_rows = true}) ==
        "attention: queries is left out, wanted one of each sequence, where first rows are queries "
        "[operator.inputs]");
  CHECK(applied(8, {.heads = 2, .first_rows = true}, rows({5, 4})) ==
        "attention: queries is [5, 4] fp32, wanted [2, 4] [tensor.shape]");
  CHECK(applied(8, {.heads = 2}, rows({2, 4})) ==
        "attention: queries is [2, 4] fp32, wanted [5, 4] [tensor.shape]");
  CHECK(applied(8, {.heads = 2}, rows({5, 4}, DType::bf16)) ==
        "attention: queries is [5, 4] bf16, wanted the type of keys and values, fp32 "
        "[tensor.dtype]");
}

TEST_CASE("values outside of a setting's range are refused", "[unit][tape]") {
  Fixture f;
  const Var logits = f.tape.constant(soma_test::random_tensor(f.context, Shape{2, 3}, "m"));
  const Var labels = f.tape.constant(soma_test::ints(f.context, {0, 3}));
  CHECK(message_of([&] { cross_entropy(f.tape, logits, labels); }) ==
        "cross_entropy: labels[1] is 3, wanted 0 to 3 - 1, or ignore_index [operator.value]");
  CHECK(id_of([&] { dropout(f.tape, f.w, 1, 0); }) == "random.probability");
}

TEST_CASE("records that are incomplete are refused before they are used", "[unit][tape]") {
  Fixture f;
  Operator wide = times;
  wide.max_inputs = 100;
  Operator many = times;
  many.outputs = max_outputs + 1;
  Operator no_shape = times, no_host = times, no_name = times, reversed = times, written = times;
  no_shape.shape = nullptr;
  no_host.host = nullptr;
  no_name.name = {};
  reversed.min_inputs = 2;
  written.writes_inputs = 1;
  REQUIRE(times.gradient != nullptr);
  for (const Operator* op : std::array<const Operator*, 7>{&wide, &many, &no_shape, &no_host,
                                                           &no_name, &reversed, &written}) {
    INFO(op - &no_shape);
    CHECK(id_of([&] { f.tape.apply(*op, Times{1}, {f.w}); }) == "operator.incomplete");
  }
  CHECK(message_of([&] { f.tape.apply(no_host, Times{1}, {f.w}); }) ==
        "run: operator is \"times\" without a host kernel, wanted a function that computes it "
        "[operator.incomplete]");
  CHECK(message_of([&] { f.tape.apply(no_shape, Times{1}, {f.w}); }) ==
        "run: operator is \"times\" without a shape rule, wanted one, or allocates_outputs "
        "[operator.incomplete]");
}

TEST_CASE("some rows of a sparse gradient are an error", "[unit][tape]") {
  auto context = make_context({.threads = 1});
  const Var table = soma_test::random_parameter(context, Shape{6, 2}, "table");
  Tape tape(context);
  tape.backward(sum(tape, embedding(tape, table, tape.constant(soma_test::ints(context, {1, 4})))));
  const Parameter part{"half", table, 0, 3};
  CHECK(message_of([&] { static_cast<void>(part.gradient()); }) ==
        "Parameter::gradient: half is some rows of a sparse gradient, wanted a variable with a "
        "dense one [operator.value]");
}

TEST_CASE("a variable that is not defined is refused wherever it is looked at", "[unit][tape]") {
  Fixture f;
  const Var none;
  const std::string wanted =
      "Var: variable is not defined, wanted one with a value [tensor.undefined]";
  CHECK(message_of([&] { static_cast<void>(none.value()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.shape()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.sequences()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.is_leaf()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.gradient()); }) == wanted);
  CHECK(message_of([&] { none.set_gradient({}); }) == wanted);
  CHECK(message_of([&] { none.clear_gradient(); }) == wanted);
  CHECK(message_of([&] { none.set_value(Tensor()); }) == wanted);
  CHECK(message_of([&] { f.tape.detach(none); }) == wanted);
  CHECK(message_of([&] { f.tape.with_sequences(none, {}); }) == wanted);
  CHECK_FALSE(none.requires_gradient());
  CHECK(none.is(Var()));
  CHECK(f.w.is(Var(f.w)));
  CHECK_FALSE(f.w.is(Var::parameter(f.context, f.w.value())));
}

namespace {

Gradient given_gradient(Context& context, int number) {
  const Tensor rows = Tensor::from<std::int64_t>(context, {1, 2}, Shape{2});
  switch (number) {
    case 0:
      return {Tensor::full(context, Shape{1}, 1.0f), {}};
    case 1:
      return {Tensor::full(context, Shape{3, 2}, std::int32_t{1}), {}};
    case 2:
      return {Tensor::full(context, Shape{3, 2}, 1.0f), rows};
    case 3:
      return {Tensor::full(context, Shape{2, 3}, 1.0f), rows};
    case 4:
      return {Tensor::full(context, Shape{2, 2}, 1.0f), Tensor::full(context, Shape{2}, 1.0f)};
    case 5:
      return {Tensor::full(context, Shape{2, 2}, 1.0f), rows.reshape(Shape{2, 1})};
    case 6:
      return {Tensor::full(context, Shape{3, 2}, 1.0f), {}};
    default:
      return {Tensor::full(context, Shape{2, 2}, 1.0f), rows};
  }
}

void wrong_host(const OperatorCall& call) { copy(call.inputs[0], call.outputs[0]); }
void wrong_shape(const ShapeCall& call) {
  static_cast<void>(call.attributes.as<int>());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
void wrong_gradient(const GradientCall& call) {
  call.input_gradients[0] = given_gradient(call.context, call.attributes.as<int>());
}
constexpr Operator wrong{
    .name = "wrong", .shape = &wrong_shape, .host = &wrong_host, .gradient = &wrong_gradient};

}  // namespace

TEST_CASE("an operator's gradient of another shape or type is refused by name", "[unit][tape]") {
  Fixture f;
  const Var w = Var::parameter(f.context, Tensor::full(f.context, Shape{3, 2}, 1.0f));
  const auto backward = [&](const Operator& op, int number, bool result) {
    const Var x = result ? square(f.tape, w) : w;
    const Var y = f.tape.apply(op, number, {x});
    return message_of([&] { f.tape.backward(sum(f.tape, y)); });
  };
  const std::string messages[] = {
      "wrong: gradient of input 0 is [1] fp32, wanted [3, 2] [tensor.shape]",
      "wrong: gradient of input 0 is [3, 2] int32, wanted a floating type [tensor.dtype]",
      "wrong: gradient of input 0 is [3, 2] fp32 of rows [2] int64, wanted a row of [3, 2] for "
      "each number of a row [tensor.shape]",
      "wrong: gradient of input 0 is [2, 3] fp32 of rows [2] int64, wanted a row of [3, 2] for "
      "each number of a row [tensor.shape]",
      "wrong: gradient of input 0 is of rows [2] fp32, wanted int64 numbers of rows "
      "[tensor.dtype]",
      "wrong: gradient of input 0 is [2, 2] fp32 of rows [2, 1] int64, wanted a row of [3, 2] for "
      "each number of a row [tensor.shape]",
  };
  for (int number = 0; number < 6; ++number)
    for (const bool result : {false, true}) {
      CHECK(backward(wrong, number, result) == messages[number]);
      CHECK_FALSE(w.gradient().defined());
    }
  for (const int number : {6, 7}) {
    w.clear_gradient();
    CHECK(backward(wrong, number, false) == "no error");
    CHECK(w.gradient().sparse() == (number == 7));
  }
}

TEST_CASE("a cast that rounds with more random bits than a word has is refused", "[unit][tape]") {
  Fixture f;
  const Rounding rounding{.mode = RoundingMode::stochastic, .random_bits = 33};
  CHECK(message_of([&] {
          run(f.context, *f.context.built_in().cast,
              CastSetting{.dtype = DType::bf16, .rounding = rounding}, {f.w.value()});
        }) ==
        "cast: rounding.random_bits is 33, wanted 0 (automatic) to 32 [rounding.random_bits]");
}

// recompute(): the bits of a computation that keeps everything, with less memory.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using soma_test::gradient_bits;
using soma_test::id_of;
using soma_test::random_parameter;
using soma_test::random_tensor;

namespace {

using Part = std::function<Var(Tape&, std::span<const Var>)>;
// Applies a part, plainly or through recompute().
using Apply = std::function<Var(Tape&, std::vector<Var>, const Part&)>;

Var plainly(Tape& tape, std::vector<Var> inputs, const Part& part) { return part(tape, inputs); }
Var recomputed(Tape& tape, std::vector<Var> inputs, const Part& part) {
  return recompute(tape, inputs, part);
}

struct Outcome {
  std::vector<std::byte> loss, gradients;
  std::size_t nodes = 0;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.loss == b.loss && a.gradients == b.gradients;
  }
};

// A loss that some parts are applied in.
using Model = std::function<Var(Tape&, const Apply&)>;

Outcome outcome(Context& context, const Parameters& parameters, const Model& model,
                const Apply& apply) {
  Tape tape(context, {.seed = 5, .step = 9});
  const Var loss = model(tape, apply);
  Outcome result{soma_test::bits(context, loss.value()), {}, tape.size()};
  tape.backward(loss);
  result.gradients = gradient_bits(context, parameters);
  clear_gradients(parameters);
  return result;
}

void check_same(Context& context, const Parameters& parameters, const Model& model) {
  const Outcome wanted = outcome(context, parameters, model, plainly);
  const Outcome given = outcome(context, parameters, model, recomputed);
  CHECK(given == wanted);
  CHECK(given.nodes < wanted.nodes);
}

struct Fixture {
  Context context{{.threads = 2}, make_context().targets()};
  Var w = random_parameter(context, Shape{6, 6}, "w");
  Var v = random_parameter(context, Shape{6, 6}, "v");
  Parameters parameters{{"w", w}, {"v", v}};
  std::vector<std::size_t> lengths{3, 0, 1, 5};
  Sequences sequences = Sequences::from_lengths(context, lengths, {.first_ordinal = 40});
  Tensor x = random_tensor(context, Shape{9, 6}, "x");
};

constexpr std::uint32_t site = stream_id("here", "dropout");

}  // namespace

TEST_CASE("captured parameters, ragged rows and dropout give the same bits", "[unit][recompute]") {
  Fixture f;
  check_same(f.context, f.parameters, [&](Tape& tape, const Apply& apply) {
    const Var h = matmul(tape, tape.constant(f.x, f.sequences), f.v);
    const Var y = apply(tape, {h}, [&](Tape& inner, std::span<const Var> inputs) {
      const Var z = dropout(inner, matmul(inner, inputs[0], f.w), 0.5f, site);
      return add(inner, linear(inner, z, f.w, {}, {.activation = Activation::gelu}), inputs[0]);
    });
    return sum(tape, mul(tape, dropout(tape, y, 0.25f, site + 1), matmul(tape, y, f.w)));
  });
}

TEST_CASE("a variable inside and outside, and twice among the inputs", "[unit][recompute]") {
  // The sums of its gradients have to be made in the same order.
  Fixture f;
  check_same(f.context, f.parameters, [&](Tape& tape, const Apply& apply) {
    const Var h = matmul(tape, f.v, f.w);
    const Var early = exp(tape, h);
    const Var y = apply(tape, {h, f.w, h, early}, [&](Tape& inner, std::span<const Var> inputs) {
      const Var a = mul(inner, sin(inner, inputs[0]), cos(inner, inputs[2]));
      const Var b = matmul(inner, matmul(inner, f.w, inputs[1]), inputs[3]);
      return add(inner, mul(inner, a, f.v), mul(inner, b, inputs[0]));
    });
    const Var late = tanh(tape, matmul(tape, h, f.w));
    return mean(tape, mul(tape, mul(tape, y, late), sigmoid(tape, h)));
  });
}

TEST_CASE("each input keeps its own sequences, or none", "[unit][recompute]") {
  // Rows of one batch, rows of another with as many rows, and a matrix without: dropout tells them
  // apart.
  Fixture f;
  const Sequences other =
      Sequences::from_lengths(f.context, std::vector<std::size_t>{4, 5}, {.first_ordinal = 7});
  for (std::size_t first = 0; first < 3; ++first)
    check_same(f.context, f.parameters, [&](Tape& tape, const Apply& apply) {
      const std::array<Var, 3> kinds{tape.constant(f.x), tape.constant(f.x, f.sequences),
                                     tape.constant(f.x, other)};
      std::vector<Var> inputs{matmul(tape, kinds[first], f.v)};
      for (const Var& kind : kinds) inputs.push_back(kind);
      const Var y = apply(tape, inputs, [&](Tape& inner, std::span<const Var> in) {
        Var total = matmul(inner, in[0], f.w);
        for (const Var& input : in)
          total = add(inner, total,
                      matmul(inner, dropout(inner, matmul(inner, input, f.v), 0.5f, site), f.w));
        return total;
      });
      return sum(tape, square(tape, y));
    });
}

TEST_CASE("an input that gets sequences in the function comes without them again",
          "[unit][recompute]") {
  // The result of an operator, a constant, and a leaf, twice, which is the same variable in both
  // runs; in the end it has what it had before backward.
  Fixture f;
  const Var leaf = random_parameter(f.context, Shape{9, 6}, "leaf");
  const Sequences own = Sequences::from_lengths(f.context, std::vector<std::size_t>{4, 5});
  const Parameters parameters{{"w", f.w}, {"v", f.v}, {"leaf", leaf}};
  check_same(f.context, parameters, [&](Tape& tape, const Apply& apply) {
    tape.with_sequences(leaf, {});
    const std::vector<Var> inputs{matmul(tape, tape.constant(f.x), f.v), tape.constant(f.x), leaf,
                                  leaf};
    const Var y = apply(tape, inputs, [&](Tape& inner, std::span<const Var> in) {
      Var total = matmul(inner, in[0], f.w);
      for (const Var& input : in) {
        if (&input == &in[3]) continue;  // it has the sequences of in[2]
        const Var before = dropout(inner, input, 0.5f, site);
        const Var rows = inner.with_sequences(input, f.sequences);
        total = add(inner, total, add(inner, before, dropout(inner, rows, 0.5f, site)));
      }
      return matmul(inner, total, f.w);
    });
    tape.with_sequences(leaf, own);
    return sum(tape, square(tape, y));
  });
  CHECK(leaf.sequences().count() == own.count());
}

TEST_CASE("an input may be left out", "[unit][recompute]") {
  Fixture f;
  check_same(f.context, f.parameters, [&](Tape& tape, const Apply& apply) {
    const Part part = [&](Tape& inner, std::span<const Var> in) {
      CHECK(in[0].defined() != in[1].defined());
      const Var y = in[0].defined() ? in[0] : in[1];
      return add(inner, linear(inner, y, f.w), linear(inner, y, f.v));
    };
    return sum(tape, mul(tape, apply(tape, {f.w, Var()}, part), apply(tape, {Var(), f.v}, part)));
  });
}

TEST_CASE("a gradient reaches what runs again in the type it was given in", "[unit][recompute]") {
  Fixture f;
  const Tensor given = Tensor::from(f.context, {0.7662516f, -0.2890625f}, Shape{2});
  for (const Apply& apply : {Apply(&plainly), Apply(&recomputed)}) {
    Tape tape(f.context);
    Tape plain(f.context, {.record = false});
    const Tensor narrow =
        cast(plain, plain.constant(Tensor::full(f.context, Shape{2}, 0.5f)), DType::bf16).value();
    const Var x = Var::parameter(f.context, narrow);
    const Var y = apply(tape, {x}, [](Tape& inner, std::span<const Var> in) {
      return relu(inner, relu(inner, in[0]));
    });
    tape.backward(y, given);
    // A parameter's gradient is fp32, and nothing on the way is rounded to the type of y.
    CHECK(soma_test::gradient_values(f.context, x) == std::vector<float>{0.7662516f, -0.2890625f});
  }
}

TEST_CASE("recompute() inside recompute()", "[unit][recompute]") {
  Fixture f;
  check_same(f.context, f.parameters, [&](Tape& tape, const Apply& apply) {
    const Part leaf = [&](Tape& inner, std::span<const Var> in) {
      return dropout(inner, tanh(inner, matmul(inner, in[0], f.w)), 0.5f, site);
    };
    const Part middle = [leaf, &apply](Tape& inner, std::span<const Var> in) {
      const Var y = apply(inner, {apply(inner, {in[0]}, leaf)}, leaf);
      return add(inner, y, in[0]);
    };
    return sum(tape, apply(tape, {apply(tape, {matmul(tape, f.v, f.w)}, middle)}, middle));
  });
}

TEST_CASE("a table inside of recompute() keeps its sparse gradient", "[unit][recompute]") {
  Fixture f;
  const Part part = [&](Tape& inner, std::span<const Var> in) {
    return sin(inner, embedding(inner, f.w, in[0]));
  };
  const Model model = [&](Tape& tape, const Apply& apply) {
    const Var ids = tape.constant(soma_test::ints(f.context, {1, 4, 1}));
    return sum(tape, apply(tape, {ids}, part));
  };
  check_same(f.context, f.parameters, model);
  Tape tape(f.context);
  tape.backward(model(tape, recomputed));
  CHECK(f.w.gradient().sparse());
}

TEST_CASE("what passes through, or has nothing to differentiate, is not recorded",
          "[unit][recompute]") {
  Fixture f;
  Tape tape(f.context);
  const Var h = square(tape, f.w);
  const Var same = recompute(tape, std::span<const Var>(&h, 1),
                             [](Tape&, std::span<const Var> in) { return in[0]; });
  CHECK(tape.size() == 1);
  const Var x = tape.constant(f.x);
  const Var y = recompute(tape, std::span<const Var>(&x, 1),
                          [](Tape& t, std::span<const Var> in) { return square(t, in[0]); });
  CHECK_FALSE(y.requires_gradient());
  CHECK(tape.size() == 1);
  tape.backward(sum(tape, add(tape, same, f.w)));
  CHECK(f.w.gradient().defined());
  const auto pause = tape.no_gradient();
  const Var z = recompute(tape, {}, [&](Tape& t, std::span<const Var>) { return square(t, f.w); });
  CHECK_FALSE(z.requires_gradient());
  CHECK(tape.size() == 0);
}

TEST_CASE("recompute() keeps its inputs and nothing else", "[unit][recompute]") {
  auto context = make_context({.threads = 1});
  constexpr std::size_t bytes = 512 * 512 * 4;
  const Var w = random_parameter(context, Shape{512, 512}, "w");
  const Part part = [](Tape& inner, std::span<const Var> in) {
    Var y = in[0];
    for (int i = 0; i < 6; ++i) y = sin(inner, y);
    return y;
  };
  std::size_t peaks[2];
  for (const bool plain : {true, false}) {
    const std::size_t before = context.heap().bytes_in_use();
    context.heap().reset_peak();
    {
      Tape tape(context);
      Var y = w;
      for (int i = 0; i < 6; ++i)
        y = plain ? plainly(tape, {y}, part) : recomputed(tape, {y}, part);
      tape.backward(sum(tape, y));
    }
    peaks[plain ? 1 : 0] = context.heap().peak_bytes() - before;
    w.clear_gradient();
  }
  CHECK(peaks[1] > 35 * bytes);
  CHECK(peaks[0] < 17 * bytes);  // six inputs, and one part at a time with its gradients
}

TEST_CASE("the operator that gave recompute()'s result does not run again", "[unit][recompute]") {
  class Counter final : public Device {
   public:
    void run(const Operator& op, const OperatorCall& call) override {
      ++runs[std::string(op.name)];
      op.host(call);
    }
    std::map<std::string, int> runs;
  };
  const auto runs = [](const Part& part, bool changed) {
    Fixture f;
    const Model model = [&](Tape& tape, const Apply& apply) {
      const Var y = apply(tape, {square(tape, f.w)}, part);
      if (changed) y.value().mutable_data<float>()[0] += 1;
      return sum(tape, square(tape, y));
    };
    const Outcome wanted = outcome(f.context, f.parameters, model, plainly);
    Counter counter;
    f.context.set_device(&counter);
    const Outcome given = outcome(f.context, f.parameters, model, recomputed);
    f.context.set_device(nullptr);
    // A part that keeps what was changed differs, or is refused: not asked for here.
    CHECK(given == wanted);
    return counter.runs;
  };
  const Part ends_with_add = [](Tape& inner, std::span<const Var> in) {
    return add(inner, tanh(inner, in[0]), in[0]);
  };
  auto counted = runs(ends_with_add, false);
  CHECK(counted["tanh"] == 2);
  CHECK(counted["add"] == 1);
  // Its result was written over since.
  CHECK(runs(ends_with_add, true)["add"] == 2);
  // It was written over in the part itself, which does so again.
  const Part changes_result = [&](Tape& inner, std::span<const Var> in) {
    const Var y = ends_with_add(inner, in);
    y.value().mutable_data<float>()[0] += 1;
    return y;
  };
  CHECK(runs(changes_result, false)["add"] == 2);
  // The result is not that of the last operator.
  counted = runs(
      [](Tape& inner, std::span<const Var> in) {
        const Var y = add(inner, in[0], in[0]);
        sin(inner, y);
        return y;
      },
      false);
  CHECK(counted["add"] == 2);
  // The other outputs of the last operator are as large as the result.
  counted = runs(
      [](Tape& inner, std::span<const Var> in) {
        return linear(inner, in[0], in[0], {}, {.activation = Activation::gelu});
      },
      false);
  CHECK(counted["linear"] == 2);
  // Inside of another one.
  counted = runs(
      [&](Tape& inner, std::span<const Var> in) { return recompute(inner, in, ends_with_add); },
      false);
  CHECK(counted["add"] == 1);
  CHECK(counted["tanh"] == 3);
}

TEST_CASE("misuse of recompute()", "[unit][recompute]") {
  Fixture f;
  Tape tape(f.context);
  const std::vector<Var> many(33, f.w);
  const Part first = [](Tape& t, std::span<const Var> in) { return square(t, in[0]); };
  CHECK(soma_test::message_of([&] { recompute(tape, many, first); }) ==
        "recompute: inputs is 33, wanted at most 32 [operator.inputs]");
  const Var all = recompute(tape, std::span(many).first(32), first);
  tape.backward(sum(tape, all));
  f.w.clear_gradient();

  // A result that comes in unannounced.
  const Var hidden = square(tape, f.v);
  const Var y = recompute(tape, std::span<const Var>(&f.w, 1),
                          [&](Tape& t, std::span<const Var> in) { return mul(t, in[0], hidden); });
  CHECK(id_of([&] { tape.backward(sum(tape, y)); }) == "autograd.foreign_tape");
  CHECK(tape.size() == 0);

  // An input that is written before backward; an input of another tape.
  const Var h = square(tape, f.v);
  const Var loss = sum(tape, recompute(tape, std::span<const Var>(&h, 1), first));
  h.value().mutable_raw();
  CHECK(soma_test::message_of([&] { tape.backward(loss); }) ==
        "recompute: input 0 is changed since, wanted the value that backward needs (write to a "
        "copy) [autograd.changed_in_place]");
  Tape other(f.context);
  const Var foreign = square(other, f.w);
  CHECK(id_of([&] { recompute(tape, std::span<const Var>(&foreign, 1), first); }) ==
        "autograd.foreign_tape");
  const auto none = [&](Tape& t, std::span<const Var>) { return square(t, f.w); };
  CHECK(id_of([&] { recompute(tape, std::span<const Var>(&foreign, 1), none); }) ==
        "autograd.foreign_tape");
  CHECK(tape.recording());
  CHECK(tape.size() == 0);
}

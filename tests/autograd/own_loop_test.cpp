// Mistakes in a user's own training loop are reported at once, and dropout draws new numbers in
// every step.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <string>
#include <thread>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::random_parameter;
using soma_test::values;

namespace {

struct Loop {
  Context context = make_context({.threads = 1});
  Tape tape{context};
  Var w = random_parameter(context, Shape{4, 64}, "w");
  nn::Dropout dropout{nn::Scope{context}, 0.5f};

  std::vector<float> step() {
    const Var y = dropout(tape, w);
    tape.backward(sum(tape, y));
    return values(context, y.value());
  }
};

// Two layers, made from the scopes that it is given.
struct TwoLayers {
  nn::Linear a, b;
  void collect(nn::Collector& collector) const {
    collector.part("a", a);
    collector.part("b", b);
  }
};

struct SameNames {
  nn::Linear a, b;
  void collect(nn::Collector& collector) const {
    collector.part("x", a);
    collector.part("x", b);
  }
};

struct Nothing {
  void collect(nn::Collector&) const {}
};

}  // namespace

TEST_CASE("a tape begins a new step after backward", "[unit][tape]") {
  Loop loop;
  const auto first = loop.step(), second = loop.step(), third = loop.step();
  CHECK(first != second);
  CHECK(second != third);
  CHECK(first != third);
  // The steps are 0, 1, 2 ...: another loop draws the same.
  Loop again;
  CHECK(again.step() == first);
  CHECK(again.step() == second);
}

TEST_CASE("who counts steps, counts them", "[unit][tape]") {
  Loop loop, counted;
  const auto first = loop.step(), second = loop.step();
  for (const std::uint32_t step : {0u, 1u, 1u, 0u}) {
    counted.tape.reset(step);
    CHECK(counted.step() == (step == 0 ? first : second));
    CHECK(counted.step() == (step == 0 ? first : second));  // accumulation draws the same
  }
}

TEST_CASE("layers of one scope are a warning with both names", "[unit][tape]") {
  std::vector<std::string> lines;
  Context context =
      make_context({.log = {&lines,
                            [](void* self, LogLevel level, std::string_view text) {
                              if (level == LogLevel::warning)
                                static_cast<std::vector<std::string>*>(self)->emplace_back(text);
                            }},
                    .threads = 1});
  const nn::Scope scope{context};
  nn::parameters(TwoLayers{nn::Linear(scope / "a", 4, 4), nn::Linear(scope / "b", 4, 4)});
  CHECK(lines.empty());
  nn::parameters(TwoLayers{nn::Linear(scope, 4, 4), nn::Linear(scope, 4, 4)});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("\"a.weight\" and \"b.weight\"") != std::string::npos);
  // Shared on purpose, or all of one number: no warning.
  const nn::Linear shared(scope, 4, 4);
  nn::parameters(TwoLayers{shared, nn::Linear(scope / "b", 4, 4)});
  TwoLayers zeros{nn::Linear(scope, 4, 4), nn::Linear(scope, 4, 4)};
  for (const Var* weight : {&zeros.a.weight, &zeros.b.weight})
    for (float& value : weight->value().mutable_span<float>()) value = 0;
  nn::parameters(zeros);
  CHECK(lines.size() == 1);
}

TEST_CASE("modules that register nothing, or a name twice, are refused when they are collected",
          "[unit][tape]") {
  Context context = make_context({.threads = 1});
  const nn::Scope scope{context};
  CHECK(message_of([&] { nn::parameters(Nothing()); }) ==
        "nn::parameters: module is one that registers none, wanted one whose collect() adds its "
        "parameters [nn.no_parameters]");
  CHECK(message_of([&] {
          nn::parameters(SameNames{nn::Linear(scope / "a", 4, 4), nn::Linear(scope / "b", 4, 4)});
        }) ==
        "nn::parameters: module is one that registers \"x.bias\" twice, wanted a name for each "
        "parameter [state.duplicate_name]");
}

TEST_CASE("a tensor of another context is refused", "[unit][tape]") {
  Loop loop;
  Context other = make_context({.threads = 1});
  const Tensor foreign = Tensor::zeros(other, Shape{4, 64});
  CHECK(id_of([&] { add(loop.tape, loop.w, loop.tape.constant(foreign)); }) ==
        "tensor.foreign_context");
  CHECK(id_of([&] {
          Tape tape(other);
          relu(tape, loop.w);
        }) == "tensor.foreign_context");
}

TEST_CASE("one tape in two threads has a message of its own", "[unit][tape]") {
  Loop loop;
  std::string inside = "not reached", message;
  // An operator that lasts until another thread has tried the same tape.
  const auto slow = [&](const OperatorCall& call) {
    std::thread([&] { message = message_of([&] { relu(loop.tape, loop.w); }); }).join();
    inside = "reached";
    static_cast<void>(call);
  };
  static const auto* run_slow = &slow;
  Operator record = *loop.context.built_in().unary[0];
  record.name = "slow";
  record.host = [](const OperatorCall& call) { (*run_slow)(call); };
  loop.tape.apply(record, {}, {loop.w});
  CHECK(inside == "reached");
  CHECK(message ==
        "Tape: tape is in use by another thread, wanted a tape for each thread "
        "[autograd.two_threads]");
  CHECK(values(loop.context, relu(loop.tape, loop.w).value()).size() == 256);  // and goes on
}

TEST_CASE("errors name the layer, and blame the argument that is wrong", "[unit][tape]") {
  Loop loop;
  Context& context = loop.context;
  const nn::Scope scope{context};
  const nn::Linear head(scope / "head", 8, 3);
  const nn::Conv2d convolution(scope / "stem", 3, 4, 3);
  const nn::Embedding words(scope / "words", 4, 2);
  const auto x = [&](const Shape& shape) {
    return loop.tape.constant(Tensor::full(context, shape, 0.5f));
  };
  const std::string product = message_of([&] { head(loop.tape, x({4, 7})); });
  CHECK(product.starts_with("linear of layer \"head\": x is "));
  const std::string image = message_of([&] { convolution(loop.tape, x({1, 1, 8, 8})); });
  CHECK(image.starts_with("convolution of layer \"stem\": x is "));
  const std::string word = message_of([&] {
    words(loop.tape, loop.tape.constant(soma_test::ints(context, {1, 9})));
  });
  CHECK(word.starts_with("embedding of layer \"words\": "));
  CHECK(word.find('9') != std::string::npos);
  // Outside of layers nothing is named.
  CHECK(message_of([&] {
          linear(loop.tape, x({4, 7}), head.weight, head.bias);
        }).starts_with("linear: x is "));
}

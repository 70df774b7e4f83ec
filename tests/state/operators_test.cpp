// Checkpoints name the operators of one's own that their model ran.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

using namespace soma;
using soma_test::message_of;

TEST_CASE("a record names the operators that ran, and a context has to know them", "[unit]") {
  auto context = make_context({.threads = 1});
  Record record("progress");
  set_operators(record, context);
  CHECK(record.entries().empty());

  const auto double_it = [](float x) { return 2 * x; };
  const auto first = register_elementwise(context.operators(), "test::first", double_it);
  register_elementwise(context.operators(), "test::unused", double_it);
  const auto last = register_elementwise(context.operators(), "test::last", double_it);
  Tape tape(context);
  const Var x = tape.constant(soma_test::floats(context, {1}));
  last(tape, first(tape, square(tape, x)));
  set_operators(record, context);
  CHECK(record.text("operators") == "test::first test::last");
  check_operators(record, context);

  auto other = make_context({.threads = 1});
  check_operators(Record("an older one"), other);
  register_elementwise(other.operators(), "test::first", double_it);
  CHECK(message_of([&] { check_operators(record, other); }) ==
        "check_operators: operator is \"test::last\", which the checkpoint's model ran, wanted an "
        "operator that is registered in the context [checkpoint.operator]");
  register_elementwise(other.operators(), "test::last", double_it);
  check_operators(record, other);
}

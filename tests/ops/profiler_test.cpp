// Profiler: what it sees, and that it changes nothing.

#include <soma/autograd/functions.hpp>
#include <soma/ops/all.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <string>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

// A layer, its loss and the gradient of the weight.
std::vector<std::byte> some_work(Context& context) {
  Tape tape(context);
  const Var weight = soma_test::random_parameter(context, {3, 4}, "weight");
  const Var x = tape.constant(soma_test::random_tensor(context, {6, 4}, "x"));
  tape.backward(mean(tape, linear(tape, x, weight)));
  return soma_test::bits(context, soma_test::dense_gradient(context, weight));
}

}  // namespace

TEST_CASE("a profile has every operator, its work and its bytes", "[unit][profiler]") {
  auto context = make_context({.threads = 1});
  const std::vector<std::byte> plain = some_work(context);
  {
    Profiler profiler(context);
    CHECK(some_work(context) == plain);

    const auto row = [&](std::string_view name) {
      for (const ProfileRow& found : profiler.rows())
        if (found.name == name) return found;
      return ProfileRow{};
    };
    CHECK(row("linear").calls == 1);
    CHECK(row("linear").operations == 2.0 * 6 * 3 * 4);
    // x, W and y; no activation, so the second output is empty.
    CHECK(row("linear").bytes == 4.0 * (6 * 4 + 3 * 4 + 6 * 3));
    CHECK(row("matmul").calls == 1);  // the weight's gradient, and not that of x
    CHECK(row("matmul").operations == 2.0 * 3 * 4 * 6);
    CHECK(row("linear").seconds > 0);

    double known = 0;
    for (const ProfileEvent& event : profiler.events()) {
      CHECK(event.begin >= profiler.began());
      CHECK(event.end >= event.begin);
      known += event.seconds();
    }
    CHECK(known <= profiler.seconds_so_far());
    const std::string table = profiler.table();
    CHECK(table.find("linear ") != std::string::npos);
    CHECK(table.find("between operators") != std::string::npos);
    CHECK(context.device() == &profiler);
  }
  CHECK(context.device() == nullptr);
}

TEST_CASE("optimizer steps count what they update twice", "[unit][profiler]") {
  auto context = make_context({.threads = 1});
  const Tensor w = Tensor::zeros(context, {10}), g = Tensor::zeros(context, {10}),
               m = Tensor::zeros(context, {10}), v = Tensor::zeros(context, {10});
  Profiler profiler(context);
  run(context, ops::adam_step, AdamSetting{}, {w, g, {}, m, v});
  CHECK(profiler.rows().at(0).bytes == 40.0 * (2 + 1 + 2 + 2));
}

TEST_CASE("later calls are counted where there is no room to keep them", "[unit][profiler]") {
  auto context = make_context({.threads = 1});
  Profiler profiler(context, 1);
  some_work(context);
  some_work(context);
  CHECK(profiler.events().size() == 1);
  std::size_t calls = 0;
  for (const ProfileRow& row : profiler.rows()) calls += row.calls;
  CHECK(calls > 4);
}

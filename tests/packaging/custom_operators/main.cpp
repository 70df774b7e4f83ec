// Loads the library and uses both operators.
#include <soma/processors.hpp>
#include <soma/soma.hpp>

#include <cstdio>

int main() {
  auto context = soma::make_context({.threads = 1});
  soma::load_operators(context, LIBRARY);
  soma::Tape tape(context);
  const soma::Var x = tape.constant(soma::Tensor::from<float>(context, {1, 2}, {2}));
  struct By {
    double by;
  };
  const soma::Var y =
      soma::apply(tape, "stranger::shift", {soma::apply(tape, "stranger::scale", {x})}, By{0.5});
  const auto values = y.value().span<float>();
  std::printf("%g %g\n", static_cast<double>(values[0]), static_cast<double>(values[1]));
  return values[0] == 3.5f && values[1] == 6.5f ? 0 : 1;
}

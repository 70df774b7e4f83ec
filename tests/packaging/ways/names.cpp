// Names an operator at run time only, and lists all of them.
#include <soma/soma.hpp>

#include <iostream>

int main() {
  auto context = soma::make_context({.threads = 1});
  const soma::Operator& op = context.operators().at("convolution");
  std::cout << op.name << '\n' << soma::describe(context.operators());
}

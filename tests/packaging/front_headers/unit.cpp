// A unit that includes one header and uses something of it: run.sh says what.
#include SOMA_HEADER

#include <soma/forward.hpp>

auto use(soma::Context& context);
auto use(soma::Context& context) {
  static_cast<void>(context);
  return SOMA_USE;
}

int main() { return &use == nullptr; }

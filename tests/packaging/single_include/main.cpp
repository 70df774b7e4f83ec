// Makes the context for beside.cpp.
#include <soma/soma.hpp>

#include <cstdio>

float trained_loss(soma::Context& context);

int main() {
  auto context = soma::make_context();
  const float loss = trained_loss(context);
  std::printf("loss %g\n", static_cast<double>(loss));
  return loss < 0.01f ? 0 : 1;
}

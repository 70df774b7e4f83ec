// Must not compile: there is no tensor of double. The message has to contain
//   soma has no tensors of double: convert the elements first
#include <soma/soma.hpp>

#include <vector>

int main() {
  auto context = soma::make_context();
  const std::vector<double> values(4);
  return static_cast<int>(soma::Tensor::from(context, values, {4}).rank());
}

// Reads an element behind those of a tensor, whose memory is a part of the library's heap.
#include <soma/soma.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  auto context = soma::make_context({.threads = 1});
  const auto tensor = soma::Tensor::full(context, {8}, 0.5f);
  const auto index = argc > 1 ? static_cast<std::size_t>(std::atoi(argv[1])) : 0;
  const volatile float* elements = tensor.data<float>();
  std::printf("%g\n", static_cast<double>(elements[index]));
}

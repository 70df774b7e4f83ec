// A kernel author's first program: a product on the accelerator's core, and a device that runs an
// operator there.
#include <soma/neuroncore.hpp>

#include <cstdio>

int main() {
  namespace nc = soma::neuroncore;
  auto context = soma::make_context();
  auto core = nc::make_core(context, nc::trn1());
  const auto w = core.sbuf.tile(soma::DType::bf16, 128, 64);
  const auto x = core.sbuf.tile(soma::DType::bf16, 128, 512);
  const auto sums = core.psum.tile(64, 512);
  core.vector.memset(w, 0.5f).memset(x, 2);
  core.tensor.matmul(sums, w, x);
  if (core.values(sums)[511] != 128) return 1;

  auto device = nc::make_device(core);
  context.set_device(&device);
  soma::Tape tape(context);
  const auto y = soma::relu(tape, tape.constant(soma::Tensor::full(context, {3}, -1.0f)));
  context.set_device(nullptr);
  if (y.value().data<float>()[2] != 0 || device.counts().front().programs != 1) return 1;
  std::puts("multiplied");
  return 0;
}

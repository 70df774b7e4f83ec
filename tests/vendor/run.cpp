// Runs the libraries that vendor_operators.sh has built: vendor_operators FOLDER

#include <soma/processors.hpp>
#include <soma/soma.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::Shape;
using soma::Tensor;

int failures = 0;

void check(bool good, const std::string& what) {
  std::printf("%s  %s\n", good ? "ok    " : "FAILED", what.c_str());
  failures += good ? 0 : 1;
}
Tensor input(soma::Context& context, const Shape& shape) {
  const Tensor x = Tensor::empty(context, shape);
  int i = 0;
  for (float& value : x.mutable_span<float>()) value = static_cast<float>(i++ * 7 % 23 - 11);
  return x;
}
Tensor run(soma::Context& context, std::string_view name, const std::vector<Tensor>& inputs) {
  return soma::run(context, context.operators().at(name), {}, inputs)[0];
}
// True if y = of(x) for all elements.
template <class Of>
bool holds(const Tensor& x, const Tensor& y, const Of& of) {
  if (x.elements() != y.elements()) return false;
  for (std::size_t i = 0; i < x.elements(); ++i)
    if (y.span<float>()[i] != of(x.span<float>()[i])) return false;
  return true;
}
float relu(float x) { return x > 0 ? x : 0; }

// In a context of its own: a model has one library.
template <class Use>
void with(const std::string& folder, const std::string& name, const Use& use) {
  try {
    auto context = soma::make_context();
    soma::load_operators(context, folder + "/lib" + name + ".so");
    use(context);
  } catch (const std::exception& error) {
    check(false, name + ": " + error.what());
  }
}

void forward(const std::string& folder, const std::string& name) {
  with(folder, name, [&](soma::Context& context) {
    bool good = true;
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 8}, Shape{33, 256}}) {
      if (name == "multicore" && shape.elements() % 8 != 0) continue;
      const Tensor x = input(context, shape);
      good = good && holds(x, run(context, "my_ops::relu_forward", {x}), relu);
    }
    check(good, name + ": relu_forward");
  });
}
void pair(const std::string& folder, const std::string& name) {
  with(folder, name, [&](soma::Context& context) {
    soma::register_differentiable(context.operators(), "my::relu", "my_ops::relu_forward",
                                  {"my_ops::relu_backward"});
    soma::Tape tape(context);
    const soma::Var x = soma::Var::parameter(context, input(context, {5, 7}));
    tape.backward(sum(tape, square(tape, soma::apply(tape, "my::relu", {x}))));
    check(holds(x.value(), x.gradient().values, [](float value) { return 2 * relu(value); }),
          name + ": relu_forward and relu_backward in training");
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  for (const char* name : {"elements", "tcm", "multicore", "training"}) forward(folder, name);
  for (const char* name : {"elements", "training"}) pair(folder, name);
  with(folder, "framework", [&](soma::Context& context) {
    const Tensor x = input(context, {4, 4});
    check(holds(x, run(context, "my_ops::relu_forward", {x}), relu), "framework: relu_forward");
  });
  // The last processor of this sample offsets by its enlarged share.
  with(folder, "multicore", [&](soma::Context& context) {
    std::string message;
    try {
      run(context, "my_ops::relu_forward", {input(context, {1025})});
    } catch (const soma::Error& error) {
      message = error.what();
    }
    check(message.find("processor 7, input 0 is elements 903 to") != std::string::npos,
          "multicore, 1025 elements: " + message);
  });
  for (const char* name : {"negate_guide", "negate_tcm", "negate_printf"})
    with(folder, name, [&](soma::Context& context) {
      const Tensor x = input(context, {1025});
      check(
          holds(x, run(context, "my_ops::tensor_negate", {x}), [](float value) { return -value; }),
          std::string(name) + ": tensor_negate");
    });
  for (const char* name : {"add_elements", "add_streams"})
    with(folder, name, [&](soma::Context& context) {
      const Tensor x = input(context, {1025});
      check(holds(x, run(context, "my_ops::tensor_add", {x, x}),
                  [](float value) { return 2 * value; }),
            std::string(name) + ": tensor_add");
    });
  return failures == 0 ? 0 : 1;
}

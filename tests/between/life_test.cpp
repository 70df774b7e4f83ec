// Random lives of models: steps, new weights in all ways, copies, casts, devices, in any order. At
// each look, results and gradients have the bits of a new context with these weights.

#include <soma/neuroncore.hpp>
#include <soma/nn.hpp>
#include <soma/soma.hpp>

#include "between/guard.hpp"
#include "between/lines.hpp"
#include "between/model.hpp"
#include "catch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using soma_test::Lines;
using soma_test::NoProgram;
using soma_test::Verdict;

struct OwnDevice {
  explicit OwnDevice(soma::Context& context)
      : core(soma::neuroncore::make_core(context)), device(soma::neuroncore::make_device(core)) {}
  soma::neuroncore::Core core;
  soma::NeuronCoreDevice device;
};

// A model in a context of its own, with all that keeps something between two looks.
struct Living {
  Living(const Lines& lines, const soma::Precision& precision)
      : context(soma::make_context({.threads = 1})),
        model(soma_test::model_of(soma::nn::Scope{context, 5}, lines)),
        task(model.layers, model.classes),
        parameters(task.parameters()),
        state(context, precision, 3) {}
  ~Living() { context.set_device(nullptr); }

  void use_device(bool wanted) {
    context.set_device(nullptr);
    device = wanted ? std::make_unique<OwnDevice>(context) : nullptr;
    if (wanted) context.set_device(&device->device);
  }

  // Bits of the result, and of all gradients.
  std::vector<std::byte> look() {
    for (const soma::Parameter& parameter : parameters) parameter.var.clear_gradient();
    soma::Tape tape(context,
                    {.training = false, .activations = state.activations(), .precision = &state});
    const soma::Var y = model.layers(tape, tape.constant(soma_test::inputs_of(context, model, 5)));
    std::vector<std::byte> bits;
    const auto keep = [&](const soma::Tensor& tensor) {
      const soma::Tensor plain = contiguous(context, tensor);
      bits.insert(bits.end(), plain.raw(), plain.raw() + plain.bytes());
    };
    keep(y.value());
    const soma::Var loss =
        cross_entropy(tape, y, tape.constant(soma_test::classes_of(context, model, 5)));
    tape.backward(loss);
    for (const soma::Parameter& parameter : parameters)
      if (parameter.var.gradient().defined())
        keep(context.built_in().to_dense(context, parameter.var.gradient(), parameter.var.shape()));
    return bits;
  }

  void differentiate(std::uint32_t number) {
    for (const soma::Parameter& parameter : parameters) parameter.var.clear_gradient();
    soma::Tape tape(
        context,
        {.seed = 7, .step = number, .activations = state.activations(), .precision = &state});
    const soma::Var x = tape.constant(soma_test::inputs_of(context, model, 6));
    const soma::Var labels = tape.constant(soma_test::classes_of(context, model, 6));
    tape.backward(cross_entropy(tape, model.layers(tape, x), labels));
  }

  // The same gradients as views: turned round, or every other element of a longer tensor.
  void gradients_as_views() {
    for (const soma::Parameter& parameter : parameters) {
      soma::Gradient gradient = parameter.var.gradient();
      if (!gradient.defined() || gradient.sparse() || gradient.values.rank() == 0) continue;
      const soma::Tensor& values = gradient.values;
      const soma::Shape& shape = values.shape();
      const std::size_t last = shape.rank() - 1;
      const soma::Shape wider = last == 0 ? shape.with(0, 2 * shape[0]) : shape.exchanged(0, last);
      const soma::Tensor all = soma::Tensor::empty(context, wider, values.dtype());
      const soma::Tensor view =
          last == 0 ? all.slice(0, 0, soma::to_end, 2) : all.transpose(0, last);
      copy(values, view);
      gradient.values = view;
      parameter.var.set_gradient(std::move(gradient));
    }
  }

  // The weights of another one, and its gradients as row-major tensors.
  void take(const Living& other);

  soma::Context context;
  soma_test::RandomModel model;
  soma::nn::ClassificationTask<soma::nn::Sequential> task;
  soma::Parameters parameters;
  soma::PrecisionState state;
  std::unique_ptr<OwnDevice> device{};
};

soma::Tensor copied(soma::Context& context, const soma::Tensor& from) {
  const soma::Tensor to = soma::Tensor::empty(context, from.shape(), from.dtype());
  const soma::Tensor plain = contiguous(context, from);
  if (plain.bytes() > 0) std::memcpy(to.mutable_raw(), plain.raw(), plain.bytes());
  return to;
}

void Living::take(const Living& other) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const soma::Var& from = other.parameters[i].var;
    parameters[i].var.set_value(copied(context, from.value()));
    soma::Gradient gradient = from.gradient();
    if (!gradient.defined()) continue;
    gradient.values = copied(context, gradient.values);
    if (gradient.sparse()) gradient.rows = copied(context, gradient.rows);
    parameters[i].var.set_gradient(std::move(gradient));
  }
}

// The weights after a step.
std::vector<std::byte> weights_after(Living& living, soma::optim::Optimizer& optimizer) {
  optimizer.step({.rate = 0.05f});
  std::vector<std::byte> bits;
  for (const soma::Parameter& parameter : living.parameters) {
    const soma::Tensor& value = parameter.var.value();
    const soma::Tensor plain = contiguous(living.context, value);
    bits.insert(bits.end(), plain.raw(), plain.raw() + plain.bytes());
  }
  return bits;
}

void run_life(const Lines& lines, Verdict& verdict) {
  const soma::Precision precision = soma_test::precision_in(lines);
  Living living(lines, precision);
  const soma::Parameters& own = living.parameters;
  std::unique_ptr<soma::optim::Optimizer> optimizer;
  std::string of_optimizer;  // its name
  soma::StateDict saved;
  bool on_device = false;
  std::uint32_t number = 0;
  for (const std::string& line : lines) {
    const std::vector<std::string> words = soma_test::words_of(line);
    if (words[0] != "do" || words.size() < 2) continue;
    ++number;
    const auto var = [&](std::size_t i) -> const soma::Var& {
      return own[soma_test::number_in(words, i) % own.size()].var;
    };
    const soma::Draw draw{.seed = number, .stream = 5};
    if (words[1] == "step") {
      constexpr const char* names[] = {"adamw",   "sgd",     "lamb", "adafactor",
                                       "rmsprop", "adagrad", "adam"};
      if (optimizer == nullptr) {
        of_optimizer = names[soma_test::number_in(words, 2) % std::size(names)];
        optimizer = soma_test::optimizer_of(of_optimizer, living.context, own);
      }
      living.differentiate(number);
      if (number % 2 != 0) living.gradients_as_views();
      Living fresh(lines, precision);
      fresh.take(living);
      fresh.use_device(on_device);
      const auto other = soma_test::optimizer_of(of_optimizer, fresh.context, fresh.parameters);
      other->load_state(optimizer->state());
      if (weights_after(living, *optimizer) != weights_after(fresh, *other)) {
        verdict = {"step", "step " + std::to_string(number) + " of " + of_optimizer +
                               " has other bits than one of a new context with these weights, "
                               "gradients and moments"};
        return;
      }
    } else if (words[1] == "set_value") {
      const soma::Var& one = var(2);
      soma::Tensor value = soma::nn::uniform(living.context, one.shape(), 0.5f, draw);
      if (one.value().dtype() != soma::DType::fp32) {
        soma::Tape tape(living.context, {.record = false});
        value = cast(tape, tape.constant(value), one.value().dtype()).value();
      }
      one.set_value(value);
    } else if (words[1] == "renew") {  // the first one's memory may become the third one's
      for (std::uint32_t i = 0; i < 2; ++i)
        if (var(2).value().dtype() == soma::DType::fp32)
          var(2).set_value(soma::nn::uniform(living.context, var(2).shape(), 0.5f,
                                             {.seed = number, .stream = 6 + i}));
    } else if (words[1] == "write") {
      const soma::Tensor value = var(2).value();
      if (value.dtype() == soma::DType::fp32 && value.elements() > 0)
        value.mutable_data<float>()[0] += 0.375f;
    } else if (words[1] == "swap") {
      for (const soma::Parameter& other : own)
        if (!other.var.is(var(2)) && other.var.shape() == var(2).shape()) {
          const soma::Tensor value = var(2).value();
          var(2).set_value(other.var.value());
          other.var.set_value(value);
          break;
        }
    } else if (words[1] == "clone") {
      var(2).set_value(clone(living.context, var(2).value()));
    } else if (words[1] == "save") {
      saved = {};
      for (const auto& [name, tensor] : soma::nn::state_dict(own))
        saved.set(name, clone(living.context, tensor));
    } else if (words[1] == "load" && !saved.empty()) {
      for (const soma::Parameter& parameter : own)  // a cast since has changed the type
        if (saved.at(parameter.name).dtype() != parameter.var.value().dtype())
          parameter.var.set_value(clone(living.context, saved.at(parameter.name)));
      soma::nn::load(own, saved);
      optimizer.reset();
    } else if (words[1] == "cast") {
      soma::Tape tape(living.context, {.record = false});
      const soma::DType to = words.back() == "bf16" ? soma::DType::bf16 : soma::DType::fp32;
      var(2).set_value(
          clone(living.context, cast(tape, tape.constant(var(2).value()), to).value()));
      optimizer.reset();
    } else if (words[1] == "device") {
      on_device = !on_device;
      living.use_device(on_device);
    } else if (words[1] == "look") {
      const std::vector<std::byte> bits = living.look();
      Living fresh(lines, precision);
      fresh.take(living);
      fresh.use_device(on_device);
      if (bits != fresh.look()) {
        verdict = {"bits", "look " + std::to_string(number) +
                               " has other bits than a new context with these weights"};
        return;
      }
    }
  }
}

Verdict check_life(const Lines& lines) {
  Verdict verdict;
  try {
    run_life(lines, verdict);
  } catch (const NoProgram& none) {
    verdict = {"no program", none.why};
  } catch (const soma::Error& error) {
    verdict = soma_test::refused(error, "");
  }
  return verdict;
}

Lines life(std::uint64_t seed, std::uint32_t number) {
  soma::DrawSequence draws({.seed = seed, .stream = 1, .step = number});
  Lines lines = soma_test::random_layers(draws);
  constexpr std::array precisions{"fp32",        "bf16",          "bf16_sr",      "tf32",
                                  "fp8_current", "fp8_rowwise",   "fp8_block",    "mxfp8",
                                  "fp16",        "bf16_nearest",  "fp32",         "mxfp6",
                                  "nvfp4",       "mxfp4_rotated", "three_formats"};
  lines.push_back(std::string("precision ") + precisions[draws.below(precisions.size())]);
  for (std::uint32_t i = 4 + draws.below(8); i-- > 0;) {
    constexpr const char* deeds[] = {"step", "set_value", "write", "swap", "clone", "save",
                                     "load", "renew",     "cast",  "look", "device"};
    const std::string deed = deeds[draws.below(draws.below(4) == 0 ? 11 : 10)];
    std::string line = "do " + deed + " " + std::to_string(draws.below(16));
    if (deed == "renew") lines.push_back("do look");
    if (deed == "cast") line += draws.below(2) == 0 ? " bf16" : " fp32";
    lines.push_back(line);
    if (deed == "renew" || draws.below(3) == 0) lines.push_back("do look");
  }
  lines.push_back("do look");
  return lines;
}

std::string run_lives(std::uint64_t seed, std::uint32_t count) {
  soma_test::Guard guard(30);
  std::string failures;
  int failed = 0;
  for (std::uint32_t i = 0; i < count && failed < soma_test::most_failures(); ++i) {
    const Lines lines = life(seed, i);
    guard.begins(soma_test::text_of(lines));
    const Verdict verdict = check_life(lines);
    if (verdict.kind.empty() || soma_test::is_named(verdict)) continue;
    ++failed;
    failures += soma_test::failure_text(&check_life, "check_life", lines, verdict);
  }
  return failures;
}

}  // namespace

TEST_CASE("between: 300 lives of a fixed seed", "[between][fixed][lives]") {
  CHECK(run_lives(1, 300) == "");
}

TEST_CASE("between: lives of today's seed", "[between][slow]") {
  const std::uint64_t seed = soma_test::slow_seed();
  INFO("seed " << seed);
  CHECK(run_lives(seed, soma_test::slow_programs(6000)) == "");
}

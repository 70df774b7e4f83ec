// docs/neuroncore_tables.md: which instructions the model has, and what the program of each
// operator does in a training step. Written by this program, and compared with it by a test.
//
//   neuroncore_tables FILE          fails where the file is not what it would write
//   neuroncore_tables FILE --write

#include <soma/neuroncore/order/instruction_table.hpp>
#include <soma/neuroncore_clock.hpp>
#include <soma/testing.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace nc = soma::neuroncore;
using Count = soma::NeuronCoreDevice::Count;

// Losses and labels alike: only shapes matter here.
template <class Model, class Input, class Optimizer>
void train_step(soma::Context& context, const Model& model, const Input& input,
                std::size_t sequences, Optimizer& optimizer, const soma::Parameters& parameters) {
  soma::Tape tape(context);
  const std::vector<std::int64_t> labels(sequences, 1);
  const soma::Var loss = soma::cross_entropy(
      tape, model(tape, input(tape)),
      tape.constant(soma::Tensor::from<std::int64_t>(context, labels, soma::Shape{labels.size()})));
  tape.backward(loss);
  optimizer.step({.rate = 1e-3});
  soma::clear_gradients(parameters);
}

void bert_step(soma::Context& context) {
  soma::models::BertConfig config = soma::models::BertConfig::tiny();
  config.vocabulary = 1000;
  const soma::models::BertClassifier model({context}, config, 2);
  const soma::Parameters parameters = soma::nn::parameters(model);
  soma::optim::AdamW optimizer(context, parameters);
  std::vector<std::vector<std::int64_t>> lists;
  for (std::size_t i = 0; i < 8; ++i) lists.emplace_back(5 + i * 31 % 56, 7);
  const auto tokens = [&](soma::Tape& tape) {
    return tape.constant(soma::make_ragged<std::int64_t>(context, lists));
  };
  train_step(context, model, tokens, lists.size(), optimizer, parameters);
}

template <class Optimizer>
void image_step(soma::Context& context) {
  const soma::models::ConvNet model({context},
                                    {.height = 16, .width = 16, .blocks = {8, 16}, .hidden = 32});
  const soma::Parameters parameters = soma::nn::parameters(model);
  Optimizer optimizer(context, {soma::optim::Group{.parameters = parameters}});
  const auto images = [&](soma::Tape& tape) {
    return tape.constant(soma::Tensor::full(context, {16, 1, 16, 16}, 0.5f));
  };
  train_step(context, model, images, 16, optimizer, parameters);
}

// How long all runs of an operator's program take, and what bounds the longest of the steps.
struct Time {
  double ns = 0, longest = 0;
  std::string bound;
};
using Times = std::map<std::string, Time>;

// Adds the times of everything that ran since the last call.
void add_times(Times& times, soma::NeuronCoreDevice& device) {
  const soma::neuroncore::StepReport step(device);
  for (const auto& use : step.report().summary().operators) {
    Time& time = times[use.name];
    time.ns += use.ns;
    if (use.ns <= time.longest) continue;
    time.longest = use.ns;
    time.bound = use.bound;
  }
}

void row(std::ostream& out, const Count& count, const soma::neuroncore::Core& core,
         const char* workload, const Time& time) {
  out << "| " << count.name << " | " << workload << " | " << count.programs << " |";
  for (const std::uint64_t instructions : count.instructions) out << ' ' << instructions << " |";
  const auto percent = [](std::size_t part, std::size_t all) {
    return (100 * part + all - 1) / all;
  };
  out << ' ' << (count.hbm_bytes + 1023) / 1024 << " | "
      << percent(count.sbuf_high_water, core.sbuf.capacity()) << " | "
      << percent(count.psum_high_water, core.psum.capacity()) << " | "
      << soma::fixed(time.ns * 1e-3, 1) << " | " << time.bound << " | ";
  if (count.program == nullptr) {
    out << "host |\n";
    return;
  }
  out << count.program->error << " e";
  if (count.program->roundings != 0) out << " + " << count.program->roundings << " r";
  out << " |\n";
}

struct Line {
  Count count;
  const char* workload;
  Time time;
};

// A core with its device, and what ran on it.
class Bench {
 public:
  Bench() { context.set_device(&device_); }
  ~Bench() { context.set_device(nullptr); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  soma::Context context = soma::make_context({.threads = 1});
  const soma::neuroncore::Core& core() const { return core_; }
  bool seen(const soma::Operator& op) const {
    return std::any_of(device_.counts().begin(), device_.counts().end(),
                       [&](const Count& count) { return count.name == op.name; });
  }
  // Everything since the last call belongs to this workload.
  void after(const char* workload) {
    add_times(times_, device_);
    workloads_.resize(device_.counts().size(), workload);
  }
  void run_samples(const soma::Operator& op) {
    for (const soma::Sample& sample : soma::testing::samples_of(op).samples)
      soma::testing::detail::run_sample(context, op, sample, {});
    after("samples");
  }
  std::vector<Line> lines() {
    std::vector<Line> lines;
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      const Count& count = device_.counts()[i];
      lines.push_back({count, workloads_[i], times_[std::string(count.name)]});
    }
    return lines;
  }

 private:
  soma::neuroncore::Core core_ =
      soma::neuroncore::make_core(context, soma::neuroncore::trn1(), {.record = true});
  soma::NeuronCoreDevice device_ = soma::neuroncore::make_device(core_);
  std::vector<const char*> workloads_;
  Times times_;
};

// Gradients of recurrent layers run programs of other operators, which are counted elsewhere.
bool is_recurrent(std::string_view name) {
  return name.starts_with("gru") || name.starts_with("lstm");
}

void programs(std::ostream& out) {
  Bench bench, recurrent;
  bert_step(bench.context);
  bench.after("BERT");
  image_step<soma::optim::Sgd>(bench.context);
  bench.after("images");
  image_step<soma::optim::Lamb>(bench.context);
  bench.after("images");
  for (const soma::Operator* op : bench.context.operators().all()) {
    if (!op->has_samples() || op->makes_views || op->composite || op->name == "quantize" ||
        bench.seen(*op))
      continue;
    (is_recurrent(op->name) ? recurrent : bench).run_samples(*op);
  }
  std::vector<Line> lines = bench.lines();
  for (const Line& line : recurrent.lines())
    if (is_recurrent(line.count.name)) lines.push_back(line);
  std::sort(lines.begin(), lines.end(),
            [](const Line& a, const Line& b) { return a.count.name < b.count.name; });
  for (const Line& line : lines) row(out, line.count, bench.core(), line.workload, line.time);
}

// ---- machines

std::string number(double value) {
  std::string text = soma::fixed(value, 2);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}
std::string figures_text(const nc::Figures& figures) {
  std::string text = number(figures.first.value);
  if (figures.disagree()) text.append(" or ").append(number(figures.other.value));
  return text;
}
std::string exclusion_text(nc::Exclusion exclusion) {
  return exclusion == nc::Exclusion::memory ? "one at a time"
         : exclusion == nc::Exclusion::bank ? "one at a time on a bank"
                                            : "in parallel";
}
std::string fast_text(const nc::FastRate& fast) {
  if (fast.dtypes == 0) return "1";
  std::string text = number(fast.contiguous) + ", " + number(fast.other) + " of";
  for (const soma::DType dtype : soma::dtypes)
    if ((fast.dtypes & nc::dtype_bit(dtype)) != 0) text.append(" ").append(to_string(dtype));
  return text;
}

template <class Text>
void machine_row(std::ostream& out, std::string_view name, const Text& text) {
  out << "| " << name << " |";
  for (const nc::Machine& machine : nc::machines) out << ' ' << text(machine) << " |";
  out << '\n';
}

void machines(std::ostream& out) {
  machine_row(out, "NeuronCore",
              [](const nc::Machine& machine) { return "v" + std::to_string(machine.generation); });
  for (const auto& count : nc::detail::machine_counts)
    machine_row(out, "`" + std::string(count.name) + "`",
                [&](const nc::Machine& machine) { return std::to_string(machine.*count.field); });
  for (const auto& entry : nc::detail::machine_numbers)
    machine_row(out, "`" + std::string(entry.name) + "`",
                [&](const nc::Machine& machine) { return number(machine.*entry.field); });
  machine_row(out, "device memory as published, GB/s a core",
              [](const nc::Machine& machine) { return figures_text(machine.published_hbm); });
  machine_row(out, "bf16 as published, TFLOPS a core",
              [](const nc::Machine& machine) { return figures_text(machine.published_tflops); });
  machine_row(out, "Vector and GpSimd engine on SBUF", [](const nc::Machine& machine) {
    return exclusion_text(machine.rules.vector_gpsimd_sbuf);
  });
  machine_row(out, "Vector and Scalar engine on PSUM", [](const nc::Machine& machine) {
    return exclusion_text(machine.rules.vector_scalar_psum);
  });
  machine_row(out, "transposes of the Tensor engine", [](const nc::Machine& machine) {
    return machine.rules.exact_transposes ? "bit for bit" : "by the identity";
  });
  machine_row(out, "copies of the Scalar engine", [](const nc::Machine& machine) {
    return machine.rules.exact_scalar_copies ? "bit for bit" : "through fp32";
  });
  machine_row(out, "a product adds to PSUM", [](const nc::Machine& machine) {
    return machine.rules.adds_to_any_psum ? "of any engine" : "of products";
  });
  machine_row(out, "copies and operations with a scalar, Vector engine, elements a cycle",
              [](const nc::Machine& machine) { return fast_text(machine.rules.vector_fast); });
  machine_row(out, "copies, Scalar engine, elements a cycle",
              [](const nc::Machine& machine) { return fast_text(machine.rules.scalar_fast); });
  for (std::size_t i = 0; i < nc::feature_count; ++i)
    machine_row(out, nc::info(static_cast<nc::Feature>(i)).name, [&](const nc::Machine& machine) {
      return machine.has(static_cast<nc::Feature>(i)) ? "yes" : "no";
    });
  machine_row(out, "types of tiles", [](const nc::Machine& machine) {
    std::string text;
    for (const soma::DType dtype : soma::dtypes)
      if (machine.has(dtype)) text.append(text.empty() ? "" : " ").append(to_string(dtype));
    return text;
  });
}

std::string document() {
  std::ostringstream out;
  out << R"(# Instructions and programs

What [the model of a NeuronCore](neuroncore.md) has. Generated:
`build/tests/bin/neuroncore_tables docs/neuroncore_tables.md --write`.

## Machines

The fields of `Machine`, whose sources `include/soma/neuroncore/machine.hpp` names. Where two pages
disagree both figures are here; the clock uses the first. Two rates of copies: of elements side by
side in SBUF, and of strided ones or with one tile in PSUM.

| | `trn1()` | `trn2()` | `trn3()` |
|---|---|---|---|
)";
  machines(out);
  out << R"(
## Instructions

By the names of the vendor's reference, with the generations that have each. An instruction on a
machine without it is an error, `neuroncore.generation`; what a machine has and this model has not
is `neuroncore.not_implemented`, or has no call.

| instruction | engine | generations | here | note |
|---|---|---|---|---|
)";
  for (const auto& instruction : soma::neuroncore::vendor_instructions) {
    out << "| `" << instruction.name << "` | " << instruction.engines << " |";
    for (const nc::Machine& machine : nc::machines)
      if (machine.generation >= instruction.first) out << " v" << machine.generation;
    out << " | ";
    if (instruction.here())
      out << '`' << instruction.call << '`';
    else
      out << "no";
    out << " | " << instruction.note << " |\n";
  }
  out << R"(
## Programs

What each operator's program does in one training step: of BERT tiny (8 sequences of 5 to 60
tokens, AdamW), of a small convolutional network (16 images of 16 x 16, SGD and LAMB), and of
operators that those do not use, over their test samples. Runs of the program; instructions issued
to each engine; KiB moved between device memory and SBUF; the most of SBUF and PSUM in use, in
percent, rounded up; microseconds of all runs by [the clock](neuroncore.md#how-long-it-takes), an
estimate by published rules, and the engine, queue or wait that takes most of the path that decides
them. The bound is that of the result against the operator's reference, relative to the largest
magnitude: e is the error bound of its samples, r a rounding to the type of the inputs (half a unit
in the last place of 1); the rounding of the result itself comes on top.

| operator | workload | runs | tensor | vector | scalar | gpsimd | dma | KiB | SBUF | PSUM | us |)"
         " held up by | bound |\n"
         R"(|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
)";
  programs(out);
  return out.str();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: neuroncore_tables FILE [--write]\n";
    return 2;
  }
  const std::string wanted = document();
  if (count > 2 && std::string_view(arguments[2]) == "--write") {
    std::ofstream file(arguments[1], std::ios::binary);
    file << wanted;
    return file.flush() ? 0 : 1;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  std::ostringstream given;
  given << file.rdbuf();
  if (given.str() == wanted) return 0;
  std::istringstream left(given.str()), right(wanted);
  for (std::string a, b; std::getline(right, b);) {
    std::getline(left, a);
    if (a == b) continue;
    std::cerr << "- " << a << "\n+ " << b << '\n';
    break;
  }
  std::cerr << arguments[1] << " is out of date: neuroncore_tables FILE --write\n";
  return 1;
}

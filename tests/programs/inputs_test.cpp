// How programs read their inputs: every program with inputs that are views, whose elements are
// still on their way when the program is called, in every run mode. Results have the bits of an
// eager run with row-major inputs.

#include <soma/neuroncore_clock.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/programs/graph/call_graph.hpp>
#include <soma/programs/graph/graph_key.hpp>
#include <soma/programs/pieces.hpp>
#include <soma/sparse.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"
#include "support/table.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;
namespace nc = soma::neuroncore;
namespace check = soma::testing::detail;

namespace {

// ---- an operator whose result arrives in device memory by late stores

void arrive_program(nc::Core& core, const OperatorCall& call) {
  const nc::HbmView from = programs::flat_view(call.inputs[0]),
                    to = programs::flat_target(call.outputs[0]);
  const DType type = programs::plain_type(from.dtype());
  const nc::HbmView words = from.as(type), target = to.as(type);
  const programs::ElementTiles elements(words.row_elements());
  programs::Pair tiles = elements.pair(core, type);
  elements.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const nc::Tile tile = tiles.next(rows, columns);
    core.dma.load(tile, programs::element_block(words, first, rows, columns));
    core.dma.queue(programs::store_queue)
        .store(programs::element_block(target, first, rows, columns), tile);
  });
}
constexpr Program arrives{&arrive_program};
constexpr Operator arrive{
    .name = "test::arrive",
    .shape =
        [](const ShapeCall& call) {
          call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
        },
    .host = [](const OperatorCall& call) { copy(call.inputs[0], call.outputs[0]); },
    .program = &arrives};

// ---- views

// A row-major tensor, and the view of it that is the input.
struct Viewed {
  Tensor whole;
  std::function<Tensor(const Tensor&)> view;
};

Tensor reversed(Tensor tensor) {
  for (std::size_t i = 0; i + 1 < tensor.rank() - i; ++i)
    tensor = tensor.transpose(i, tensor.rank() - 1 - i);
  return tensor;
}

// A tensor of this shape whose bytes no program should use.
Tensor unused(Context& context, const Shape& shape, DType dtype) {
  const Tensor tensor = Tensor::empty(context, shape, dtype);
  std::memset(tensor.mutable_raw(), 0x7F, tensor.bytes());
  return tensor;
}

constexpr const char* kinds[] = {"row-major", "transposed", "sliced",         "stepped",
                                 "selected",  "repeated",   "repeated number"};

// An input as a view of some kind; none if its shape has no such view. What a view repeats changes
// the input's numbers.
std::optional<Viewed> viewed(Context& context, std::string_view kind, const Tensor& input) {
  const std::size_t rank = input.rank();
  const Shape& shape = input.shape();
  if (kind == "row-major") return Viewed{clone(context, input), [](const Tensor& t) { return t; }};
  if (kind == "selected") {
    std::vector<std::size_t> sizes(shape.begin(), shape.end());
    sizes.push_back(2);
    const Tensor whole = unused(context, Shape(std::span<const std::size_t>(sizes)), input.dtype());
    copy(input, whole.select(rank, 1));
    return Viewed{whole, [rank](const Tensor& t) { return t.select(rank, 1); }};
  }
  if (rank == 0 || input.elements() == 0) return std::nullopt;
  if (kind == "transposed") {
    if (rank < 2) return std::nullopt;
    return Viewed{clone(context, reversed(input)), reversed};
  }
  if (kind == "repeated" || kind == "repeated number") {
    const std::size_t dimension = kind == "repeated" ? 0 : rank - 1;
    if (shape[dimension] < 2) return std::nullopt;
    return Viewed{clone(context, input.slice(dimension, 0, 1)),
                  [shape](const Tensor& t) { return t.broadcast_to(shape); }};
  }
  const bool steps = kind == "stepped";
  Shape larger = shape;
  for (std::size_t i = 0; i < rank; ++i)
    larger = larger.with(i, steps ? 3 * shape[i] : shape[i] + 2);
  const auto view = [shape, rank, steps](Tensor t) {
    for (std::size_t i = 0; i < rank; ++i)
      t = steps ? t.slice(i, 1, to_end, 3) : t.slice(i, 1, 1 + shape[i]);
    return t;
  };
  const Tensor whole = unused(context, larger, input.dtype());
  copy(input, view(whole));
  return Viewed{whole, view};
}

// ---- calls of operators

struct Call {
  const Operator* op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  Sequences sequences;
};

// Notes the calls of operators that have programs, forward and backward.
class CallLog final : public Device {
 public:
  explicit CallLog(const NeuronCoreDevice& device) : device_(device) {}
  void run(const Operator& op, const OperatorCall& call) override {
    if (device_.program_of(op) != nullptr && !detail::FindPointer::in(call.attributes)) {
      Call noted{&op, call.attributes, {}, call.sequences};
      for (const Tensor& input : call.inputs)
        noted.inputs.push_back(input.defined() ? clone(call.context, input) : input);
      calls.push_back(std::move(noted));
    }
    op.host(call);
  }
  std::vector<Call> calls;

 private:
  const NeuronCoreDevice& device_;
};

// Calls of every program, of a few samples each.
std::vector<Call> calls_of_programs(Context& context, const NeuronCoreDevice& device, DType dtype) {
  CallLog log(device);
  context.set_device(&log);
  for (const Operator* op : context.operators().all()) {
    if (!op->has_samples()) continue;
    for (const Sample& sample : soma::testing::samples_of(*op).samples)
      static_cast<void>(check::run_sample(context, *op, sample, {.dtype = dtype}));
  }
  context.set_device(nullptr);
  std::vector<Call> some;
  for (const Call& call : log.calls) {
    const std::ptrdiff_t most = dtype == DType::fp32 ? 2 : 1;
    const auto same = [&](const Call& other) { return other.op == call.op; };
    if (std::count_if(some.begin(), some.end(), same) < most) some.push_back(call);
  }
  return some;
}

const Operator& built_in(std::string_view name) {
  for (const OperatorProgram& entry : dispatch::built_in_programs())
    if (entry.op->name == name) return *entry.op;
  throw std::out_of_range(std::string(name));
}

// Calls of operators without samples: what write their inputs.
std::vector<Call> calls_of_steps(Context& context, DType dtype) {
  const Shape shape{4, 6}, few{2, 6};
  const auto numbers = [&](const Shape& sizes, std::string_view name) {
    return random_tensor(context, sizes, name, 1);
  };
  const auto gradient = [&](const Shape& sizes) {
    return run(context, *context.built_in().cast, CastSetting{.dtype = dtype},
               {numbers(sizes, "gradient")})[0];
  };
  const Tensor weight = numbers(shape, "weight"), m = numbers(shape, "m");
  const Tensor v = Tensor::full(context, shape, 0.5f);
  const Tensor rows = Tensor::from<std::int64_t>(context, {1, 3}, {2});
  std::vector<Call> calls;
  for (const bool sparse : {false, true}) {
    const Tensor values = gradient(sparse ? few : shape), which = sparse ? rows : Tensor();
    calls.push_back({&built_in("sgd step"),
                     SgdSetting{.rate = 0.1f, .momentum = 0.9f},
                     {weight, values, which, m},
                     {}});
    const std::vector<Tensor> inputs{weight, values, which, m, v};
    calls.push_back({&built_in("adam step"), AdamSetting{.step_size = 0.1f}, inputs, {}});
    calls.push_back({&built_in("lamb step"), LambSetting{.rate = 0.1f}, inputs, {}});
  }
  calls.push_back({&built_in("accumulate"), {}, {weight, gradient(shape)}, {}});
  return calls;
}

// A device in a run mode, and the context's while it is used.
struct Mode {
  Mode(Context& context_in, std::string name_in, const nc::CoreOptions& core_options,
       const RunOptions& options)
      : context(context_in),
        name(std::move(name_in)),
        core(nc::make_core(context, nc::trn1(), core_options)),
        device(nc::make_device(core, options)) {}

  // The results of a call with the input `chosen` as a view, and what the call wrote. All inputs
  // arrive by late stores of calls before; `host_inputs`: except those that the host reads.
  std::vector<Tensor> run(const Call& call, std::size_t chosen, const Viewed& view,
                          bool host_inputs = true) {
    const Program* program = device.program_of(*call.op);
    std::vector<Tensor> inputs;
    context.set_device(&device);
    const struct Unset {
      Mode& mode;
      ~Unset() { mode.context.set_device(nullptr); }
    } unset{*this};
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const bool on_host = !host_inputs && (program->host_inputs >> i & 1) != 0;
      const auto arrived = [&](const Tensor& whole) {
        return on_host || whole.elements() == 0 ? clone(context, whole)
                                                : soma::run(context, arrive, {}, {whole})[0];
      };
      if (i == chosen)
        inputs.push_back(view.view(arrived(view.whole)));
      else
        inputs.push_back(call.inputs[i].defined() ? arrived(call.inputs[i]) : call.inputs[i]);
    }
    const Outputs outputs = soma::run(context, *call.op, call.attributes, inputs, call.sequences);
    recorded = true;
    std::vector<Tensor> results(outputs.begin(), outputs.begin() + call.op->outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].defined() && CallGraph::writes(*call.op, i)) results.push_back(inputs[i]);
    device.mark_step();
    for (Tensor& result : results) result = clone(context, result);
    return results;
  }

  Context& context;
  std::string name;
  bool recorded = false;  // the device has taken the call
  nc::Core core;
  NeuronCoreDevice device;
};

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].shape() == b[i].shape() && a[i].dtype() == b[i].dtype() &&
           (a[i].elements() == 0 || std::memcmp(a[i].raw(), b[i].raw(), a[i].bytes()) == 0);
  return same;
}

// All modes beside the eager run.
class Modes {
 public:
  explicit Modes(Context& context)
      : context_(context),
        eager_(context, "eager", strict, {}),
        dry_(context, "dry", {.compute = false}, {.mode = RunMode::lazy}),
        loaded_(context, "loaded", stressed(4), {.mode = RunMode::lazy, .compile = false}) {
    const auto add = [&](std::string name, std::uint64_t seed, RunMode mode) {
      others_.push_back(std::make_unique<Mode>(context, std::move(name), stressed(seed),
                                               RunOptions{.mode = mode}));
    };
    add("eager, late", 5, RunMode::eager);
    add("jit, late", 6, RunMode::jit);
    for (const std::uint64_t seed : {0u, 1u, 2u})
      add("lazy, seed " + std::to_string(seed), seed, RunMode::lazy);
  }

  const NeuronCoreDevice& device() const { return eager_.device; }

  void compare(const Call& call, std::size_t chosen, const Viewed& view) {
    const Tensor plain = clone(context_, view.view(view.whole));
    const Viewed row_major{plain, [](const Tensor& t) { return t; }};
    std::vector<Tensor> wanted;
    const std::string refused = message_of([&] { wanted = eager_.run(call, chosen, row_major); });
    for (const auto& mode : others_) {
      INFO(mode->name);
      mode->recorded = false;
      std::vector<Tensor> given;
      const std::string error = message_of([&] { given = mode->run(call, chosen, view); });
      if (error != "no error" || refused != "no error") {
        INFO(error << "; row-major: " << refused);
        // A view may be refused, but before the device has the call.
        CHECK(error != "no error");
        CHECK(!mode->recorded);
        ++refusals;
        continue;
      }
      CHECK(same_bits(given, wanted));
      ++compared;
    }
    if (refused == "no error") ahead_of_time(call, chosen, view, wanted);
  }

  std::size_t compared = 0, refusals = 0;

 private:
  void ahead_of_time(const Call& call, std::size_t chosen, const Viewed& view,
                     const std::vector<Tensor>& wanted) {
    ExecutableCache& made = dry_.device.executables();
    const std::uint64_t before = made.compilations();
    // Zeros may be refused, as rows that are not ascending.
    if (id_of([&] { static_cast<void>(dry_.run(call, chosen, view, false)); }) != "no error")
      return;
    auto newest = made.executables().begin();
    for (std::uint64_t i = before; i < made.compilations(); ++i)
      loaded_.device.executables().add(*newest++);
    INFO("ahead of time");
    CHECK(same_bits(loaded_.run(call, chosen, view, false), wanted));
    ++compared;
  }

  Context& context_;
  Mode eager_, dry_, loaded_;
  std::vector<std::unique_ptr<Mode>> others_;
};

}  // namespace

static void views_on_their_way(Table table) {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  Modes modes(context);
  std::vector<std::string> seen;
  for (const DType dtype : entries(table, {DType::bf16}, {DType::fp32, DType::bf16})) {
    std::vector<Call> calls = calls_of_programs(context, modes.device(), dtype);
    for (Call& call : calls_of_steps(context, dtype)) calls.push_back(std::move(call));
    for (const Call& call : calls) {
      seen.emplace_back(call.op->name);
      for (std::size_t i = 0; i < call.inputs.size(); ++i)
        for (const char* kind : kinds) {
          if (!call.inputs[i].defined()) continue;
          const std::optional<Viewed> view = viewed(context, kind, call.inputs[i]);
          if (!view) continue;
          INFO(call.op->name << ", input " << i << " " << call.inputs[i].describe() << " " << kind);
          modes.compare(call, i, *view);
        }
    }
  }
  CHECK(modes.compared > 5 * modes.refusals);
  for (const OperatorProgram& entry : dispatch::built_in_programs()) {
    INFO(entry.op->name);
    CHECK(std::find(seen.begin(), seen.end(), entry.op->name) != seen.end());
  }
}

TEST_CASE("programs read views that are still on their way", "[unit][invariance]") {
  views_on_their_way(Table::part);
}
TEST_CASE("programs read views that are still on their way: all", "[slow][invariance]") {
  views_on_their_way(Table::whole);
}

TEST_CASE("a row-major copy has the tensor's bits and is in the record", "[unit]") {
  auto context = make_context({.threads = 1});
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u}) {
    nc::CoreOptions options = stressed(seed);
    options.record = true;
    auto core = nc::make_core(context, nc::trn1(), options);
    for (const DType dtype :
         {DType::fp32, DType::bf16, DType::fp8_e4m3, DType::int64, DType::boolean})
      for (const Shape& shape :
           {Shape{5}, Shape{700}, Shape{3, 4}, Shape{200, 3}, Shape{3, 5000}, Shape{2, 3, 4},
            Shape{130, 1, 7}, Shape{2, 40, 3, 50}, Shape{2, 3, 1, 2, 3}, Shape{2, 2, 3, 2, 2, 3}}) {
        const Tensor input = Tensor::empty(context, shape, dtype);
        for (std::size_t i = 0; i < input.bytes(); ++i)
          input.mutable_raw()[i] = static_cast<std::byte>(
              dtype == DType::boolean ? i % 3 == 0 : (i * 2654435761u >> 13) & 255);
        for (const char* kind : kinds) {
          const std::optional<Viewed> view = viewed(context, kind, input);
          if (!view) continue;
          const Tensor tensor = view->view(view->whole);
          INFO(kind << " " << tensor.describe() << ", seed " << seed);
          const nc::Statistics before = core.statistics();
          const Tensor copied = programs::row_major(core, tensor);
          CHECK(copied.contiguous());
          const nc::Statistics& after = core.statistics();
          CHECK(after.hbm_bytes_written - before.hbm_bytes_written ==
                (tensor.contiguous() ? 0 : tensor.bytes()));
          // At most a piece for each element that is loaded or stored.
          CHECK(after.dma_buffers - before.dma_buffers <=
                (tensor.contiguous() ? 0 : 2 * tensor.elements()));
          core.finish();
          CHECK(same_bits({copied}, {clone(context, tensor)}));
        }
      }
    CHECK(core.sbuf.used() == 0);
  }
}

TEST_CASE("the clock counts the copy of a view", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto nanoseconds = [&](bool transposed) {
    nc::CoreOptions options = strict;
    options.record = true;
    OnDevice on(context, options, {.predict = &nc::predict_time});
    const Tensor total = Tensor::zeros(context, {64, 32}), more = Tensor::zeros(context, {32, 64});
    run(context, built_in("accumulate"), {},
        {total, transposed ? more.transpose(0, 1) : more.reshape({64, 32})});
    return on.device().runs().predicted.ns;
  };
  CHECK(nanoseconds(false) > 0);
  CHECK(nanoseconds(true) > 1.5 * nanoseconds(false));
}

TEST_CASE("no view is copied element by element", "[unit]") {
  auto context = make_context({.threads = 1});
  const auto microseconds = [&](const Tensor& x) {
    OnDevice on(context, {.record = true, .compute = false}, {.predict = &nc::predict_time});
    run(context, built_in("tanh"), {}, {x});
    return on.device().runs().predicted.ns * 1e-3;
  };
  constexpr std::size_t n = 1024;
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    const auto empty = [&](const Shape& shape) { return Tensor::empty(context, shape, dtype); };
    const double plain = microseconds(empty(Shape{n, n}));
    struct View {
      const char* name;
      Tensor tensor;
      double most;  // us; element by element 9.3 ms
    };
    const View views[] = {
        {"transposed", empty(Shape{n, n}).transpose(0, 1), 200},
        {"every second column", empty(Shape{n, 2 * n}).slice(1, 0, to_end, 2), 120},
        {"every 20th element of a vector", empty(Shape{20 * n * n}).slice(0, 0, to_end, 20), 600},
        {"a column of a matrix of three", empty(Shape{n * n, 3}).select(1, 1), 150},
        {"three rows of columns", empty(Shape{n * n / 4, 3}).transpose(0, 1), 150},
        {"a number for each row", empty(Shape{n, 1}).broadcast_to(Shape{n, n}), 120},
        {"one number", empty(Shape{1, 1}).broadcast_to(Shape{n, n}), 120}};
    for (const View& view : views) {
      const double copied = microseconds(view.tensor);
      INFO(to_string(dtype) << ", " << view.name << ": " << copied << " us, row-major " << plain);
      CHECK(copied > plain);
      CHECK(copied < view.most);
    }
  }
}

namespace {

// Reads its second input on the host; only one of the records says so.
void host_program(nc::Core& core, const OperatorCall& call) {
  const programs::HostNumbers numbers(core, call.inputs[1]);
  const nc::Tile x = core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements());
  core.dma.load(x, programs::flat_view(call.inputs[0]));
  core.vector.tensor_scalar(x, x, nc::Alu::multiply,
                            static_cast<float>(numbers.numbers<std::int64_t>()[0]));
  core.dma.store(programs::flat_target(call.outputs[0]), x);
}
constexpr Program says{.run = &host_program, .host_inputs = 2}, hides{.run = &host_program};
constexpr Operator times(const char* name, const Program& program) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .shape =
              [](const ShapeCall& call) {
                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
              },
          .host = [](const OperatorCall&) {},
          .program = &program};
}
constexpr Operator declared = times("test::declared", says), hidden = times("test::hidden", hides);

}  // namespace

TEST_CASE("what the host reads of a program's inputs has arrived before", "[unit]") {
  auto context = make_context({.threads = 1});
  const Tensor x = Tensor::full(context, {4}, 2.0f);
  const Tensor three = Tensor::full(context, {2}, std::int64_t{3});
  for (const std::uint64_t seed : {0u, 1u, 2u, 3u, 4u, 5u}) {
    OnDevice on(context, stressed(seed), {.mode = RunMode::lazy});
    NeuronCoreDevice& device = on.device();
    const auto call = [&](const Operator& op) {
      const Tensor number = run(context, arrive, {}, {three})[0];
      return run(context, op, {}, {x, number})[0];
    };
    const Tensor y = call(declared);
    CHECK(device.runs().launches == 1);  // the number's
    CHECK(device.runs().cuts.back().cause == "read by the host: test::arrive");
    device.mark_step();
    CHECK(y.data<float>()[3] == 6);
    // An input that the record does not list is an error, whether it is late or not.
    const Tensor z = call(hidden);
    CHECK(message_of([&] { device.mark_step(); }).find("Program::host_inputs") !=
          std::string::npos);
    CHECK(id_of([&] { static_cast<void>(z.data<float>()); }) == "neuroncore.not_run");
  }
}

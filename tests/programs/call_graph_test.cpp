// Graphs of recorded calls: what is removed and what never is, when the host's reading cuts, keys.

#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/on_device.hpp"

#include <cstdint>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

struct Lazy {
  explicit Lazy(RunOptions options = {.mode = RunMode::lazy}) : on(context, strict, options) {}
  const BuiltInOperators& built_in() const { return context.built_in(); }
  Tensor add(const Tensor& a, const Tensor& b) {
    return run(context, built_in().of(Binary::add), {}, {a, b})[0];
  }
  // total += more, as an optimizer steps.
  void in_place(const Tensor& total, const Tensor& more) {
    run(context, *built_in().sgd_step, SgdSetting{.rate = -1}, {total, more});
  }
  Tensor ones() { return Tensor::full(context, {4}, 1.0f); }
  NeuronCoreDevice& device() { return on.device(); }

  Context context = make_context({.threads = 1});
  OnDevice on;
};

struct Logged {
  std::vector<std::string> texts;
  static void write(void* self, LogLevel, std::string_view message) {
    static_cast<Logged*>(self)->texts.emplace_back(message);
  }
};

// Calls that ran as programs.
std::uint64_t ran(const NeuronCoreDevice& device) {
  std::uint64_t sum = 0;
  for (const NeuronCoreDevice::Count& count : device.counts()) sum += count.programs;
  return sum;
}

constexpr Program breaks{[](neuroncore::Core& core, const OperatorCall&) {
  core.psum.tile(128, 5000);  // more than a bank holds
}};
constexpr Operator broken{.name = "test::broken",
                          .shape =
                              [](const ShapeCall& call) {
                                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                              },
                          .host = [](const OperatorCall&) {},
                          .program = &breaks};

// Copies as often as a field says that is wrongly listed as a run-time scalar.
struct Repetition {
  std::uint32_t times = 1;
};
void fields(FieldVisitor& visitor, Repetition& setting) {
  visitor.run_time("times", setting.times);
}
constexpr Program repeats{[](neuroncore::Core& core, const OperatorCall& call) {
  const neuroncore::Tile tile = core.sbuf.tile(DType::fp32, 1, call.inputs[0].elements());
  core.dma.load(tile, neuroncore::hbm(call.inputs[0]));
  for (std::uint32_t i = 0; i < call.attributes.as<Repetition>().times; ++i)
    core.dma.store(neuroncore::hbm_target(call.outputs[0]), tile);
}};
constexpr Operator repeated{
    .name = "test::repeated",
    .shape =
        [](const ShapeCall& call) {
          call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
        },
    .host = [](const OperatorCall&) {},
    .program = &repeats};

}  // namespace

TEST_CASE("nothing runs before a result is read, and then all of it", "[unit]") {
  Lazy lazy;
  const Tensor a = lazy.ones(), b = lazy.add(a, a), c = lazy.add(b, a);
  CHECK(ran(lazy.device()) == 0);
  CHECK(b.address() != nullptr);  // looking where it lies reads nothing
  CHECK(ran(lazy.device()) == 0);
  CHECK(c.data<float>()[3] == 3);
  CHECK(ran(lazy.device()) == 2);
  CHECK(lazy.device().runs().launches == 1);
  REQUIRE(lazy.device().runs().cuts.size() == 1);
  CHECK(lazy.device().runs().cuts[0].cause == "read by the host: add");
  const Tensor d = lazy.add(c, c);
  lazy.device().mark_step();
  CHECK(lazy.device().runs().launches == 2);
  CHECK(d.data<float>()[0] == 6);
}

TEST_CASE("each way of reading or writing a tensor runs what it waits for", "[unit]") {
  Lazy lazy;
  const auto fresh = [&] { return lazy.add(lazy.ones(), lazy.ones()); };
  const auto launches = [&] { return lazy.device().runs().launches; };
  std::uint64_t before = launches();
  const auto cuts = [&] { return launches() == ++before; };
  CHECK((fresh().raw(), cuts()));
  CHECK((fresh().data<float>(), cuts()));
  CHECK((fresh().span<float>()[0] == 2 && cuts()));
  CHECK((fresh().view<float>()(1) == 2 && cuts()));
  CHECK((fresh().select(0, 2).item<float>() == 2 && cuts()));
  CHECK((fresh().mutable_raw(), cuts()));
  CHECK((fresh().mutable_span<float>()[1] == 2 && cuts()));
  // A pending call reads it: it runs before the host writes.
  const Tensor input = lazy.ones(), sum = lazy.add(input, input);
  input.mutable_data<float>()[0] = 100;
  CHECK(cuts());
  CHECK(sum.data<float>()[0] == 2);
  // Reading what pending calls only read runs nothing.
  const Tensor again = lazy.add(input, input);
  CHECK(input.data<float>()[0] == 100);
  CHECK(launches() == before);
  CHECK(again.data<float>()[0] == 200);
}

TEST_CASE("calls whose results nobody needs do not run; views and later calls need them",
          "[unit]") {
  Lazy lazy;
  const Tensor a = lazy.ones();
  Tensor kept_view;
  {
    const Tensor dead = lazy.add(a, a);
    const Tensor also_dead = lazy.add(dead, a);
    kept_view = lazy.add(a, a).slice(0, 1, 3);  // its tensor goes, its storage stays
  }
  const Tensor needed = [&] { return lazy.add(lazy.add(a, a), a); }();
  lazy.device().mark_step();
  CHECK(lazy.device().runs().removed == 2);
  CHECK(ran(lazy.device()) == 3);
  CHECK(kept_view.contiguous());
  CHECK(kept_view.data<float>()[0] == 2);
  CHECK(needed.data<float>()[0] == 3);
}

TEST_CASE("what is written in place is read before and after as it was recorded", "[unit]") {
  Lazy lazy;
  const Tensor total = lazy.ones();
  const Tensor before = lazy.add(total, total);
  const std::uint64_t version = total.version();
  lazy.in_place(total, lazy.ones());
  CHECK(total.version() > version);  // autograd sees the change when it is recorded
  const std::uint64_t recorded = total.version();
  const Tensor after = lazy.add(total, total);
  lazy.device().mark_step();
  CHECK(total.version() == recorded);
  CHECK(before.data<float>()[0] == 2);
  CHECK(after.data<float>()[0] == 4);
  CHECK(total.data<float>()[0] == 2);
  // An in-place write is never dead, whoever holds its tensors.
  CHECK(lazy.device().runs().removed == 0);
}

TEST_CASE("what a write in place reads, and writes through a view, is run before it is read",
          "[unit]") {
  Lazy lazy;
  const Tensor total = lazy.ones(), half = total.slice(0, 2, 4);
  // Nobody but the step in place needs this sum, and it needs the one before.
  lazy.in_place(half, lazy.add(lazy.ones(), lazy.ones()).slice(0, 2, 4));
  const Tensor behind = lazy.add(total, total);
  lazy.in_place(total, lazy.ones());
  const Tensor last = lazy.add(total, lazy.ones());
  CHECK(ran(lazy.device()) == 0);
  CHECK(total.data<float>()[3] == 4);  // the view's storage is pending
  CHECK(lazy.device().runs().launches == 1);
  CHECK(total.data<float>()[0] == 2);
  CHECK(behind.span<float>()[3] == 6);
  CHECK(behind.span<float>()[0] == 2);
  CHECK(last.span<float>()[3] == 5);
  CHECK(lazy.device().runs().removed == 0);
}

TEST_CASE("results of calls behind one that failed are errors when they are read", "[unit]") {
  Lazy lazy({.mode = RunMode::lazy});
  const Tensor unwritten = Tensor::full(lazy.context, {4}, 1.0f);
  const Tensor sum = lazy.add(unwritten, unwritten);
  const Tensor bad = run(lazy.context, broken, {}, {unwritten})[0];
  const Tensor behind = lazy.add(bad, sum);
  CHECK(id_of([&] { lazy.device().mark_step(); }) == "neuroncore.rule_broken");
  CHECK(sum.data<float>()[0] == 2);
  CHECK(id_of([&] { (void)behind.data<float>(); }) == "neuroncore.not_run");
  CHECK(lazy.add(sum, sum).data<float>()[0] == 4);  // the device goes on
}

TEST_CASE("a device that ends runs what it recorded", "[unit]") {
  auto context = make_context({.threads = 1});
  const Tensor total = Tensor::full(context, {4}, 1.0f);
  Tensor sum;
  {
    auto core = neuroncore::make_core(context, neuroncore::trn1(), strict);
    auto device = neuroncore::make_device(core, {.mode = RunMode::lazy});
    context.set_device(&device);
    sum = run(context, context.built_in().of(Binary::add), {}, {total, total})[0];
    run(context, *context.built_in().sgd_step, SgdSetting{.rate = -1}, {total, sum});
    context.set_device(nullptr);
  }
  CHECK(sum.data<float>()[0] == 2);
  CHECK(total.data<float>()[0] == 3);
}

TEST_CASE("results of a device that ends in an error are not read", "[unit]") {
  Logged logged;
  auto context = make_context({.log = {&logged, &Logged::write}, .threads = 1});
  const Tensor one = Tensor::full(context, {4}, 1.0f);
  Tensor bad, behind;
  {
    auto core = neuroncore::make_core(context);
    auto device = neuroncore::make_device(core, {.mode = RunMode::lazy});
    context.set_device(&device);
    bad = run(context, broken, {}, {one})[0];
    behind = run(context, context.built_in().of(Binary::add), {}, {bad, one})[0];
    context.set_device(nullptr);
  }
  CHECK(id_of([&] { (void)behind.data<float>(); }) == "neuroncore.not_run");
  CHECK(id_of([&] { (void)bad.data<float>(); }) == "neuroncore.not_run");
  REQUIRE(logged.texts.size() == 1);
  CHECK(logged.texts[0].find("recorded calls did not run: psum.tile at ") != std::string::npos);
}

TEST_CASE("a graph that grows and a run that keeps compiling are logged", "[unit]") {
  Logged logged;
  auto context = make_context({.log = {&logged, &Logged::write}, .threads = 1});
  auto core = neuroncore::make_core(context);
  auto device =
      neuroncore::make_device(core, {.mode = RunMode::lazy, .warn_calls = 10, .settled_steps = 3});
  context.set_device(&device);
  Tensor last = Tensor::full(context, {4}, 1.0f);
  const auto more = [&](std::size_t calls) {
    for (std::size_t i = 0; i < calls; ++i)
      last = run(context, context.built_in().of(Binary::add), {}, {last, last})[0];
  };
  more(9);
  CHECK(logged.texts.empty());
  more(20);
  device.mark_step();
  more(29);
  device.mark_step();
  REQUIRE(logged.texts.size() == 1);  // once
  CHECK(logged.texts[0].find("10 calls are recorded") != std::string::npos);
  for (int i = 0; i < 3; ++i) {
    last = Tensor::full(context, {4}, 1.0f);
    more(2);
    device.mark_step();
  }
  CHECK(logged.texts.size() == 1);
  last = Tensor::full(context, {5}, 1.0f);
  more(2);
  device.mark_step();
  REQUIRE(logged.texts.size() == 2);
  CHECK(logged.texts[1].find("after 5 steps") != std::string::npos);
  CHECK(logged.texts[1].find(" is 5, 4 in the nearest executable") != std::string::npos);
  context.set_device(nullptr);
}

TEST_CASE("keys differ by sizes, views, sharing and settings, not by numbers and run-time scalars",
          "[unit]") {
  Lazy lazy;
  auto& cache = lazy.device().executables();
  const Tensor a = lazy.ones(), b = lazy.ones();
  const auto compiled = [&](const Tensor& result) {
    const std::uint64_t before = cache.compilations();
    (void)result.raw();
    return cache.compilations() - before;
  };
  CHECK(compiled(lazy.add(a, b)) == 1);
  CHECK(compiled(lazy.add(b, a)) == 0);
  CHECK(compiled(lazy.add(a, a)) == 1);  // one storage twice
  CHECK(cache.misses().back().differs == "call 1 (add) input 2 storage");
  const Tensor longer = Tensor::full(lazy.context, {6}, 1.0f);
  CHECK(compiled(lazy.add(longer, longer)) == 1);
  CHECK(cache.misses().back().differs == "call 1 (add) input 1 size");
  CHECK(compiled(lazy.add(longer.slice(0, 0, 4), b)) == 0);
  CHECK(compiled(lazy.add(longer.slice(0, 1, 5), b)) == 1);
  CHECK(cache.misses().back().differs == "call 1 (add) input 1 offset");
  const auto reduce = [&](ReduceSetting setting) {
    return run(lazy.context, *lazy.built_in().reduce, setting, {longer.reshape({2, 3})})[0];
  };
  CHECK(compiled(reduce({.dimensions = 1})) == 1);
  CHECK(compiled(reduce({.dimensions = 2})) == 1);
  CHECK(cache.hits() == 2);

  // An optimizer's step: rate and step are scalars of the run, weight decay and formats are not.
  const auto step = [&](SgdSetting setting) {
    const std::uint64_t before = cache.compilations();
    run(lazy.context, *lazy.built_in().sgd_step, setting, {a, b});
    lazy.device().mark_step();
    return cache.compilations() - before;
  };
  CHECK(step({.rate = 0.1f, .step = 1}) == 1);
  CHECK(step({.rate = 0.2f, .step = 2}) == 0);
  CHECK(step({.rate = 0.2f, .weight_decay = 0.5f, .step = 3}) == 1);
  const Tensor moments[] = {Tensor::zeros(lazy.context, {4}), Tensor::zeros(lazy.context, {4})};
  const auto adam = [&](AdamSetting setting) {
    const std::uint64_t before = cache.compilations();
    run(lazy.context, *lazy.built_in().adam_step, setting, {a, b, {}, moments[0], moments[1]});
    lazy.device().mark_step();
    return cache.compilations() - before;
  };
  CHECK(adam({.decay_factor = 0.9f, .step_size = 0.1f, .gradient_factor = 0.25f, .step = 1}) == 1);
  CHECK(adam({.decay_factor = 0.8f,
              .step_size = 0.2f,
              .inverse_root_correction2 = 3,
              .gradient_factor = 0.5f,
              .seed = 7,
              .step = 2}) == 0);
  CHECK(adam({.step = 3}) == 1);  // a factor of 1 is left out of the program
  CHECK(adam({.beta1 = 0.8f, .step = 3}) == 1);
}

TEST_CASE("a program that goes by a run-time scalar is found out where instructions are recorded",
          "[unit]") {
  auto context = make_context({.threads = 1});
  neuroncore::CoreOptions options = strict;
  options.record = true;
  auto core = neuroncore::make_core(context, neuroncore::trn1(), options);
  auto device = neuroncore::make_device(core, {.mode = RunMode::jit});
  context.set_device(&device);
  const Tensor x = Tensor::full(context, {4}, 1.0f);
  const auto repeat = [&](std::uint32_t times) {
    (void)run(context, repeated, Repetition{times}, {x});
  };
  repeat(2);
  repeat(2);
  CHECK(device.executables().hits() == 1);
  CHECK(id_of([&] { repeat(3); }) == "executable.stream");
  context.set_device(nullptr);
}

TEST_CASE("the cache of executables keeps to its bytes, the oldest leave", "[unit]") {
  ExecutableCache cache(3000);
  const auto add = [&](char letter) {
    Executable executable;
    executable.key = GraphKey(std::string(1000, letter));
    cache.add(std::move(executable));
  };
  add('a');
  add('b');
  CHECK(cache.find(GraphKey(std::string(1000, 'a'))) != nullptr);
  add('c');
  CHECK(cache.evicted() == 1);
  CHECK(cache.find(GraphKey(std::string(1000, 'b'))) == nullptr);
  CHECK(cache.find(GraphKey(std::string(1000, 'a'))) != nullptr);
  CHECK(cache.bytes() <= 3000);
}

// Training in narrow formats: the same bits whatever computes them, and what recipes remember.

#include "train/small_run.hpp"

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/precisions.hpp"
#include "train/number_runs.hpp"

#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;
using namespace soma_test;
using train::Trainer;
using train::TrainerOptions;

namespace {

TrainerOptions options_of(const Precision& precision) {
  return {.epochs = 1, .learning_rate = 2e-3, .seed = 5, .precision = precision};
}
data::BatchOptions batching() { return {.batch_sequences = 16, .shuffle = true, .seed = 3}; }

// Powers of two and their halves' sums, 2^i and 1.5 * 2^i, rounded in plain code.
Precision own_rounding(std::string_view name) {
  const OwnRounding halves{name, [](std::span<float> values) {
                             for (float& value : values) {
                               int exponent = 0;
                               const float part = std::frexp(value, &exponent);
                               value = std::ldexp(std::nearbyint(part * 4), exponent - 2);
                             }
                           }};
  Precision own = Precision::fp8_current();
  own.name = "own";
  own.gemm_activations.own = own.gemm_weights.own = own.gemm_gradients.own = halves;
  return own;
}

// All presets, and more than they have: other directions, formats and roundings.
std::vector<Precision> policies() {
  std::vector<Precision> all;
  for (const Precision& preset : precision_presets()) all.push_back(preset);
  all.push_back(Precision::cfp8(9, 11, 20));
  Precision odd = Precision::fp8_rowwise();
  odd.name = "stochastic";
  odd.gemm_activations.rounding = odd.gemm_weights.rounding = odd.gemm_gradients.rounding =
      Rounding::stochastic;
  odd.gemm_gradients.scaling.granularity = Granularity::block_128x128;
  odd.gemm_weights.format = formats::fp6_e3m2;
  odd.weights = {.format = formats::bf16, .rounding = Rounding::stochastic};
  odd.narrow_edges = true;
  all.push_back(odd);
  Precision sums = Precision::bf16();
  sums.name = "narrow sums";
  sums.accumulation = {.format = formats::bf16, .chunk = 2, .promote = 16};
  all.push_back(sums);
  all.push_back(own_rounding("halves"));
  for (const Precision& recipe : group_recipes()) all.push_back(recipe);
  return all;
}

std::uint64_t train_bits(Context& context, const TrainerOptions& options) {
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  Trainer trainer(context, small.task, options);
  trainer.fit(source);
  return bits_of(context, small.task.parameters());
}

}  // namespace

TEST_CASE("every precision gives the same weights from any number of threads", "[unit]") {
  std::map<std::uint64_t, std::string> seen;
  for (const Precision& precision : policies()) {
    std::uint64_t first = 0;
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      const std::uint64_t bits = train_bits(context, options_of(precision));
      if (first == 0) first = bits;
      INFO(precision.name << " with " << threads << " threads");
      CHECK(bits == first);
    }
    // None of them is another one under a second name. Scales that are powers of two only matter to
    // the ends of a format's range: in a model as small as this one these do the same.
    INFO(precision.name << " and " << seen[first]);
    CHECK((seen[first].empty() || precision.name == "fp8_block" || precision.name == "mxfp8_up" ||
           precision.name == "mxfp8_trn3"));
    seen[first] = precision.name;
  }
}

TEST_CASE("portable bits on every target with fused multiply-add", "[unit]") {
  auto any = make_context({.threads = 2});
  for (const Precision& precision : policies()) {
    std::uint64_t first = 0;
    for (const Target& target : any.targets().targets) {
      if (!target.fused_multiply_add) continue;
      auto context = make_context({.threads = 2, .math = Math::portable, .target = target.name});
      TrainerOptions options = options_of(precision);
      options.max_steps = 4;
      const std::uint64_t bits = train_bits(context, options);
      if (first == 0) first = bits;
      INFO(precision.name << " on " << target.name);
      CHECK(bits == first);
    }
    CHECK(first != 0);
  }
}

TEST_CASE("interrupted and resumed, every precision ends with the same weights", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : policies()) {
    TrainerOptions options = options_of(precision);
    const std::uint64_t whole = train_bits(context, options);
    for (const std::uint64_t step : {1u, 4u, 9u}) {
      MemoryStore store(context);
      options.checkpoints = &store;
      {
        SmallModel small(context);
        data::TokenSource source(context, token_lists(160), batching());
        options.resume = false;
        Trainer trainer(context, small.task, options);
        Follower follower(step);
        trainer.add(follower);
        CHECK(trainer.fit(source, nullptr, &follower.stop).interrupted);
      }
      SmallModel small(context, 99);
      data::TokenSource source(context, token_lists(160), batching());
      options.resume = true;
      Trainer trainer(context, small.task, options);
      CHECK(trainer.fit(source).first_step == step);
      INFO(precision.name << " interrupted after step " << step);
      CHECK(bits_of(context, small.task.parameters()) == whole);
    }
  }
}

TEST_CASE("the scale of the loss goes on where it was", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of(Precision::fp16());
  options.checkpoints = &store;
  options.checkpoint_every = 1;
  const auto run_to = [&](std::uint64_t step) {
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    Trainer trainer(context, small.task, options);
    Follower follower(step);
    trainer.add(follower);
    trainer.fit(source, nullptr, &follower.stop);
  };
  run_to(2);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  checkpoint.progress.set("loss_scale", 32.0);
  checkpoint.progress.set("loss_scale_good_steps", std::uint64_t{11});
  store.save(2, checkpoint);
  options.resume = true;
  run_to(3);
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(checkpoint.progress.count("step") == 3);
  CHECK(checkpoint.progress.number("loss_scale") == 32);
  CHECK(checkpoint.progress.count("loss_scale_good_steps") == 12);
}

TEST_CASE("a checkpoint with a scale that would poison the loss is refused", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of(Precision::fp16());
  options.checkpoints = &store;
  options.max_steps = 2;
  train_bits(context, options);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  options.resume = true;
  options.max_steps = 3;
  for (const double scale : {std::nan(""), 0.0, -1.0, HUGE_VAL}) {
    checkpoint.progress.set("loss_scale", scale);
    store.save(2, checkpoint);
    INFO(scale);
    CHECK(message_of([&] {
            train_bits(context, options);
          }).find("LossScaler::restore: scale is ") == 0);
  }
}

TEST_CASE("a run with another precision is refused by name", "[unit]") {
  auto context = make_context();
  MemoryStore store(context);
  TrainerOptions options = options_of(Precision::mxfp8());
  options.checkpoints = &store;
  options.max_steps = 2;
  train_bits(context, options);
  options.resume = true;
  options.precision.gemm_weights.scaling.margin = 1;  // the name stays
  CHECK(message_of([&] { train_bits(context, options); }).find("check_identity: \"precision\"") ==
        0);

  MemoryStore other(context);
  options = options_of(own_rounding("halves"));
  options.checkpoints = &other;
  options.max_steps = 2;
  train_bits(context, options);
  options.resume = true;
  options.precision = own_rounding("halves, rounded up");
  const std::string refused = message_of([&] { train_bits(context, options); });
  CHECK(refused.find("check_identity: \"precision\"") == 0);
  CHECK(refused.find("by \"halves, rounded up\"") != std::string::npos);
  options.precision.weights.own = options.precision.gemm_weights.own;
  CHECK(id_of([&] { train_bits(context, options); }) == "train.precision");
}

TEST_CASE("every recipe learns what decides", "[unit]") {
  auto context = make_context();
  for (const Precision& precision : policies()) {
    INFO(precision.name);
    SmallModel small(context);
    data::TokenSource source(context, token_lists(160), batching());
    data::TokenSource held_out(context, token_lists(64), {.batch_sequences = 32, .shuffle = false});
    TrainerOptions options = options_of(precision);
    options.epochs = 8;
    options.schedule.warmup = 3;
    Trainer trainer(context, small.task, options);
    const train::Report report = trainer.fit(source, &held_out);
    CHECK(report.metrics.accuracy() >= 0.95);
    for (const Parameter& parameter : small.task.parameters())
      CHECK(format_of(parameter.value().dtype()) ==
            (parameter.value().rank() >= 2 ? precision.weights.format : formats::fp32));
  }
}

TEST_CASE("delayed scales come from the histories, which are saved", "[unit]") {
  auto context = make_context();
  Precision precision = Precision::fp8_delayed();
  precision.gemm_weights.scaling.history = 2;
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  TrainerOptions options = options_of(precision);
  options.max_steps = 3;
  Trainer trainer(context, small.task, options);
  trainer.fit(source);
  const StateDict state = trainer.precision().state();
  // Four layers of products in each of two blocks, and queries apart in the last, three operands;
  // the pooler and the classifier are edges.
  CHECK(state.size() == (2 * 4 + 1) * 3);
  for (const auto& [name, tensor] : state) {
    INFO(name);
    CHECK(tensor.size(0) == (name.find("gemm_weights") != std::string::npos ? 2u : 3u));
    for (const float amax : tensor.span<float>()) CHECK(amax > 0);
  }
  // The latest amax of a weight is that of the weights before the last step's update.
  PrecisionState other(context, precision, 5);
  other.load_state(state);
  for (const auto& [name, tensor] : other.state()) {
    const Tensor& saved = *state.find(name);
    REQUIRE(tensor.shape() == saved.shape());
    CHECK(std::memcmp(tensor.raw(), saved.raw(), saved.bytes()) == 0);
  }
  StateDict wrong;
  wrong.set("layer.gemm_weights.scale", Tensor::zeros(context, Shape{1}));
  CHECK(id_of([&] { other.load_state(wrong); }) == "state.extra_name");
  StateDict long_one;
  long_one.set("layer.gemm_weights.amax", Tensor::zeros(context, Shape{3}));
  CHECK(id_of([&] { other.load_state(long_one); }) == "state.shape");
  StateDict integers;
  integers.set("layer.gemm_weights.amax", Tensor::zeros(context, Shape{1}, DType::int32));
  CHECK(id_of([&] { other.load_state(integers); }) == "state.dtype");
  CHECK(other.state().size() == state.size());  // nothing was taken
}

TEST_CASE("maxima over ranks decide scales of whole tensors, current and delayed", "[unit]") {
  // Another rank that always has seen eight times as much, a power of two: codes of the largest
  // elements change, and every scale is eight times larger.
  struct Other {
    static void run(void* self, std::span<float> values) {
      ++*static_cast<int*>(self);
      for (float& value : values) value *= 8;
    }
  };
  auto context = make_context();
  for (const Precision& precision : {Precision::fp8_current(), Precision::fp8_delayed()}) {
    int calls = 0;
    std::uint64_t bits[2];
    for (const bool others : {false, true}) {
      SmallModel small(context);
      data::TokenSource source(context, token_lists(160), batching());
      TrainerOptions options = options_of(precision);
      options.max_steps = 3;
      Trainer trainer(context, small.task, options);
      if (others) trainer.precision().set_maximum({&calls, &Other::run});
      trainer.fit(source);
      bits[others ? 1 : 0] = bits_of(context, small.task.parameters());
    }
    INFO(precision.name);
    CHECK(bits[0] != bits[1]);
    // Current: x and dy of nine products each step. Delayed: those in the first step, and once
    // after each step.
    CHECK(calls == (precision.name == "fp8_current" ? 3 * 2 * 9 : 2 * 9 + 3));
  }
}

TEST_CASE("fp16 lowers the scale of its loss instead of failing", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  TrainerOptions options = options_of(Precision::fp16());
  MemoryStore store(context);
  options.checkpoints = &store;
  Trainer trainer(context, small.task, options);
  Follower follower;
  trainer.add(follower);
  const train::Report report = trainer.fit(source);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  double scale = 65536;
  for (const train::StepInfo& step : follower.steps)
    if (step.skipped) scale /= 2;
  CHECK(checkpoint.progress.number("loss_scale") == scale);
  CHECK(checkpoint.progress.count("loss_scale_good_steps") <= report.steps);
  for (const train::StepInfo& step : follower.steps) {
    if (step.skipped) continue;
    // The norm is that of the gradients without the scale.
    CHECK(step.gradient_norm < 100);
  }
}

TEST_CASE("statistics count what products read", "[unit]") {
  auto context = make_context();
  SmallModel small(context);
  data::TokenSource source(context, token_lists(160), batching());
  TrainerOptions options = options_of(Precision::mxfp8());
  options.max_steps = 2;
  Trainer trainer(context, small.task, options);
  trainer.precision().collect_statistics(true);
  trainer.fit(source);
  std::uint64_t weights = 0;
  for (const auto& [path, operands] : trainer.precision().statistics()) {
    INFO(path);
    for (const numeric::Inspection& operand : operands) {
      if (operand.count == 0) continue;  // an edge
      CHECK(operand.count > operand.exact);
      CHECK(operand.signal_to_noise() > 20);  // three mantissa bits: about 6 dB each, and 13
      CHECK(operand.share(operand.underflow) < 0.05);
    }
    weights += operands[1].count;
  }
  // Each weight in two directions and two steps: 32 x 96, 32 x 32, 32 x 64 twice, in two blocks.
  CHECK(weights == 2 * 2 * 2 * (32 * 96 + 32 * 32 + 2 * 32 * 64));
}

namespace {

// The effect of AdamW steps of size `rate` on weights of 0.75 in bf16: the mean decrease, and the
// share that does not change.
struct Moved {
  double mean = 0, stayed = 0;
};
Moved move_weights(Context& context, const Rounding& rounding, double rate, int steps) {
  const std::size_t count = 1 << 16;
  const Tensor start = Tensor::full(context, Shape{256, count / 256}, soma::bf16(0.75f));
  const Var weight = Var::parameter(context, start);
  const Tensor gradient = Tensor::full(context, start.shape(), soma::bf16(1.0f));
  optim::AdamW optimizer(
      context, {{.name = "w", .var = weight}}, 0,
      {.storage = {.state = DType::fp32, .weight_rounding = rounding, .seed = 3}});
  for (int i = 0; i < steps; ++i) {
    weight.set_gradient({gradient, {}});
    optimizer.step({.rate = rate});
  }
  const Tensor values = run(context, *context.built_in().cast, CastSetting{.dtype = DType::fp32},
                            {weight.value()})[0];
  Moved moved;
  for (const float value : values.span<float>()) {
    moved.mean += (0.75 - double{value}) / static_cast<double>(count);
    moved.stayed += value == 0.75f ? 1.0 / static_cast<double>(count) : 0;
  }
  return moved;
}

}  // namespace

TEST_CASE("updates that bf16 cannot hold are lost to nearest, kept in the mean by stochastic",
          "[unit]") {
  auto context = make_context();
  // The spacing of bf16 below 0.75 is 2^-8 = 0.0039: a step of 1e-6 is 1/3906 of it.
  const double rate = 1e-6;
  const int steps = 200;
  const Moved nearest = move_weights(context, Rounding::nearest_even, rate, steps);
  CHECK(nearest.stayed == 1);
  CHECK(nearest.mean == 0);
  const Moved stochastic = move_weights(context, Rounding::stochastic, rate, steps);
  // Each step moves a weight by one spacing s with probability rate / s: of 200 steps and 65536
  // weights the mean is steps * rate, its deviation s * sqrt(steps * p * (1 - p) / weights). Five
  // deviations; 16 random bits add a bias of at most 2^-16 of a spacing each step.
  const double spacing = 0x1p-8, p = rate / spacing;
  const double deviation = spacing * std::sqrt(steps * p * (1 - p) / 65536);
  CHECK(std::abs(stochastic.mean - steps * rate) < 5 * deviation + steps * spacing * 0x1p-16);
  CHECK(deviation < 0.02 * steps * rate);  // so that the test can tell
  CHECK(stochastic.stayed > 0.9);
  CHECK(stochastic.stayed < 1);
}

namespace {

// Three layers, of which the last one is an edge.
struct ThreeLayers {
  explicit ThreeLayers(const nn::Scope& scope, bool all_edges)
      : first(scope / "first", 4, 8, {.edge = all_edges}),
        middle(scope / "middle", 8, 8, {.edge = all_edges}),
        head(scope / "head", 8, 1, {.edge = true}) {}
  Var operator()(Tape& tape, const Var& x) const {
    return head(tape, middle(tape, first(tape, x, {.activation = Activation::tanh})));
  }
  void collect(nn::Collector& collector) const {
    collector.part("first", first);
    collector.part("middle", middle);
    collector.part("head", head);
  }
  nn::Linear first, middle, head;
};

struct Said {
  std::vector<std::string> information, warnings;
  std::string products;
};

Said said_of(const Precision& precision, bool all_edges) {
  Said said;
  const LogSink log{
      &said, [](void* self, LogLevel level, std::string_view line) {
        Said& lines = *static_cast<Said*>(self);
        (level == LogLevel::info ? lines.information : lines.warnings).emplace_back(line);
      }};
  auto context = make_context({.log = log, .threads = 1});
  const ThreeLayers net(nn::Scope{context, 1}, all_edges);
  nn::RegressionTask task(net);
  const NumberRows rows = number_rows(64);
  data::ArraySource source = number_source(context, rows);
  Trainer trainer(context, task, options_of(precision));
  trainer.fit(source);
  said.products = to_string(trainer.precision());
  return said;
}

}  // namespace

TEST_CASE("a precision says what it does with each product", "[unit]") {
  const Said said = said_of(Precision::fp8_current(), false);
  CHECK(said.information ==
        std::vector<std::string>{"Trainer: precision fp8_current: 2 of 3 products read converted "
                                 "operands, 1 are edges, 0 are named in `stored`"});
  CHECK(said.warnings.empty());
  const std::string converted =
      ": x fp8_e4m3fn, current tensor fp32 scale; weight fp8_e4m3fn, current tensor fp32 scale; "
      "gradient fp8_e5m2, current tensor fp32 scale (converted)";
  CHECK(said.products == to_string(Precision::fp8_current()) + "\n  first" + converted +
                             "\n  head: x fp32; weight fp32; gradient fp32 (edge)\n  middle" +
                             converted);

  Precision named = Precision::fp8_current();
  named.stored = {"mid*e", "h*"};
  const Said less = said_of(named, false);
  CHECK(less.products.find("middle: x fp32; weight fp32; gradient fp32 (named in `stored`)") !=
        std::string::npos);
  CHECK(less.products.find("first" + converted) != std::string::npos);
  CHECK(less.warnings.empty());
}

TEST_CASE("a precision without effect is a warning", "[unit]") {
  for (const Precision& preset :
       {Precision::bf16(), Precision::fp16(), Precision::fp8_current(), Precision::mxfp8()}) {
    const Said said = said_of(preset, true);
    CHECK(said.warnings ==
          std::vector<std::string>{
              "Trainer: precision " + preset.name +
              " has no effect: of 3 products 3 are edges, none reads converted operands, and all "
              "store fp32 (Precision::narrow_edges converts edges)"});
  }
  // Weights are stored in bf16; nothing was asked for; a name that nobody has.
  CHECK(said_of(Precision::bf16_sr(), true).warnings.empty());
  const Said plain = said_of(Precision::fp32(), true);
  CHECK(plain.information.empty());
  CHECK(plain.warnings.empty());
  Precision misnamed = Precision::bf16();
  misnamed.stored = {"head", "tail"};
  CHECK(said_of(misnamed, false).warnings ==
        std::vector<std::string>{
            "Trainer: precision bf16: no product has the name \"tail\" of `stored`"});
  misnamed.stored = {""};
  CHECK(id_of([&] { said_of(misnamed, false); }) == "train.precision");
}

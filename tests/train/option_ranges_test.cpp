// Every number of options and settings has its range: the table says which, numbers outside are
// refused where the struct enters, and what is accepted poisons nothing.

#include <soma/curves.hpp>
#include <soma/nn.hpp>
#include <soma/nn/class_sampler.hpp>
#include <soma/nn/class_search.hpp>
#include <soma/ops/all.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
#include <soma/train.hpp>
#include <soma/train/console_progress.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "train/small_run.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

// The numbers of a struct, which must outlive this.
class RangeTable final : public FieldVisitor {
 public:
  template <class T>
  explicit RangeTable(T& values) {
    fields(*this, values);
  }
  std::vector<Field> numbers;
  std::vector<std::string> names;  // "dropout.probability"

 protected:
  void found(const Field& field) override {
    if (field.range.nan) return;  // any number
    numbers.push_back(field);
    names.push_back(path_ + std::string(field.name));
  }
  void found_pointer(std::string_view, const void*) override {}
  void enter(std::string_view name) override { path_.append(name).append("."); }
  void leave() override {
    path_.pop_back();
    path_.resize(path_.find_last_of('.') + 1);
  }

 private:
  std::string path_;
};

// "epsilon: a finite number above 0 in fp32; momentum: 0 to 1"
template <class T>
std::string ranges(T values) {
  std::string text;
  const RangeTable table(values);
  for (std::size_t i = 0; i < table.numbers.size(); ++i) {
    const bool whole = table.numbers[i].kind != Field::Kind::floating;
    text.append(i == 0 ? "" : "; ").append(table.names[i]).append(": ");
    text.append(table.numbers[i].range.describe(whole));
  }
  return text;
}

void set(const Field& field, double value) {
  if (field.kind == Field::Kind::floating) {
    const auto narrow = static_cast<float>(value);
    if (field.bytes == sizeof narrow)
      std::memcpy(field.value, &narrow, sizeof narrow);
    else
      std::memcpy(field.value, &value, sizeof value);
  } else {
    const auto whole = value < 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value))
                                 : static_cast<std::uint64_t>(value);  // little endian
    std::memcpy(field.value, &whole, field.bytes);
  }
}

// The next number of the field's type, or of fp32 where the field is rounded to it.
double beyond(const Field& field, double value, double towards) {
  if (field.kind != Field::Kind::floating) return value + (towards > value ? 1 : -1);
  if (field.bytes == sizeof(float) || field.range.fp32)
    return static_cast<double>(
        std::nextafter(static_cast<float>(value), static_cast<float>(towards)));
  return std::nextafter(value, towards);
}

struct Tried {
  std::vector<double> refused, accepted;
};
Tried values_of(const Field& field) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const NumberRange& range = field.range;
  const bool floating = field.kind == Field::Kind::floating;
  Tried tried;
  if (floating) {
    tried.refused.push_back(std::nan(""));
    for (const double end : {-infinity, infinity})
      if (!range.infinite || end < range.least) tried.refused.push_back(end);
    if (range.infinite) tried.accepted.push_back(infinity);
  }
  if (std::isfinite(range.least)) {
    const double next = beyond(field, range.least, infinity);
    if (floating || range.least != 0)
      tried.refused.push_back(range.open_least ? range.least
                                               : beyond(field, range.least, -infinity));
    tried.accepted.push_back(range.open_least ? next : range.least);
    if (range.open_least && range.fp32 && field.bytes == sizeof(double))
      tried.refused.insert(tried.refused.end(), {next / 2, 1e-60});  // 0 in fp32
  }
  if (std::isfinite(range.most)) {
    tried.refused.push_back(range.open_most ? range.most : beyond(field, range.most, infinity));
    tried.accepted.push_back(range.open_most ? beyond(field, range.most, -infinity) : range.most);
  }
  return tried;
}

using Id = std::string_view;

// Every number with a range in turn: values outside are refused by enter(values), which is where
// the struct enters, and by the table; bounds are accepted by the table.
template <class T, class Enter>
void check(const char* name, const T& legal, const Enter& enter, Id id = "operator.value") {
  INFO(name);
  CHECK(id_of([&] { check_ranges("test", legal); }) == "no error");
  T counted = legal;
  const std::size_t count = RangeTable(counted).numbers.size();
  for (std::size_t i = 0; i < count; ++i) {
    T values = legal;
    const RangeTable table(values);
    const Field& field = table.numbers[i];
    const Tried tried = values_of(field);
    REQUIRE_FALSE(tried.refused.empty());
    for (const double value : tried.refused) {
      set(field, value);
      INFO(table.names[i] << " is " << value);
      const std::string wanted(field.range.id == ErrorId{} ? id : field.range.id.name);
      CHECK(id_of([&] { enter(values); }) == wanted);
      CHECK(message_of([&] {
              check_ranges("test", values);
            }).find("test: " + table.names[i] + " is ") == 0);
    }
    for (const double value : tried.accepted) {
      set(field, value);
      INFO(table.names[i] << " is " << value);
      CHECK(id_of([&] { check_ranges("test", values); }) == "no error");
    }
  }
}

template <class T>
void check_setting(const char* name, const T& legal) {
  check(name, legal, [&](const T& values) { Attributes(values).check(name); });
}

struct OneWeight {
  explicit OneWeight(Context& made) : context(made) { add_sparse(context); }
  Context& context;
  Var w = Var::parameter(context, Tensor::full(context, Shape{1, 1}, 1.0f));
  Parameters parameters{{"w", w}};
  std::vector<optim::Group> groups{{.parameters = parameters}};
};

// The weight after steps with a gradient of 0.
template <class Optimizer, class Options>
float after_zero_gradients(const Options& options) {
  auto context = make_context({.threads = 1});
  OneWeight one(context);
  Optimizer optimizer(context, one.groups, options);
  for (int i = 0; i < 3; ++i) {
    one.w.set_gradient({Tensor::zeros(context, Shape{1, 1}), {}});
    optimizer.step({.rate = 0.1});
  }
  return one.w.value().template span<float>()[0];
}

template <class Optimizer, class Options>
void check_optimizer(const char* name) {
  auto context = make_context({.threads = 1});
  OneWeight one(context);
  check(name, Options{}, [&](const Options& options) { Optimizer(context, one.groups, options); });
}

}  // namespace

TEST_CASE("the tables of optimizers", "[unit]") {
  const std::string share = "0 to below 1", epsilon = "a finite number above 0 in fp32";
  const std::string from_0 = "a finite number from 0";
  const std::string adam = "beta1: " + share + "; beta2: " + share + "; epsilon: " + epsilon;
  CHECK(ranges(optim::AdamWOptions{}) == adam);
  CHECK(ranges(optim::LambOptions{}) == adam);
  CHECK(ranges(optim::LazyAdamWOptions{}) == adam);
  CHECK(ranges(optim::RowAdamOptions{}) == adam);
  CHECK(ranges(optim::RAdamOptions{}) == adam);
  CHECK(ranges(optim::AdadeltaOptions{}) == "rho: " + share + "; epsilon: " + epsilon);
  CHECK(ranges(optim::RowAdagradOptions{}) ==
        "epsilon: a finite number from 7.888609052210118e-31 in fp32");
  CHECK(ranges(optim::RmsPropOptions{}) ==
        "alpha: " + share + "; epsilon: " + epsilon + "; momentum: " + from_0);
  CHECK(ranges(optim::AdagradOptions{}) ==
        "epsilon: " + epsilon + "; rate_decay: " + from_0 + "; initial_square: " + from_0);
  CHECK(ranges(optim::SgdOptions{}) == "momentum: " + from_0 + "; dampening: a finite number");
  CHECK(ranges(optim::AdafactorOptions{}) ==
        "beta2_decay: a finite number up to 0; floor: " + epsilon + "; least_scale: " + from_0 +
            "; clip: a finite number above 0");
  CHECK(ranges(optim::LossScalerOptions{}) ==
        "initial: 1.1754943508222875e-38 to 8.507059173023462e+37; smallest: "
        "1.1754943508222875e-38 to 8.507059173023462e+37; largest: 1.1754943508222875e-38 to "
        "8.507059173023462e+37; growth_interval: at least 1");
  CHECK(ranges(optim::Schedule{.rate = 1}) ==
        "rate: " + from_0 +
            "; final_ratio: 0 to 1; every: at least 1; factor: above 0, up to 1; patience: at "
            "least 1; threshold: 0 to below 1; start_ratio: 0 to 1; growth: at least 1");
}

TEST_CASE("the tables of layers and runs", "[unit]") {
  const std::string epsilon = "a finite number above 0 in fp32", from_0 = "a finite number from 0";
  const std::string dropout = "0 to below 1 in fp32", one = "at least 1";
  CHECK(ranges(nn::BatchNormOptions{}) == "epsilon: " + epsilon + "; momentum: 0 to 1");
  CHECK(ranges(nn::RecurrentOptions{}) == "layers: " + one + "; dropout: " + dropout);
  CHECK(ranges(nn::LinearOptions{.standard_deviation = 1}) == "standard_deviation: " + from_0);
  CHECK(ranges(nn::TransformerOptions{}) ==
        "width: " + one + "; heads: " + one + "; dropout: " + dropout +
            "; attention_dropout: " + dropout + "; epsilon: " + epsilon +
            "; standard_deviation: " + from_0 + "; rotary_base: " + from_0);
  CHECK(ranges(nn::Conv2dOptions{}) ==
        "setting.stride_height: " + one + "; setting.stride_width: " + one +
            "; setting.dilation_height: " + one + "; setting.dilation_width: " + one +
            "; setting.groups: " + one);
  CHECK(ranges(nn::SamplerOptions{}) == "set: " + one + "; refresh_every: " + one +
                                            "; index.tables: " + one + "; index.codes: 0 to 5");
  CHECK(ranges(nn::ClassSearchOptions{}) ==
        "index.tables: " + one + "; index.codes: 0 to 5; candidates: " + one);
  CHECK(ranges(train::TrainerOptions{.learning_rate = 1, .weight_decay = 0}) ==
        "epochs: 0 to 16777216; batch_size: " + one + "; accumulate: " + one +
            "; learning_rate: " + from_0 + "; weight_decay: " + from_0 +
            "; clip: a number from 0; price_per_hour: " + from_0 +
            "; stop_patience: a number from 0; pipeline.partitions: " + one +
            "; pipeline.microbatches: " + one + "; pipeline.network: " + from_0);
  CHECK(ranges(train::AverageOptions{}) == "decay: above 0, below 1; every: " + one);
  CHECK(ranges(train::PipelineOptions{}) ==
        "partitions: " + one + "; microbatches: " + one + "; network: " + from_0);
}

TEST_CASE("optimizers refuse numbers outside of their ranges", "[unit]") {
  check_optimizer<optim::AdamW, optim::AdamWOptions>("AdamW");
  check_optimizer<optim::Adam, optim::AdamWOptions>("Adam");
  check_optimizer<optim::Lamb, optim::LambOptions>("Lamb");
  check_optimizer<optim::LazyAdamW, optim::LazyAdamWOptions>("LazyAdamW");
  check_optimizer<optim::Sgd, optim::SgdOptions>("Sgd");
  check_optimizer<optim::RmsProp, optim::RmsPropOptions>("RmsProp");
  check_optimizer<optim::Adagrad, optim::AdagradOptions>("Adagrad");
  check_optimizer<optim::Adafactor, optim::AdafactorOptions>("Adafactor");
  check_optimizer<optim::Adadelta, optim::AdadeltaOptions>("Adadelta");
  check_optimizer<optim::RAdam, optim::RAdamOptions>("RAdam");
  check_optimizer<optim::RowAdagrad, optim::RowAdagradOptions>("RowAdagrad");
  check_optimizer<optim::RowAdam, optim::RowAdamOptions>("RowAdam");
  auto context = make_context({.threads = 1});
  OneWeight one(context);
  check("Group", one.groups[0],
        [&](const optim::Group& group) { optim::Sgd(context, std::vector{group}); });
  optim::Sgd sgd(context, one.groups);
  check("Step", optim::Step{}, [&](const optim::Step& step) { sgd.step(step); });
  check("Schedule", optim::Schedule{.rate = 1},
        [](const optim::Schedule& schedule) { schedule(0); });
  check("LossScaler", optim::LossScalerOptions{},
        [](const optim::LossScalerOptions& options) { optim::LossScaler scaler(options); });
}

TEST_CASE("the smallest epsilon that is accepted divides no zero by zero", "[unit]") {
  constexpr double least = 0x1p-149;
  CHECK(after_zero_gradients<optim::AdamW>(optim::AdamWOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::Adam>(optim::AdamWOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::Lamb>(optim::LambOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::LazyAdamW>(optim::LazyAdamWOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::RmsProp>(
            optim::RmsPropOptions{.epsilon = least, .momentum = 0.5f}) == 1);
  CHECK(after_zero_gradients<optim::Adagrad>(optim::AdagradOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::Adadelta>(optim::AdadeltaOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::RAdam>(optim::RAdamOptions{.epsilon = least}) == 1);
  CHECK(after_zero_gradients<optim::Adafactor>(optim::AdafactorOptions{.floor = least}) == 1);
  CHECK(after_zero_gradients<optim::RowAdagrad>(optim::RowAdagradOptions{.epsilon = 0x1p-100}) ==
        1);
  CHECK(after_zero_gradients<optim::RowAdam>(optim::RowAdamOptions{.epsilon = least}) == 1);
}

TEST_CASE("a loss scale and its inverse stay finite", "[unit]") {
  constexpr float least = 0x1p-126f, most = 0x1p126f;
  optim::LossScaler scaler(
      {.initial = 1, .smallest = least, .largest = most, .growth_interval = 1});
  for (int i = 0; i < 300; ++i) scaler.update(true);
  CHECK(scaler.scale() == most);
  CHECK(scaler.inverse() == least);
  for (int i = 0; i < 600; ++i) scaler.update(false);
  CHECK(scaler.scale() == least);
  CHECK(scaler.inverse() == most);
  CHECK(id_of([] { optim::LossScaler({.initial = 1, .smallest = 4, .largest = 2}); }) ==
        "operator.value");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0f, -1.0f, std::nanf(""), infinity, least / 2, 2 * most})
    CHECK(id_of([&] { scaler.restore(scale, 0); }) == "operator.value");
  CHECK(scaler.scale() == least);
  scaler.restore(8, std::uint64_t{1} << 40);  // a count beyond 32 bits is one above the interval
  CHECK(scaler.good_steps() == std::uint64_t{1} << 40);
  scaler.update(true);
  CHECK(scaler.scale() == 16);
}

TEST_CASE("a clipping limit is no NaN and not below 0", "[unit]") {
  CHECK(id_of([] { optim::clipping_factor(1, std::nan("")); }) == "operator.value");
  CHECK(id_of([] { optim::clipping_factor(1, -1); }) == "operator.value");
  CHECK(optim::clipping_factor(3, std::numeric_limits<double>::infinity()) == 1);
  CHECK(optim::clipping_factor(3, 0) == 0);
}

TEST_CASE("layers refuse numbers outside of their ranges", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const nn::Scope scope{context, 1};
  check("BatchNorm", nn::BatchNormOptions{},
        [&](const nn::BatchNormOptions& options) { nn::BatchNorm1d(scope, 2, options); });
  check("Gru", nn::RecurrentOptions{.layers = 2},
        [&](const nn::RecurrentOptions& options) { nn::Gru(scope, 2, 2, options); });
  check("Linear", nn::LinearOptions{.standard_deviation = 1},
        [&](const nn::LinearOptions& options) { nn::Linear(scope, 2, 2, options); });
  check("Conv1d", nn::Conv1dOptions{},
        [&](const nn::Conv1dOptions& options) { nn::Conv1d(scope, 1, 1, 3, options); });
  check("Conv2d", nn::Conv2dOptions{},
        [&](const nn::Conv2dOptions& options) { nn::Conv2d(scope, 1, 1, 3, options); });
  check("ConvTranspose2d", nn::ConvTranspose2dOptions{},
        [&](const nn::ConvTranspose2dOptions& options) {
          nn::ConvTranspose2d(scope, 1, 1, 3, options);
        });
  check("TransformerEncoder", nn::TransformerOptions{.width = 2, .inner = 2},
        [&](const nn::TransformerOptions& options) { nn::TransformerEncoder(scope, options); });
  check("ClassIndex", nn::ClassIndexOptions{},
        [&](const nn::ClassIndexOptions& options) { nn::ClassIndex(context, 100, 8, options); });
  check(
      "ClassSampler", nn::SamplerOptions{.kind = nn::Sampler::lsh_shared, .set = 8},
      [&](const nn::SamplerOptions& options) { nn::ClassSampler(context, 100, 8, options); },
      "train.options");
  const Tensor weight = Tensor::zeros(context, Shape{100, 8});
  const Tensor bias = Tensor::zeros(context, Shape{100});
  check("ClassSearch", nn::ClassSearchOptions{}, [&](const nn::ClassSearchOptions& options) {
    nn::ClassSearch(context, weight, bias, options);
  });
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-1.0f, std::nanf(""), infinity, -infinity}) {
    INFO(bad);
    CHECK(id_of([&] { nn::LayerNorm(scope, 2, bad); }) == "operator.value");
    CHECK(id_of([&] { nn::RmsNorm(scope, 2, bad); }) == "operator.value");
    CHECK(id_of([&] { nn::GroupNorm(scope, 1, 2, bad); }) == "operator.value");
    CHECK(id_of([&] { nn::Embedding(scope, 2, 2, bad); }) == "operator.value");
    CHECK(id_of([&] { nn::Dropout(scope, bad); }) == "random.probability");
  }
  CHECK(id_of([&] { nn::Dropout(scope, 1); }) == "random.probability");
  for (const float epsilon : {0.0f, static_cast<float>(1e-60)}) {
    CHECK(id_of([&] { nn::LayerNorm(scope, 2, epsilon); }) == "operator.value");
    CHECK(id_of([&] { nn::RmsNorm(scope, 2, epsilon); }) == "operator.value");
    CHECK(id_of([&] { nn::GroupNorm(scope, 1, 2, epsilon); }) == "operator.value");
  }
}

TEST_CASE("settings of operators refuse numbers outside of their ranges", "[unit]") {
  check_setting("dropout", DropoutSetting{});
  check_setting("linear", LinearSetting{});
  check_setting("attention", AttentionSetting{});
  check_setting("norm", NormSetting{});
  check_setting("cross_entropy", CrossEntropySetting{});
  check_setting("element_loss", ElementLossSetting{});
  check_setting("convolution", ConvolutionSetting{});
  check_setting("max_pool", MaxPoolSetting{});
  check_setting("average_pool", AveragePoolSetting{});
  check_setting("convolution_transpose", TransposedSetting{});
  check_setting("batch_norm", BatchNormSetting{});
  check_setting("clamp", ClampSetting{});
  check_setting("power", PowerSetting{});
  check_setting("leaky_relu", LeakySetting{});
  check_setting("cosine_loss", CosineLossSetting{});
  check_setting("rotary", RotarySetting{.scaling = {.kind = RotaryScaling::Kind::llama3}});
  check_setting("head_loss backward", HeadGradientSetting{});
  check_setting("embedding", EmbeddingSetting{});
  check_setting("sgd_step", SgdSetting{});
  check_setting("adam_step", AdamSetting{});
  check_setting("lamb_step", LambSetting{});
  check_setting("rms_step", RmsSetting{});
  check_setting("adafactor_step", AdafactorSetting{});
  check_setting("row steps", RowStepSetting{});

  // Where a call enters, before anything ran.
  auto context = make_context({.threads = 1});
  const Var x = Var::parameter(context, Tensor::full(context, Shape{2, 2}, 1.0f));
  const Var ones = Var::parameter(context, Tensor::full(context, Shape{2}, 1.0f));
  const float nan = std::nanf("");
  Tape tape(context);
  CHECK(message_of([&] { layer_norm(tape, x, ones, ones, 0); }) ==
        "norm: epsilon is 0, wanted a finite number above 0 in fp32 [operator.value]");
  CHECK(message_of([&] { linear(tape, x, x, ones, {.dropout = {.probability = 1}}); }) ==
        "linear: dropout.probability is 1, wanted 0 to below 1 in fp32 [random.probability]");
  for (const float p : {nan, -0.5f, 1.0f})
    CHECK(id_of([&] { dropout(tape, x, p, 0); }) == "random.probability");
  CHECK(id_of([&] { clamp(tape, x, nan, 1); }) == "operator.value");
  // A struct of a host's own, without ranges, may hold any number.
  struct Own {
    float number = std::nanf("");
  };
  CHECK(id_of([] { Attributes(Own{}).check("own"); }) == "no error");
}

TEST_CASE("trainers refuse numbers outside of their ranges", "[unit]") {
  auto context = make_context({.threads = 1});
  soma_test::SmallModel small(context);
  check(
      "Trainer",
      train::TrainerOptions{
          .learning_rate = 1, .weight_decay = 0, .average = train::AverageOptions{}},
      [&](const train::TrainerOptions& options) {
        train::Trainer trainer(context, small.task, options);
      },
      "train.options");
  std::ostringstream stream;
  check(
      "ConsoleProgress", train::ConsoleProgressOptions{},
      [&](const train::ConsoleProgressOptions& options) {
        train::ConsoleProgress progress(stream, options);
      },
      "train.options");
  check(
      "RunCurves", train::RunCurvesOptions{},
      [](const train::RunCurvesOptions& options) { train::RunCurves curves(options); },
      "train.options");
}

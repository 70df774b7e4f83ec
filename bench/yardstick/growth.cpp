// One case of growth.py: training steps of a BERT classifier of any size, as `usage` says.

#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/nn.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/soma.hpp>
#include <soma/system/process.hpp>
#include <soma/train/trainer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr const char* usage =
    R"(usage: soma_growth BATCH LENGTH WIDTH LAYERS CLASSES THREADS SECONDS

Sequences of LENGTH tokens of 1,000 words, heads 64 wide, fp32, AdamW. Steps without a profiler for
about SECONDS (two at least), then two steps with one. A line of JSON: seconds and seconds of CPU of
a step; peak bytes of the context and of the process; the multiply-adds of the operators' products,
counted twice, and the bytes that operators read and write; the operators' shares of their time.
)";

struct Case {
  std::size_t batch, length, width, layers, classes;
  int threads;
  double seconds;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

class Measure final : public soma::train::Callback {
 public:
  Measure(soma::Context& context, double seconds) : context_(context), seconds_(seconds) {}
  void on_step(const soma::train::StepInfo& info) override {
    if (profiler_) {
      if (info.step == last_ + profiled) finish();
      return;
    }
    if (info.step > 1) {  // the first one makes the memory
      steps_.push_back(info.seconds);
      sum_ += info.seconds;
    } else {
      cpu_ = cpu_seconds();
    }
    if (sum_ < seconds_ || steps_.size() < 2) return;
    cpu_ = (cpu_seconds() - cpu_) / static_cast<double>(steps_.size());
    last_ = info.step;
    profiler_.emplace(context_, 0);
  }

 private:
  static constexpr std::uint64_t profiled = 2;

  [[noreturn]] void finish() {
    std::sort(steps_.begin(), steps_.end());
    double operations = 0, bytes = 0, seconds = 0;
    const std::vector<soma::ProfileRow> rows = profiler_->rows();
    for (const soma::ProfileRow& row : rows) {
      operations += row.operations / profiled;
      bytes += row.bytes / profiled;
      seconds += row.seconds;
    }
    std::printf(
        "{\"seconds\": %.6g, \"cpu\": %.6g, \"heap\": %zu, \"rss\": %llu, \"operations\": %.6g, "
        "\"bytes\": %.6g, \"operators\": {",
        steps_[steps_.size() / 2], cpu_, context_.memory_use().peak_bytes,
        static_cast<unsigned long long>(soma::peak_resident_bytes()), operations, bytes);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::printf("%s\"%.*s\": %.4f", i == 0 ? "" : ", ", static_cast<int>(rows[i].name.size()),
                  rows[i].name.data(), rows[i].seconds / seconds);
    std::printf("}}\n");
    std::fflush(stdout);
    std::exit(0);
  }

  soma::Context& context_;
  double seconds_, sum_ = 0, cpu_ = 0;
  std::uint64_t last_ = 0;
  std::vector<double> steps_;
  std::optional<soma::Profiler> profiler_;
};

int measure(const Case& test) {
  constexpr std::size_t words = 1000, head = 64;
  auto context = soma::make_context({.threads = test.threads});
  const soma::models::BertClassifier model({context},
                                           {.vocabulary = words,
                                            .width = test.width,
                                            .layers = test.layers,
                                            .heads = (std::max)(test.width / head, std::size_t{1}),
                                            .inner = 4 * test.width,
                                            .positions = (std::max)(test.length, std::size_t{512})},
                                           test.classes);
  soma::nn::ClassificationTask task(model, test.classes);
  soma::data::TokenLists lists;
  for (std::size_t i = 0; i < test.batch; ++i) {
    std::vector<std::int32_t> ids(test.length);
    for (std::size_t j = 0; j < ids.size(); ++j)
      ids[j] = static_cast<std::int32_t>((i * 7919 + j * 104729) % words);
    lists.add(ids, static_cast<std::int64_t>(i * 7919 % test.classes));
  }
  soma::data::TokenSource source(context, lists, {.batch_sequences = test.batch, .shuffle = false});
  soma::train::Trainer trainer(context, task,
                               {.epochs = 1000000,
                                .learning_rate = 2e-5,
                                .schedule = {.decay = soma::optim::Decay::constant},
                                .precision = soma::Precision::named("fp32")});
  Measure measure(context, test.seconds);
  trainer.add(measure);
  trainer.fit(source);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view first = count > 1 ? arguments[1] : "";
  if (first == "--help" || first == "-h") {
    std::cout << usage;
    return 0;
  }
  std::vector<std::size_t> numbers;
  for (int i = 1; i < count && i < 7; ++i) {
    char* end = nullptr;
    numbers.push_back(std::strtoul(arguments[i], &end, 10));
    if (*end != '\0' || numbers.back() == 0) numbers.clear();
  }
  if (count != 8 || numbers.size() != 6) {
    std::cerr << usage;
    return 2;
  }
  return measure({.batch = numbers[0],
                  .length = numbers[1],
                  .width = numbers[2],
                  .layers = numbers[3],
                  .classes = numbers[4],
                  .threads = static_cast<int>(numbers[5]),
                  .seconds = std::strtod(arguments[7], nullptr)});
}

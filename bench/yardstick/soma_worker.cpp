// One case of the comparison with PyTorch (compare.py), measured again and again, as `usage` says.

#include <soma/data/document_source.hpp>
#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/models/decoder/decoder.hpp>
#include <soma/nn.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/soma.hpp>
#include <soma/system/process.hpp>
#include <soma/train/trainer.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr const char* usage =
    R"(usage: soma_yardstick step MODEL[+recompute] PRECISION BATCH MAX_LENGTH THREADS LENGTHS|full
       soma_yardstick decoder gpt2|smollm2 PRECISION BATCH LENGTH THREADS
       soma_yardstick linear M N K DTYPE THREADS forward|dx|dw
       soma_yardstick infer MODEL TOKENS THREADS
       soma_yardstick gru|lstm BATCH WIDTH THREADS LENGTHS
       soma_yardstick batch_norm N CHANNELS SIZE THREADS
       soma_yardstick profile and the words of a step

MODEL is base, minilm or tiny, LENGTHS a file with a number of tokens a line. Each line on standard
input makes one measurement, answered by a line of JSON: of a step, a decoder's step and a recurrent
layer, of as many steps as the line says; of the others, of 0.2 seconds. profile prints where the
time of ten steps goes, and ends.
)";

using soma::models::BertConfig;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

BertConfig config_of(std::string_view model) {
  constexpr std::string_view recompute = "+recompute";
  const bool again = model.ends_with(recompute);
  if (again) model.remove_suffix(recompute.size());
  BertConfig config = model == "base"     ? BertConfig::base()
                      : model == "minilm" ? BertConfig::minilm()
                      : model == "tiny"   ? BertConfig::tiny()
                                          : BertConfig{.vocabulary = 0};
  if (config.vocabulary == 0) {
    std::cerr << "model " << model << ": base, minilm or tiny\n";
    std::exit(2);
  }
  config.recompute = again;
  return config;
}

// Multiply-adds in registers, all threads at once: the peak at this moment, in GFLOP/s. With bf16
// instructions if products of bf16 use them; with fp32 multiply-adds for fp32, whatever its
// products use.
double peak(soma::Context& context, bool bf16) {
  const int threads = context.executor().width;
  double (*volatile rate)(std::uint64_t) noexcept =
      context.rate(bf16 ? context.bf16().products : soma::Bf16Products::widened);
  std::vector<double> done(static_cast<std::size_t>(threads));
  const double start = now();
  soma::parallel(context, threads,
                 [&](int task) { done[static_cast<std::size_t>(task)] = rate(2000000); });
  const double elapsed = now() - start;
  double total = 0;
  for (const double operations : done) total += operations;
  return total / elapsed * 1e-9;
}

void answer(soma::Context& context, double seconds, double tokens, double flops, bool bf16) {
  std::printf(
      "{\"seconds\": %.6f, \"tokens\": %.0f, \"gflops\": %.2f, \"peak\": %.1f, "
      "\"rss\": %llu}\n",
      seconds, tokens, flops / seconds * 1e-9, peak(context, bf16),
      static_cast<unsigned long long>(soma::peak_resident_bytes()));
  std::fflush(stdout);
}

// For each line: report(seconds that one work() takes). The program ends with the input.
template <class Work, class Report>
[[noreturn]] void repeat(const Work& work, const Report& report) {
  work();
  for (std::string line; std::getline(std::cin, line);) {
    const double start = now();
    int rounds = 0;
    do {
      work();
      ++rounds;
    } while (now() - start < 0.2);
    report((now() - start) / rounds);
  }
  std::exit(0);
}

// ---- training steps

struct StepCase {
  BertConfig config;
  std::size_t batch, max_length;
  bool bf16;                         // operands of products
  std::vector<std::size_t> lengths;  // lengths of the sequences in turn, then from the first again

  // Whole batches, at least one.
  std::size_t sequences() const {
    return (std::max)(lengths.size() / batch, std::size_t{1}) * batch;
  }
};

std::vector<std::size_t> read_lengths(const std::string& source, std::size_t max_length) {
  if (source == "full") return {max_length};
  std::ifstream file(source);
  std::vector<std::size_t> lengths;
  for (std::size_t length; file >> length;) lengths.push_back((std::min)(length, max_length));
  if (lengths.empty()) {
    std::cerr << source << ": a file with a number of tokens a line\n";
    std::exit(2);
  }
  return lengths;
}

double useful_flops(soma::Context& context, const StepCase& test, std::uint64_t step) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < test.batch; ++i) {
    const std::size_t sequence = (step - 1) * test.batch + i;
    lengths.push_back(test.lengths[sequence % test.sequences() % test.lengths.size()]);
  }
  return soma::models::training_flops(test.config, soma::Sequences::from_lengths(context, lengths));
}

// Measures as many steps as a line asks for, inside a run of the trainer.
class Measure final : public soma::train::Callback {
 public:
  // `flops`: the useful operations of a step, of its number. `bf16`: of the products' operands.
  Measure(soma::Context& context, bool bf16, std::function<double(std::uint64_t)> flops)
      : context_(context), bf16_(bf16), flops_of_(std::move(flops)) {}
  void on_step(const soma::train::StepInfo& info) override {
    if (info.step > 1) {  // the first one makes the memory
      seconds_ += info.seconds;
      tokens_ += static_cast<double>(info.tokens);
      flops_ += flops_of_(info.step);
      ++steps_;
    }
    if (info.step > 1 && steps_ < wanted_) return;
    if (steps_ != 0) answer(context_, seconds_, tokens_, flops_, bf16_);
    std::string line;
    if (!std::getline(std::cin, line)) std::exit(0);
    wanted_ = static_cast<std::size_t>(std::atoi(line.c_str()));
    seconds_ = tokens_ = flops_ = 0;
    steps_ = 0;
  }

 private:
  soma::Context& context_;
  bool bf16_;
  std::function<double(std::uint64_t)> flops_of_;
  double seconds_ = 0, tokens_ = 0, flops_ = 0;
  std::size_t steps_ = 0, wanted_ = 0;
};

// Prints the operators of ten steps, and ends.
class PrintProfile final : public soma::train::Callback {
 public:
  explicit PrintProfile(soma::Context& context) : context_(context) {}
  void on_step(const soma::train::StepInfo& info) override {
    if (info.step == 3) profiler_.emplace(context_);
    if (info.step != 13) return;
    std::cout << profiler_->table() << std::flush;
    std::exit(0);
  }

 private:
  soma::Context& context_;
  std::optional<soma::Profiler> profiler_;
};

int step(char** arguments, bool profile) {
  const StepCase test{config_of(arguments[0]), std::strtoul(arguments[2], nullptr, 10),
                      std::strtoul(arguments[3], nullptr, 10),
                      std::string_view(arguments[1]) != "fp32",
                      read_lengths(arguments[5], std::strtoul(arguments[3], nullptr, 10))};
  auto context = soma::make_context({.threads = std::atoi(arguments[4])});
  const soma::models::BertClassifier model({context}, test.config, 2);
  soma::nn::ClassificationTask task(model, 2);
  soma::data::TokenLists lists;
  for (std::size_t i = 0; i < test.sequences(); ++i) {
    std::vector<std::int32_t> ids(test.lengths[i % test.lengths.size()]);
    for (std::size_t j = 0; j < ids.size(); ++j)
      ids[j] = static_cast<std::int32_t>(1000 + (i * 7919 + j * 104729) % 29000);
    lists.add(ids, static_cast<std::int64_t>(i % 2));
  }
  soma::data::TokenSource source(context, lists, {.batch_sequences = test.batch, .shuffle = false});
  soma::train::Trainer trainer(context, task,
                               {.epochs = 1000000,
                                .learning_rate = 2e-5,
                                .schedule = {.decay = soma::optim::Decay::constant},
                                .precision = soma::Precision::named(arguments[1])});
  Measure measure(context, test.bf16,
                  [&](std::uint64_t number) { return useful_flops(context, test, number); });
  PrintProfile print(context);
  if (profile)
    trainer.add(print);
  else
    trainer.add(measure);
  trainer.fit(source);
  return 0;
}

// ---- training steps of decoders

soma::models::DecoderConfig decoder_config(std::string_view model) {
  using soma::models::DecoderConfig;
  using soma::models::DecoderKind;
  if (model == "gpt2") return DecoderConfig::of(DecoderKind::gpt2);
  if (model != "smollm2") {
    std::cerr << "model " << model << ": gpt2 or smollm2\n";
    std::exit(2);
  }
  DecoderConfig config = DecoderConfig::of(DecoderKind::llama);
  config.vocabulary = 49152;
  config.layers = 30;
  config.tied = true;
  config.layer.width = 576;
  config.layer.heads = 9;
  config.layer.key_value_heads = 3;
  config.layer.inner = 1536;
  config.layer.rotary_base = 100000;
  return config;
}

// The next token's loss, without a tokenizer.
class DecoderTask final : public soma::nn::Task {
 public:
  explicit DecoderTask(const soma::models::Decoder& model)
      : model_(model), parameters_(soma::nn::parameters(model)) {}
  const soma::Parameters& parameters() const override { return parameters_; }
  Forward forward(soma::Tape& tape, const soma::data::Batch& batch) override {
    const soma::Var targets =
        tape.constant(batch.at(soma::data::targets_field), batch.inputs.sequences);
    return {
        soma::nn::head_loss_at(model_.head_site, tape, model_(tape, tape.constant(batch.inputs)),
                               model_.head_weight(), targets, soma::nn::loss_of(batch)),
        {}};
  }

 private:
  const soma::models::Decoder& model_;
  soma::Parameters parameters_;
};

int decoder_step(char** arguments) {
  const soma::models::DecoderConfig config = decoder_config(arguments[0]);
  const std::size_t batch = std::strtoul(arguments[2], nullptr, 10),
                    length = std::strtoul(arguments[3], nullptr, 10);
  auto context = soma::make_context({.threads = std::atoi(arguments[4])});
  const soma::models::Decoder model({context}, config);
  DecoderTask task(model);
  soma::data::DocumentLists documents;
  std::vector<std::int32_t> ids(length + 1);
  for (std::size_t i = 0; i < 8 * batch; ++i) {
    for (std::size_t j = 0; j <= length; ++j)
      ids[j] = static_cast<std::int32_t>((i * 7919 + j * 104729) % config.vocabulary);
    documents.add(ids);
  }
  soma::data::DocumentSource source(context, documents, {.length = length},
                                    {.batch_sequences = batch, .shuffle = false});
  const double flops = soma::models::training_flops(
      config, soma::Sequences::from_lengths(context, std::vector<std::size_t>(batch, length)));
  soma::train::Trainer trainer(context, task,
                               {.epochs = 1000000,
                                .learning_rate = 5e-5,
                                .schedule = {.decay = soma::optim::Decay::constant},
                                .precision = soma::Precision::named(arguments[1])});
  Measure measure(context, std::string_view(arguments[1]) != "fp32",
                  [&](std::uint64_t) { return flops; });
  trainer.add(measure);
  trainer.fit(source);
  return 0;
}

// ---- one linear layer

int linear(char** arguments) {
  const std::string_view pass = arguments[5];
  if (pass != "forward" && pass != "dx" && pass != "dw") {
    std::cerr << "pass " << pass << ": forward, dx or dw\n";
    return 2;
  }
  const std::size_t m = std::strtoul(arguments[0], nullptr, 10),
                    n = std::strtoul(arguments[1], nullptr, 10),
                    k = std::strtoul(arguments[2], nullptr, 10);
  const soma::DType dtype = soma::find_dtype(arguments[3]);
  auto context = soma::make_context({.threads = std::atoi(arguments[4])});
  const auto make = [&](std::size_t rows, std::size_t columns, std::uint64_t seed) {
    const auto values = soma::Tensor::empty(context, {rows, columns});
    soma::fill_normal(context, values.mutable_span<float>(), {.seed = seed});
    return soma::run(context, *context.operators().find("cast"), soma::CastSetting{dtype, {}, {}},
                     {values})[0];
  };
  const soma::Tensor x = make(m, k, 1), weight = make(n, k, 2), dy = make(m, n, 3);
  const soma::Operator& layer = context.operators().at("linear");
  const soma::Operator& product = context.operators().at("matmul");
  // 8-bit inputs also give bf16, as between the layers of a model.
  const soma::DType output = dtype == soma::DType::fp32 ? dtype : soma::DType::bf16;
  const auto work = [&] {
    if (pass == "forward")
      soma::run(context, layer, soma::LinearSetting{.output = output}, {x, weight});
    if (pass == "dx")
      soma::run(context, product, soma::MatmulSetting{.output = output}, {dy, weight});
    if (pass == "dw")
      soma::run(context, product,
                soma::MatmulSetting{.transpose_a = true, .over_rows = true, .output = output},
                {dy, x});
  };
  const double operations =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  repeat(work,
         [&](double each) { answer(context, each, 0, operations, dtype != soma::DType::fp32); });
}

// ---- inference of one sentence

int infer(char** arguments) {
  const BertConfig config = config_of(arguments[0]);
  const std::size_t tokens = std::strtoul(arguments[1], nullptr, 10);
  auto context = soma::make_context({.threads = std::atoi(arguments[2])});
  const soma::models::BertClassifier model({context}, config, 2);
  std::vector<std::vector<std::int32_t>> lists(1, std::vector<std::int32_t>(tokens, 2000));
  soma::Tape tape(context, {.record = false, .training = false});
  const auto work = [&] {
    tape.reset(0);
    model(tape, tape.constant(soma::make_ragged<std::int32_t>(context, lists)));
  };
  repeat(work, [&](double each) { answer(context, each, static_cast<double>(tokens), 0, false); });
}

// ---- a recurrent layer, forward and backward

template <class Layer>
int recurrent(char** arguments) {
  const std::size_t batch = std::strtoul(arguments[0], nullptr, 10),
                    width = std::strtoul(arguments[1], nullptr, 10);
  auto context = soma::make_context({.threads = std::atoi(arguments[2])});
  const std::vector<std::size_t> lengths = read_lengths(arguments[3], SIZE_MAX);
  const Layer layer(soma::nn::Scope{context, 1}, width, width);
  const soma::Parameters parameters = soma::nn::parameters(layer);
  soma::Tape tape(context);
  std::size_t at = 0;
  double seconds = 0, tokens = 0;
  const auto one = [&] {
    const std::size_t batches = (std::max)(lengths.size() / batch, std::size_t{1});
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < batch; ++i)
      group.push_back(lengths[(at % batches * batch + i) % lengths.size()]);
    ++at;
    const soma::Sequences sequences = soma::Sequences::from_lengths(context, group);
    const auto x = soma::Tensor::empty(context, {sequences.rows(), width});
    soma::fill_normal(context, x.mutable_span<float>(), {.seed = at});
    const double start = now();
    tape.reset();
    const soma::Var rows = tape.with_sequences(soma::Var::parameter(context, x), sequences);
    tape.backward(soma::sum(tape, layer(tape, rows).rows));
    seconds += now() - start;
    tokens += static_cast<double>(sequences.rows());
    soma::clear_gradients(parameters);
  };
  one();
  for (std::string line; std::getline(std::cin, line);) {
    seconds = tokens = 0;
    for (int left = std::atoi(line.c_str()); left > 0; --left) one();
    // Products of x and of states, and twice as many backward.
    const double gates = static_cast<double>(parameters[0].value().size(0));
    answer(context, seconds, tokens, 12 * tokens * static_cast<double>(width) * gates, false);
  }
  return 0;
}

// ---- batch norm of square images, forward and backward

int batch_norm(char** arguments) {
  const auto number = [&](int i) { return std::strtoul(arguments[i], nullptr, 10); };
  const soma::Shape shape{number(0), number(1), number(2), number(2)};
  auto context = soma::make_context({.threads = std::atoi(arguments[3])});
  const soma::nn::BatchNorm2d norm({context}, shape[1]);
  const soma::Var x =
      soma::Var::parameter(context, soma::nn::normal(context, shape, 1, {.seed = 1}));
  const soma::Tensor dy = soma::nn::normal(context, shape, 1, {.seed = 2});
  soma::Parameters parameters = soma::nn::parameters(norm);
  parameters.push_back({"x", x});
  soma::Tape tape(context);
  const auto work = [&] {
    tape.backward(norm(tape, x), dy);
    soma::clear_gradients(parameters);
  };
  repeat(work, [&](double each) { answer(context, each, 0, 0, false); });
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view kind = count > 1 ? arguments[1] : "";
  if (kind == "--help" || kind == "-h") {
    std::cout << usage;
    return 0;
  }
  if (kind == "step" && count == 8) return step(arguments + 2, false);
  if (kind == "profile" && count == 8) return step(arguments + 2, true);
  if (kind == "decoder" && count == 7) return decoder_step(arguments + 2);
  if (kind == "linear" && count == 8) return linear(arguments + 2);
  if (kind == "gru" && count == 6) return recurrent<soma::nn::Gru>(arguments + 2);
  if (kind == "lstm" && count == 6) return recurrent<soma::nn::Lstm>(arguments + 2);
  if (kind == "infer" && count == 5) return infer(arguments + 2);
  if (kind == "batch_norm" && count == 6) return batch_norm(arguments + 2);
  std::cerr << usage;
  return 2;
}

// The cost of lazy mode on the host (recording, removal, keys): CPU seconds of a training step on
// the model of the accelerator in lazy mode, over the seconds of an eager step. Steps of the two
// modes alternate; `times_eager` is the median of the ratios of neighbours. The models: BERT tiny
// with 8 sequences of 5 to 60 tokens, and two layers of BERT-base with 8 sequences of 128.
//
//   build/release/bin/soma_bench --benchmark_filter=run_modes

#include <soma/models/bert.hpp>
#include <soma/neuroncore.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <vector>

namespace {

// A model of its own on a device of its own.
class Trained {
 public:
  Trained(soma::RunMode mode, const soma::models::BertConfig& config, bool ragged)
      : core_(soma::neuroncore::make_core(context_)),
        device_(soma::neuroncore::make_device(core_, {.mode = mode})),
        model_({context_}, config, 2),
        parameters_(soma::nn::parameters(model_)),
        optimizer_(context_, parameters_),
        tape_(context_) {
    for (std::size_t i = 0; i < 8; ++i) {
      lists_.emplace_back(ragged ? 5 + i * 31 % 56 : 128);
      for (std::size_t j = 0; j < lists_.back().size(); ++j)
        lists_.back()[j] = static_cast<std::int64_t>((i * 7919 + j * 104729) % config.vocabulary);
      labels_.push_back(static_cast<std::int64_t>(i % 2));
    }
    context_.set_device(&device_);
  }
  ~Trained() { context_.set_device(nullptr); }
  Trained(const Trained&) = delete;
  Trained& operator=(const Trained&) = delete;

  // CPU seconds of this thread's process.
  double step() {
    const std::clock_t begin = std::clock();
    tape_.reset(++steps_);
    const soma::Var tokens = tape_.constant(soma::make_ragged<std::int64_t>(context_, lists_));
    const soma::Var labels = tape_.constant(
        soma::Tensor::from<std::int64_t>(context_, labels_, soma::Shape{labels_.size()}));
    const soma::Var loss = soma::cross_entropy(tape_, model_(tape_, tokens), labels);
    tape_.backward(loss);
    optimizer_.step({.rate = 1e-4});
    soma::clear_gradients(parameters_);
    benchmark::DoNotOptimize(loss.value().item<float>());
    device_.mark_step();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }

 private:
  soma::Context context_ = soma::make_context({.threads = 1});
  soma::neuroncore::Core core_;
  soma::NeuronCoreDevice device_;
  soma::models::BertClassifier model_;
  soma::Parameters parameters_;
  soma::optim::AdamW optimizer_;
  soma::Tape tape_;
  std::vector<std::vector<std::int64_t>> lists_;
  std::vector<std::int64_t> labels_;
  std::uint32_t steps_ = 0;
};

void alternate(benchmark::State& state, const soma::models::BertConfig& config, bool ragged) {
  Trained eager(soma::RunMode::eager, config, ragged), lazy(soma::RunMode::lazy, config, ragged);
  eager.step();
  lazy.step();  // compiles
  std::vector<double> ratios;
  for (auto _ : state) {
    const double at_once = eager.step(), together = lazy.step();
    state.SetIterationTime(together);
    ratios.push_back(together / at_once);
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  state.counters["times_eager"] = *middle;
}

void tiny(benchmark::State& state) { alternate(state, soma::models::BertConfig::tiny(), true); }
void base(benchmark::State& state) {
  soma::models::BertConfig config = soma::models::BertConfig::base();
  config.layers = 2;
  alternate(state, config, false);
}

BENCHMARK(tiny)->Name("run_modes/bert_tiny_step")->UseManualTime()->Iterations(15);
BENCHMARK(base)->Name("run_modes/bert_base_two_layers_step")->UseManualTime()->Iterations(5);

}  // namespace

// Twenty steps of fine-tuning a real pretrained BERT beside the same steps in float64: see
// prepare_minilm.sh for the inputs. Prints the largest deviations and the bars; exit code 1 where a
// bar is missed, or where another number of threads or another target gives other weights.
//
// Usage: minilm WORK ORACLE.json

#include <soma/io.hpp>
#include <soma/soma.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

using namespace soma;

namespace {

struct Trajectory {
  std::vector<double> loss, norm;
  std::vector<std::vector<double>> probe, logits;
  std::uint64_t hash = 0;
};

Trajectory train_model(Context& context, const std::string& work, std::size_t steps) {
  models::BertConfig config = models::BertConfig::minilm();
  config.dropout = config.attention_dropout = 0;
  const models::BertClassifier model({context}, config, 2);
  const Parameters parameters = nn::parameters(model);
  nn::load(parameters, load_safetensors(context, work + "/model/model.safetensors").tensors);
  const Tensor ids = load_npy(context, work + "/ids.npy");
  const Tensor offsets = load_npy(context, work + "/offsets.npy");
  const Tensor labels = load_npy(context, work + "/labels.npy");

  const StateDict state = nn::state_dict(parameters);
  const auto probe = [&](const char* name, std::size_t row, std::size_t column) {
    const Tensor& tensor = state.at(name);
    return static_cast<double>(
        tensor.data<float>()[row * (tensor.rank() == 1 ? 0 : tensor.size(1)) + column]);
  };
  optim::AdamW optimizer(context, parameters, 0.01f);
  Trajectory result;
  Tape tape(context);
  constexpr std::size_t batch = 16;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto* borders = offsets.data<std::int64_t>() + step * batch;
    std::vector<std::size_t> lengths;
    for (std::size_t i = 0; i < batch; ++i)
      lengths.push_back(static_cast<std::size_t>(borders[i + 1] - borders[i]));
    const Var tokens =
        tape.constant(ids.slice(0, static_cast<std::size_t>(borders[0]),
                                static_cast<std::size_t>(borders[batch])),
                      Sequences::from_lengths(context, lengths, {.first_ordinal = step * batch}));
    const Var logits = model(tape, tokens);
    const Var loss = cross_entropy(
        tape, logits, tape.constant(labels.slice(0, step * batch, (step + 1) * batch)));
    if (step == 0)
      for (std::size_t i = 0; i < batch; ++i)
        result.logits.push_back({static_cast<double>(logits.value().data<float>()[2 * i]),
                                 static_cast<double>(logits.value().data<float>()[2 * i + 1])});
    tape.backward(loss);
    const double norm = optim::gradient_norm(context, parameters);
    optimizer.step({.rate = 5e-5, .gradient_factor = optim::clipping_factor(norm, 1.0)});
    for (const Parameter& parameter : parameters) Var(parameter.var).clear_gradient();
    result.loss.push_back(static_cast<double>(loss.value().item<float>()));
    result.norm.push_back(norm);
    result.probe.push_back({probe("classifier.weight", 0, 0),
                            probe("bert.encoder.layer.0.attention.self.query.weight", 1, 2),
                            probe("bert.embeddings.LayerNorm.weight", 0, 3)});
  }
  result.hash = state_hash(state);
  return result;
}

bool within(const char* what, double deviation, double bar) {
  std::printf("%-28s %.2e   bar %.0e%s\n", what, deviation, bar,
              deviation <= bar ? "" : "   MISSED");
  return deviation <= bar;
}

bool compare(const Trajectory& run, const nlohmann::json& oracle) {
  double loss = 0, norm = 0, probe = 0, logits = 0;
  const auto far = [](double& worst, double given, double wanted, double scale = 1) {
    worst = (std::max)(worst, std::fabs(given - wanted) / scale);
  };
  for (std::size_t i = 0; i < run.logits.size(); ++i)
    for (std::size_t j = 0; j < 2; ++j) far(logits, run.logits[i][j], oracle["logits0"][i][j]);
  for (std::size_t step = 0; step < run.loss.size(); ++step) {
    far(loss, run.loss[step], oracle["loss"][step]);
    far(norm, run.norm[step], oracle["grad_norm"][step], oracle["grad_norm"][step]);
    for (std::size_t i = 0; i < 3; ++i) far(probe, run.probe[step][i], oracle["probe"][step][i]);
  }
  bool good = within("first logits", logits, 1e-6);
  good &= within("loss", loss, 1e-6);
  good &= within("gradient norm, relative", norm, 3e-5);
  return within("probes", probe, 3e-6) && good;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: minilm WORK ORACLE.json\n");
    return 2;
  }
  const std::string work = arguments[1];
  std::ifstream file(arguments[2]);
  const nlohmann::json oracle = nlohmann::json::parse(file);
  const std::size_t steps = oracle["loss"].size();
  auto context = make_context();
  const Trajectory run = train_model(context, work, steps);
  bool good = compare(run, oracle);
  std::printf("weights after %zu steps         %016" PRIx64 "\n", steps, run.hash);
  for (const int threads : {1, 2, 3, 7}) {
    auto other = make_context({.threads = threads});
    const std::uint64_t hash = train_model(other, work, steps).hash;
    std::printf("%d threads                    %016" PRIx64 "%s\n", threads, hash,
                hash == run.hash ? "" : "   DIFFERENT");
    good &= hash == run.hash;
  }
  std::uint64_t portable = 0;
  for (const Target& target : context.targets().targets) {
    if (!target.fused_multiply_add) continue;
    auto other = make_context({.math = Math::portable, .target = target.name});
    const std::uint64_t hash = train_model(other, work, steps).hash;
    if (portable == 0) portable = hash;
    std::printf("portable, %-18s %016" PRIx64 "%s\n", std::string(target.name).c_str(), hash,
                hash == portable ? "" : "   DIFFERENT");
    good &= hash == portable;
  }
  return good ? 0 : 1;
}

// The steps of training a BERT beside the same steps in float64 (oracle.py). Prints the largest
// deviations and their limits. Exit code 1: a limit is exceeded, the tokens are not those of the
// oracle, or another number of threads or another target gives other weights.
//
//   minilm_parity MODEL ROWS ORACLE.json
//
// MODEL is a folder with config.json, vocab.txt and model.safetensors. ROWS has a row of
// text<TAB>label on each line; a step takes the next 16.

#include <soma/io.hpp>
#include <soma/models.hpp>
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

constexpr std::size_t batch = 16, longest = 128;

struct Inputs {
  std::string model;  // the folder
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::int32_t> labels;
};

struct Trajectory {
  std::vector<double> loss, norm;
  std::vector<std::vector<double>> probe, logits;
  std::uint64_t hash = 0;
};

// The first `count` rows of the file as tokens.
Inputs read_inputs(const std::string& model, const std::string& rows, std::size_t count) {
  const text::Tokenizer tokenizer = text::load_tokenizer(model);
  Inputs inputs{.model = model, .ids = {}, .labels = {}};
  std::ifstream file(rows);
  for (std::string line; inputs.ids.size() < count && std::getline(file, line);) {
    const std::size_t tab = line.rfind('\t');
    if (tab == std::string::npos) break;
    inputs.labels.push_back(std::stoi(line.substr(tab + 1)));
    line.resize(tab);
    inputs.ids.push_back(tokenizer.encode(line, {.max_length = longest}).ids);
  }
  return inputs;
}

Trajectory train_model(Context& context, const Inputs& inputs, std::size_t steps) {
  models::BertConfig config = models::load_bert_config(inputs.model).config;
  config.dropout = config.attention_dropout = 0;
  const models::BertClassifier model({context}, config, 2);
  const Parameters parameters = nn::parameters(model);
  models::load_bert(context, model, inputs.model);

  const StateDict state = nn::state_dict(parameters);
  const auto probe = [&](const char* name, std::size_t row, std::size_t column) {
    const Tensor& tensor = state.at(name);
    return static_cast<double>(
        tensor.data<float>()[row * (tensor.rank() == 1 ? 0 : tensor.size(1)) + column]);
  };
  optim::AdamW optimizer(context, parameters, 0.01f);
  Trajectory result;
  Tape tape(context);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto at = static_cast<std::ptrdiff_t>(step * batch);
    const auto end = at + static_cast<std::ptrdiff_t>(batch);
    const std::vector<std::vector<std::int32_t>> rows(inputs.ids.begin() + at,
                                                      inputs.ids.begin() + end);
    const std::vector<std::int32_t> labels(inputs.labels.begin() + at, inputs.labels.begin() + end);
    const Var logits = model(tape, tape.constant(make_ragged<std::int32_t>(context, rows)));
    const Var loss = cross_entropy(
        tape, logits, tape.constant(Tensor::from<std::int32_t>(context, labels, Shape{batch})));
    if (step == 0)
      for (std::size_t i = 0; i < batch; ++i)
        result.logits.push_back({static_cast<double>(logits.value().data<float>()[2 * i]),
                                 static_cast<double>(logits.value().data<float>()[2 * i + 1])});
    tape.backward(loss);
    const double norm = optim::gradient_norm(context, parameters);
    optimizer.step({.rate = 5e-5, .gradient_factor = optim::clipping_factor(norm, 1.0)});
    clear_gradients(parameters);
    result.loss.push_back(static_cast<double>(loss.value().item<float>()));
    result.norm.push_back(norm);
    result.probe.push_back({probe("classifier.weight", 0, 0),
                            probe("bert.encoder.layer.0.attention.self.query.weight", 1, 2),
                            probe("bert.embeddings.LayerNorm.weight", 0, 3)});
  }
  result.hash = state_hash(state);
  return result;
}

bool within(const char* what, double deviation, double limit) {
  std::printf("%-28s %.2e   at most %.1e%s\n", what, deviation, limit,
              deviation <= limit ? "" : "   EXCEEDED");
  return deviation <= limit;
}

// The limits are ten times what PyTorch's own fp32 differs from its float64 by. Files that do not
// say it are of the pretrained model: 8e-8 in the loss, 2.4e-6 of the norm, 2.3e-7 in a weight.
bool compare(const Trajectory& run, const nlohmann::json& oracle) {
  const nlohmann::json differs = oracle.value("fp32", nlohmann::json::object());
  const auto limit = [&](const char* name, double otherwise) {
    return differs.contains(name) ? 10 * differs[name].get<double>() : otherwise;
  };
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
  bool good = within("first logits", logits, limit("logits0", 1e-6));
  good &= within("loss", loss, limit("loss", 1e-6));
  good &= within("gradient norm, relative", norm, limit("grad_norm_relative", 3e-5));
  return within("probes", probe, limit("probe", 3e-6)) && good;
}

// The oracle keeps the tokens of the first step and the number of all. Files that only have figures
// are taken without.
bool same_tokens(const Inputs& inputs, const nlohmann::json& oracle) {
  if (!oracle.contains("tokens")) return true;
  std::size_t tokens = 0;
  for (const auto& row : inputs.ids) tokens += row.size();
  bool same = tokens == oracle["tokens"].get<std::size_t>();
  for (std::size_t i = 0; i < oracle["ids"].size(); ++i)
    same &= inputs.ids[i] == oracle["ids"][i].get<std::vector<std::int32_t>>();
  std::printf("%-28s %zu%s\n", "tokens", tokens, same ? "" : "   DIFFERENT from the oracle's");
  return same;
}

bool check(char** arguments) {
  const std::string model = arguments[1], rows = arguments[2];
  std::ifstream file(arguments[3]);
  const nlohmann::json oracle = nlohmann::json::parse(file);
  const std::size_t steps = oracle["loss"].size();
  const Inputs inputs = read_inputs(model, rows, steps * batch);
  if (inputs.ids.size() != steps * batch) {
    std::printf("%s: %zu rows, %zu wanted\n", rows.c_str(), inputs.ids.size(), steps * batch);
    return false;
  }
  if (!same_tokens(inputs, oracle)) return false;
  auto context = make_context();
  const Trajectory run = train_model(context, inputs, steps);
  bool good = compare(run, oracle);
  std::printf("weights after %zu steps        %016" PRIx64 "\n", steps, run.hash);
  for (const int threads : {1, 2, 3, 7}) {
    auto other = make_context({.threads = threads});
    const std::uint64_t hash = train_model(other, inputs, steps).hash;
    std::printf("%d threads                    %016" PRIx64 "%s\n", threads, hash,
                hash == run.hash ? "" : "   DIFFERENT");
    good &= hash == run.hash;
  }
  std::uint64_t portable = 0;
  for (const Target& target : context.targets().targets) {
    if (!target.fused_multiply_add) continue;
    auto other = make_context({.math = Math::portable, .target = target.name});
    const std::uint64_t hash = train_model(other, inputs, steps).hash;
    if (portable == 0) portable = hash;
    std::printf("portable, %-18s %016" PRIx64 "%s\n", std::string(target.name).c_str(), hash,
                hash == portable ? "" : "   DIFFERENT");
    good &= hash == portable;
  }
  return good;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: minilm_parity MODEL ROWS ORACLE.json\n");
    return 2;
  }
  try {
    return check(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

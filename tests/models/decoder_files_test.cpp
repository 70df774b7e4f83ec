// Decoders beside transformers: folders of random models with the float64 numbers that
// decoders/make_cases.py has made.

#include <soma/soma.hpp>

#include <soma/autograd/losses.hpp>
#include <soma/decoders.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace soma;
using models::Decoder;
using models::DecoderKind;

const std::string cases_folder = SOMA_TEST_DECODERS;
const char* const cases[] = {"gpt2",         "gpt2_bare",    "llama_k1", "llama_k2", "llama_k4",
                             "llama_linear", "llama_llama3", "mistral",  "qwen2"};

// The numbers of expected.safetensors.
struct Expected {
  Expected(Context& context, const std::string& folder)
      : file(load_safetensors(context, folder + "/expected.safetensors")) {
    std::vector<std::size_t> lengths;
    for (const std::int32_t length : file.at("lengths").span<std::int32_t>())
      lengths.push_back(static_cast<std::size_t>(length));
    batch.inputs.sequences = Sequences::from_lengths(context, lengths, {});
    batch.inputs.rows = clone(context, file.at("ids"));
    batch.fields.push_back({"targets", clone(context, file.at("targets")), true});
  }
  double number(const std::string& name, std::size_t i = 0) const {
    const auto pair = file.at(name).span<float>();
    return static_cast<double>(pair[2 * i]) + static_cast<double>(pair[2 * i + 1]);
  }
  SafetensorsFile file;
  data::Batch batch;
};

// |a - b| / |b| by the Euclidean norm.
double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.elements(); ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

Var loss_of(const Decoder& model, Tape& tape, const data::Batch& batch) {
  const Var hidden = model(tape, tape.constant(batch.inputs));
  return head_loss(tape, hidden, model.head_weight(),
                   tape.constant(batch.at("targets"), batch.inputs.sequences));
}

// The rows of a parameter's gradient, in order.
Tensor gradient_of(Context& context, const Parameter& parameter) {
  const Tensor all = soma_test::dense_gradient(context, parameter.var);
  return parameter.whole() ? all : all.slice(0, parameter.first_row, parameter.last_row);
}

// A folder's model.
struct Loaded {
  Loaded(Context& context, const std::string& folder)
      : file(models::load_decoder_config(folder)),
        model(nn::Scope{context, 7}, file.config),
        loaded(models::load_decoder(context, model, folder)) {}
  models::DecoderConfigFile file;
  Decoder model;
  models::LoadedDecoder loaded;
};

double loss_of_folder(Context& context, const std::string& folder, const data::Batch& batch) {
  const Loaded loaded(context, folder);
  Tape tape(context, {.record = false, .training = false});
  return static_cast<double>(loss_of(loaded.model, tape, batch).value().item<float>());
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("losses, logits and gradients of decoders are those of float64", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string name : cases) {
    INFO(name);
    const std::string folder = cases_folder + "/" + name;
    const Expected expected(context, folder);
    const Loaded loaded(context, folder);
    const Decoder& model = loaded.model;
    Tape tape(context, {});
    const Var loss = loss_of(model, tape, expected.batch);
    // fp32 sums of some 100 products: errors of 1e-7 each, of which few add up.
    CHECK(std::fabs(static_cast<double>(loss.value().item<float>()) / expected.number("loss") - 1) <
          1e-6);
    tape.backward(loss);
    std::map<std::string, Tensor> gradients;
    for (const Parameter& parameter : nn::parameters(model))
      gradients.emplace(parameter.name, gradient_of(context, parameter));
    std::size_t compared = 0;
    for (const auto& [key, wanted] : expected.file.tensors) {
      if (key.rfind("gradient.", 0) != 0) continue;
      const std::string parameter = key.substr(9);
      INFO(parameter);
      REQUIRE(gradients.count(parameter) == 1);
      Tensor own = gradients.at(parameter);
      if (models::detail::is_turned(model.config.kind, parameter))
        own = contiguous(context, own.transpose(0, 1));
      // A vector is sums over all rows, which cancel.
      CHECK(distance(contiguous(context, own), wanted) < (wanted.rank() == 2 ? 2e-6 : 3e-6));
      ++compared;
    }
    CHECK(compared == gradients.size());
    Tape plain(context, {.record = false, .training = false});
    const Tensor logits =
        model.logits(plain, model(plain, plain.constant(expected.batch.inputs))).value();
    const Tensor& wanted = expected.file.at("logits");
    CHECK(distance(contiguous(context, logits.slice(0, 0, wanted.size(0))), wanted) < 2e-6);
  }
}

TEST_CASE("20 steps of AdamW on decoders have the losses of float64", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string name : cases) {
    INFO(name);
    const std::string folder = cases_folder + "/" + name;
    const Expected expected(context, folder);
    const Loaded loaded(context, folder);
    const Parameters parameters = nn::parameters(loaded.model);
    optim::AdamW optimizer(context, parameters, 0.01f);
    for (std::size_t step = 0; step < 20; ++step) {
      Tape tape(context, {});
      const Var loss = loss_of(loaded.model, tape, expected.batch);
      CHECK(std::fabs(static_cast<double>(loss.value().item<float>()) /
                          expected.number("losses", step) -
                      1) < 1e-6);
      clear_gradients(parameters);
      tape.backward(loss);
      optimizer.step({.rate = 1e-3});
    }
  }
}

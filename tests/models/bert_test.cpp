// BERT: names and sizes of checkpoints, errors, and sequences that do not notice each other.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace soma;
using models::BertClassifier;
using models::BertConfig;
using models::BertModel;
using soma_test::bits;
using soma_test::id_of;
using soma_test::message_of;

namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

constexpr BertConfig micro{.vocabulary = 50,
                           .width = 8,
                           .layers = 2,
                           .heads = 2,
                           .inner = 16,
                           .positions = 12,
                           .dropout = 0.2f,
                           .attention_dropout = 0.2f};

std::size_t parameter_count(const Parameters& parameters) {
  std::size_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.value().elements();
  return total;
}

std::size_t size_of_model(const BertConfig& config) {
  auto context = make_context();
  return parameter_count(nn::parameters(BertModel(nn::Scope{context}, config)));
}

Var tokens(Tape& tape, const Lists& lists, const std::vector<std::uint64_t>& ordinals = {}) {
  return tape.constant(make_ragged<std::int64_t>(tape.context(), lists, {.ordinals = ordinals}));
}

}  // namespace

TEST_CASE("parameters have the names of checkpoints", "[unit][bert]") {
  auto context = make_context();
  const BertClassifier model(nn::Scope{context}, BertConfig::tiny(), 2);
  std::vector<std::string> wanted{
      "bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
      "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.weight",
      "bert.embeddings.LayerNorm.bias"};
  for (const char* layer : {"bert.encoder.layer.0.", "bert.encoder.layer.1."})
    for (const char* part : {"attention.self.query", "attention.self.key", "attention.self.value",
                             "attention.output.dense", "attention.output.LayerNorm",
                             "intermediate.dense", "output.dense", "output.LayerNorm"})
      for (const char* kind : {".weight", ".bias"})
        wanted.push_back(std::string(layer) + part + kind);
  for (const char* name : {"bert.pooler.dense", "classifier"})
    for (const char* kind : {".weight", ".bias"}) wanted.push_back(std::string(name) + kind);
  std::vector<std::string> given;
  const Parameters parameters = nn::parameters(model);
  for (const Parameter& parameter : parameters) given.push_back(parameter.name);
  CHECK(given == wanted);

  const StateDict state = nn::state_dict(parameters);
  CHECK(state.at("bert.embeddings.word_embeddings.weight").shape() == Shape{30522, 128});
  CHECK(state.at("bert.embeddings.position_embeddings.weight").shape() == Shape{512, 128});
  CHECK(state.at("bert.embeddings.token_type_embeddings.weight").shape() == Shape{2, 128});
  CHECK(state.at("bert.encoder.layer.1.attention.self.key.weight").shape() == Shape{128, 128});
  CHECK(state.at("bert.encoder.layer.1.intermediate.dense.weight").shape() == Shape{512, 128});
  CHECK(state.at("bert.encoder.layer.1.output.dense.weight").shape() == Shape{128, 512});
  CHECK(state.at("classifier.weight").shape() == Shape{2, 128});
  CHECK(nn::parameters(model.bert).front().name == "embeddings.word_embeddings.weight");
}

TEST_CASE("ready-made sizes have the published numbers of parameters", "[unit][bert]") {
  // The sizes of bert-base-uncased, all-MiniLM-L6-v2, google/bert_uncased_L-4_H-512_A-8 and
  // L-2_H-128_A-2, with pooler and without a head.
  CHECK(size_of_model(BertConfig::base()) == 109482240);
  CHECK(size_of_model(BertConfig::minilm()) == 22713216);
  CHECK(size_of_model(BertConfig::small()) == 28763648);
  CHECK(size_of_model(BertConfig::tiny()) == 4385920);
}

TEST_CASE("what BERT refuses", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const BertModel model(nn::Scope{context}, micro);
  Tape tape(context);
  CHECK(message_of([&] {
          model(tape, tokens(tape, {{1}, std::vector<std::int64_t>(13, 2)}));
        }) ==
        "BertModel: ids is a sequence of 13 tokens, wanted at most 12 [models.sequence_length]");
  model(tape, tokens(tape, {std::vector<std::int64_t>(12, 2)}));
  CHECK(message_of([&] {
          model(tape, tokens(tape, {{1, 2}, {50}}));
        }) ==
        "embedding of layer \"embeddings.word_embeddings\": ids[2] is 50, wanted 0 to 50 - 1 "
        "[operator.value]");
  CHECK(id_of([&] { model(tape, tokens(tape, {{-1}})); }) == "operator.value");
  CHECK(message_of([&] {
          model(tape, tape.constant(soma_test::ints(context, {1, 2})));
        }) ==
        "BertModel: input is [2] int32 without sequences, wanted rows that form sequences "
        "(Tape::constant of a Ragged) [operator.sequences]");
  CHECK(id_of([&] { model(tape, Var()); }) == "operator.inputs");
  // A column of ids would meet its positions as a row.
  const Var column = tape.constant(soma_test::ints(context, {1, 2}).reshape(Shape{2, 1}),
                                   tokens(tape, {{1, 2}}).sequences());
  CHECK(message_of([&] { model(tape, column); }) ==
        "BertModel: ids is [2, 1] int32, wanted rank 1 [tensor.rank]");
  CHECK(message_of([&] {
          model(tape, tokens(tape, {{1, 2}}), tape.constant(soma_test::ints(context, {1})));
        }) == "BertModel: token types is [1] int32, wanted [2] [tensor.shape]");
  const Var gaps = model(tape, tokens(tape, {{1}, {}, {2, 3}}));
  CHECK(gaps.shape() == Shape{3, 8});  // no trouble, until one asks for first tokens
  CHECK(message_of([&] {
          model.first(tape, tokens(tape, {{1}, {}, {2, 3}}));
        }) ==
        "sequence_first: sequence 1 is empty, wanted at least one row in each sequence "
        "[ragged.empty_sequence]");
  CHECK(id_of([&] { model.first(tape, Var()); }) == "operator.inputs");
  BertConfig odd = micro;
  odd.heads = 3;
  CHECK(id_of([&] { BertModel(nn::Scope{context}, odd); }) == "operator.value");
}

TEST_CASE("no sequences give no logits", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const BertClassifier model(nn::Scope{context}, micro, 3);
  Tape tape(context);
  CHECK(model(tape, tokens(tape, {})).shape() == Shape{0, 3});
}

TEST_CASE("a sequence's result does not depend on the others in its batch", "[unit][bert]") {
  auto context = make_context({.threads = 2});
  const BertClassifier model(nn::Scope{context, 7}, micro, 3);
  const Lists lists{{5, 6, 7}, {1, 2, 3, 4, 9, 8, 7, 6, 5, 4, 3, 2}, {49}, {3, 3, 3, 3, 3}};
  const std::vector<std::uint64_t> ordinals{10, 4, 7, 1};
  for (const bool training : {true, false}) {
    const auto logits = [&](const Lists& some, const std::vector<std::uint64_t>& numbers) {
      Tape tape(context, {.training = training, .seed = 1, .step = 5});
      const Var y = model(tape, tokens(tape, some, numbers));
      std::vector<std::vector<std::byte>> rows;
      for (std::size_t i = 0; i < some.size(); ++i)
        rows.push_back(bits(context, y.value().select(0, i)));
      return rows;
    };
    const auto together = logits(lists, ordinals);
    for (std::size_t i = 0; i < lists.size(); ++i)
      CHECK(logits({lists[i]}, {ordinals[i]})[0] == together[i]);
    const auto turned = logits({lists[3], lists[1], lists[0]}, {1, 4, 10});
    CHECK(turned[0] == together[3]);
    CHECK(turned[1] == together[1]);
    CHECK(turned[2] == together[0]);
    // Ordinals name the draws: others drop other elements.
    CHECK((logits({lists[0]}, {11})[0] != together[0]) == training);
  }
}

TEST_CASE("a model that recomputes has the same hidden states and gradients", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  std::vector<std::byte> results[2], gradients[2];
  for (const std::size_t recompute : {0u, 1u}) {
    BertConfig config = micro;
    config.recompute = recompute != 0;
    const BertModel model(nn::Scope{context, 7}, config);
    const Parameters parameters = nn::parameters(model);
    Tape tape(context, {.seed = 1});
    const Var ids = tokens(tape, {{5, 6, 7}, {1, 2, 5}, {49}});
    const Var hidden = model(tape, ids);
    tape.backward(sum(tape, square(tape, model.pool(tape, sequence_first(tape, hidden)))));
    results[recompute] = bits(context, hidden.value());
    gradients[recompute] = soma_test::gradient_bits(context, parameters);
  }
  CHECK(results[0] == results[1]);
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("first tokens have the hidden states that they have among all", "[unit][bert]") {
  auto context = make_context({.threads = 2});
  for (const std::size_t layers : {0u, 1u, 2u}) {
    BertConfig config = micro;
    config.layers = layers;
    const BertModel model(nn::Scope{context, 7}, config);
    Tape tape(context, {.seed = 1, .step = 3});
    const Lists lists{{5, 6, 7}, {1, 2, 5, 8, 9, 10, 11}, {49}};
    const Var all = sequence_first(tape, model(tape, tokens(tape, lists)));
    CHECK(bits(context, model.first(tape, tokens(tape, lists)).value()) ==
          bits(context, all.value()));
  }
}

TEST_CASE("useful operations are those that the loss depends on", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const std::size_t lengths[] = {3, 1};
  const Sequences sequences = Sequences::from_lengths(context, lengths);
  // Forward: four tokens through a whole layer (four matrices of 8 x 8, two of 8 x 16), and nine
  // pairs and one; keys and values of four, the rest of two with three keys and one; the pooler.
  const double whole = 4 * 2 * (4 * 64 + 2 * 128) + 10 * 4 * 8;
  const double last = 4 * 2 * 2 * 64 + 2 * 2 * (2 * 64 + 2 * 128) + 4 * 4 * 8;
  CHECK(models::training_flops(micro, sequences) == 3 * (whole + last + 2 * 2 * 64));
  BertConfig none = micro;
  none.layers = 0;
  CHECK(models::training_flops(none, sequences) == 3 * 2 * 2 * 64);
}

TEST_CASE("gradients of a small classifier are those of differences of its loss", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const BertClassifier model(nn::Scope{context, 7}, micro, 3);
  const Parameters parameters = nn::parameters(model);
  // Weights that matter, so that gradients are far above the noise of a loss in fp32.
  for (const Parameter& parameter : parameters) {
    const float range = parameter.name.find("attention.self") != std::string::npos ? 2 : 0.6f;
    copy(soma_test::random_tensor(context, parameter.value().shape(), parameter.name, range),
         parameter.value());
  }
  Tape tape(context, {.seed = 1});
  const auto loss = [&] {
    const Var logits = model(tape, tokens(tape, {{5, 6, 7}, {1, 2, 5, 5}, {49, 0}}));
    return cross_entropy(tape, logits, tape.constant(soma_test::ints(context, {2, 0, 1})));
  };
  tape.reset(0);  // from here on one step: dropout draws the same each time
  tape.backward(loss());
  for (const Parameter& parameter : parameters) {
    // Along the gradient the loss grows by the gradient's norm.
    const Tensor gradient = soma::contiguous(
        context, parameter.whole() ? soma_test::dense_gradient(context, parameter.var)
                                   : parameter.gradient().values);
    double norm = 0;
    for (const float g : gradient.span<float>())
      norm += static_cast<double>(g) * static_cast<double>(g);
    norm = std::sqrt(norm);
    const Tensor kept = clone(context, parameter.value());
    const auto at = [&](double distance) {
      const Tensor w = parameter.value();
      for (std::size_t i = 0; i < gradient.elements(); ++i)
        w.mutable_span<float>()[i] =
            kept.span<float>()[i] + static_cast<float>(distance / norm) * gradient.span<float>()[i];
      const auto pause = tape.no_gradient();
      return static_cast<double>(loss().value().item<float>());
    };
    const auto slope = [&](double h) { return (at(h) - at(-h)) / (2 * h); };
    constexpr double h = 0x1p-4;
    const double wide = slope(h), narrow = slope(h / 2);
    copy(kept, parameter.value());
    // Differences err by h^2 c + ..., so a third of what halving h changes is what is left. A loss
    // below 4 carries some hundred roundings of 2^-23, of which about the root adds up.
    const double noise = 10 * 4 * 0x1p-23 / h;
    INFO(parameter.name << " norm " << norm << " slope " << narrow);
    if (parameter.name.ends_with("key.bias")) {
      CHECK(norm < 1e-6);  // the same for all keys of a query: softmax does not see it
      continue;
    }
    CHECK(norm > 20 * noise);
    CHECK(std::fabs(narrow - norm) <= std::fabs(wide - narrow) + noise);
  }
}

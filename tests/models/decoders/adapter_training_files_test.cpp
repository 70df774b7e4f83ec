// Trainings of adapters: which numbers move, the same bits for every way to run, what a tape keeps
// of frozen layers, and checkpoints without the frozen weights.

#include <soma/soma.hpp>

#include <soma/decoders.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/nn.hpp>
#include <soma/parallel/in_process.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace soma;
using models::LanguageModel;

const std::string gpt2_texts = std::string(SOMA_TEST_DECODERS) + "/texts_gpt2",
                  llama_texts = std::string(SOMA_TEST_DECODERS) + "/texts_llama";

const std::vector<std::string> texts = {"the train is late again",
                                        "A café at nine!",
                                        "we wait",
                                        "the people of platform 3 wait at the platform",
                                        "Yours",
                                        "on Monday and on Tuesday",
                                        "the café opens at nine",
                                        "x"};

struct AdapterTraining {
  nn::LoraOptions lora{.rank = 3, .dropout = 0.1f};
  Precision precision = Precision::fp32();
  int threads = 1, ranks = 1;
  bool recompute = false, shard = false;
  std::uint64_t steps = 6;
  double rate = 1e-2;
  CheckpointStore* checkpoints = nullptr;
  bool resume = false;
};

using Values = std::map<std::string, std::vector<std::byte>>;

// All parameters after a training, and before it under names that end in " before".
Values trained_values(const std::string& folder, const AdapterTraining& how,
                      Communicator* communicator = nullptr) {
  auto context = make_context({.threads = how.threads});
  LanguageModel model = LanguageModel::from_pretrained(
      context, folder,
      {.length = 9, .seed = 4, .dropout = 0.1f, .recompute = how.recompute, .lora = how.lora});
  train::Trainer trainer(context, model,
                         {.epochs = 0,
                          .max_steps = how.steps,
                          .batch_size = 4,
                          .accumulate = 2,
                          .learning_rate = how.rate,
                          .schedule = {.decay = optim::Decay::constant},
                          .precision = how.precision,
                          .checkpoints = how.checkpoints,
                          .resume = how.resume,
                          .communicator = communicator,
                          .shard_optimizer = how.shard});
  Values values;
  const auto note = [&](const char* end) {
    for (const Parameter& parameter : model.parameters())
      values[parameter.name + end] = soma_test::bits(context, parameter.value());
  };
  note(" before");
  const auto source = model.batches(texts, {.batch_sequences = 4, .seed = 5});
  trainer.fit(*source);
  note("");
  return values;
}

Values trained_by_ranks(const std::string& folder, const AdapterTraining& how) {
  if (how.ranks == 1) return trained_values(folder, how);
  std::vector<Values> all(static_cast<std::size_t>(how.ranks));
  InProcessGroup group(how.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < how.ranks; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(60);
      all[static_cast<std::size_t>(rank)] = trained_values(folder, how, &communicator);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Values& values : all) CHECK(values == all[0]);
  return all[0];
}

bool is_adapter(const std::string& name) { return name.find(".lora_") != name.npos; }

}  // namespace

TEST_CASE("in training each adapter moves, and frozen weights keep their bits", "[unit][models]") {
  for (const std::string& folder : {gpt2_texts, llama_texts})
    for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
      const Values values =
          trained_values(folder, {.precision = precision, .steps = 20, .rate = 2.5e-5});
      std::size_t adapters = 0;
      for (const auto& [name, bits] : values) {
        if (name.ends_with(" before")) continue;
        INFO(folder << " " << precision.name << " " << name);
        CHECK((values.at(name + " before") == bits) != is_adapter(name));
        adapters += is_adapter(name) ? 1 : 0;
      }
      CHECK(adapters == (folder == gpt2_texts ? 16 : 28));
    }
}

TEST_CASE("an adapter of bf16 with nearest rounding would not move", "[unit][models]") {
  // Why adapters are fp32: a step of 2.5e-5 is below half a unit of the last place of most of A.
  auto context = make_context({.threads = 1});
  const nn::Scope scope{context, 4};
  const Tensor a = nn::uniform(context, {3, 16}, 0.25f, scope.draw("a"));
  const auto bf16 = [&](const Tensor& tensor) {
    const Tensor to = Tensor::empty(context, tensor.shape(), DType::bf16);
    copy(run(context, *context.built_in().cast, CastSetting{.dtype = DType::bf16}, {tensor})[0],
         to);
    return to;
  };
  const Var narrow = Var::parameter(context, bf16(a)), wide = Var::parameter(context, a);
  const auto before = soma_test::bits(context, narrow.value());
  const auto wide_before = soma_test::bits(context, wide.value());
  const Parameters parameters{{"narrow", narrow}, {"wide", wide}};
  optim::AdamW optimizer(context, optim::decay_groups(parameters, 0));
  for (int i = 0; i < 20; ++i) {
    for (const Var* var : {&narrow, &wide})
      var->set_gradient(
          {.values = Tensor::full(context, a.shape(), i % 2 == 0 ? 1.0f : -0.5f), .rows = {}});
    optimizer.step({.rate = 2.5e-5});
  }
  std::size_t moved = 0;
  const auto after = soma_test::bits(context, narrow.value());
  for (std::size_t i = 0; i < after.size(); i += 2)
    moved += std::memcmp(&after[i], &before[i], 2) != 0 ? 1 : 0;
  CHECK(moved < 12);  // among 48: the smallest numbers
  CHECK(soma_test::bits(context, wide.value()) != wide_before);
}

TEST_CASE("trained adapters have the same bits for threads, ranks and recomputation",
          "[unit][models]") {
  for (const std::string& folder : {gpt2_texts, llama_texts})
    for (const Precision& precision : {Precision::fp32(), Precision::bf16_sr()}) {
      const AdapterTraining one{.precision = precision};
      const Values values = trained_values(folder, one);
      for (const auto& [threads, ranks, recompute, shard] : {std::tuple{3, 1, false, false},
                                                             {1, 1, true, false},
                                                             {1, 2, false, false},
                                                             {1, 4, false, false},
                                                             {1, 2, true, true}}) {
        INFO(folder << " " << precision.name << ", " << threads << " threads, " << ranks
                    << " ranks, recompute " << recompute << ", shard " << shard);
        AdapterTraining other = one;
        other.threads = threads;
        other.ranks = ranks;
        other.recompute = recompute;
        other.shard = shard;
        CHECK(trained_by_ranks(folder, other) == values);
      }
      AdapterTraining without = one;
      without.lora.dropout = 0;
      CHECK(trained_values(folder, without) != values);
    }
}

TEST_CASE("adapters are trained in every precision", "[unit][models]") {
  for (const Precision& precision : precision_presets()) {
    INFO(precision.name);
    const AdapterTraining how{.precision = precision, .steps = 2};
    const Values values = trained_values(llama_texts, how);
    for (const auto& [name, bits] : values) {
      if (!name.ends_with("lora_A.weight") && !name.ends_with("lora_B.weight")) continue;
      INFO(name);
      CHECK(values.at(name + " before").size() == bits.size());  // fp32 before and after
      // A scale of the loss that begins too large skips the first steps.
      if (!precision.loss_scaling) CHECK(values.at(name + " before") != bits);
    }
    AdapterTraining other = how;
    other.threads = 2;
    CHECK(trained_values(llama_texts, other) == values);
  }
}

TEST_CASE("dropout of adapters is off in evaluations", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const auto loss = [&](float dropout, bool training) {
    LanguageModel model = LanguageModel::from_pretrained(
        context, gpt2_texts, {.dropout = 0, .lora = nn::LoraOptions{.dropout = dropout}});
    for (const Parameter& parameter : model.parameters())
      if (parameter.name.ends_with("lora_B.weight"))
        copy(Tensor::full(context, parameter.value().shape(), 0.1f), parameter.value());
    const auto source = model.batches(texts, {.batch_sequences = 8, .shuffle = false});
    data::Batch batch;
    REQUIRE(source->next(batch));
    Tape tape(context, {.record = training, .training = training});
    return model.forward(tape, batch).loss.value().item<float>();
  };
  CHECK(loss(0.5f, false) == loss(0, false));
  CHECK(loss(0.5f, true) != loss(0, true));
}

TEST_CASE("checkpoints of adapters hold them alone, and the hash of the rest", "[unit][models]") {
  soma_test::TemporaryFolder folder;
  const AdapterTraining all{.precision = Precision::bf16_sr()};
  const Values whole = trained_values(gpt2_texts, all);
  auto context = make_context({.threads = 1});
  CheckpointFolder store(folder / "run");
  AdapterTraining part = all;
  part.steps = 3;
  part.checkpoints = &store;
  trained_values(gpt2_texts, part);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(checkpoint.weights.size() == 16);
  for (const auto& [name, tensor] : checkpoint.weights) CHECK(is_adapter(name));
  CHECK(checkpoint.identity.contains("frozen.values"));
  part.steps = all.steps;
  part.resume = true;
  const Values resumed = trained_values(gpt2_texts, part);
  for (const auto& [name, bits] : whole)
    if (!name.ends_with(" before")) CHECK(resumed.at(name) == bits);

  // A model with other frozen weights does not continue the run.
  const std::string other = folder / "other";
  LanguageModel changed = LanguageModel::from_pretrained(context, gpt2_texts);
  copy(Tensor::full(context, {16}, 0.5f), changed.model().norm.centred.bias.value());
  changed.save(other);
  CHECK(soma_test::message_of([&] { trained_values(other, part); }).find("frozen.values") !=
        std::string::npos);
}

TEST_CASE("ranks with other frozen weights do not train together", "[unit][models]") {
  soma_test::TemporaryFolder folder;
  {
    auto context = make_context({.threads = 1});
    LanguageModel changed = LanguageModel::from_pretrained(context, gpt2_texts);
    copy(Tensor::full(context, {16}, 0.5f), changed.model().norm.centred.bias.value());
    changed.save(folder / "other");
  }
  InProcessGroup group(2);
  std::string ids[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(20);
      ids[rank] = soma_test::id_of(
          [&] { trained_values(rank == 0 ? gpt2_texts : folder / "other", {}, &communicator); });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(ids[0] == "parallel.mismatch");
  CHECK(ids[1] == "parallel.mismatch");
}

TEST_CASE("an adapted model is saved as an adapter, or merged", "[unit][models]") {
  soma_test::TemporaryFolder folder;
  auto context = make_context({.threads = 1});
  const auto losses = [&](LanguageModel& model) {
    const auto source = model.batches(texts, {.batch_sequences = 8, .shuffle = false});
    data::Batch batch;
    REQUIRE(source->next(batch));
    Tape tape(context, {.record = false, .training = false});
    return model.forward(tape, batch).loss.value().item<float>();
  };
  LanguageModel model =
      LanguageModel::from_pretrained(context, llama_texts, {.lora = nn::LoraOptions{.rank = 2}});
  train::Trainer trainer(context, model, {.max_steps = 5, .batch_size = 4, .learning_rate = 1e-2});
  trainer.fit(*model.batches(texts, {.batch_sequences = 4}));
  const float tuned = losses(model);
  CHECK(soma_test::id_of([&] { model.save(folder / "model"); }) == "operator.value");
  model.save_adapter(folder / "adapter");
  LanguageModel loaded =
      LanguageModel::from_pretrained(context, llama_texts, {.adapter = folder / "adapter"});
  CHECK(losses(loaded) == tuned);
  CHECK(loaded.merge() < 1.2e-7);
  CHECK_FALSE(loaded.adapted());
  const float merged = losses(loaded);
  CHECK(std::fabs(merged / tuned - 1) < 1e-6f);
  loaded.save(folder / "model");
  LanguageModel again = LanguageModel::from_pretrained(context, folder / "model");
  CHECK(losses(again) == merged);
  CHECK(soma_test::id_of([&] { again.save_adapter(folder / "none"); }) == "state.missing_name");
  for (const Parameter& parameter : again.parameters()) CHECK_FALSE(parameter.var.frozen());
}

TEST_CASE("a tape keeps no input of a frozen product", "[unit][models]") {
  // rows x in and rows x out, in fp32: a product with a frozen weight keeps neither its input nor,
  // without an activation, its result.
  auto context = make_context({.threads = 1});
  constexpr std::size_t rows = 4096, in = 512, out = 64;
  const nn::Linear first({context, 1, "first"}, in, in), second({context, 1, "second"}, in, out);
  const Tensor x = Tensor::full(context, {rows, in}, 0.5f);
  const auto kept = [&](bool frozen) {
    second.weight.set_frozen(frozen);
    second.bias.set_frozen(frozen);
    Tape tape(context, {});
    const Var given = tape.constant(x);
    const std::size_t before = context.heap().bytes_in_use();
    Var loss = sum(tape, second(tape, first(tape, given)));
    const std::size_t bytes = context.heap().bytes_in_use() - before;
    tape.backward(loss);
    clear_gradients(nn::parameters(first));
    clear_gradients(nn::parameters(second));
    return bytes;
  };
  const std::size_t all = kept(false), without = kept(true);
  CHECK(all >= rows * in * sizeof(float));
  CHECK(without < std::size_t{64} << 10);
  // Its gradients have the same bits.
  const auto gradient = [&](bool frozen) {
    second.weight.set_frozen(frozen);
    Tape tape(context, {});
    tape.backward(sum(tape, second(tape, first(tape, tape.constant(x)))));
    const auto bits = soma_test::bits(context, first.weight.gradient().values);
    clear_gradients(nn::parameters(first));
    clear_gradients(nn::parameters(second));
    return bits;
  };
  CHECK(gradient(false) == gradient(true));
}

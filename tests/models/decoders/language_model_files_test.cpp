// Language models: rows of texts, losses and perplexities beside transformers, folders that come
// back, and trainings whose bits depend on nothing but their options.

#include <soma/soma.hpp>

#include <soma/decoders.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/parallel/in_process.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

using namespace soma;
using models::LanguageModel;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::read_text;

const std::string texts_folders[] = {std::string(SOMA_TEST_DECODERS) + "/texts_gpt2",
                                     std::string(SOMA_TEST_DECODERS) + "/texts_llama"};

// A row of expected.json.
struct Row {
  std::string prompt, answer;
  std::vector<std::int32_t> ids{};
  std::size_t first = 1, tokens = 0, hits = 0;
  double loss = 0;
};

std::vector<Row> expected_rows(const std::string& folder) {
  std::vector<Row> rows;
  for (const auto& row : nlohmann::json::parse(read_text(folder + "/expected.json")))
    rows.push_back({row["prompt"], row["text"], row["ids"], row["first"], row["tokens"],
                    row["hits"], row["loss"]});
  return rows;
}

struct Question {
  std::string prompt, answer;
};

std::vector<std::string> some_texts() {
  return {"the train is late again",
          "A café at nine!",
          "we wait",
          "the people of platform 3 wait at the platform",
          "Yours",
          "on Monday and on Tuesday",
          "the café opens at nine",
          "x"};
}

data::BatchOptions in_order(std::size_t sequences) {
  return {.batch_sequences = sequences, .shuffle = false};
}

double metric(const train::Evaluation& evaluation, const std::string& name) {
  return metrics::find(evaluation.values, name)->value;
}

std::uint64_t hash_of(const LanguageModel& model) {
  const StateDict weights = nn::state_dict(model.parameters());
  StateSource source(weights);
  return state_hash(source);
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// Copies a folder, and puts other values into its config.json; null takes the key away.
void copy_folder(const std::string& from, const std::string& to, const nlohmann::json& values) {
  std::filesystem::create_directories(to);
  std::filesystem::copy(
      from, to,
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  nlohmann::json config = nlohmann::json::parse(read_text(from + "/config.json"));
  for (const auto& [key, value] : values.items()) config[key] = value;
  std::filesystem::permissions(to, std::filesystem::perms::owner_all);
  write(to + "/config.json", config.dump());
}

}  // namespace

TEST_CASE("rows become the tokens, targets and losses of the usual libraries", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string& folder : texts_folders) {
    INFO(folder);
    LanguageModel model = LanguageModel::from_pretrained(context, folder);
    double loss = 0;
    std::size_t tokens = 0, hits = 0;
    std::vector<std::string> texts;
    std::vector<Question> questions;
    for (const Row& row : expected_rows(folder)) {
      INFO(row.prompt << "|" << row.answer);
      const auto source =
          row.prompt.empty()
              ? model.batches(std::vector{row.answer}, in_order(1))
              : model.batches(std::vector{Question{row.prompt, row.answer}}, in_order(1));
      CHECK(source->documents().ids == row.ids);
      REQUIRE(source->windows().size() == 1);
      // The row before the first token that is learnt: also where a merge crosses the border.
      CHECK(source->windows()[0].first + 1 == row.first);
      const train::Evaluation evaluation = train::evaluate(context, model, *source);
      // fp32 losses of some tokens beside float64.
      CHECK(std::fabs(evaluation.loss * static_cast<double>(row.tokens) / row.loss - 1) < 2e-6);
      CHECK(metric(evaluation, "accuracy") ==
            static_cast<double>(row.hits) / static_cast<double>(row.tokens));
      loss += row.loss;
      tokens += row.tokens;
      hits += row.hits;
      if (row.prompt.empty())
        texts.push_back(row.answer);
      else
        questions.push_back({row.prompt, row.answer});
    }
    // eos is the pad token of these files, and is learnt: it ends each document.
    CHECK(model.end_id() == 301);
    CHECK(hits <= tokens);
    CHECK(loss > 0);
  }
}

TEST_CASE("perplexity is exp of the mean over tokens, whatever the batches are", "[unit][models]") {
  auto context = make_context({.threads = 2});
  for (const std::string& folder : texts_folders) {
    LanguageModel model = LanguageModel::from_pretrained(context, folder);
    std::vector<std::string> texts;
    double loss = 0, tokens = 0, bytes = 0, own = 0;
    for (const Row& row : expected_rows(folder)) {
      if (!row.prompt.empty()) continue;
      texts.push_back(row.answer);
      loss += row.loss;
      tokens += static_cast<double>(row.tokens);
      const std::string first = model.tokenizer().bytes_of(row.ids[0]);
      bytes += static_cast<double>(row.answer.size() - (first == "<s>" ? 0 : first.size()));
      const auto one = model.batches(std::vector{row.answer}, in_order(1));
      const train::Evaluation alone = train::evaluate(context, model, *one);
      own += std::log(metric(alone, "perplexity")) * static_cast<double>(row.tokens);
    }
    const auto perplexity = [&](std::size_t size) {
      return metric(train::evaluate(context, model, *model.batches(texts, in_order(size))),
                    "perplexity");
    };
    const double single = perplexity(1);
    CHECK(std::fabs(perplexity(16) / single - 1) < 1e-12);
    CHECK(std::fabs(perplexity(3) / single - 1) < 1e-12);
    CHECK(std::fabs(std::exp(own / tokens) / single - 1) < 1e-12);
    CHECK(std::fabs(std::exp(loss / tokens) / single - 1) < 2e-5);
    const auto all = model.batches(texts, in_order(16));
    CHECK(std::fabs(metric(train::evaluate(context, model, *all), "bits_per_byte") /
                        (loss / std::log(2.0) / bytes) -
                    1) < 2e-6);
  }
}

TEST_CASE("a document's loss does not depend on the documents beside it", "[unit][models]") {
  auto context = make_context({.threads = 2});
  LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[1]);
  const auto scores_of = [&](const std::vector<std::string>& texts) {
    const auto source = model.batches(texts, in_order(texts.size()));
    data::Batch batch;
    REQUIRE(source->next(batch));
    Tape tape(context, {.record = false, .training = false});
    const Tensor scores = model.forward(tape, batch).scores;
    return std::vector<float>(scores.span<float>().end() - 3, scores.span<float>().end());
  };
  const std::vector<float> alone = scores_of({"the train is late"});
  CHECK(scores_of({"A café at nine!", "the train is late"}) == alone);
  CHECK(scores_of({"x", "on Tuesday we wait again", "the train is late"}) == alone);
}

TEST_CASE("the token that begins a text is there once", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[1]);
  const auto ids = model.document("the");
  CHECK(ids.front() == 300);
  CHECK(model.document("<s>the") == ids);
  CHECK(model.document("the</s>") == ids);
  CHECK(std::count(ids.begin(), ids.end(), 301) == 1);
  const LanguageModel bare = LanguageModel::from_pretrained(context, texts_folders[0]);
  CHECK(bare.document("the").front() != 300);
}

TEST_CASE("a saved language model comes back, with the files of its texts", "[unit][models]") {
  auto context = make_context({.threads = 1});
  for (const std::string& folder : texts_folders) {
    INFO(folder);
    const LanguageModel model = LanguageModel::from_pretrained(context, folder);
    const soma_test::TemporaryFolder place;
    for (const std::size_t shard_bytes : {0, 9000}) {
      const std::string saved = place / ("saved" + std::to_string(shard_bytes));
      model.save(saved, {.shard_bytes = shard_bytes});
      const LanguageModel again = LanguageModel::from_pretrained(context, saved);
      CHECK(hash_of(again) == hash_of(model));
      for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                               "generation_config.json"})
        CHECK(read_text(saved + "/" + name) == read_text(folder + "/" + name));
      CHECK(std::filesystem::exists(saved + "/model.safetensors") == (shard_bytes == 0));
      StateDict stored;
      std::size_t files = 0;
      for (const SafetensorsFile& file : models::detail::model_files(context, "test", saved, "")) {
        CHECK(file.metadata == SafetensorsMetadata{{"format", "pt"}});
        for (const auto& [name, tensor] : file.tensors) stored.set(name, tensor);
        ++files;
      }
      CHECK((files > 1) == (shard_bytes != 0));
      // The same tensors as in the first folder: names, shapes and bytes.
      const SafetensorsFile before = load_safetensors(context, folder + "/model.safetensors");
      CHECK(stored.size() == before.tensors.size());
      for (const auto& [name, tensor] : before.tensors) {
        INFO(name);
        REQUIRE(stored.contains(name));
        const Tensor& now = stored.at(name);
        CHECK(now.shape() == tensor.shape());
        CHECK(std::memcmp(now.raw(), tensor.raw(), tensor.bytes()) == 0);
      }
      CHECK(stored.contains("lm_head.weight") == !model.config().tied);
      model.save(saved, {.weights = DType::bf16});  // replaces the folder
      CHECK(LanguageModel::from_pretrained(context, saved).file_type() == DType::bf16);
    }
    write(place / "saved0/notes.txt", "mine");
    CHECK(id_of([&] { model.save(place / "saved0"); }) == "file.write");
  }
}

TEST_CASE("parts of a step weigh by their tokens", "[unit][models]") {
  auto context = make_context({.threads = 2});
  LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[0], {.dropout = 0});
  const std::vector<std::string> texts = some_texts();
  const auto gradients = [&](std::size_t size) {
    const auto source = model.batches(texts, in_order(size));
    PrecisionState precision(context, Precision::fp32(), 1);
    train::Ranks ranks;
    train::TapeGradients tape(context, model, precision, ranks, 1);
    const std::size_t count = texts.size() / size;
    const train::StepSums sums = tape.run(*source, {.batches = count});
    std::vector<double> all;
    const double factor = count == 1 ? 1 : 1 / sums.losses;
    for (const Parameter& parameter : model.parameters()) {
      const Tensor dense =
          context.built_in().to_dense(context, parameter.var.gradient(), parameter.var.shape());
      for (const float x : dense.span<float>()) all.push_back(static_cast<double>(x) * factor);
    }
    return all;
  };
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
    return std::sqrt(difference / norm);
  };
  const std::vector<double> whole = gradients(8);
  CHECK(distance(gradients(4), whole) < 1e-6);
  CHECK(distance(gradients(1), whole) < 1e-6);
  // The mean of the batches' means is another gradient.
  std::vector<double> means(whole.size());
  for (const std::string& text : texts) {
    const auto source = model.batches(std::vector{text}, in_order(1));
    PrecisionState precision(context, Precision::fp32(), 1);
    train::Ranks ranks;
    train::TapeGradients tape(context, model, precision, ranks, 1);
    tape.run(*source, {});
    std::size_t at = 0;
    for (const Parameter& parameter : model.parameters()) {
      const Tensor dense =
          context.built_in().to_dense(context, parameter.var.gradient(), parameter.var.shape());
      for (const float x : dense.span<float>())
        means[at++] += static_cast<double>(x) / static_cast<double>(texts.size());
    }
  }
  CHECK(distance(means, whole) > 1e-3);
}

TEST_CASE("a batch without targets counts nothing", "[unit][models]") {
  auto context = make_context({.threads = 1});
  LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[0], {.dropout = 0});
  const auto source = model.batches(some_texts(), in_order(8));
  data::Batch batch;
  REQUIRE(source->next(batch));
  batch.fields[0].values = Tensor::full(context, batch.fields[0].values.shape(), data::no_target);
  CHECK(model.loss_count(batch) == 0);
  Tape tape(context, {});
  const Var loss = model.forward(tape, batch).loss;
  CHECK(loss.value().item<float>() == 0);
  tape.backward(loss);
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.var.gradient().defined()) continue;
    const Tensor dense =
        context.built_in().to_dense(context, parameter.var.gradient(), parameter.var.shape());
    for (const float x : dense.span<float>()) CHECK(x == 0);
  }
  batch.fields.clear();
  CHECK(id_of([&] { model.loss_count(batch); }) == "data.field");
}

namespace {

struct Training {
  Precision precision = Precision::fp32();
  int threads = 1, ranks = 1;
  bool recompute = false;
  std::uint64_t steps = 0;  // 0: all
  CheckpointStore* checkpoints = nullptr;
  bool resume = false;
};

// The hash of the weights of a short training with dropout.
std::uint64_t train_once(const std::string& folder, const Training& how,
                         Communicator* communicator = nullptr) {
  auto context = make_context({.threads = how.threads});
  LanguageModel model = LanguageModel::from_pretrained(
      context, folder, {.length = 9, .overlap = 2, .dropout = 0.1f, .recompute = how.recompute});
  train::Trainer trainer(context, model,
                         {.epochs = 2,
                          .max_steps = how.steps,
                          .batch_size = 4,
                          .accumulate = 2,
                          .learning_rate = 1e-2,
                          .schedule = {.decay = optim::Decay::constant},
                          .precision = how.precision,
                          .checkpoints = how.checkpoints,
                          .resume = how.resume,
                          .communicator = communicator});
  const auto source = model.batches(some_texts(), {.batch_sequences = 4, .seed = 5});
  trainer.fit(*source);
  return hash_of(model);
}

std::uint64_t train_ranks(const std::string& folder, const Training& how) {
  if (how.ranks == 1) return train_once(folder, how);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(how.ranks));
  InProcessGroup group(how.ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < how.ranks; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, rank);
      communicator.set_time_limit(60);
      hashes[static_cast<std::size_t>(rank)] = train_once(folder, how, &communicator);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::uint64_t hash : hashes) CHECK(hash == hashes[0]);
  return hashes[0];
}

}  // namespace

TEST_CASE("trained language models have the same bits for threads, ranks and recomputation",
          "[unit][models]") {
  for (const char* name : {"fp32", "bf16_sr"}) {
    INFO(name);
    const Precision precision = find_precision(name);
    const std::string& folder = texts_folders[name[0] == 'f' ? 0 : 1];
    const std::uint64_t once = train_once(folder, {.precision = precision});
    for (const int threads : {2, 3, 7})
      CHECK(train_once(folder, {.precision = precision, .threads = threads}) == once);
    for (const int ranks : {2, 4})
      CHECK(train_ranks(folder, {.precision = precision, .ranks = ranks}) == once);
    CHECK(train_once(folder, {.precision = precision, .recompute = true}) == once);
  }
}

TEST_CASE("a resumed training of a language model has the bits of a whole one", "[unit][models]") {
  for (const std::string& folder : texts_folders) {
    const soma_test::TemporaryFolder place;
    CheckpointFolder checkpoints(place / "checkpoints");
    const std::uint64_t whole = train_once(folder, {});
    train_once(folder, {.steps = 2, .checkpoints = &checkpoints});
    CHECK(train_once(folder, {.checkpoints = &checkpoints, .resume = true}) == whole);
  }
}

TEST_CASE("language models are trained in every precision", "[unit][models]") {
  for (const Precision& precision : precision_presets()) {
    INFO(precision.name);
    const std::uint64_t once = train_once(texts_folders[1], {.precision = precision, .steps = 1});
    CHECK(train_once(texts_folders[1], {.precision = precision, .threads = 2, .steps = 1}) == once);
  }
}

TEST_CASE("one long document on two ranks: one of them has nothing to do", "[unit][models]") {
  const auto train_long = [](Communicator* communicator) {
    auto context = make_context({.threads = 1});
    LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[0], {.dropout = 0});
    train::Trainer trainer(context, model, {.communicator = communicator});
    const auto source = model.batches(std::vector<std::string>{"the train is late again"}, {});
    trainer.fit(*source);
    return hash_of(model);
  };
  const std::uint64_t alone = train_long(nullptr);
  InProcessGroup group(2);
  std::uint64_t hashes[2] = {};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      InProcessCommunicator communicator(group, rank);
      hashes[rank] = train_long(&communicator);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(hashes[0] == alone);
  CHECK(hashes[1] == alone);
}

TEST_CASE("a language model learns its rows", "[unit][models]") {
  auto context = make_context({.threads = 2});
  LanguageModel model = LanguageModel::from_pretrained(context, texts_folders[0], {.dropout = 0});
  train::Trainer trainer(context, model, {.epochs = 10, .batch_size = 4, .learning_rate = 1e-2});
  const train::Report report = trainer.fit(some_texts(), some_texts());
  const metrics::Value* perplexity = metrics::find(report.values, "perplexity");
  REQUIRE(perplexity != nullptr);
  CHECK(perplexity->value < 60);  // 305 tokens
}

TEST_CASE("folders that would be computed otherwise are refused by file and key",
          "[unit][models]") {
  auto context = make_context({.threads = 1});
  const soma_test::TemporaryFolder place;
  const auto refused = [&](const std::string& from, const nlohmann::json& values) {
    const std::string folder = place / "bad";
    std::filesystem::remove_all(folder);
    copy_folder(from, folder, values);
    return message_of([&] { LanguageModel::from_pretrained(context, folder); });
  };
  const std::string &gpt2 = texts_folders[0], &llama = texts_folders[1];
  using Json = nlohmann::json;
  const auto names = [&](const std::string& message, const std::string& key) {
    INFO(message);
    CHECK(message.find("[models.config_") != std::string::npos);
    CHECK(message.find(key) != std::string::npos);
    CHECK(message.find("config.json") != std::string::npos);
  };
  CHECK(refused(gpt2, Json::object()) == "no error");
  CHECK(refused(llama, Json::object()) == "no error");
  names(refused(gpt2, {{"model_type", "gpt_neox"}}), "model_type");
  names(refused(gpt2, {{"scale_attn_weights", false}}), "scale_attn_weights");
  names(refused(gpt2, {{"scale_attn_by_inverse_layer_idx", true}}),
        "scale_attn_by_inverse_layer_idx");
  names(refused(gpt2, {{"add_cross_attention", true}}), "add_cross_attention");
  names(refused(gpt2, {{"quantization_config", {{"bits", 4}}}}), "quantization_config");
  names(refused(gpt2, {{"n_head", 3}}), "n_head");
  names(refused(llama, {{"num_local_experts", 8}}), "num_local_experts");
  names(refused(llama, {{"num_key_value_heads", 3}}), "num_key_value_heads");
  names(refused(llama, {{"head_dim", 5}}), "head_dim");
  names(refused(llama, {{"pretraining_tp", 2}}), "pretraining_tp");
  names(refused(llama, {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor");
  names(refused(llama, {{"rope_interleaved", true}}), "rope_interleaved");
  names(refused(llama, {{"hidden_act", "gelu"}}), "hidden_act");
  names(refused(llama, {{"sliding_window", 4}}), "sliding_window");
  for (const char* kind : {"dynamic", "yarn", "longrope", "other"})
    names(refused(llama, {{"rope_parameters",
                           {{"rope_type", kind}, {"rope_theta", 10000.0}, {"factor", 2.0}}}}),
          "rope_type");
  names(refused(llama, {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 2.0}}}}),
        "low_freq_factor");
  names(refused(llama, {{"model_type", "qwen2"}, {"use_sliding_window", true}}),
        "use_sliding_window");
  CHECK(refused(gpt2, {{"vocab_size", 301}}).find("[models.config_value]") != std::string::npos);
  CHECK(refused(gpt2, {{"vocab_size", 304}}).find("[state.shape]") != std::string::npos);
  CHECK(refused(gpt2, {{"n_embd", 1 << 16}, {"n_inner", 16}}).find("[models.config_value]") !=
        std::string::npos);
  CHECK(refused(gpt2, {{"n_layer", 3}}).find("[state.missing_name]") != std::string::npos);
  CHECK(refused(gpt2, {{"n_layer", 1}}).find("[state.extra_name]") != std::string::npos);

  // Lengths, and rows.
  CHECK(id_of([&] { LanguageModel::from_pretrained(context, gpt2, {.length = 33}); }) ==
        "models.config_value");
  CHECK(id_of([&] {
          LanguageModel::from_pretrained(context, gpt2, {.length = 8, .overlap = 8});
        }) == "train.options");
  LanguageModel model = LanguageModel::from_pretrained(context, gpt2);
  CHECK(model.length() == 32);
  CHECK(id_of([&] { model.batches(std::vector<Question>{{"why?", ""}}, {}); }) == "data.labels");
  CHECK(id_of([&] { model.batches(std::vector<std::string>{}, {}); }) == "data.empty");
  CHECK(id_of([&] { model.batches(std::vector<std::string>{""}, {}); }) == "data.empty");

  // Folders without the weights of a model.
  const std::string folder = place / "bare";
  std::filesystem::create_directories(folder);
  write(folder + "/adapter_config.json", "{}");
  CHECK(id_of([&] { LanguageModel::from_pretrained(context, folder); }) == "models.weights_file");
  copy_folder(gpt2, folder, Json::object());
  std::filesystem::remove(folder + "/model.safetensors");
  write(folder + "/pytorch_model.bin", "");
  CHECK(id_of([&] { LanguageModel::from_pretrained(context, folder); }) == "models.weights_file");
}

// Text to an answer on the system that runs this: sentences are written and read, a vocabulary is
// learnt from them, a model's folder is written and read, one training is stopped and resumed from
// its checkpoint, and the model answers. Prints hashes that are the same on every system.
// Usage: classifier FOLDER, which is made and may be deleted.

#include <soma/data/content_hash.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/models.hpp>
#include <soma/soma.hpp>
#include <soma/system/paths.hpp>
#include <soma/text/read_file.hpp>
#include <soma/text/train_vocabulary.hpp>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace soma;

namespace {

// One word of each sentence tells its class.
void write_sentences(const std::string& path) {
  const std::vector<std::string> things{"lamp", "film", "tent", "chair", "kettle"};
  const std::vector<std::string> good{"fine", "lovely", "great", "superb"};
  const std::vector<std::string> bad{"awful", "poor", "dull", "grim"};
  std::string rows = "text\tlabel\n";
  for (std::size_t i = 0; i < 400; ++i)
    rows += "the " + things[i % 5] + " number " + std::to_string(i) + " is " +
            (i % 2 != 0 ? good : bad)[i / 2 % 4] + (i % 2 != 0 ? "\tpositive\n" : "\tnegative\n");
  AtomicFile file("classifier", path);
  file.write(rows);
  file.commit();
}

void print(const char* what, std::uint64_t hash) {
  std::printf("%-30s %016" PRIx64 "\n", what, hash);
}

template <class Range>
std::uint64_t hash_of(const Range& values) {
  data::ContentHash hash;
  hash.add_bytes(std::as_bytes(std::span(values)));
  return hash.value();
}

models::TextClassifier new_model(Context& context, const text::LabelledText& text) {
  std::vector<std::string> texts;
  for (const auto& row : text.train()) texts.emplace_back(row.text);
  text::Tokenizer tokenizer(text::train_vocabulary(texts, {.size = 200}), {});
  models::BertConfig config = models::BertConfig::tiny();
  config.vocabulary = tokenizer.vocabulary().size();
  return {context, std::move(tokenizer), config, {.labels = text.labels()}};
}

struct StopAt final : train::Callback {
  explicit StopAt(std::uint64_t last) : last(last) {}
  void on_step(const train::StepInfo& info) override {
    if (info.step == last) flag.request();
  }

  std::uint64_t last;
  StopFlag flag;
};

// Trains the model of the folder for some steps (0: all), and goes on where the store has a
// checkpoint. Saves into `output`, and returns the hash of what the file of weights holds.
std::uint64_t trained(Context& context, const std::string& folder, const std::string& output,
                      const text::LabelledText& text, std::uint64_t steps = 0,
                      CheckpointStore* store = nullptr) {
  auto model = models::TextClassifier::from_pretrained(context, folder);
  train::Trainer trainer(context, model,
                         {.epochs = 4,
                          .batch_size = 32,
                          .learning_rate = 1e-3f,
                          .precision = Precision::bf16_sr(),
                          .checkpoints = store,
                          .resume = store != nullptr});
  StopAt stop(steps);
  trainer.add(stop);
  trainer.fit(text.train(), text.validation(), &stop.flag);
  model.save(output);
  return hash_of(text::read_file("classifier", output + "/model.safetensors"));
}

int run(const std::string& folder) {
  std::filesystem::remove_all(system::path_of(folder));
  std::filesystem::create_directories(system::path_of(folder));
  write_sentences(folder + "/sentences.tsv");
  auto context = make_context({.threads = 1});
  const auto text = text::read_labelled(folder + "/sentences.tsv");
  const std::string model = folder + "/model";
  new_model(context, text).save(model);

  print("trained", trained(context, model, folder + "/trained", text));
  {
    CheckpointFolder store(folder + "/checkpoints");
    trained(context, model, folder + "/stopped", text, 7, &store);
  }
  CheckpointFolder store(folder + "/checkpoints");
  // Over the folder that it was read from.
  print("stopped and resumed", trained(context, model, model, text, 0, &store));

  const auto loaded = models::TextClassifier::from_pretrained(context, model);
  const auto answer = loaded.predict("the kettle is superb");
  print("answer", hash_of(answer.probabilities));
  std::printf("%s\n", answer.label.c_str());
  return answer.label == "positive" ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

// BERT's files: config.json, weights under all the names and formats they come in, and folders that
// are replaced in whole.

#include <soma/soma.hpp>

#include <soma/models.hpp>
#include <soma/models/fast_options.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <filesystem>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;
using models::bert_config_from_json;
using models::BertClassifier;
using models::BertConfig;
using models::BertConfigFile;
using models::load_bert;

namespace {

constexpr BertConfig micro{
    .vocabulary = 50, .width = 8, .layers = 2, .heads = 2, .inner = 16, .positions = 12};

// The message for a config that has only that.
std::string problem_of(const std::string& entries) {
  return message_of([&] { bert_config_from_json("{" + entries + "}", "model/config.json"); });
}

BertClassifier classifier(Context& context, std::uint64_t seed, std::size_t labels = 3) {
  return BertClassifier(nn::Scope{context, seed}, micro, labels);
}

StateDict state_of(const BertClassifier& model) { return nn::state_dict(nn::parameters(model)); }

bool same(Context& context, const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a)
    if (!b.contains(name) || bits(context, tensor) != bits(context, b.at(name))) return false;
  return true;
}

// The state under other names.
template <class Rename>
StateDict renamed(const StateDict& state, Rename&& rename) {
  StateDict result;
  for (const auto& [name, tensor] : state) result.set(rename(name), tensor);
  return result;
}

Tensor converted(Context& context, const Tensor& tensor, DType dtype) {
  const Tensor result = Tensor::empty(context, tensor.shape(), dtype);
  models::detail::convert_tensor(context, contiguous(context, tensor), result);
  return result;
}

}  // namespace

TEST_CASE("a config that says nothing is the published base model", "[unit][bert]") {
  const BertConfigFile file = bert_config_from_json("{\"architectures\": [], \"other\": {}}");
  CHECK(file.config.vocabulary == 30522);
  CHECK(file.config.width == 768);
  CHECK(file.config.layers == 12);
  CHECK(file.config.heads == 12);
  CHECK(file.config.inner == 3072);
  CHECK(file.config.positions == 512);
  CHECK(file.config.types == 2);
  CHECK(file.config.dropout == 0.1f);
  CHECK(file.config.attention_dropout == 0.1f);
  CHECK_FALSE(file.config.classifier_dropout.has_value());
  CHECK(file.config.epsilon == 1e-12f);
  CHECK(file.config.standard_deviation == 0.02f);
  CHECK(file.config.activation == Activation::gelu);
  CHECK(file.labels == std::vector<std::string>{"LABEL_0", "LABEL_1"});
  CHECK(file.pad_token == 0);
}

TEST_CASE("a config is written and read the same", "[unit][bert]") {
  for (const auto& [name, activation] : models::detail::activation_names) {
    BertConfigFile file;
    file.config = {.vocabulary = 1000,
                   .width = 96,
                   .layers = 3,
                   .heads = 4,
                   .inner = 200,
                   .positions = 77,
                   .types = 1,
                   .dropout = 0.3f,
                   .attention_dropout = 0,
                   .epsilon = 1e-7f,
                   .standard_deviation = 0.015f,
                   .activation = activation,
                   .classifier_dropout = 0.7f};
    file.labels = {"a \"quoted\"", "caf\u00e9", " "};
    file.pad_token = 999;
    const std::string text = to_json(file);
    const BertConfigFile again = bert_config_from_json(text);
    CHECK(to_json(again) == text);
    CHECK(again.config.width == 96);
    CHECK(again.config.types == 1);
    CHECK(again.config.dropout == 0.3f);
    CHECK(again.config.epsilon == 1e-7f);
    CHECK(again.config.classifier_dropout == 0.7f);
    CHECK(again.config.activation == activation);
    const std::string entry = "{\"hidden_act\": \"" + std::string(name) + "\"}";
    CHECK(bert_config_from_json(entry).config.activation == activation);
    CHECK(again.labels == file.labels);
    CHECK(again.pad_token == 999);
  }
  // The form of the training rows.
  using models::InputForm;
  for (const InputForm& form :
       {InputForm{}, InputForm{.pairs = false},
        InputForm{.pairs = true,
        .columns = {.texts = {"a \"b\"", "c\u00e9"}, .pair = "d", .label = "e", .named = true},
        .label_separator = '|'},
        InputForm{.columns = {.texts = {"2"}, .label = "1", .count = 3}}}) {
    const BertConfigFile file{.input = form};
    CHECK(bert_config_from_json(to_json(file)).input == form);
    CHECK((to_json(file).find("soma_input") != std::string::npos) == (form != InputForm{}));
    models::FastOptions fast{.labels = {"x", "y"}, .input = form};
    CHECK(models::fast_options_of(models::to_record(fast), "folder").input == form);
  }
  CHECK(id_of([] { bert_config_from_json(R"({"soma_input": 7})"); }) == "models.config_type");
  CHECK(id_of([] { bert_config_from_json(R"({"soma_input": {"pairs": 7}})"); }) == "record.type");
  CHECK_THAT(to_json(BertConfigFile{}), contains("\"hidden_dropout_prob\": 0.1,"));
  CHECK_THAT(to_json(BertConfigFile{}), contains("\"classifier_dropout\": null,"));
  CHECK(id_of([] { to_json(BertConfigFile{.labels = {"b", "a", "b"}}); }) == "models.config_value");
  for (const char* label : {"\xff", "", "a\tb", "a\nb", "a\rb"})
    CHECK(id_of([&] { to_json(BertConfigFile{.labels = {label}}); }) == "models.config_value");
}

TEST_CASE("a config that cannot be is refused by key", "[unit][bert]") {
  CHECK(problem_of("\"hidden_size\": \"768\"") ==
        "bert_config_from_json: hidden_size of \"model/config.json\" is string, wanted an integer "
        "[models.config_type]");
  CHECK(problem_of("\"vocab_size\": -1") ==
        "bert_config_from_json: vocab_size of \"model/config.json\" is -1, wanted 1 to 2147483647 "
        "[models.config_value]");
  CHECK(problem_of("\"num_attention_heads\": 7") ==
        "bert_config_from_json: num_attention_heads of \"model/config.json\" is 7, wanted a "
        "divisor of hidden_size, 768 [models.config_value]");
  CHECK(problem_of("\"model_type\": \"roberta\"") ==
        "bert_config_from_json: model_type of \"model/config.json\" is \"roberta\", wanted "
        "\"bert\" or \"distilbert\" [models.config_value]");
  CHECK_THAT(problem_of("\"hidden_act\": \"prelu\""),
             contains("hidden_act of \"model/config.json\" is \"prelu\", wanted one of gelu "));
  struct Case {
    const char *entries, *id;
  };
  const Case cases[] = {
      {"\"num_hidden_layers\": 0", "models.config_value"},
      {"\"intermediate_size\": 1e3", "models.config_type"},
      {"\"intermediate_size\": 18446744073709551615", "models.config_value"},
      {"\"max_position_embeddings\": 99999999999999999999", "models.config_type"},
      {"\"type_vocab_size\": true", "models.config_type"},
      {"\"hidden_dropout_prob\": 1", "models.config_value"},
      {"\"hidden_dropout_prob\": -0.1", "models.config_value"},
      {"\"attention_probs_dropout_prob\": \"no\"", "models.config_type"},
      {"\"classifier_dropout\": 2", "models.config_value"},
      {"\"layer_norm_eps\": 0", "models.config_value"},
      {"\"layer_norm_eps\": 1e300", "models.config_value"},
      {"\"initializer_range\": -1", "models.config_value"},
      {"\"hidden_act\": 5", "models.config_type"},
      {"\"position_embedding_type\": \"relative_key\"", "models.config_value"},
      {"\"is_decoder\": true", "models.config_value"},
      {"\"add_cross_attention\": 1", "models.config_value"},
      {"\"architectures\": \"BertModel\"", "models.config_type"},
      {"\"architectures\": [1]", "models.config_type"},
      {"\"problem_type\": 1", "models.config_type"},
      {"\"problem_type\": \"ranking\"", "models.config_value"},
      {"\"pad_token_id\": 30522", "models.config_value"},
      {"\"pad_token_id\": -1", "models.config_value"},
      {"\"num_labels\": 65537", "models.config_value"},
      {"\"id2label\": [\"a\"]", "models.config_type"},
      {"\"id2label\": {}", "models.config_value"},
      {"\"id2label\": {\"1\": \"a\"}", "models.config_value"},
      {"\"id2label\": {\"0\": []}", "models.config_type"},
      {"\"id2label\": {\"0\": null}", "models.config_type"},
      {"\"id2label\": {\"0\": \"a\", \"00\": \"b\"}", "models.config_value"},
      {"\"id2label\": {\"0\": \"a\"}, \"num_labels\": 2", "models.config_value"},
  };
  for (const auto& [entries, id] : cases) {
    INFO(entries);
    CHECK_THAT(problem_of(entries), contains((std::string("[") + id + "]").c_str()));
  }
  for (const char* text : {"", "[]", "null", "{", "{} x", "\xff"})
    CHECK(id_of([&] { bert_config_from_json(text); }) == "models.config_json");
  CHECK(id_of([] { bert_config_from_json(std::string_view("{}\0", 3)); }) == "models.config_json");
}

TEST_CASE("null is the same as not there, and labels have their usual names", "[unit][bert]") {
  const BertConfigFile file = bert_config_from_json(
      "{\"classifier_dropout\": null, \"pad_token_id\": null, \"num_labels\": 3,"
      " \"hidden_act\": \"gelu_pytorch_tanh\"}");
  CHECK_FALSE(file.config.classifier_dropout.has_value());
  CHECK(file.labels == std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"});
  CHECK(file.config.activation == Activation::gelu_tanh);
  CHECK(bert_config_from_json("{\"id2label\": {\"1\": \"b\", \"0\": \"a\"}}").labels ==
        std::vector<std::string>{"a", "b"});
  // Numbers are names, too.
  CHECK(bert_config_from_json("{\"id2label\": {\"0\": 0, \"1\": -1.5, \"2\": true}}").labels ==
        std::vector<std::string>{"0", "-1.5", "true"});
}

TEST_CASE("a saved model is loaded with the same bits", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "model";
  const BertClassifier first = classifier(context, 1), second = classifier(context, 2);
  save_bert(path, first,
            {.labels = {"a", "b", "c"}, .pad_token = 4, .files = {{"vocab.txt", "[PAD]\n"}}});
  const BertConfigFile file = models::load_bert_config(path);
  CHECK(file.config.width == 8);
  CHECK(file.labels == std::vector<std::string>{"a", "b", "c"});
  CHECK(file.pad_token == 4);
  CHECK(read_text(path + "/vocab.txt") == "[PAD]\n");
  CHECK(load_safetensors(context, path + "/model.safetensors").metadata ==
        SafetensorsMetadata{{"format", "pt"}});
  CHECK_FALSE(same(context, state_of(first), state_of(second)));
  const models::LoadedBert loaded = load_bert(context, second, path);
  CHECK(loaded.fresh.empty());
  CHECK(loaded.passed_over.empty());
  CHECK(same(context, state_of(first), state_of(second)));

  // A folder is replaced with everything in it, or not at all.
  save_bert(path + "/", classifier(context, 3));
  CHECK_FALSE(std::filesystem::exists(path + "/vocab.txt"));
  CHECK(models::load_bert_config(path + "/config.json").labels[2] == "LABEL_2");
  CHECK(message_of([&] { save_bert(path, first, {.labels = {"a"}}); }) ==
        "save_bert: labels is 1, wanted 3, a label for each logit [models.config_value]");
  for (const char* name : {"", ".", "..", "a/b", "config.json", "model.safetensors"})
    CHECK(id_of([&] { save_bert(path, first, {.files = {{name, ""}}}); }) == "models.file_name");
  CHECK(id_of([&] {
          save_bert(path, first, {.files = {{"a", ""}, {"a", ""}}});
        }) == "models.file_name");
  // A file that belongs to no model would be lost.
  write_text(path + "/notes", "mine");
  CHECK(
      message_of([&] { save_bert(path, first); }) ==
      "save_bert: folder is \"" + path +
          "\", which holds \"notes\", wanted a new or an empty one, or a saved model: it would be "
          "replaced in whole [file.write]");
  CHECK(id_of([&] { models::check_model_folder("test", path); }) == "file.write");
  CHECK(read_text(path + "/notes") == "mine");
  save_bert(path, first, {.files = {{"notes", "of the model"}}});
  CHECK(read_text(path + "/notes") == "of the model");
  std::filesystem::remove(path + "/notes");
  std::filesystem::create_directory(path + "/vocab.txt");
  CHECK(id_of([&] { save_bert(path, first); }) == "file.write");
  std::filesystem::remove(path + "/vocab.txt");
  models::check_model_folder("test", path);
  CHECK(id_of([&] { save_bert(folder / "missing/model", first); }) == "file.write");
  write_text(folder / "file", "");
  CHECK(id_of([&] { save_bert(folder / "file", first); }) == "file.write");
  CHECK(folder.files() == 2);
}

TEST_CASE("weights come under several names", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const BertClassifier source = classifier(context, 1);
  const StateDict state = state_of(source);

  SECTION("of the bare model, with the first implementation's names") {
    save_safetensors(path, renamed(state, [](std::string name) {
                       if (name.starts_with("bert.")) name.erase(0, 5);
                       const auto norm = name.find("LayerNorm.");
                       if (norm == std::string::npos) return name;
                       const bool weight = name.ends_with("weight");
                       return name.substr(0, norm) + "LayerNorm." + (weight ? "gamma" : "beta");
                     }));
    const BertClassifier target = classifier(context, 2);
    CHECK(load_bert(context, target, path).fresh.empty());
    CHECK(same(context, state, state_of(target)));
  }
  SECTION("with counters and other heads, without a classifier") {
    StateDict given = state;
    given.erase("classifier.weight");
    given.erase("classifier.bias");
    given.set("bert.embeddings.position_ids", Tensor::zeros(context, Shape{1, 12}, DType::int64));
    given.set("cls.predictions.bias", Tensor::zeros(context, Shape{50}));
    save_safetensors(path, given);
    const BertClassifier target = classifier(context, 2), fresh = classifier(context, 2);
    const models::LoadedBert loaded = load_bert(context, target, folder.path());
    CHECK(loaded.fresh == std::vector<std::string>{"classifier.bias", "classifier.weight"});
    CHECK(loaded.passed_over ==
          std::vector<std::string>{"bert.embeddings.position_ids", "cls.predictions.bias"});
    CHECK(bits(context, target.classifier.weight.value()) ==
          bits(context, fresh.classifier.weight.value()));
    CHECK(bits(context, target.bert.words.weight.value()) ==
          bits(context, source.bert.words.weight.value()));
  }
  SECTION("with a classifier of other labels") {
    save_safetensors(path, state);
    const BertClassifier target = classifier(context, 2, 5);
    CHECK(message_of([&] { load_bert(context, target, path); }) ==
          "load_bert: \"classifier.bias\" in \"" + path +
              "\" is [3] fp32, wanted [5] fp32 [state.shape]");
    const models::LoadedBert loaded = load_bert(context, target, path, {.new_classifier = true});
    CHECK(loaded.fresh == std::vector<std::string>{"classifier.bias", "classifier.weight"});
    CHECK(loaded.passed_over == loaded.fresh);
    // Nor does its format matter.
    std::string doubles = read_text(path);
    const std::string_view part = "\"F32\",\"shape\":[3,8]";
    REQUIRE(doubles.find(part) != std::string::npos);
    write_text(path, doubles.replace(doubles.find(part), part.size(), "\"F64\",\"shape\":[3,4]"));
    CHECK(load_bert(context, target, path, {.new_classifier = true}).passed_over ==
          loaded.passed_over);
    CHECK(id_of([&] { load_bert(context, classifier(context, 2), path); }) == "safetensors.dtype");
  }
  SECTION("with another layer of a format that is not known") {
    StateDict given = state;
    given.set("bert.encoder.layer.2.output.dense.bias", Tensor::zeros(context, Shape{5}));
    save_safetensors(path, given);
    std::string content = read_text(path);
    const std::size_t at = content.find("F32\",\"shape\":[5]");
    REQUIRE(at != std::string::npos);
    write_text(path, content.replace(at, 3, "U32"));
    CHECK(id_of([&] { load_bert(context, classifier(context, 2), path); }) == "state.extra_name");
  }
}

TEST_CASE("weights of narrow formats are converted", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const StateDict state = state_of(classifier(context, 1));
  for (const DType dtype : {DType::fp16, DType::bf16, DType::fp8_e4m3fn, DType::fp8_e5m2}) {
    StateDict narrow, wanted;
    for (const auto& [name, tensor] : state) {
      narrow.set(name, converted(context, tensor, dtype));
      wanted.set(name, converted(context, narrow.at(name), DType::fp32));
    }
    save_safetensors(path, narrow);
    const BertClassifier target = classifier(context, 2);
    load_bert(context, target, path);
    CHECK(same(context, state_of(target), wanted));
    CHECK_FALSE(same(context, state_of(target), state));
  }
}

TEST_CASE("a model in several files is read through its index", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const StateDict state = state_of(classifier(context, 1));
  StateDict halves[2];
  std::string map;
  std::size_t count = 0;
  for (const auto& [name, tensor] : state) {
    halves[count % 2].set(name, tensor);
    map += (map.empty() ? "\"" : ", \"") + name + "\": \"part-" + std::to_string(count % 2) + "\"";
    ++count;
  }
  save_safetensors(folder / "part-0", halves[0]);
  save_safetensors(folder / "part-1", halves[1]);
  const std::string index = folder / "model.safetensors.index.json";
  write_text(index, "{\"metadata\": {}, \"weight_map\": {" + map + "}}");
  const BertClassifier target = classifier(context, 2);
  CHECK(load_bert(context, target, folder.path()).fresh.empty());
  CHECK(same(context, state, state_of(target)));

  for (const char* text : {"", "[]", "{}", "{\"weight_map\": []}", "{\"weight_map\": {}}",
                           "{\"weight_map\": {\"a\": 5}}", "{\"weight_map\": {\"a\": \"../x\"}}"}) {
    write_text(index, text);
    CHECK(id_of([&] { load_bert(context, target, folder.path()); }) == "models.shard_index");
  }
  write_text(index, std::string("{\"weight_map\": {\"a\": \"part-0\"}}\0", 32));
  CHECK(id_of([&] { load_bert(context, target, folder.path()); }) == "models.shard_index");
  write_text(index, "{\"weight_map\": {\"a\": " + std::string(1'000'000, '[') +
                        std::string(1'000'000, ']') + "}}");
  CHECK(id_of([&] { load_bert(context, target, folder.path()); }) == "models.shard_index");
  write_text(index, "{\"weight_map\": {\"a\": \"part-0\"}}");
  CHECK_THAT(message_of([&] { load_bert(context, target, folder.path()); }),
             contains("is \"a\", which part-0 lacks, wanted"));
  write_text(index, "{\"weight_map\": {\"a\": \"part-2\"}}");
  CHECK(id_of([&] { load_bert(context, target, folder.path()); }) == "file.read");
  std::filesystem::remove(index);
  CHECK_THAT(message_of([&] { load_bert(context, target, folder.path()); }),
             contains("/model.safetensors\" (cannot open: No such file or directory)"));
}

TEST_CASE("what is no such model changes nothing", "[unit][bert]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const BertClassifier target = classifier(context, 2);
  const StateDict before = state_of(classifier(context, 2));
  const StateDict good = state_of(classifier(context, 1));
  const auto problem = [&](const StateDict& state) {
    save_safetensors(path, state);
    std::string message = message_of([&] { load_bert(context, target, path); });
    CHECK(same(context, state_of(target), before));
    return message;
  };
  StateDict state = good;
  state.erase("bert.encoder.layer.1.output.dense.bias");
  CHECK_THAT(problem(state), contains("load_bert: name is "
                                      "\"bert.encoder.layer.1.output.dense.bias\", which \""));
  state = good;
  state.set("bert.encoder.layer.2.output.dense.bias", Tensor::zeros(context, Shape{8}));
  CHECK_THAT(problem(state), contains("[state.extra_name]"));
  state = good;
  state.erase("bert.pooler.dense.bias");
  state.set("bert.pooler.dense.bias", Tensor::zeros(context, Shape{8}, DType::int32));
  CHECK_THAT(problem(state), contains("is [8] int32, wanted floating-point numbers [state.dtype]"));
  state = good;
  state.set("pooler.dense.bias", Tensor::zeros(context, Shape{8}));  // under both names
  CHECK_THAT(problem(state), contains("[state.duplicate_name]"));
}

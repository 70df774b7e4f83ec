#pragma once
// The functions of text_encoder.hpp.

#include <soma/models/text_encoder.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/bert_config_json.hpp>
#include <soma/models/model_files.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/state.hpp>
#include <soma/system/paths.hpp>
#include <soma/text/tokenizer_json.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

inline constexpr std::string_view modules_file = "modules.json", pooling_folder = "1_Pooling",
                                  normal_folder = "2_Normalize",
                                  length_file = "sentence_bert_config.json",
                                  prompts_file = "config_sentence_transformers.json";

SOMA_INLINE bool is_encoder_folder(const std::string& folder) {
  for (const std::string_view file : {modules_file, length_file, prompts_file})
    if (is_file(folder + "/" + std::string(file))) return true;
  return false;
}

// A file of an encoder's folder.
class EncoderFile {
 public:
  using Json = nlohmann::json;

  // Error models.encoder_module: no JSON of that kind.
  EncoderFile(std::string path, Json::value_t kind) : path_(std::move(path)) {
    const std::string text = text_of(*MappedFile::open(operation, path_));
    if (soma::may_be_tree(text)) root = Json::parse(text, nullptr, false);
    if (root.type() != kind)
      refuse("text", root.is_discarded() || root.is_null() ? "no JSON" : root.type_name(),
             kind == Json::value_t::array ? "a JSON list" : "a JSON object");
  }

  [[noreturn]] void refuse(std::string_view key, std::string_view given,
                           std::string_view wanted) const {
    fail(error_id::encoder_module, operation,
         std::string(key).append(" in ").append(soma::quoted(path_)), given, wanted);
  }
  [[noreturn]] void refuse_value(std::string_view key, const Json& given,
                                 std::string_view wanted) const {
    constexpr std::size_t most = 60;
    std::string text = given.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > most) text.replace(most, text.npos, "...");
    refuse(key, text, wanted);
  }
  // A text of an object; empty if it is missing.
  std::string text_at(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return {};
    if (!found->is_string()) refuse_value(key, *found, "a text");
    return found->get<std::string>();
  }

  static constexpr std::string_view operation = "TextEncoder::from_pretrained";
  Json root{};

 private:
  std::string path_;
};

// The modules of a folder.
struct EncoderFiles {
  std::string model{};         // the folder of the model
  std::string pooling_file{};  // empty: there is none
  bool normalised = false;
};

SOMA_INLINE Pooling read_pooling(const std::string& path, std::uint64_t width) {
  using Json = nlohmann::json;
  const EncoderFile file(path, Json::value_t::object);
  constexpr std::string_view prefix = "pooling_mode_";
  std::string modes = file.text_at(file.root, "pooling_mode");
  for (const auto& [key, value] : file.root.items()) {
    if (!key.starts_with(prefix) || value == false) continue;
    if (value != true) file.refuse_value(key, value, "true or false");
    modes.append(modes.empty() ? "" : ", ").append(key.substr(prefix.size()));
  }
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"})
    if (const auto size = file.root.find(key); size != file.root.end() && *size != width)
      file.refuse_value(key, *size, "the model's hidden_size, " + std::to_string(width));
  if (modes == "mean_tokens" || modes == "mean") return Pooling::mean;
  if (modes == "cls_token" || modes == "cls") return Pooling::first;
  if (modes == "max_tokens" || modes == "max") return Pooling::max;
  file.refuse("pooling_mode", modes.empty() ? std::string("none") : modes,
              "one of mean, cls, max alone");
}

SOMA_INLINE void check_prompts(const std::string& path) {
  using Json = nlohmann::json;
  const EncoderFile file(path, Json::value_t::object);
  const std::string name = file.text_at(file.root, "default_prompt_name");
  if (name.empty()) return;
  const auto prompts = file.root.find("prompts");
  const Json* prompt = nullptr;
  if (prompts != file.root.end() && prompts->is_object())
    if (const auto found = prompts->find(name); found != prompts->end()) prompt = &*found;
  if (prompt == nullptr || *prompt != "")
    file.refuse("default_prompt_name", soma::quoted(name),
                "no prompt: write its text before each text, and take the entry away");
}

SOMA_INLINE std::size_t read_max_length(const std::string& path, const text::Tokenizer& tokenizer) {
  using Json = nlohmann::json;
  const EncoderFile file(path, Json::value_t::object);
  if (const auto lower = file.root.find("do_lower_case"); lower != file.root.end())
    if (*lower == true && !tokenizer.options().split.lowercase)
      file.refuse_value("do_lower_case", *lower, "false, or a tokenizer that writes small letters");
  const auto length = file.root.find("max_seq_length");
  if (length == file.root.end() || length->is_null()) return 0;
  if (!length->is_number_unsigned() || *length == 0)
    file.refuse_value("max_seq_length", *length, "a number above 0");
  return length->get<std::size_t>();
}

// The files of a folder without those of the model. Without modules.json there is a model alone.
SOMA_INLINE EncoderFiles read_modules(const std::string& folder) {
  using Json = nlohmann::json;
  EncoderFiles result{.model = folder};
  const std::string path = folder + "/" + std::string(modules_file);
  if (!is_file(path)) return result;
  const EncoderFile file(path, Json::value_t::array);
  std::vector<std::string> kinds;
  for (const Json& module : file.root) {
    if (!module.is_object()) file.refuse_value("module", module, "an object");
    const std::string type = file.text_at(module, "type"), at = file.text_at(module, "path");
    const std::string kind = type.substr(type.rfind('.') + 1);
    const std::size_t number = kinds.size();
    constexpr std::string_view wanted[] = {"Transformer", "Pooling", "Normalize"};
    if (number >= std::size(wanted) || kind != wanted[number])
      file.refuse("module " + std::to_string(number), soma::quoted(type),
                  "Transformer, Pooling, and then Normalize or nothing");
    if (!at.empty() && !plain_name(at))
      file.refuse("path", soma::quoted(at), "the name of a folder beside modules.json");
    if (number == 0 && !at.empty()) result.model = folder + "/" + at;
    if (number == 1) result.pooling_file = folder + "/" + at + "/config.json";
    kinds.push_back(kind);
  }
  if (kinds.size() < 2)
    file.refuse("text", std::to_string(kinds.size()) + " modules", "Transformer and Pooling");
  result.normalised = kinds.size() == 3;
  return result;
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE bool is_text_encoder(std::string_view folder) {
  return detail::is_file(std::string(folder).append("/").append(detail::modules_file));
}

SOMA_INLINE TextEncoder::TextEncoder(Context& context, text::Tokenizer tokenizer,
                                     BertClassifier model, const TextEncoderOptions& options)
    : context_(context),
      tokenizer_(std::move(tokenizer)),
      model_(std::move(model)),
      normalised_(options.normalised.value_or(false)) {
  BertConfig& config = model_.bert.config;
  config.pooling = options.pooling.value_or(Pooling::mean);
  if (options.max_length > config.positions)
    fail(error_id::config_value, "TextEncoder", "max_length", std::to_string(options.max_length),
         "at most the model's positions, " + std::to_string(config.positions));
  max_length_ = options.max_length != 0
                    ? options.max_length
                    : (std::min)(tokenizer_.options().model_max_length, config.positions);
}

SOMA_INLINE TextEncoder TextEncoder::from_pretrained(Context& context, std::string_view folder,
                                                     const TextEncoderOptions& options) {
  const std::string place(folder);
  const detail::EncoderFiles files = detail::read_modules(place);
  BertConfigFile file = load_bert_config(files.model);
  std::vector<std::string> notes;
  text::Tokenizer tokenizer = text::load_tokenizer(files.model, file.tokenizer_class, &notes);
  for (const std::string& note : notes) context.log(LogLevel::warning, note);
  file.config.vocabulary = (std::max)(file.config.vocabulary, tokenizer.vocabulary().size());

  TextEncoderOptions known = options;
  if (!known.pooling)
    known.pooling = !files.pooling_file.empty()
                        ? detail::read_pooling(files.pooling_file, file.config.width)
                    : file.config.pooling != Pooling::first ? file.config.pooling
                                                            : Pooling::mean;
  if (!known.normalised) known.normalised = files.normalised;
  for (const std::string& at : {place, files.model})
    if (const std::string path = at + "/" + std::string(detail::length_file);
        known.max_length == 0 && detail::is_file(path))
      known.max_length =
          (std::min)(detail::read_max_length(path, tokenizer), file.config.positions);
  if (const std::string path = place + "/" + std::string(detail::prompts_file);
      detail::is_file(path))
    detail::check_prompts(path);

  const std::vector<SafetensorsFile> weights =
      detail::model_files(context, "load_bert", files.model);
  detail::check_claimed_sizes("load_bert", files.model, file.config, weights);
  // Initial values are drawn for the head alone, which is not used.
  nn::Later from_files;
  nn::InitialStore* const later = options.later != nullptr ? options.later : &from_files;
  BertClassifier model(nn::Scope{.context = context, .later = later}, file.config, 2);
  detail::load_bert_files(context, model, files.model, weights,
                          {.new_classifier = true, .later = later});
  if (options.later == nullptr) from_files.make(context, nn::parameters(model));
  return TextEncoder(context, std::move(tokenizer), std::move(model), known);
}

SOMA_INLINE void TextEncoder::save(std::string_view folder) const {
  using Json = nlohmann::ordered_json;
  constexpr std::string_view operation = "TextEncoder::save";
  const BertConfig& config = model_.bert.config;
  const bool distilled = config.kind == BertKind::distilbert;

  // The bare model's config.json: that of a classifier without what is the classifier's.
  BertConfigFile file{.config = config,
                      .pad_token = static_cast<std::uint64_t>(tokenizer_.padding_id())};
  Json root = Json::parse(to_json(file));
  root["architectures"] = {distilled ? "DistilBertModel" : "BertModel"};
  for (const char* key : {"id2label", "label2id", "problem_type", "soma_pooling"}) root.erase(key);

  constexpr std::string_view modes[] = {"cls_token", "mean_tokens", "max_tokens"};
  Json pooling{{"word_embedding_dimension", config.width}};
  for (std::size_t i = 0; i < std::size(modes); ++i)
    pooling[std::string("pooling_mode_").append(modes[i])] =
        i == static_cast<std::size_t>(config.pooling);
  const auto module = [](std::size_t number, std::string_view path, std::string_view kind) {
    return Json{{"idx", number},
                {"name", std::to_string(number)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.").append(kind)}};
  };
  Json modules =
      Json::array({module(0, "", "Transformer"), module(1, detail::pooling_folder, "Pooling")});
  if (normalised_) modules.push_back(module(2, detail::normal_folder, "Normalize"));
  text::TokenizerOptions settings = tokenizer_.options();
  settings.model_max_length = max_length_;
  const std::vector<std::pair<std::string, std::string>> files{
      {"config.json", root.dump(2) + "\n"},
      {"vocab.txt", tokenizer_.vocabulary().to_text()},
      {"tokenizer.json", text::to_tokenizer_json(tokenizer_)},
      {"tokenizer_config.json", text::to_tokenizer_config(settings)},
      {std::string(detail::modules_file), modules.dump(2) + "\n"},
      {std::string(detail::length_file),
       Json{{"max_seq_length", max_length_}, {"do_lower_case", false}}.dump(2) + "\n"},
      {std::string(detail::prompts_file),
       Json{{"prompts", Json::object()}, {"default_prompt_name", nullptr}}.dump(2) + "\n"},
      {std::string(detail::pooling_folder) + "/config.json", pooling.dump(2) + "\n"}};

  AtomicFolder whole(operation, folder);
  for (const std::filesystem::directory_entry& entry : whole.replaced()) {
    const std::string name = system::name_of(entry);
    std::error_code problem;
    const bool own = entry.is_directory(problem)
                         ? name == detail::pooling_folder || name == detail::normal_folder
                         : name == "model.safetensors" ||
                               std::any_of(files.begin(), files.end(),
                                           [&](const auto& known) { return known.first == name; });
    if (!own)
      fail(error_id::file_write, operation, "folder",
           soma::quoted(folder) + ", which holds " + soma::quoted(name),
           "a new or an empty one, or a saved encoder: it would be replaced in whole");
  }
  for (const std::string_view name : {detail::pooling_folder, detail::normal_folder}) {
    std::error_code problem;
    if (name != detail::normal_folder || normalised_)
      std::filesystem::create_directory(system::path_of(whole / name), problem);
    if (problem)
      fail(error_id::file_write, operation, "folder " + soma::quoted(whole / name),
           problem.message(), "a place for it");
  }
  for (const auto& [name, content] : files) {
    AtomicFile one(operation, whole / name);
    one.write(content);
    one.commit();
  }
  save_safetensors(whole / "model.safetensors", nn::state_dict(nn::parameters(model_.bert)),
                   {{"format", "pt"}});
  whole.commit();
}

SOMA_INLINE Tensor TextEncoder::embed(std::initializer_list<std::string_view> texts) const {
  return embed(std::span<const std::string_view>(texts.begin(), texts.size()));
}

SOMA_INLINE void TextEncoder::collect(nn::Collector& collector) const {
  model_.bert.collect(collector);
}

SOMA_INLINE Var TextEncoder::operator()(Tape& tape, const Var& ids, const Var& token_types) const {
  const Var vectors = model_.bert.pooled(tape, ids, token_types);
  const Var wide =
      vectors.value().dtype() == DType::fp32 ? vectors : cast(tape, vectors, DType::fp32);
  return normalised_ ? normalise(tape, wide, 1) : wide;
}

SOMA_INLINE Tensor TextEncoder::embed(std::span<const std::string_view> texts,
                                      DType activations) const {
  constexpr std::size_t most_tokens = 4096;
  return embed(texts,
               {.activations = activations, .most_tokens = (std::max)(most_tokens, max_length_)});
}

SOMA_INLINE Tensor TextEncoder::embed(std::span<const std::string_view> texts,
                                      const AnswerOptions& options) const {
  constexpr std::size_t most_texts = 16384;  // are tokenized at a time
  const Tensor vectors = Tensor::empty(context_, Shape{texts.size(), width()});
  float* to = vectors.mutable_data<float>();
  for (std::size_t first = 0; first < texts.size(); first += most_texts) {
    const auto part = texts.subspan(first, (std::min)(most_texts, texts.size() - first));
    detail::answer_texts(
        "TextEncoder::embed", context_,
        detail::tokenize_pairs(context_, tokenizer_, part, {}, max_length_), options, this,
        [](const void* model, Tape& tape, const Var& ids, const Var& types) {
          return (*static_cast<const TextEncoder*>(model))(tape, ids, types);
        },
        width(), to + first * width());
  }
  for (std::size_t i = 0; i < texts.size() * width(); ++i)
    if (!std::isfinite(to[i]))
      fail(error_id::model_not_finite, "TextEncoder::embed",
           "element " + std::to_string(i % width()) + " of a text's vector",
           std::isnan(to[i]) ? "NaN" : "infinite", "a finite number: broken weights?");
  return vectors;
}

}  // namespace SOMA_NAMESPACE::models

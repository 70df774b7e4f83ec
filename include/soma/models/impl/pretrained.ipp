#pragma once
// The functions of pretrained.hpp.

#include <soma/base/contains.hpp>
#include <soma/models/pretrained.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/kernels/convert/convert.hpp>
#include <soma/models/bert_config_json.hpp>
#include <soma/models/model_files.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>
#include <soma/nn/state.hpp>
#include <soma/system/mapped_pages.hpp>
#include <soma/system/paths.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE void check_no_doubles(std::string_view operation, const std::string& source,
                                  const SkippedTensor& tensor) {
  if (tensor.reason != "F64") return;
  fail(error_id::safetensors_dtype, operation,
       soma::quoted(tensor.name) + " in " + soma::quoted(source), "F64",
       "F32, F16, BF16 or an 8-bit format; this converts a file: python3 -c 'import sys; from "
       "safetensors.torch import load_file, save_file; save_file({n: t.float() for n, t in "
       "load_file(sys.argv[1]).items()}, sys.argv[1], {\"format\": \"pt\"})' FILE");
}

SOMA_INLINE std::string bert_name(std::string name, BertKind kind) {
  for (const std::string_view part : {"embeddings.", "encoder.", "pooler.", "transformer."})
    if (name.starts_with(part)) {
      name.insert(0, std::string(BertClassifier::name_of(kind)) + ".");
      break;
    }
  for (const auto& [old, now] :
       {std::pair<std::string_view, std::string_view>{".gamma", ".weight"}, {".beta", ".bias"}})
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), now);
  return name;
}

SOMA_INLINE bool of_classifier(std::string_view name) {
  return name.starts_with("classifier.") || name.starts_with("pre_classifier.");
}

SOMA_INLINE bool may_be_left_out(std::string_view name, BertKind kind) {
  return name.ends_with(".embeddings.position_ids") ||
         name.ends_with(".embeddings.token_type_ids") ||
         !(name.starts_with(std::string(BertClassifier::name_of(kind)) + ".") ||
           name.starts_with("classifier.") ||
           (kind == BertKind::distilbert && name.starts_with("pre_classifier.")));
}

SOMA_INLINE bool may_be_fresh(std::string_view name) {
  return of_classifier(name) || name.starts_with("bert.pooler.");
}

SOMA_INLINE std::string names_instead(const std::string& name, const StateDict& given,
                                      const std::vector<std::string>& others) {
  const std::string bare = name.substr(name.find('.') + 1);
  for (const std::string& wanted : {name, bare})
    for (const std::string& other : others)
      if (other.size() > wanted.size() + 1 && other.ends_with("." + wanted) &&
          !is_model_prefix(other.substr(0, other.size() - wanted.size())))
        return "names without the prefix " +
               soma::quoted(other.substr(0, other.size() - wanted.size())) + ", as " +
               soma::quoted(other) + " has";
  const auto of_encoder = [&](const auto& entry) { return !of_classifier(entry.first); };
  if (others.empty() || std::any_of(given.begin(), given.end(), of_encoder))
    return given.near_names(name);
  std::string text = "a name of a BERT or DistilBERT; the file has";
  constexpr std::size_t most = 3;
  for (std::size_t i = 0; i < others.size() && i < most; ++i)
    text.append(i == 0 ? " " : ", ").append(soma::quoted(others[i]));
  if (others.size() > most)
    text.append(" and ").append(std::to_string(others.size() - most)).append(" more");
  return text;
}

SOMA_INLINE void convert_tensor(Context& context, const Tensor& from, const Tensor& to) {
  if (from.dtype() == to.dtype())
    copy(from, to);
  else
    convert(
        context,
        code_span(format_of(from.dtype()), std::span<const std::byte>(from.raw(), from.bytes())),
        code_span(format_of(to.dtype()), std::span<std::byte>(to.mutable_raw(), to.bytes())));
  // A tensor of a mapped file: its pages are read again if it is asked for again.
  if (!from.storage().writable()) system::release_pages(from.raw(), from.bytes());
}

SOMA_INLINE std::uint64_t least_parameters(const BertConfig& config) {
  const std::uint64_t width = config.width, inner = config.inner;
  const std::uint64_t types = config.kind == BertKind::bert ? config.types : 0;
  const std::uint64_t tables = std::uint64_t{config.vocabulary} + config.positions + types + 2;
  const std::uint64_t layer = 4 * width * (width + 1) + inner * (width + 1) + width * (inner + 1) +
                              4 * width;  // two LayerNorms
  return tables * width + config.layers * layer;
}

SOMA_INLINE void check_claimed_sizes(std::string_view operation, std::string_view folder,
                                     const BertConfig& config,
                                     const std::vector<SafetensorsFile>& files) {
  std::uint64_t bytes = 0;
  for (const SafetensorsFile& file : files) {
    for (const auto& [name, tensor] : file.tensors) bytes += tensor.bytes();
    for (const SkippedTensor& tensor : file.skipped) bytes += tensor.bytes;
  }
  if (const std::uint64_t wanted = least_parameters(config); wanted > bytes)
    fail(error_id::config_value, operation, "config.json of " + soma::quoted(folder),
         "one of " + std::to_string(wanted) + " parameters (num_hidden_layers " +
             std::to_string(config.layers) + ", hidden_size " + std::to_string(config.width) + ")",
         "at most one for each of the " + std::to_string(bytes) + " bytes of the weights");
}

SOMA_INLINE std::string near_parameters(Context& context, const Parameters& parameters,
                                        std::string_view name) {
  StateDict names;
  for (const Parameter& parameter : parameters)
    names.set(parameter.name, Tensor::scalar(context, std::int64_t{0}));
  return names.near_names(name);
}

SOMA_INLINE LoadedBert load_bert_files(Context& context, const BertClassifier& classifier,
                                       const std::string& source,
                                       const std::vector<SafetensorsFile>& files,
                                       const LoadBertOptions& options) {
  constexpr std::string_view operation = "load_bert";
  const Parameters parameters = nn::parameters(classifier);
  std::map<std::string_view, const Parameter*> target;  // as their names ascend
  for (const Parameter& parameter : parameters) target.emplace(parameter.name, &parameter);
  const BertKind kind = classifier.bert.config.kind;
  LoadedBert result;
  // True if a parameter takes the tensor of that name in a file.
  const auto wanted = [&](const std::string& name) {
    const std::string known = bert_name(name, kind);
    const bool unwanted = options.new_classifier && known.starts_with("classifier.");
    if (target.contains(known) && !unwanted) return true;
    if (!unwanted && !may_be_left_out(known, kind))
      fail(error_id::extra_name, operation, "name",
           soma::quoted(name) + " in " + soma::quoted(source),
           "a name of the model, " + near_parameters(context, parameters, known));
    result.passed_over.push_back(name);
    return false;
  };
  StateDict given;
  for (const SafetensorsFile& file : files) {
    for (const auto& [name, tensor] : file.tensors)
      if (wanted(name)) given.set(bert_name(name, kind), tensor);
    for (const SkippedTensor& tensor : file.skipped)
      if (wanted(tensor.name)) {
        check_no_doubles(operation, source, tensor);
        file.at(tensor.name);  // the error
      }
  }

  for (const auto& [name, parameter] : target) {
    const Tensor* from = given.find(name);
    if (from == nullptr) {
      if (!may_be_fresh(name))
        fail(error_id::missing_name, operation, "name",
             soma::quoted(name) + ", which " + soma::quoted(source) + " lacks",
             names_instead(parameter->name, given, result.passed_over));
      result.fresh.push_back(parameter->name);
      continue;
    }
    const Tensor to = parameter->value();
    const std::string argument = soma::quoted(name) + " in " + soma::quoted(source);
    if (from->shape() != to.shape())
      fail(error_id::state_shape, operation, argument, from->describe(), to.describe());
    if (!is_floating(from->dtype()))
      fail(error_id::state_dtype, operation, argument, from->describe(), "floating-point numbers");
    if (to.defined() ? !to.storage().writable() : options.later == nullptr)
      fail(error_id::tensor_read_only, operation, soma::quoted(name),
           to.describe() + (to.defined() ? " of constant elements" : " that is not made yet"),
           "a writable tensor");
  }
  for (const auto& [name, from] : given) {
    const Parameter& parameter = *target.at(name);
    if (const Tensor to = parameter.value(); to.defined())
      convert_tensor(context, from, to);
    else
      options.later->replace(parameter, from, &convert_tensor);
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE LoadedBert load_bert(Context& context, const BertClassifier& classifier,
                                 std::string_view path, const LoadBertOptions& options) {
  const std::string source(path);
  return detail::load_bert_files(context, classifier, source,
                                 detail::model_files(context, "load_bert", source), options);
}

SOMA_INLINE BertConfigFile load_bert_config(std::string_view path) {
  std::string file(path);
  if (detail::is_folder(file)) file.append("/config.json");
  return bert_config_from_json(detail::text_of(*MappedFile::open("load_bert_config", file)), file);
}

}  // namespace SOMA_NAMESPACE::models

namespace SOMA_NAMESPACE::models::detail {

SOMA_INLINE void check_weights(std::string_view operation, const Parameters& parameters,
                               std::span<const StateDict::Entry> weights) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i < (std::max)(names.size(), weights.size()); ++i) {
    const std::string_view given = i < weights.size() ? weights[i].first : std::string_view();
    const std::string_view wanted = i < names.size() ? names[i] : std::string_view();
    if (given != wanted)
      fail(error_id::missing_name, operation, "weights", soma::quoted(given),
           soma::quoted(wanted) + ", a parameter of the classifier");
  }
}

SOMA_INLINE void check_replaced(std::string_view operation, std::string_view path,
                                const AtomicFolder& folder,
                                const std::vector<std::pair<std::string, std::string>>& files) {
  for (const std::filesystem::directory_entry& entry : folder.replaced()) {
    const std::string name = system::name_of(entry);
    std::error_code problem;
    const bool is_model = !entry.is_directory(problem) &&
                          (contains(saved_names, name) ||
                           std::any_of(files.begin(), files.end(),
                                       [&](const auto& file) { return file.first == name; }));
    if (!is_model)
      fail(error_id::file_write, operation, "folder",
           soma::quoted(path) + ", which holds " + soma::quoted(name),
           "a new or an empty one, or a saved model: it would be replaced in whole");
  }
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE void check_model_folder(std::string_view operation, std::string_view path) {
  detail::check_replaced(operation, path, AtomicFolder(operation, path), {});
}

SOMA_INLINE void save_bert(std::string_view path, const BertClassifier& classifier,
                           const SaveBertOptions& options) {
  constexpr std::string_view operation = "save_bert";
  BertConfigFile file{.config = classifier.bert.config,
                      .labels = options.labels,
                      .pad_token = options.pad_token,
                      .kind = options.kind,
                      .input = options.input};
  const std::size_t count = classifier.classifier.weight.shape()[0];
  for (std::size_t i = 0; i < count && options.labels.empty(); ++i)
    file.labels.push_back(detail::default_label(i));
  if (file.labels.size() != count)
    fail(error_id::config_value, operation, "labels", std::to_string(file.labels.size()),
         std::to_string(count) + ", a label for each logit");
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    const std::string& name = options.files[i].first;
    bool taken = name == "config.json" || name == "model.safetensors";
    for (std::size_t j = 0; j < i; ++j) taken = taken || options.files[j].first == name;
    if (taken || !detail::plain_name(name))
      fail(error_id::model_file_name, operation, "files", soma::quoted(name),
           "a name without \"/\" that no other file of the model has");
  }

  if (options.weights != nullptr)
    detail::check_weights(operation, nn::parameters(classifier), options.weights->entries());

  AtomicFolder folder(operation, path);
  detail::check_replaced(operation, path, folder, options.files);
  const auto write = [&](std::string_view name, std::string_view content) {
    AtomicFile whole(operation, folder / name);
    whole.write(content);
    whole.commit();
  };
  write("config.json", to_json(file));
  for (const auto& [name, content] : options.files) write(name, content);
  const SafetensorsMetadata mark{{"format", "pt"}};  // other readers require it
  const std::string weights = folder / "model.safetensors";
  if (options.weights != nullptr)
    save_safetensors(weights, *options.weights, mark);
  else
    save_safetensors(weights, nn::state_dict(nn::parameters(classifier)), mark);
  folder.commit();
}

}  // namespace SOMA_NAMESPACE::models

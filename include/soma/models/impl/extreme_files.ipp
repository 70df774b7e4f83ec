#pragma once
// The functions of extreme_files.hpp.

#include <soma/models/extreme_files.hpp>

#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/models/pretrained.hpp>
#include <soma/nn/state.hpp>
#include <soma/system/files.hpp>
#include <soma/text/text_lines.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models::detail {

// A file of its own, which folders of earlier programs do not have.
inline constexpr std::string_view label_names_file = "labels.txt";

SOMA_INLINE void check_label_names(std::string_view operation, std::span<const std::string> names,
                                   std::size_t classes) {
  const auto refuse = [&](const std::string& given, const std::string& wanted) {
    fail(error_id::config_value, operation, "names of classes", given, wanted);
  };
  if (names.size() != classes)
    refuse(std::to_string(names.size()), std::to_string(classes) + ", one for each class");
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.front().empty()) refuse("an empty name", "a text");
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    refuse(soma::quoted(*twice) + " twice", "each once");
  for (const std::string& name : names)
    if (name.find_first_of("\r\n") != name.npos) refuse(soma::quoted(name), "a text of one line");
}

inline constexpr std::string_view label_counts_file = "label_counts.safetensors";

// The version of folders of the linear kinds. Earlier programs, which know networks only, have no
// version, and refuse these folders for what they lack.
inline constexpr std::uint64_t extreme_version = 2;

SOMA_INLINE std::unique_ptr<ExtremeClassifier> load_extreme_linear(Context& context,
                                                                   const std::string& path,
                                                                   const Record& record) {
  const auto refuse = [&](std::string_view name, const std::string& given,
                          const std::string& wanted) {
    fail(error_id::config_value, "load_extreme_classifier",
         std::string(name).append(" in config.json of ").append(soma::quoted(path)), given, wanted);
  };
  if (record.text("model_type") != extreme_model_type)
    fail(error_id::config_type, "load_extreme_classifier",
         "model_type in config.json of " + soma::quoted(path),
         soma::quoted(record.text("model_type")), soma::quoted(extreme_model_type));
  if (const std::uint64_t version = record.count("version"); version != extreme_version)
    refuse("version", std::to_string(version), std::to_string(extreme_version));
  ExtremeFit fit{.c = record.number("fit.c"), .passes = record.count("fit.passes")};
  const std::string_view kind = record.text("kind");
  for (const ExtremeKind known : {ExtremeKind::linear, ExtremeKind::tree})
    if (kind == extreme_kind_names[static_cast<std::size_t>(known)]) fit.kind = known;
  if (kind != extreme_kind_names[static_cast<std::size_t>(fit.kind)])
    refuse("kind", soma::quoted(kind), "linear or tree");
  const std::uint64_t features = record.count("features"), classes = record.count("classes");
  const std::uint64_t beam = record.count("beam");
  for (const auto& [name, value] :
       {std::pair("features", features), std::pair("classes", classes), std::pair("beam", beam)})
    if (value == 0 || value > std::uint64_t{1} << 31)
      refuse(name, std::to_string(value), "1 to 2^31");
  const SafetensorsFile file = load_safetensors(context, path + "/model.safetensors");
  return std::make_unique<ExtremeClassifier>(
      context, ExtremeLinear::from_state(context, file.tensors, fit, features, classes, beam));
}

SOMA_INLINE void save_label_counts(const std::string& path, const ExtremeClassifier& model) {
  const LabelCounts& counts = model.label_counts();
  if (counts.points_of_class.empty()) return;
  std::vector<std::int32_t> numbers(counts.points_of_class.begin(), counts.points_of_class.end());
  StateDict state;
  Context& context = model.context();
  state.set("points_of_class",
            Tensor::from(context, std::span<const std::int32_t>(numbers), Shape{numbers.size()}));
  state.set("points", Tensor::full(context, Shape{1}, static_cast<std::int64_t>(counts.points)));
  save_safetensors(path, state);
}

SOMA_INLINE void load_label_counts(Context& context, const std::string& path,
                                   ExtremeClassifier& model) {
  if (!system::is_regular(path)) return;
  const SafetensorsFile file = load_safetensors(context, path);
  const std::size_t classes = model.options().classes;
  const StateDict wanted = [&] {
    StateDict state;
    state.set("points_of_class", Tensor::zeros(context, Shape{classes}, DType::int32));
    state.set("points", Tensor::zeros(context, Shape{1}, DType::int64));
    return state;
  }();
  copy_into(file.tensors, wanted, {.extra_names_are_errors = true});
  LabelCounts counts;
  const auto refuse = [&](std::int64_t number) {
    fail(error_id::config_value, "load_extreme_classifier", "a number of " + soma::quoted(path),
         std::to_string(number), "at least 0");
  };
  for (const std::int32_t number : wanted.at("points_of_class").span<std::int32_t>()) {
    if (number < 0) refuse(number);
    counts.points_of_class.push_back(static_cast<std::uint32_t>(number));
  }
  const std::int64_t points = wanted.at("points").span<std::int64_t>()[0];
  if (points < 0) refuse(points);
  counts.points = static_cast<std::uint64_t>(points);
  model.use_label_counts(std::move(counts));
}

}  // namespace SOMA_NAMESPACE::models::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE Record to_record(const ExtremeOptions& options) {
  Record record("config.json");
  record.set("model_type", extreme_model_type);
  record.set("features", options.features);
  record.set("classes", options.classes);
  record.set("width", options.width);
  record.set("seed", options.seed);
  const nn::SamplerOptions& sampler = options.sampler;
  record.set("sampler", nn::sampler_names[static_cast<std::size_t>(sampler.kind)]);
  record.set("sampler.set", sampler.set);
  record.set("sampler.seed", sampler.seed);
  record.set("sampler.refresh_every", sampler.refresh_every);
  record.set("hash.version", nn::ClassIndex::version);
  record.set("hash.seed", sampler.index.seed);
  record.set("hash.tables", sampler.index.tables);
  record.set("hash.codes", sampler.index.codes);
  return record;
}

SOMA_INLINE Record to_record(const ExtremeLinear& model) {
  const ExtremeFit& fit = model.fitted();
  Record record("config.json");
  record.set("model_type", extreme_model_type);
  record.set("version", detail::extreme_version);
  record.set("kind", extreme_kind_names[static_cast<std::size_t>(fit.kind)]);
  record.set("features", model.features());
  record.set("classes", model.classes());
  record.set("beam", model.beam());
  record.set("fit.c", fit.c);
  record.set("fit.passes", fit.passes);
  return record;
}

SOMA_INLINE ExtremeOptions extreme_options_of(const Record& record, std::string_view folder) {
  const auto refuse = [&](ErrorId id, std::string_view name, std::string_view given,
                          std::string_view wanted) {
    fail(id, "load_extreme_classifier",
         std::string(name).append(" in config.json of ").append(soma::quoted(folder)), given,
         wanted);
  };
  if (record.text("model_type") != extreme_model_type)
    refuse(error_id::config_type, "model_type", soma::quoted(record.text("model_type")),
           soma::quoted(extreme_model_type));
  if (const std::uint64_t version = record.count("hash.version");
      version != nn::ClassIndex::version)
    refuse(error_id::config_value, "hash.version", std::to_string(version),
           std::to_string(nn::ClassIndex::version) + ": hashes of this program");
  ExtremeOptions options{.features = record.count("features"),
                         .classes = record.count("classes"),
                         .width = record.count("width"),
                         .seed = record.count("seed")};
  const auto* const names = std::begin(nn::sampler_names);
  const auto* const found = std::find(names, std::end(nn::sampler_names), record.text("sampler"));
  if (found == std::end(nn::sampler_names))
    refuse(error_id::config_value, "sampler", soma::quoted(record.text("sampler")),
           "full, uniform, lsh_shared or lsh_per_sample");
  nn::SamplerOptions& sampler = options.sampler;
  sampler.kind = static_cast<nn::Sampler>(found - names);
  sampler.set = record.count("sampler.set");
  sampler.seed = record.count("sampler.seed");
  sampler.refresh_every = record.count("sampler.refresh_every");
  sampler.index = {.tables = record.count("hash.tables"),
                   .codes = record.count("hash.codes"),
                   .seed = record.count("hash.seed")};
  return options;
}

SOMA_INLINE std::vector<std::string> read_label_names(const std::string& file,
                                                      std::size_t classes) {
  constexpr std::string_view operation = "read_label_names";
  std::vector<std::string> names;
  std::string line;
  for (text::TextLines lines(file, operation); lines.next(line);) names.push_back(line);
  detail::check_label_names(operation, names, classes);
  return names;
}

SOMA_INLINE std::vector<std::string> load_label_names(std::string_view folder,
                                                      std::size_t classes) {
  const std::string file = std::string(folder).append("/").append(detail::label_names_file);
  return system::is_regular(file) ? read_label_names(file, classes) : std::vector<std::string>();
}

SOMA_INLINE void save_extreme_classifier(const ExtremeClassifier& model, std::string_view folder,
                                         std::span<const std::string> names) {
  detail::save_extreme(model, folder, names, {});
}

SOMA_INLINE void detail::save_extreme(const ExtremeClassifier& model, std::string_view folder,
                                      std::span<const std::string> names,
                                      const std::function<void(const AtomicFolder& target)>& add) {
  constexpr std::string_view operation = "save_extreme_classifier";
  if (!names.empty()) detail::check_label_names(operation, names, model.options().classes);
  AtomicFolder target(operation, folder);
  detail::check_replaced(operation, folder, target, {});
  AtomicFile config(operation, target / "config.json");
  const ExtremeLinear* const linear = model.linear_model();
  config.write(
      to_json(linear != nullptr ? to_record(*linear) : to_record(model.options())).append("\n"));
  config.commit();
  save_safetensors(target / "model.safetensors", linear != nullptr
                                                     ? linear->state(model.context())
                                                     : nn::state_dict(model.parameters()));
  detail::save_label_counts(target / detail::label_counts_file, model);
  if (!names.empty()) {
    AtomicFile file(operation, target / detail::label_names_file);
    for (const std::string& name : names) file.write(name + "\n");
    file.commit();
  }
  if (add) add(target);
  target.commit();
}

SOMA_INLINE std::unique_ptr<ExtremeClassifier> load_extreme_classifier(Context& context,
                                                                       std::string_view folder) {
  const std::string path(folder);
  const auto file = MappedFile::open("load_extreme_classifier", path + "/config.json");
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  const Record record = record_from_json(text.substr(0, text.find_last_not_of("\r\n") + 1),
                                         "config.json of " + soma::quoted(folder));
  std::unique_ptr<ExtremeClassifier> model;
  if (record.find("kind") != nullptr) {
    model = detail::load_extreme_linear(context, path, record);
  } else {
    model = std::make_unique<ExtremeClassifier>(context, extreme_options_of(record, folder));
    const SafetensorsFile weights = load_safetensors(context, path + "/model.safetensors");
    nn::load(model->parameters(), weights.tensors, {.extra_names_are_errors = true});
  }
  detail::load_label_counts(context, path + "/" + std::string(detail::label_counts_file), *model);
  return model;
}

}  // namespace SOMA_NAMESPACE::models

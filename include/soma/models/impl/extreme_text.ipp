#pragma once
// The functions of extreme_text.hpp.

#include <soma/models/extreme_text.hpp>

#include <soma/base/error.hpp>
#include <soma/io/atomic_folder.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/system/files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

inline constexpr std::string_view text_record_file = "text_features.json";
inline constexpr std::string_view text_state_file = "text_features.safetensors";

inline data::SparsePoints points_of_rows(text::FeatureRows rows, std::size_t features,
                                         std::size_t classes) {
  data::SparsePoints points{.features = (std::max)(features, std::size_t{1}), .classes = classes};
  points.offsets.assign(rows.begins.begin(), rows.begins.end());
  points.ids = std::move(rows.features);
  points.values = std::move(rows.values);
  return points;
}

}  // namespace detail

SOMA_INLINE TextPoints learn_text_points(Context& context, std::span<const std::string_view> texts,
                                         data::IdLists labels, std::size_t classes) {
  constexpr std::string_view operation = "learn_text_points";
  if (texts.empty()) fail(error_id::data_empty, operation, "texts", "none", "at least one");
  if (labels.offsets.size() != texts.size() + 1)
    fail(error_id::data_labels, operation, "lists of labels",
         std::to_string(labels.offsets.size()) + " borders",
         std::to_string(texts.size()) + " + 1, a list for each text");
  for (const std::int32_t label : labels.ids)
    if (label < 0 || static_cast<std::size_t>(label) >= classes)
      fail(error_id::data_labels, operation, "a label", std::to_string(label),
           "below " + std::to_string(classes));
  std::uint64_t bytes = 0;
  for (const std::string_view one : texts) bytes += one.size();
  const bool brief = text::are_short(bytes, texts.size());
  TextPoints result{.features = text::CountedFeatures({.parts_from = brief ? 3u : 0u,
                                                       .parts = brief ? 5u : 0u,
                                                       .strength = 0.35,
                                                       .drop_single = !brief}),
                    .points = {}};
  const text::FeatureCounts counts = result.features.learn(context, texts);
  const std::vector<std::int64_t> begins(labels.offsets.begin(), labels.offsets.end());
  const std::vector<std::uint8_t> used(texts.size(), 1);
  result.features.weigh(counts, begins, labels.ids, classes, used);
  result.points = detail::points_of_rows(result.features.values(counts, used, 1),
                                         result.features.rows(), classes);
  result.points.labels = std::move(labels);
  return result;
}

SOMA_INLINE data::SparsePoints text_points(const text::CountedFeatures& features,
                                           std::span<const std::string_view> texts,
                                           std::size_t classes) {
  text::FeatureRows rows;
  for (const std::string_view one : texts) features.add(one, rows);
  return detail::points_of_rows(std::move(rows), features.rows(), classes);
}

SOMA_INLINE void save_extreme_text(const ExtremeClassifier& model,
                                   const text::CountedFeatures& features, std::string_view folder,
                                   std::span<const std::string> names) {
  const text::CountedFeatures::Table& table = features.table();
  Record record("text_features.json");
  record.set("version", text::CountedFeatures::version);
  features.describe(record, {});
  StateDict state;
  const auto put = [&]<class T>(const char* name, const std::vector<T>& values) {
    state.set(name,
              Tensor::from(model.context(), std::span<const T>(values), Shape{features.rows()}));
  };
  put("homes", table.homes);
  put("fingerprints", table.fingerprints);
  put("idf", table.idf);
  put("g", table.g);
  put("of_part", table.of_part);
  detail::save_extreme(model, folder, names, [&](const AtomicFolder& target) {
    AtomicFile file("save_extreme_text", target / detail::text_record_file);
    file.write(to_json(record).append("\n"));
    file.commit();
    save_safetensors(target / detail::text_state_file, state);
  });
}

SOMA_INLINE std::optional<text::CountedFeatures> load_text_features(Context& context,
                                                                    std::string_view folder) {
  constexpr std::string_view operation = "load_text_features";
  const std::string path(folder);
  const std::string record_path = path + "/" + std::string(detail::text_record_file);
  if (!system::is_regular(record_path)) return std::nullopt;
  const auto file = MappedFile::open(operation, record_path);
  const std::string_view json(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  const Record record = record_from_json(json.substr(0, json.find_last_not_of("\r\n") + 1),
                                         "text_features.json of " + soma::quoted(folder));
  if (const std::uint64_t version = record.count("version");
      version != text::CountedFeatures::version)
    fail(error_id::text_features, operation, "version of hashes in " + soma::quoted(folder),
         std::to_string(version), std::to_string(text::CountedFeatures::version));
  const SafetensorsFile stored =
      load_safetensors(context, path + "/" + std::string(detail::text_state_file));
  text::CountedFeatures::Table table;
  const auto get = [&]<class T>(const char* name, std::vector<T>& values) {
    const Tensor& tensor = stored.tensors.at(name);
    if (tensor.dtype() != dtype_of<T>)
      fail(error_id::state_dtype, operation, name, tensor.describe(), to_string(dtype_of<T>));
    if (tensor.rank() != 1)
      fail(error_id::state_shape, operation, name, tensor.describe(), "a number for each row");
    const auto span = tensor.span<T>();
    values.assign(span.begin(), span.end());
  };
  get("homes", table.homes);
  get("fingerprints", table.fingerprints);
  get("idf", table.idf);
  get("g", table.g);
  get("of_part", table.of_part);
  for (const std::uint8_t one : table.of_part)
    if (one > 1) fail(error_id::text_features, operation, "of_part", std::to_string(one), "0 or 1");
  return text::CountedFeatures::of_record(record, {}, std::move(table));
}

}  // namespace SOMA_NAMESPACE::models

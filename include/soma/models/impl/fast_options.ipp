#pragma once
// The functions of fast_options.hpp.

#include <soma/models/fast_options.hpp>

#include <soma/base/error.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/system/files.hpp>
#include <soma/text/counted_features.hpp>
#include <soma/text/hashed_features.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE std::uint64_t unspaced_bytes(std::string_view content) {
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at < content.size();) {
    const text::CodePoint point = text::decode_utf8(content, at);
    const auto within = [&](char32_t low, char32_t high) {
      return point.value >= low && point.value <= high;
    };
    at += point.bytes;
    if (point.value < 0x0E00 || !point.valid) continue;
    if (within(0x0E00, 0x0EFF) || within(0x1000, 0x109F) || within(0x1780, 0x17FF) ||
        within(0x3040, 0x30FF) || within(0x3400, 0x4DBF) || within(0x4E00, 0x9FFF) ||
        within(0xF900, 0xFAFF) || within(0x20000, 0x323AF))
      bytes += point.bytes;
  }
  return bytes;
}

SOMA_INLINE FastOptions fast_options_for(const TextSetSize& size, std::vector<std::string> labels,
                                         std::uint64_t seed, std::size_t memory) {
  FastOptions options{.labels = std::move(labels), .seed = seed};
  options.width = size.classes <= 16 ? 16 : size.classes <= 64 ? 32 : 64;
  if (text::are_short(size.bytes, size.rows)) options.features.parts = 5;
  if (2 * size.unspaced_bytes > size.bytes) {
    options.features.tokens = text::TokenKind::characters;
    options.features.window = 1;
    options.features.ngrams = 3;
    options.features.parts = 0;
  }
  const int bits = static_cast<int>(std::bit_width(size.bytes)) - 1;
  const int most =
      (std::max)(static_cast<int>(std::bit_width(memory / (4 * options.width))) - 1, 10);
  options.features.bits = (std::clamp)(bits, 12, (std::clamp)(most, 12, 26));
  return options;
}

}  // namespace SOMA_NAMESPACE::models

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string joined_labels(const std::vector<std::string>& labels) {
  std::string joined;
  for (const std::string& label : labels) joined.append(label).push_back('\n');
  return joined;
}

// Both kinds have these: seed, labels, the form of input.
inline void read_common_options(const Record& record, std::string_view folder,
                                models::FastOptions& options) {
  options.seed = record.count("seed");
  if (record.contains(models::input_form_key))
    options.input = models::input_form_of(
        record_from_json(record.text(models::input_form_key), std::string(models::input_form_key)
                                                                  .append(" in config.json of ")
                                                                  .append(soma::quoted(folder))));
  std::string_view rest = record.text("labels");
  for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1))
    options.labels.emplace_back(rest.substr(0, end));
  if (!rest.empty())
    fail(error_id::config_value, "FastClassifier::from_folder",
         std::string("labels in config.json of ").append(soma::quoted(folder)), soma::quoted(rest),
         "names that end with a line's end");
}

SOMA_INLINE Record read_fast_config(const std::string& folder) {
  const auto file = MappedFile::open("FastClassifier::from_folder", folder + "/config.json");
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  return record_from_json(text.substr(0, text.find_last_not_of("\r\n") + 1),
                          "config.json of " + soma::quoted(folder));
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE::models {

SOMA_INLINE Record to_record(const FastOptions& options) {
  Record record("config.json");
  record.set("model_type", soma::detail::fast_model_type);
  text::HashedFeatures(options.features).describe(record);
  record.set("width", options.width);
  record.set("seed", options.seed);
  record.set("labels", soma::detail::joined_labels(options.labels));
  if (options.input != InputForm{}) record.set(input_form_key, to_json(to_record(options.input)));
  return record;
}

SOMA_INLINE FastOptions fast_options_of(const Record& record, std::string_view folder) {
  const auto refuse = [&](ErrorId id, std::string_view name, std::string_view given,
                          std::string_view wanted) {
    fail(id, "FastClassifier::from_folder",
         std::string(name).append(" in config.json of ").append(soma::quoted(folder)), given,
         wanted);
  };
  if (record.text("model_type") != soma::detail::fast_model_type)
    refuse(error_id::config_type, "model_type", soma::quoted(record.text("model_type")),
           soma::quoted(soma::detail::fast_model_type));
  if (const std::uint64_t version = record.count("features.version");
      version != text::HashedFeatures::version)
    refuse(error_id::text_features, "features.version", std::to_string(version),
           std::to_string(text::HashedFeatures::version) + ": hashes of this program");
  FastOptions options;
  const auto* const names = text::token_kind_names;
  const std::size_t kinds = std::size(text::token_kind_names);
  const auto found = static_cast<std::size_t>(
      std::find(names, names + kinds, record.text("features.tokens")) - names);
  if (found == kinds)
    refuse(error_id::text_features, "features.tokens", soma::quoted(record.text("features.tokens")),
           "words, words_and_punctuation or characters");
  options.features.tokens = static_cast<text::TokenKind>(found);
  options.features.window = record.count("features.window");
  options.features.ngrams = record.count("features.ngrams");
  options.features.parts = record.count("features.parts");
  options.features.bits =
      static_cast<int>((std::min)(record.count("features.bits"), std::uint64_t{100}));
  options.features.seed = record.count("features.seed");
  options.width = record.count("width");
  soma::detail::read_common_options(record, folder, options);
  return options;
}

SOMA_INLINE Record fast_linear_record(const FastOptions& options) {
  Record record("config.json");
  record.set("model_type", soma::detail::fast_model_type);
  record.set("features.version", text::CountedFeatures::version);
  record.set("seed", options.seed);
  record.set("labels", soma::detail::joined_labels(options.labels));
  if (options.input != InputForm{}) record.set(input_form_key, to_json(to_record(options.input)));
  return record;
}

SOMA_INLINE FastOptions fast_linear_options_of(const Record& record, std::string_view folder) {
  FastOptions options;
  soma::detail::read_common_options(record, folder, options);
  if (options.labels.size() < 2)
    fail(error_id::config_value, "FastClassifier::from_folder",
         std::string("labels in config.json of ").append(soma::quoted(folder)),
         std::to_string(options.labels.size()), "at least 2");
  return options;
}

SOMA_INLINE bool is_fast_classifier(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!system::is_regular(path)) return false;
  const auto file = MappedFile::open("is_fast_classifier", path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  // The type is the first entry that save() writes.
  return text.substr(0, 80).find(soma::detail::fast_model_type) != text.npos;
}

}  // namespace SOMA_NAMESPACE::models

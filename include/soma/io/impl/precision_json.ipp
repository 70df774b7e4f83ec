#pragma once
// The functions of precision_json.hpp.

#include <soma/io/precision_json.hpp>

#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/numeric/precision_text.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE PrecisionReader::PrecisionReader(Json object, std::string path)
    : rest_(std::move(object)), path_(std::move(path)) {
  if (!rest_.is_object()) refuse(path_.empty() ? "text" : path_, rest_, "a JSON object");
}

SOMA_INLINE std::string PrecisionReader::joined(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

SOMA_INLINE void PrecisionReader::refuse(std::string_view argument, const Json& given,
                                         std::string_view wanted) {
  constexpr std::size_t most = 80;  // characters shown of a text from outside
  fail(error_id::train_precision, "precision_from_json", argument,
       given.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, most), wanted);
}

SOMA_INLINE bool PrecisionReader::has(std::string_view name) const { return rest_.contains(name); }

SOMA_INLINE auto PrecisionReader::take(std::string_view name) -> Json {
  const auto entry = rest_.find(name);
  Json value = std::move(*entry);
  rest_.erase(entry);
  return value;
}

SOMA_INLINE void PrecisionReader::read(std::string_view name, bool& value) {
  if (!has(name)) return;
  const Json given = take(name);
  if (!given.is_boolean()) refuse(joined(name), given, "true or false");
  value = given.get<bool>();
}

SOMA_INLINE void PrecisionReader::read(std::string_view name, std::string& value) {
  if (!has(name)) return;
  const Json given = take(name);
  if (!given.is_string()) refuse(joined(name), given, "a text");
  value = given.get<std::string>();
}

SOMA_INLINE void PrecisionReader::read(std::string_view name, std::vector<std::string>& values) {
  if (!has(name)) return;
  const Json given = take(name);
  values.clear();
  for (const Json& value : given.is_array() ? given : Json::array({nullptr})) {
    if (!value.is_string()) refuse(joined(name), given, "a list of texts");
    values.push_back(value.get<std::string>());
  }
}

SOMA_INLINE void PrecisionReader::finish() const {
  if (!rest_.empty())
    refuse(joined(rest_.begin().key()), rest_.begin().value(),
           "a name that docs/precision.md lists");
}

SOMA_INLINE void read_format(PrecisionReader& from, std::string_view name, FloatFormat& format) {
  if (!from.has(name)) return;
  const PrecisionReader::Json given = from.take(name);
  if (given.is_string()) {
    for (const NamedFormat& known : named_formats)
      if (given == known.name) {
        format = known.format;
        return;
      }
    std::string wanted = "one of";
    for (const NamedFormat& known : named_formats) wanted.append(" ").append(known.name);
    PrecisionReader::refuse(from.joined(name), given, wanted);
  }
  PrecisionReader reader(given, from.joined(name));
  format = {};
  reader.read("exponent_bits", format.exponent_bits, 1, 8);
  reader.read("mantissa_bits", format.mantissa_bits, 0, 23);
  format.bias = (1 << (format.exponent_bits - 1)) - 1;
  reader.read("bias", format.bias, -1024, 1024);
  reader.read_word("specials", specials_words, format.specials);
  reader.read_word("overflow", overflow_words, format.overflow);
  reader.read_word("subnormals", subnormals_words, format.subnormals);
  reader.finish();
}

SOMA_INLINE void read_quantizer(PrecisionReader& from, std::string_view name,
                                Quantizer& quantizer) {
  if (!from.has(name)) return;
  PrecisionReader::Json given = from.take(name);
  if (given.is_string()) given = {{"format", given}};
  PrecisionReader reader(std::move(given), from.joined(name));
  quantizer = {};
  read_format(reader, "format", quantizer.format);
  reader.read_word("rounding", rounding_words, quantizer.rounding.mode);
  reader.read("random_bits", quantizer.rounding.random_bits, 0, 32);
  reader.read_word("draws", draw_words, quantizer.rounding.draws);
  if (reader.has("own"))
    PrecisionReader::refuse(reader.joined("own"), reader.take("own"),
                            "none: a file has no functions; a program sets an OwnRounding");
  if (reader.has("scaling")) {
    PrecisionReader scaling(reader.take("scaling"), reader.joined("scaling"));
    Scaling& s = quantizer.scaling;
    s.policy = ScalePolicy::current;
    scaling.read_word("policy", policy_words, s.policy);
    scaling.read_word("granularity", granularity_words, s.granularity);
    scaling.read_word("format", scale_format_words, s.format);
    scaling.read_word("rule", scale_rule_words, s.rule);
    scaling.read("history", s.history, 1, 4096);
    scaling.read("margin", s.margin, 0, 64);
    scaling.finish();
  }
  if (reader.has("rotation")) {
    PrecisionReader rotation(reader.take("rotation"), reader.joined("rotation"));
    rotation.read("size", quantizer.rotation.size, 16, 128);
    rotation.read_word("signs", rotation_signs_words, quantizer.rotation.signs);
    rotation.finish();
  }
  reader.finish();
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Precision precision_from_json(std::string_view text) {
  using Json = detail::PrecisionReader::Json;
  Json root(Json::value_t::discarded);
  if (soma::may_be_tree(text)) root = Json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded())
    fail(error_id::train_precision, "precision_from_json", "text",
         std::to_string(text.size()) + " bytes that are no JSON", "a JSON object");
  detail::PrecisionReader reader(std::move(root), "");
  std::string preset = "fp32", name;
  reader.read("preset", preset);
  Precision precision = Precision::named(preset);
  reader.read("name", name);
  for_each_role(precision, [&](std::string_view role, Quantizer& quantizer) {
    detail::read_quantizer(reader, role, quantizer);
  });
  std::optional<detail::PrecisionReader> product;
  std::string product_name;
  for_each_product_role(precision, [&](std::string_view entry, std::string_view role,
                                       const Quantizer&, std::optional<Quantizer>& other) {
    const std::string owner(entry.substr(0, entry.find('.')));
    if (owner != product_name) {
      if (product) product->finish();
      product.reset();
      product_name = owner;
      if (reader.has(owner)) product.emplace(reader.take(owner), owner);
    }
    if (!product || !product->has(role)) return;
    detail::read_quantizer(*product, role, other.emplace());
  });
  if (product) product->finish();
  if (reader.has("accumulation")) {
    constexpr std::int64_t most = std::int64_t{1} << 32;
    detail::PrecisionReader part(reader.take("accumulation"), "accumulation");
    precision.accumulation = {};
    detail::read_format(part, "format", precision.accumulation.format);
    part.read("chunk", precision.accumulation.chunk, 1, most);
    part.read("promote", precision.accumulation.promote, 0, most);
    part.finish();
  }
  reader.read("narrow_edges", precision.narrow_edges);
  reader.read("loss_scaling", precision.loss_scaling);
  reader.read("stored", precision.stored);
  reader.finish();
  if (!name.empty())
    precision.name = name;
  else if (precision != Precision::named(preset))
    precision.name = "changed " + preset;
  return validate(precision, "precision_from_json");
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE PrecisionReader::Json to_json_value(const FloatFormat& format) {
  for (const NamedFormat& known : named_formats)
    if (known.format == format) return std::string(known.name);
  PrecisionReader::Json value{{"exponent_bits", format.exponent_bits},
                              {"mantissa_bits", format.mantissa_bits},
                              {"bias", format.bias}};
  const auto set = [&](const char* name, const auto& words, auto meaning) {
    for (const auto& [word, known] : words)
      if (known == meaning) value[name] = std::string(word);
  };
  set("specials", specials_words, format.specials);
  set("overflow", overflow_words, format.overflow);
  set("subnormals", subnormals_words, format.subnormals);
  return value;
}

SOMA_INLINE PrecisionReader::Json to_json_value(const Quantizer& quantizer) {
  PrecisionReader::Json value{{"format", to_json_value(quantizer.format)},
                              {"rounding", std::string(to_string(quantizer.rounding.mode))}};
  if (quantizer.rounding.random_bits != 0) value["random_bits"] = quantizer.rounding.random_bits;
  if (quantizer.rounding.draws != DrawMapping::automatic)
    value["draws"] = std::string(to_string(quantizer.rounding.draws));
  const Scaling& scaling = quantizer.scaling;
  if (quantizer.own.defined()) value["own"] = std::string(quantizer.own.name);
  if (scaling != Scaling{}) {
    value["scaling"] = {{"policy", std::string(to_string(scaling.policy))},
                        {"granularity", std::string(to_string(scaling.granularity))},
                        {"format", std::string(to_string(scaling.format))},
                        {"history", scaling.history},
                        {"margin", scaling.margin}};
    if (scaling.rule != ScaleRule::floor)
      value["scaling"]["rule"] = std::string(to_string(scaling.rule));
  }
  if (quantizer.rotation.size != 0)
    value["rotation"] = {{"size", quantizer.rotation.size},
                         {"signs", std::string(to_string(quantizer.rotation.signs))}};
  return value;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_json(const Precision& precision) {
  detail::PrecisionReader::Json value{{"name", precision.name}};
  for_each_role(precision, [&](std::string_view role, const Quantizer& quantizer) {
    value[std::string(role)] = detail::to_json_value(quantizer);
  });
  for_each_product_role(precision, [&](std::string_view entry, std::string_view role,
                                       const Quantizer&, const std::optional<Quantizer>& other) {
    if (other)
      value[std::string(entry.substr(0, entry.find('.')))][std::string(role)] =
          detail::to_json_value(*other);
  });
  value["accumulation"] = {{"format", detail::to_json_value(precision.accumulation.format)},
                           {"chunk", precision.accumulation.chunk},
                           {"promote", precision.accumulation.promote}};
  value["narrow_edges"] = precision.narrow_edges;
  value["loss_scaling"] = precision.loss_scaling;
  if (!precision.stored.empty()) value["stored"] = precision.stored;
  return value.dump(2, ' ', false, detail::PrecisionReader::Json::error_handler_t::replace);
}

SOMA_INLINE Precision find_precision(std::string_view name_or_file) {
  if (!name_or_file.ends_with(".json")) return Precision::named(name_or_file);
  const auto mapped = MappedFile::open("find_precision", std::string(name_or_file));
  return precision_from_json(std::string_view(reinterpret_cast<const char*>(mapped->bytes().data()),
                                              mapped->bytes().size()));
}

}  // namespace SOMA_NAMESPACE

#pragma once
// A Precision as JSON, and back.
//
//   {"name": "mine", "preset": "fp8_current",
//    "weights": {"format": "bf16", "rounding": "stochastic"},
//    "gemm_weights": {"format": {"exponent_bits": 4, "mantissa_bits": 3, "bias": 11},
//                     "scaling": {"policy": "current", "granularity": "32", "format": "e8m0"}},
//    "accumulation": {"format": "bf16", "chunk": 4, "promote": 128},
//    "narrow_edges": false, "loss_scaling": false, "stored": ["head", "encoder.*.output"]}
//
// Every entry is optional: missing entries come from the preset (fp32 if none is named). A role
// that is present is complete in itself. docs/precision.md lists the words.

#include <soma/base/json_limits.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/numeric/precision_text.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::array specials_words{
    std::pair{"none", Specials::none}, std::pair{"ieee", Specials::ieee},
    std::pair{"nan_all_ones", Specials::nan_all_ones},
    std::pair{"nan_negative_zero", Specials::nan_negative_zero}};
inline constexpr std::array overflow_words{
    std::pair{"special", Overflow::special}, std::pair{"saturate", Overflow::saturate},
    std::pair{"infinity", Overflow::infinity}, std::pair{"nan", Overflow::nan}};
inline constexpr std::array subnormals_words{std::pair{"kept", Subnormals::kept},
                                             std::pair{"flushed", Subnormals::flushed}};

// The words of an enumeration with a to_string.
template <class Enum, class... Values>
constexpr auto words_of(Values... values) {
  return std::array<std::pair<std::string_view, Enum>, sizeof...(values)>{
      std::pair{to_string(values), values}...};
}
inline constexpr auto rounding_words = words_of<RoundingMode>(
    RoundingMode::nearest_even, RoundingMode::nearest_away, RoundingMode::toward_zero,
    RoundingMode::up, RoundingMode::down, RoundingMode::stochastic);
inline constexpr auto draw_words =
    words_of<DrawMapping>(DrawMapping::automatic, DrawMapping::philox, DrawMapping::ars);
inline constexpr auto policy_words =
    words_of<ScalePolicy>(ScalePolicy::none, ScalePolicy::current, ScalePolicy::delayed);
inline constexpr auto granularity_words =
    words_of<Granularity>(Granularity::tensor, Granularity::row, Granularity::block_1x128,
                          Granularity::block_128x128, Granularity::group_32, Granularity::group_16,
                          Granularity::block_16x16, Granularity::block_32x32);
inline constexpr auto scale_format_words = words_of<ScaleFormat>(
    ScaleFormat::fp32, ScaleFormat::power_of_two, ScaleFormat::mx, ScaleFormat::e4m3);
inline constexpr auto scale_rule_words =
    words_of<ScaleRule>(ScaleRule::floor, ScaleRule::up, ScaleRule::even, ScaleRule::trn3);
inline constexpr auto rotation_signs_words =
    words_of<Rotation::Signs>(Rotation::Signs::fixed, Rotation::Signs::drawn);

// Reads an object name by name; names that were never read are an error at the end.
class PrecisionReader {
 public:
  using Json = nlohmann::json;

  // `path` names the object in messages: "gemm_weights.scaling".
  PrecisionReader(Json object, std::string path);

  std::string joined(std::string_view name) const;
  [[noreturn]] static void refuse(std::string_view argument, const Json& given,
                                  std::string_view wanted);

  bool has(std::string_view name) const;
  Json take(std::string_view name);
  void read(std::string_view name, bool& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, std::vector<std::string>& values);
  template <class Integer>
  void read(std::string_view name, Integer& value, std::int64_t least, std::int64_t most) {
    if (!has(name)) return;
    const Json given = take(name);
    const bool fits = given.is_number_unsigned()
                          ? given.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                                static_cast<std::int64_t>(given.get<std::uint64_t>()) >= least
                          : given.is_number_integer() && given.get<std::int64_t>() >= least;
    if (!fits)
      refuse(joined(name), given,
             "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    value = static_cast<Integer>(given.get<std::int64_t>());
  }
  template <class Words, class Enum>
  void read_word(std::string_view name, const Words& words, Enum& value) {
    if (!has(name)) return;
    const Json given = take(name);
    std::string wanted = "one of";
    for (const auto& [word, meaning] : words) {
      if (given == word) {
        value = meaning;
        return;
      }
      wanted.append(" ").append(word);
    }
    refuse(joined(name), given, wanted);
  }
  void finish() const;

 private:
  Json rest_;
  std::string path_;
};

// "bf16", or the record: {"exponent_bits": 4, "mantissa_bits": 3, "bias": 11, ...}.
void read_format(PrecisionReader& from, std::string_view name, FloatFormat& format);

void read_quantizer(PrecisionReader& from, std::string_view name, Quantizer& quantizer);

}  // namespace detail

// Errors train.precision (names the entry: "gemm_weights.scaling.policy").
Precision precision_from_json(std::string_view text);

namespace detail {

PrecisionReader::Json to_json_value(const FloatFormat& format);

PrecisionReader::Json to_json_value(const Quantizer& quantizer);

}  // namespace detail

// Writes all roles, so that reading the text gives the same precision even if presets change.
std::string to_json(const Precision& precision);

// Reads a command line's argument: the name of a preset, or of a JSON file (a name that ends in
// ".json"). Errors train.precision, file.read.
Precision find_precision(std::string_view name_or_file);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/precision_json.ipp>
#endif

#pragma once
// The header of a safetensors file: JSON, read strictly and written as in the reference
// implementation.

#include <soma/base/error.hpp>
#include <soma/base/json_limits.hpp>
#include <soma/base/sizes.hpp>
#include <soma/io/json_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE {

// Texts in a safetensors file beside its tensors.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

namespace detail {

struct SafetensorsEntry {
  std::string name, dtype;
  std::vector<std::size_t> sizes;
  std::size_t begin = 0, end = 0;  // in the data behind the header
};

// Receives the events of the parser and accepts only this form:
//   {"__metadata__": {<key>: <text>, ...},
//    <name>: {"dtype": <text>, "shape": [<size>, ...], "data_offsets": [<begin>, <end>]}, ...}
class SafetensorsHeaderReader {
 public:
  using Json = nlohmann::json;

  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
  std::string problem;  // why the first event was refused

  // Reads the header; returns false if the text is none.
  bool read(std::string_view text);

  bool start_object(std::size_t);
  bool end_object();
  bool key(std::string& name);
  bool string(std::string& text);
  bool start_array(std::size_t);
  bool end_array();
  bool number_unsigned(std::uint64_t number);
  bool number_integer(std::int64_t);
  bool number_float(double, const std::string&);
  bool null();
  bool boolean(bool);
  bool binary(Json::binary_t&);
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&);

 private:
  enum class Place : std::uint8_t { outside, names, value, metadata, fields, numbers, done };

  bool enter(Place place);
  bool refuse(std::string why);
  bool no_duplicates();

  Place place_ = Place::outside;
  bool in_metadata_ = false, has_metadata_ = false;
  unsigned seen_ = 0, field_ = 0;
  std::size_t offsets_ = 0;
};

std::string safetensors_text(std::string_view operation, std::string_view content);

// Error safetensors.name: a text is not UTF-8.
std::string safetensors_header(std::string_view operation,
                               const std::vector<SafetensorsEntry>& entries,
                               const SafetensorsMetadata& metadata);

}  // namespace detail
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/safetensors_header.ipp>
#endif

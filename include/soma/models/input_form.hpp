#pragma once
// InputForm: how the rows of a training were read, and so how a model wants to be asked. A model's
// folder remembers it in its config.json.

#include <soma/base/record.hpp>
#include <soma/text/row_options.hpp>

#include <optional>
#include <string_view>

namespace SOMA_NAMESPACE::models {

struct InputForm {
  // True if each text has a second text. Not set: the folder does not say, as those of other
  // programs.
  std::optional<bool> pairs{};
  text::KnownColumns columns{};
  char label_separator = 0;  // between the labels of a cell; 0: one label each

  friend bool operator==(const InputForm&, const InputForm&) = default;
};

// The key of config.json, an object with the entries of the record.
inline constexpr std::string_view input_form_key = "soma_input";

Record to_record(const InputForm& form);
// Entries that are missing are not known. Errors record.type.
InputForm input_form_of(const Record& record);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/input_form.ipp>
#endif

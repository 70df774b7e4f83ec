#pragma once
// The functions of batch.hpp.

#include <soma/data/batch.hpp>

#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE const Tensor& Batch::at(std::string_view name) const {
  for (const Field& field : fields)
    if (field.name == name) return field.values;
  std::string names;
  for (const Field& field : fields) names.append(names.empty() ? "" : ", ").append(field.name);
  fail(error_id::data_field, "Batch::at", "name", soma::quoted(name),
       names.empty() ? std::string("a field; this batch has none") : "one of " + names);
}

SOMA_INLINE void check_fields(std::string_view operation, std::span<const Field> fields,
                              std::size_t sequences, std::size_t rows) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    if (field.name.empty() || !field.values.defined())
      fail(error_id::data_field, operation, "field " + std::to_string(i),
           field.name.empty() ? "without a name" : "without values", "both");
    for (std::size_t j = 0; j < i; ++j)
      if (fields[j].name == field.name)
        fail(error_id::data_field, operation, "fields",
             "two of the name " + soma::quoted(field.name), "a name for each");
    const std::size_t wanted = field.by_rows ? rows : sequences;
    if (field.values.rank() == 0 || field.values.size(0) != wanted)
      fail(error_id::data_field, operation, "field " + soma::quoted(field.name),
           field.values.describe(),
           std::to_string(wanted) + " in the first dimension, one for each " +
               (field.by_rows ? "row" : "sequence"));
  }
}

SOMA_INLINE void BatchSource::describe(Record& record) const { record.set("data.content", hash()); }

}  // namespace SOMA_NAMESPACE::data

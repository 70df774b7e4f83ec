#pragma once
// The functions of part.hpp.

#include <soma/data/part.hpp>

#include <soma/data/batch.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE Batch part_of(Context& context, const Batch& batch, std::size_t first,
                          std::size_t count) {
  const Sequences& whole = batch.inputs.sequences;
  Batch part = batch;
  part.part = true;
  part.inputs.sequences = whole.part(context, first, count);
  const std::size_t row = whole.row_bounds()[first], end = whole.row_bounds()[first + count];
  part.inputs.rows = batch.inputs.rows.slice(0, row, end);
  if (batch.types.defined()) part.types = batch.types.slice(0, row, end);
  if (batch.values.defined()) part.values = batch.values.slice(0, row, end);
  if (!batch.items.empty())
    part.items.assign(
        batch.items.begin() + static_cast<std::ptrdiff_t>(whole.sequence_bounds()[first]),
        batch.items.begin() + static_cast<std::ptrdiff_t>(whole.sequence_bounds()[first + count]));
  if (batch.labels.defined())
    part.labels = batch.labels.slice(0, whole.sequence_bounds()[first],
                                     whole.sequence_bounds()[first + count]);
  for (Field& field : part.fields)
    field.values = field.by_rows ? field.values.slice(0, row, end)
                                 : field.values.slice(0, whole.sequence_bounds()[first],
                                                      whole.sequence_bounds()[first + count]);
  part.whole_label_lists = batch.part ? batch.whole_label_lists : batch.label_lists;
  if (batch.label_lists.defined())
    part.label_lists = batch.label_lists.part(context, whole.sequence_bounds()[first],
                                              whole.sequence_bounds()[first + count]);
  return part;
}

}  // namespace SOMA_NAMESPACE::data

#pragma once
// The functions of point_source.hpp.

#include <soma/data/point_source.hpp>

#include <soma/data/indexed_source.hpp>
#include <soma/data/labels.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE std::size_t SparsePoints::count() const {
  return offsets.empty() ? 0 : offsets.size() - 1;
}

SOMA_INLINE void check_points(std::string_view operation, const SparsePoints& points) {
  const auto refuse = [&](ErrorId id, const std::string& argument, const std::string& given,
                          std::string_view wanted) {
    fail(id, operation, argument, given, wanted);
  };
  const std::vector<std::size_t>& offsets = points.offsets;
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != points.ids.size() ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    refuse(error_id::data_offsets, "offsets",
           offsets.empty() ? "empty" : "up to " + std::to_string(offsets.back()),
           "ascending numbers from 0 to the number of ids, " + std::to_string(points.ids.size()));
  if (!points.values.empty() && points.values.size() != points.ids.size())
    refuse(error_id::data_offsets, "values", std::to_string(points.values.size()),
           "none, or one for each id: " + std::to_string(points.ids.size()));
  for (std::size_t i = 0; i < points.ids.size(); ++i)
    if (points.ids[i] < 0 || static_cast<std::size_t>(points.ids[i]) >= points.features)
      refuse(error_id::data_feature, "id " + std::to_string(i), std::to_string(points.ids[i]),
             "0 to " + std::to_string(points.features) + " - 1");
  for (std::size_t i = 0; i < points.values.size(); ++i)
    if (!std::isfinite(points.values[i]))
      refuse(error_id::data_feature, "value " + std::to_string(i), std::to_string(points.values[i]),
             "a finite number");
  if (points.labels.empty()) return;
  if (points.labels.count() != points.count())
    refuse(error_id::data_labels, "labels", std::to_string(points.labels.count()) + " lists",
           "one for each point: " + std::to_string(points.count()));
  for (std::size_t i = 0; i < points.labels.ids.size(); ++i)
    if (points.labels.ids[i] < 0 ||
        static_cast<std::size_t>(points.labels.ids[i]) >= points.classes)
      refuse(error_id::data_labels, "label " + std::to_string(i),
             std::to_string(points.labels.ids[i]),
             "0 to " + std::to_string(points.classes) + " - 1");
}

SOMA_INLINE PointSource::PointSource(Context& context, SparsePoints points,
                                     const BatchOptions& options)
    : IndexedSource("PointSource", context, options),
      context_(context),
      points_(std::move(points)) {
  check_points("PointSource", points_);
  start(points_.count());
}

SOMA_INLINE void PointSource::add_content(ContentHash& hash) const {
  hash.add(points_.features);
  hash.add(points_.classes);
  for (const std::uint64_t offset : points_.offsets) hash.add(offset);
  hash.add_list(std::span(points_.ids));
  hash.add_list(std::span(points_.values));
  for (const std::uint64_t offset : points_.labels.offsets) hash.add(offset);
  hash.add_list(std::span(points_.labels.ids));
}

SOMA_INLINE Batch PointSource::make(std::span<const std::uint32_t> items) const {
  Batch batch;
  std::vector<std::size_t> lengths;
  for (const std::uint32_t item : items) lengths.push_back(length(item));
  batch.inputs.sequences = Sequences::from_lengths(context_, lengths, {.shards = options().shards});
  const Shape rows{batch.inputs.sequences.rows()};
  batch.inputs.rows = Tensor::empty(context_, rows, DType::int32);
  const bool valued = !points_.values.empty();
  if (valued) batch.values = Tensor::empty(context_, rows);
  auto* ids = batch.inputs.rows.mutable_data<std::int32_t>();
  auto* values = valued ? batch.values.mutable_data<float>() : nullptr;
  IdLists labels;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t first = points_.offsets[items[i]];
    ids = std::copy_n(points_.ids.data() + first, lengths[i], ids);
    if (valued) values = std::copy_n(points_.values.data() + first, lengths[i], values);
    if (!points_.labels.empty()) labels.add(points_.labels.list(items[i]));
  }
  if (!points_.labels.empty()) {
    const std::vector<std::int64_t> offsets(labels.offsets.begin(), labels.offsets.end());
    batch.label_lists = {
        Tensor::from(context_, std::span<const std::int64_t>(offsets), Shape{offsets.size()}),
        Tensor::from(context_, std::span<const std::int32_t>(labels.ids),
                     Shape{labels.ids.size()})};
  }
  return batch;
}

}  // namespace SOMA_NAMESPACE::data

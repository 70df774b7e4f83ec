#pragma once
// SparsePoints: points with few features among very many, and with lists of labels, in compressed
// rows. PointSource: batches of such points.

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

// Point i has features ids[offsets[i]] up to ids[offsets[i + 1]] with their values, and the labels
// of list i. Memory: 8 bytes a feature of a point.
struct SparsePoints {
  std::size_t features = 0, classes = 0;  // ids of features and labels are below these
  std::vector<std::size_t> offsets{0};
  std::vector<std::int32_t> ids{};
  std::vector<float> values{};  // one value for each id; empty: all values are 1
  IdLists labels{};             // one list for each point; empty: the points have no labels

  std::size_t count() const;
};

// Errors data.offsets (offsets that do not ascend from 0 to the number of ids, or another number of
// values), data.labels (not one list for each point, or a label that is not below `classes`),
// data.feature (an id that is not below `features`, a value that is not finite).
void check_points(std::string_view operation, const SparsePoints& points);

// A batch's inputs are the ids of its points' features, its values are the features' values
// (Batch::values), and its labels are lists (Batch::label_lists).
class PointSource final : public IndexedSource {
 public:
  // Errors those of check_points(); data.empty, data.batch_size, ragged.shards, random.index_range.
  PointSource(Context& context, SparsePoints points, const BatchOptions& options = {});

  const SparsePoints& points() const { return points_; }

 private:
  SOMA_INLINE void add_content(ContentHash& hash) const override;
  std::size_t length(std::size_t item) const override {
    return points_.offsets[item + 1] - points_.offsets[item];
  }

  SOMA_INLINE Batch make(std::span<const std::uint32_t> items) const override;

  Context& context_;
  SparsePoints points_;
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/point_source.ipp>
#endif

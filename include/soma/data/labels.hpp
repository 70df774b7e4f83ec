#pragma once
// Labels of a batch, in the forms that losses and metrics read.

#include <soma/base/error.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

// The label of a sequence: one of several classes, any number of classes, or a number.
enum class LabelKind : std::uint8_t { one, several, number };

// Copies class labels, int32 or int64.
std::vector<std::int64_t> class_labels(const Tensor& labels);

// The lists of classes of a batch's sequences, in compressed rows: list i is ids[offsets[i]] up to
// ids[offsets[i + 1]]. A list may be empty. Memory grows with the given labels, not with the number
// of classes.
struct LabelLists {
  Tensor offsets{};  // int64 [sequences + 1], ascending from 0
  Tensor ids{};      // int32 [all labels]; in a list ascending, each once

  bool defined() const;
  std::size_t count() const;
  std::span<const std::int32_t> list(std::size_t i) const;

  // Lists first to end, as lists of their own: ids are a view.
  LabelLists part(Context& context, std::size_t first, std::size_t end) const;
  // 1 for each class of a list, 0 for others: [sequences, classes], fp32. Error data.labels: a
  // class that is not below `classes`.
  Tensor dense(Context& context, std::size_t classes) const;
};

// Lists of classes for rows in memory, one list behind the other.
struct IdLists {
  std::vector<std::size_t> offsets{};  // [rows + 1], from 0: where lists begin and end; or empty
  std::vector<std::int32_t> ids{};     // in a list ascending, each once

  bool empty() const;
  std::size_t count() const;
  std::span<const std::int32_t> list(std::size_t row) const;
  void add(std::span<const std::int32_t> list);
};

// Labels of rows in memory. Only one kind is filled; the others are empty.
struct RowLabels {
  std::vector<std::int64_t> classes{};  // [rows]
  std::vector<float> numbers{};         // [rows]
  IdLists lists{};                      // [rows]
};

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/labels.ipp>
#endif

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

namespace soma::data {

// The label of a sequence: one of several classes, any number of classes, or a number.
enum class LabelKind : std::uint8_t { one, several, number };

// Copies class labels, int32 or int64.
inline std::vector<std::int64_t> class_labels(const Tensor& labels) {
  std::vector<std::int64_t> classes(labels.elements());
  const auto copy = [&](const auto* from) {
    for (std::int64_t& label : classes) label = *from++;
  };
  if (labels.dtype() == DType::int32)
    copy(labels.data<std::int32_t>());
  else
    copy(labels.data<std::int64_t>());
  return classes;
}

// The lists of classes of a batch's sequences, in compressed rows: list i is ids[offsets[i]] up to
// ids[offsets[i + 1]]. A list may be empty. Memory grows with the given labels, not with the number
// of classes.
struct LabelLists {
  Tensor offsets{};  // int64 [sequences + 1], ascending from 0
  Tensor ids{};      // int32 [all labels]; in a list ascending, each once

  bool defined() const { return offsets.defined(); }
  std::size_t count() const { return offsets.elements() - 1; }
  std::span<const std::int32_t> list(std::size_t i) const {
    const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
    return ids.span<std::int32_t>().subspan(static_cast<std::size_t>(at[i]),
                                            static_cast<std::size_t>(at[i + 1] - at[i]));
  }

  // Lists first to end, as lists of their own: ids are a view.
  LabelLists part(Context& context, std::size_t first, std::size_t end) const {
    const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
    std::vector<std::int64_t> own;
    for (std::size_t i = first; i <= end; ++i) own.push_back(at[i] - at[first]);
    return {Tensor::from(context, std::span<const std::int64_t>(own), Shape{own.size()}),
            ids.slice(0, static_cast<std::size_t>(at[first]), static_cast<std::size_t>(at[end]))};
  }
  // 1 for each class of a list, 0 for others: [sequences, classes], fp32. Error data.labels: a
  // class that is not below `classes`.
  Tensor dense(Context& context, std::size_t classes) const {
    const Tensor all = Tensor::zeros(context, Shape{count(), classes}, DType::fp32);
    auto* row = all.mutable_data<float>();
    for (std::size_t i = 0; i < count(); ++i, row += classes)
      for (const std::int32_t id : list(i)) {
        if (id < 0 || static_cast<std::size_t>(id) >= classes)
          fail(error_id::data_labels, "LabelLists::dense", "label of sequence " + std::to_string(i),
               std::to_string(id), "a class below " + std::to_string(classes));
        row[id] = 1;
      }
    return all;
  }
};

// Lists of classes for rows in memory, one list behind the other.
struct IdLists {
  std::vector<std::size_t> offsets{};  // [rows + 1], from 0: where lists begin and end; or empty
  std::vector<std::int32_t> ids{};     // in a list ascending, each once

  bool empty() const { return offsets.empty(); }
  std::size_t count() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::span<const std::int32_t> list(std::size_t row) const {
    return std::span<const std::int32_t>(ids).subspan(offsets[row],
                                                      offsets[row + 1] - offsets[row]);
  }
  void add(std::span<const std::int32_t> list) {
    if (offsets.empty()) offsets.push_back(0);
    for (const std::int32_t id : list) ids.push_back(id);
    offsets.push_back(ids.size());
  }
};

// Labels of rows in memory. Only one kind is filled; the others are empty.
struct RowLabels {
  std::vector<std::int64_t> classes{};  // [rows]
  std::vector<float> numbers{};         // [rows]
  IdLists lists{};                      // [rows]
};

}  // namespace soma::data

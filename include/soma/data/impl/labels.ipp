#pragma once
// The functions of labels.hpp.

#include <soma/data/labels.hpp>

#include <soma/base/error.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE std::vector<std::int64_t> class_labels(const Tensor& labels) {
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

SOMA_INLINE bool LabelLists::defined() const { return offsets.defined(); }

SOMA_INLINE std::size_t LabelLists::count() const { return offsets.elements() - 1; }

SOMA_INLINE std::span<const std::int32_t> LabelLists::list(std::size_t i) const {
  const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
  return ids.span<std::int32_t>().subspan(static_cast<std::size_t>(at[i]),
                                          static_cast<std::size_t>(at[i + 1] - at[i]));
}

SOMA_INLINE LabelLists LabelLists::part(Context& context, std::size_t first,
                                        std::size_t end) const {
  const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
  std::vector<std::int64_t> own;
  for (std::size_t i = first; i <= end; ++i) own.push_back(at[i] - at[first]);
  return {Tensor::from(context, std::span<const std::int64_t>(own), Shape{own.size()}),
          ids.slice(0, static_cast<std::size_t>(at[first]), static_cast<std::size_t>(at[end]))};
}

SOMA_INLINE Tensor LabelLists::dense(Context& context, std::size_t classes) const {
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

SOMA_INLINE bool IdLists::empty() const { return offsets.empty(); }

SOMA_INLINE std::size_t IdLists::count() const { return offsets.empty() ? 0 : offsets.size() - 1; }

SOMA_INLINE std::span<const std::int32_t> IdLists::list(std::size_t row) const {
  return std::span<const std::int32_t>(ids).subspan(offsets[row], offsets[row + 1] - offsets[row]);
}

SOMA_INLINE void IdLists::add(std::span<const std::int32_t> list) {
  if (offsets.empty()) offsets.push_back(0);
  for (const std::int32_t id : list) ids.push_back(id);
  offsets.push_back(ids.size());
}

}  // namespace SOMA_NAMESPACE::data

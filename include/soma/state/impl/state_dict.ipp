#pragma once
// The functions of state_dict.hpp.

#include <soma/state/state_dict.hpp>

#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 256);
  b = b.substr(0, 256);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = (std::min)({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

SOMA_INLINE void StateDict::set(std::string name, Tensor tensor) {
  if (!tensor.defined())
    fail(error_id::tensor_undefined, "StateDict::set", soma::quoted(name), "no tensor",
         "one with elements");
  const auto place = lower_bound(name);
  if (place != entries_.end() && place->first == name)
    fail(error_id::duplicate_name, "StateDict::set", "name", soma::quoted(name), "a new name");
  // std::vector::insert of pairs would cost every unit more than the rest of this class.
  std::size_t at = entries_.size();
  const auto wanted = static_cast<std::size_t>(place - entries_.begin());
  entries_.push_back({std::move(name), std::move(tensor)});
  for (; at > wanted; --at) std::swap(entries_[at], entries_[at - 1]);
}

SOMA_INLINE const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr)
    fail(error_id::missing_name, "StateDict::at", "name", soma::quoted(name), near_names(name));
  return *tensor;
}

SOMA_INLINE const Tensor* StateDict::find(std::string_view name) const {
  const auto place = lower_bound(name);
  return place != entries_.end() && place->first == name ? &place->second : nullptr;
}

SOMA_INLINE bool StateDict::contains(std::string_view name) const { return find(name) != nullptr; }

SOMA_INLINE bool StateDict::erase(std::string_view name) {
  const auto place = lower_bound(name);
  if (place == entries_.end() || place->first != name) return false;
  entries_.erase(place);
  return true;
}

SOMA_INLINE std::size_t StateDict::size() const { return entries_.size(); }

SOMA_INLINE bool StateDict::empty() const { return entries_.empty(); }

SOMA_INLINE std::string StateDict::near_names(std::string_view name) const {
  if (empty()) return "a name in a dictionary that has none";
  std::string text = "one of " + std::to_string(size()) + " names, such as ";
  const Entry* shown[3] = {};
  for (std::size_t i = 0; i < 3 && i < size(); ++i) {
    std::size_t least = ~std::size_t{0};
    for (const Entry& entry : entries_) {
      const std::size_t distance = soma::edit_distance(name, entry.first);
      if (distance >= least || &entry == shown[0] || &entry == shown[1]) continue;
      least = distance;
      shown[i] = &entry;
    }
    text.append(i == 0 ? "" : ", ").append(soma::quoted(shown[i]->first));
  }
  return text;
}

SOMA_INLINE auto StateDict::lower_bound(std::string_view name) const
    -> std::vector<Entry>::const_iterator {
  return std::lower_bound(entries_.begin(), entries_.end(), name,
                          [](const Entry& entry, std::string_view wanted) {
                            return std::string_view(entry.first) < wanted;
                          });
}

SOMA_INLINE std::vector<std::string> copy_into(const StateDict& source, const StateDict& target,
                                               const CopyIntoOptions& options) {
  for (const auto& [name, to] : target) {
    const Tensor* from = source.find(name);
    if (from == nullptr)
      fail(error_id::missing_name, "copy_into", "name", soma::quoted(name) + ", which source lacks",
           source.near_names(name));
    if (from->shape() != to.shape())
      fail(error_id::state_shape, "copy_into", soma::quoted(name), from->describe(), to.describe());
    if (from->dtype() != to.dtype())
      fail(error_id::state_dtype, "copy_into", soma::quoted(name), from->describe(), to.describe());
    if (!to.storage().writable())
      fail(error_id::tensor_read_only, "copy_into", soma::quoted(name),
           to.describe() + " of constant elements", "a writable tensor");
  }
  std::vector<std::string> extra;
  for (const auto& [name, from] : source)
    if (!target.contains(name)) extra.push_back(name);
  if (options.extra_names_are_errors && !extra.empty())
    fail(error_id::extra_name, "copy_into", "name",
         soma::quoted(extra.front()) + " (one of " + std::to_string(extra.size()) + " extra)",
         "a name of the target, " + target.near_names(extra.front()));
  for (const auto& [name, to] : target) copy(source.at(name), to);
  return extra;
}

}  // namespace SOMA_NAMESPACE

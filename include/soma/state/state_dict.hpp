#pragma once
// StateDict: the tensors that are saved and loaded, by name, in ascending order of the names'
// bytes. The order is part of the meaning of a state hash.

#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// The number of letters to insert, remove or replace (Levenshtein); long names are cut.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Copies share the tensors.
class StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  // Errors state.duplicate_name, tensor.undefined.
  void set(std::string name, Tensor tensor);

  // The tensor of that name. Error state.missing_name, which lists similar names.
  const Tensor& at(std::string_view name) const;
  // The same, or nullptr.
  const Tensor* find(std::string_view name) const;
  bool contains(std::string_view name) const;
  // Returns true if the name was there.
  bool erase(std::string_view name);

  std::size_t size() const;
  bool empty() const;
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  // "one of 12 names, such as \"a.weight\", \"b.weight\"": the three nearest, for messages.
  std::string near_names(std::string_view name) const;

 private:
  std::vector<Entry>::const_iterator lower_bound(std::string_view name) const;

  std::vector<Entry> entries_;  // ascending; std::string compares bytes as unsigned
};

struct CopyIntoOptions {
  bool extra_names_are_errors = false;
};

// Copies the elements of `source` into the tensors of `target`. Every name of the target has to be
// in the source, with the same shape and dtype. Nothing is written before all is checked. Returns
// the names that only the source has. Errors state.missing_name, state.shape, state.dtype,
// tensor.read_only; state.extra_name if the options forbid further names.
std::vector<std::string> copy_into(const StateDict& source, const StateDict& target,
                                   const CopyIntoOptions& options = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/state/impl/state_dict.ipp>
#endif

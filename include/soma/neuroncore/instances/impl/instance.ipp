#pragma once
// The functions of instance.hpp.

#include <soma/neuroncore/instances/instance.hpp>

#include <soma/base/error.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE const Instance& instance_of(std::string_view name) {
  std::string known;
  for (const Instance& instance : instances) {
    if (instance.name == name) return instance;
    known.append(known.empty() ? "" : ", ").append(instance.name);
  }
  fail(error_id::neuroncore_instance, "instance_of", "name", soma::quoted(name), "one of " + known);
}

SOMA_INLINE std::array<std::optional<std::size_t>, 4> linked_chips(const Instance& instance,
                                                                   std::size_t device) {
  if (device >= instance.chips)
    fail(
        error_id::neuroncore_instance, "linked_chips", "device", std::to_string(device),
        "below " + std::to_string(instance.chips) + ", the chips of " + std::string(instance.name));
  std::array<std::optional<std::size_t>, 4> linked{};
  const auto [rows, columns] = instance.torus;
  if (rows * columns == 0) return linked;
  const std::size_t row = device / columns, column = device % columns;
  std::array<std::size_t, 4> all{
      ((row + 1) % rows) * columns + column, ((row + rows - 1) % rows) * columns + column,
      row * columns + (column + 1) % columns, row * columns + (column + columns - 1) % columns};
  for (std::size_t i = 1; i < all.size(); ++i)  // four numbers: insertion is enough
    for (std::size_t j = i; j > 0 && all[j] < all[j - 1]; --j) std::swap(all[j], all[j - 1]);
  std::size_t count = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || all[i] != all[i - 1]) linked[count++] = all[i];
  return linked;
}

}  // namespace SOMA_NAMESPACE::neuroncore

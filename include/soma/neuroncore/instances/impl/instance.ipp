#pragma once
// The functions of instance.hpp.

#include <soma/neuroncore/instances/instance.hpp>

#include <soma/base/error.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE const Instance& instance_of(std::string_view name) {
  std::string known;
  for (const Instance& instance : instances) {
    if (instance.name == name) return instance;
    known.append(known.empty() ? "" : ", ").append(instance.name);
  }
  fail(error_id::neuroncore_instance, "instance_of", "name", soma::quoted(name), "one of " + known);
}

SOMA_INLINE std::vector<std::size_t> linked_chips(const Instance& instance, std::size_t device) {
  if (device >= instance.chips)
    fail(
        error_id::neuroncore_instance, "linked_chips", "device", std::to_string(device),
        "below " + std::to_string(instance.chips) + ", the chips of " + std::string(instance.name));
  std::vector<std::size_t> linked;
  if (instance.switched)
    for (std::size_t other = 0; other < instance.chips; ++other) linked.push_back(other);
  const auto [rows, columns] = instance.torus;
  const std::size_t each = instance.chips_per_server();
  if (rows * columns != 0) {
    const std::size_t first = device / each * each, place = device % each;
    const std::size_t row = place / columns, column = place % columns;
    const std::size_t server = device / each, servers = instance.servers;
    linked = {first + ((row + 1) % rows) * columns + column,
              first + ((row + rows - 1) % rows) * columns + column,
              first + row * columns + (column + 1) % columns,
              first + row * columns + (column + columns - 1) % columns,
              (server + 1) % servers * each + place,
              (server + servers - 1) % servers * each + place};
  }
  std::sort(linked.begin(), linked.end());
  linked.erase(std::unique(linked.begin(), linked.end()), linked.end());
  linked.erase(std::remove(linked.begin(), linked.end(), device), linked.end());
  return linked;
}

}  // namespace SOMA_NAMESPACE::neuroncore

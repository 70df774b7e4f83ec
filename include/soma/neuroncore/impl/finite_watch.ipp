#pragma once
// The functions of finite_watch.hpp.

#include <soma/neuroncore/finite_watch.hpp>

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::string non_finite_text(float value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

SOMA_INLINE void FiniteWatch::begins(CoreState& core, Opcode opcode, Lane lane,
                                     const SourceLine& source) {
  name_ = std::string(to_string(engine_of(lane))) + " " + std::string(to_string(opcode)) + " at " +
          without_folders(source.file) + ":" + std::to_string(source.line);
  region_ = core.recorder.names().path(core.recorder.region());
  memset_ = opcode == Opcode::memset;
  // An activation that reads out its sums is two instructions, of which only the first has
  // operands: it has not written when the second begins.
  if (wrote_) finite_ = true;
  wrote_ = false;
}

SOMA_INLINE void FiniteWatch::reads(CoreState& core, const Tile& tile) {
  if (!finite_ || !found_.empty()) return;
  if (!core.memory_of(tile).written(tile)) {
    finite_ = false;
    if (read_unwritten_.empty()) read_unwritten_ = name_ + " read " + tile.describe();
    return;
  }
  finite_ = find(core, tile).element == none;
}

SOMA_INLINE void FiniteWatch::reads(CoreState& core, const HbmView& view) {
  if (finite_ && found_.empty()) finite_ = find(core, view).element == none;
}

SOMA_INLINE void FiniteWatch::wrote(CoreState& core, const Tile& tile) {
  wrote_ = true;
  // Elements that nobody wrote say nothing, so a partly written tile is left out.
  if (blamed() && core.memory_of(tile).written(tile)) note(find(core, tile), tile.describe());
}

SOMA_INLINE void FiniteWatch::wrote(CoreState& core, const HbmView& view) {
  wrote_ = true;
  if (blamed()) note(find(core, view), view.describe());
}

SOMA_INLINE bool FiniteWatch::blamed() const { return finite_ && !memset_ && found_.empty(); }

SOMA_INLINE void FiniteWatch::note(const Element& first, const std::string& operand) {
  if (first.element == none) return;
  found_ = name_ + " wrote " + non_finite_text(first.value) + " to element [" +
           std::to_string(first.row) + ", " + std::to_string(first.element) + "] of " + operand;
  if (!region_.empty()) found_.append(" in ").append(region_);
}

SOMA_INLINE auto FiniteWatch::find(CoreState& core, const Tile& tile) -> Element {
  if (!is_floating(tile.dtype())) return {};
  const PartitionReader reader(core.kernels, core.memory_of(tile), tile);
  return find(tile.partitions(), tile.free_size(),
              [&](std::size_t p, float* to) { reader.copy(p, to); });
}

SOMA_INLINE auto FiniteWatch::find(CoreState& core, const HbmView& view) -> Element {
  if (!is_floating(view.dtype())) return {};
  return find(view.rows(), view.row_elements(),
              [&](std::size_t row, float* to) { detail::read_floats(core, view, row, to); });
}

}  // namespace SOMA_NAMESPACE::neuroncore

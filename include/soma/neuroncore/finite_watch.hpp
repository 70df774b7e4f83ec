#pragma once
// FiniteWatch: finds the first instruction that writes NaN or infinity although all that it reads
// is finite and was written. Slow: every operand of every instruction is looked at.
//
// A memset to infinity is no such instruction: programs begin maxima with it.

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace soma::neuroncore {

// "nan", "inf" or "-inf".
inline std::string non_finite_text(float value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

class FiniteWatch final : public InstructionWatch {
 public:
  // "vector tensor_tensor at softmax.hpp:40 wrote inf to element [2, 0] of fp32 SBUF [4, 1]", with
  // the region of the program behind it; empty: there was no such instruction.
  const std::string& found() const { return found_; }
  // The first instruction that read elements that nobody wrote; empty: none did.
  const std::string& read_unwritten() const { return read_unwritten_; }

  void begins(CoreState& core, Opcode opcode, Lane lane, const SourceLine& source) override {
    name_ = std::string(to_string(engine_of(lane))) + " " + std::string(to_string(opcode)) +
            " at " + without_folders(source.file) + ":" + std::to_string(source.line);
    region_ = core.recorder.names().path(core.recorder.region());
    memset_ = opcode == Opcode::memset;
    // An activation that reads out its sums is two instructions, of which only the first has
    // operands: it has not written when the second begins.
    if (wrote_) finite_ = true;
    wrote_ = false;
  }
  void reads(CoreState& core, const Tile& tile) override {
    if (!finite_ || !found_.empty()) return;
    if (!core.memory_of(tile).written(tile)) {
      finite_ = false;
      if (read_unwritten_.empty()) read_unwritten_ = name_ + " read " + tile.describe();
      return;
    }
    finite_ = find(core, tile).element == none;
  }
  void reads(CoreState& core, const HbmView& view) override {
    if (finite_ && found_.empty()) finite_ = find(core, view).element == none;
  }
  void wrote(CoreState& core, const Tile& tile) override {
    wrote_ = true;
    // Elements that nobody wrote say nothing, so a partly written tile is left out.
    if (blamed() && core.memory_of(tile).written(tile)) note(find(core, tile), tile.describe());
  }
  void wrote(CoreState& core, const HbmView& view) override {
    wrote_ = true;
    if (blamed()) note(find(core, view), view.describe());
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Place {
    std::size_t row = 0, element = none;
    float value = 0;
  };

  bool blamed() const { return finite_ && !memset_ && found_.empty(); }
  void note(const Place& place, const std::string& operand) {
    if (place.element == none) return;
    found_ = name_ + " wrote " + non_finite_text(place.value) + " to element [" +
             std::to_string(place.row) + ", " + std::to_string(place.element) + "] of " + operand;
    if (!region_.empty()) found_.append(" in ").append(region_);
  }
  // The first element that is not finite. read(row, floats) gives the elements of a row.
  template <class Read>
  static Place find(std::size_t rows, std::size_t elements, const Read& read) {
    std::vector<float> values(elements + 16);  // engines read whole vectors
    for (std::size_t row = 0; row < rows; ++row) {
      read(row, values.data());
      for (std::size_t i = 0; i < elements; ++i)
        if (!std::isfinite(values[i])) return {row, i, values[i]};
    }
    return {};
  }
  static Place find(CoreState& core, const Tile& tile) {
    if (!is_floating(tile.dtype())) return {};
    const PartitionReader reader(core.kernels, core.memory_of(tile), tile);
    return find(tile.partitions(), tile.free_size(),
                [&](std::size_t p, float* to) { reader.copy(p, to); });
  }
  static Place find(CoreState& core, const HbmView& view) {
    if (!is_floating(view.dtype())) return {};
    return find(view.rows(), view.row_elements(),
                [&](std::size_t row, float* to) { detail::read_floats(core, view, row, to); });
  }

  std::string name_, region_, found_, read_unwritten_;
  bool finite_ = true;  // all that the instruction reads, so far
  bool wrote_ = true, memset_ = false;
};

}  // namespace soma::neuroncore

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

namespace SOMA_NAMESPACE::neuroncore {

// "nan", "inf" or "-inf".
std::string non_finite_text(float value);

class FiniteWatch final : public InstructionWatch {
 public:
  // "vector tensor_tensor at softmax.hpp:40 wrote inf to element [2, 0] of fp32 SBUF [4, 1]", with
  // the region of the program behind it; empty: there was no such instruction.
  const std::string& found() const { return found_; }
  // The first instruction that read elements that nobody wrote; empty: none did.
  const std::string& read_unwritten() const { return read_unwritten_; }

  SOMA_INLINE void begins(CoreState& core, Opcode opcode, Lane lane,
                          const SourceLine& source) override;
  SOMA_INLINE void reads(CoreState& core, const Tile& tile) override;
  SOMA_INLINE void reads(CoreState& core, const HbmView& view) override;
  SOMA_INLINE void wrote(CoreState& core, const Tile& tile) override;
  SOMA_INLINE void wrote(CoreState& core, const HbmView& view) override;

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct Element {
    std::size_t row = 0, element = none;
    float value = 0;
  };

  bool blamed() const;
  void note(const Element& first, const std::string& operand);
  // The first element that is not finite. read(row, floats) gives the elements of a row.
  template <class Read>
  static Element find(std::size_t rows, std::size_t elements, const Read& read) {
    std::vector<float> values(elements + 16);  // engines read whole vectors
    for (std::size_t row = 0; row < rows; ++row) {
      read(row, values.data());
      for (std::size_t i = 0; i < elements; ++i)
        if (!std::isfinite(values[i])) return {row, i, values[i]};
    }
    return {};
  }
  static Element find(CoreState& core, const Tile& tile);
  static Element find(CoreState& core, const HbmView& view);

  std::string name_, region_, found_, read_unwritten_;
  bool finite_ = true;  // all that the instruction reads, so far
  bool wrote_ = true, memset_ = false;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/finite_watch.ipp>
#endif

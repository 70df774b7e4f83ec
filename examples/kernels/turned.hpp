#pragma once
// A product adds up over partitions, so its operands need the dimension that disappears there.
// Turned brings it there: the array transposes blocks of 128 x 128, and a copy takes them from PSUM
// to SBUF.

#include "kernels/kernel.hpp"

namespace kernels {

class Turned {
 public:
  // Two banks of PSUM take turns; each holds 512 columns.
  Turned(nc::Core& core, DType dtype)
      : core_(core), banks_{core.psum.tile(lanes, 512, dtype), core.psum.tile(lanes, 512, dtype)} {}

  // to [128, blocks * rows]: block b holds columns 128 b to 128 (b + 1) of `from` [rows, 128 *
  // blocks], transposed. Both in SBUF and of this object's type.
  void operator()(const Tile& to, const Tile& from) {
    const std::size_t rows = from.partitions(), blocks = from.free_size() / lanes;
    const std::size_t at_once = 512 / rows;
    for (std::size_t first = 0; first < blocks; first += at_once) {
      const std::size_t count = (std::min)(at_once, blocks - first);
      const Tile bank = banks_[turn_ ^= 1].columns(0, count * rows);
      for (std::size_t i = 0; i < count; ++i)
        core_.tensor.transpose(bank.columns(i * rows, (i + 1) * rows),
                               from.columns((first + i) * lanes, (first + i + 1) * lanes));
      core_.vector.copy(to.columns(first * rows, (first + count) * rows), bank);
    }
  }

 private:
  nc::Core& core_;
  Tile banks_[2];
  std::size_t turn_ = 0;
};

}  // namespace kernels

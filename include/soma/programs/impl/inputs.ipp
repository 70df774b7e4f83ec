#pragma once
// The functions of inputs.hpp.

#include <soma/programs/inputs.hpp>

#include <soma/neuroncore/core.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/tensor_rows.hpp>
#include <soma/programs/support.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::programs::detail {

// The dimensions of a tensor and of its copy, in elements. Dimensions that both walk alike are one;
// those of size 1 are left out.
class CopyLoops {
 public:
  struct Dimension {
    std::size_t size = 1, from = 1, to = 1;
  };

  CopyLoops(const Tensor& from, const Tensor& to) {
    for (std::size_t i = 0; i < from.rank(); ++i) {
      if (from.size(i) == 1) continue;
      const Dimension next{from.size(i), soma::detail::step_of(from, i),
                           soma::detail::step_of(to, i)};
      Dimension* last = rank_ == 0 ? nullptr : &dimensions_[rank_ - 1];
      if (last != nullptr && last->from == next.from * next.size && last->to == next.to * next.size)
        *last = {last->size * next.size, next.from, next.to};
      else
        dimensions_[rank_++] = next;
    }
    if (rank_ == 0) rank_ = 1;  // a single element
  }

  std::size_t rank() const { return rank_; }
  // The last dimension, the one before it ...
  const Dimension& inner(std::size_t i) const { return dimensions_[rank_ - 1 - i]; }
  // The longest dimension before the last `inner`: it lies across the partitions.
  std::size_t across(std::size_t inner) const {
    std::size_t longest = 0;
    for (std::size_t i = 1; i + inner < rank_; ++i)
      if (dimensions_[i].size > dimensions_[longest].size) longest = i;
    return longest;
  }
  const Dimension& dimension(std::size_t i) const { return dimensions_[i]; }
  // The dimension whose elements lie side by side in the source; rank(): none.
  std::size_t side_by_side() const {
    std::size_t i = 0;
    while (i < rank_ && dimensions_[i].from != 1) ++i;
    return i;
  }
  // Calls each(from, to) with the offsets for all dimensions before the last `inner` but one.
  template <class Each>
  void for_others(std::size_t inner, std::size_t but, const Each& each) const {
    std::array<std::size_t, max_rank> at{};
    std::size_t from = 0, to = 0;
    while (true) {
      each(from, to);
      std::size_t d = rank_ - inner;
      while (true) {
        if (d == 0) return;
        if (--d == but) continue;
        from += dimensions_[d].from;
        to += dimensions_[d].to;
        if (++at[d] != dimensions_[d].size) break;
        from -= at[d] * dimensions_[d].from;
        to -= at[d] * dimensions_[d].to;
        at[d] = 0;
      }
    }
  }

 private:
  std::array<Dimension, max_rank> dimensions_{};
  std::size_t rank_ = 0;
};

// Moves bits: elements as integers of their width or as words, which no transfer converts.
//
// A transfer pays for each piece side by side as much as for two kilobytes. So a source whose
// neighbours in the copy are apart is not read element by element. Either everything from a row's
// first element to its last is loaded and the Vector engine picks the elements, or blocks are
// loaded along the dimension that lies side by side, and the Vector engine turns them.
class ViewCopy {
 public:
  using Dimension = CopyLoops::Dimension;

  ViewCopy(Core& core, const Tensor& tensor, const Tensor& copy)
      : core_(core),
        from_(neuroncore::hbm_first(tensor)),
        to_(neuroncore::hbm_first_target(copy)),
        type_(plain_type(tensor.dtype())),
        parts_(size_of(tensor.dtype()) / size_of(type_)),
        most_(16 * 1024 / size_of(tensor.dtype())) {}

  void run(const CopyLoops& loops) const {
    const Dimension& last = loops.inner(0);
    if (picks(loops)) return pick(loops);
    if (loops.rank() == 1) return split(last);
    if (const std::size_t rows = loops.side_by_side(); turns(loops, rows)) return turn(loops, rows);
    // A partition takes the elements of the last dimension, or of the last two if they fit.
    const bool two = loops.rank() > 2 && last.size * loops.inner(1).size <= most_;
    const std::size_t inner = two ? 2 : 1, across = loops.across(inner);
    const Dimension rows = loops.dimension(across), before = two ? loops.inner(1) : Dimension{};
    const std::size_t width = (std::min)(last.size, most_);
    Pair tiles = pair((std::min)(rows.size, lanes), before.size * width);
    loops.for_others(inner, across, [&](std::size_t from, std::size_t to) {
      for_pieces(rows.size, lanes, [&](std::size_t row, std::size_t height) {
        for_pieces(last.size, width, [&](std::size_t column, std::size_t columns) {
          move(tiles, from + row * rows.from + column * last.from,
               to + row * rows.to + column * last.to,
               {{{height, rows.from, rows.to},
                 {before.size, before.from, before.to},
                 {columns, last.from, last.to}}});
        });
      });
    });
  }

 private:
  // 32 x 32 elements at once are turned by the Vector engine.
  static constexpr std::size_t little = 32, large = 512;

  Pair pair(std::size_t partitions, std::size_t elements) const {
    return Pair(core_, type_, partitions, elements * parts_);
  }
  std::size_t element_bytes() const { return parts_ * size_of(type_); }
  // True if loading everything between a row's elements takes less time than pieces as long as the
  // source has them.
  bool picks(const CopyLoops& loops) const {
    const neuroncore::Machine& machine = core_.machine();
    const Dimension& last = loops.inner(0);
    const std::size_t rows = loops.side_by_side();
    const std::size_t piece =
        rows < loops.rank() ? (std::min)(loops.dimension(rows).size, large) : 1;
    const auto bytes = static_cast<double>(last.from * element_bytes() * piece);
    return last.from != 1 && last.size > 1 &&
           bytes < machine.dma_buffer_ns * machine.dma_engine_gb_per_s;
  }
  // Loads rows from their first element to their last; a repeated number is loaded once.
  void pick(const CopyLoops& loops) const {
    const Dimension& last = loops.inner(0);
    const std::size_t fit = last.from == 0 ? most_ : (most_ - 1) / last.from + 1;
    const std::size_t most = (std::min)(last.size, fit);
    // Its pieces lie across the partitions where other dimensions would not fill them.
    constexpr std::size_t long_enough = 64 * lanes;
    const bool split = loops.rank() == 1 ||
                       (loops.dimension(loops.across(1)).size < lanes && last.size >= long_enough);
    const std::size_t width = split ? (std::min)(most, (last.size + lanes - 1) / lanes) : most;
    const std::size_t across = split ? loops.rank() : loops.across(1);
    const Dimension rows = split ? Dimension{last.size / width, width * last.from, width * last.to}
                                 : loops.dimension(across);
    const std::size_t partitions = (std::min)(rows.size, lanes);
    Pair spans = pair(partitions, (width - 1) * last.from + 1), picked = pair(partitions, width);
    const auto block = [&](std::size_t from, std::size_t to, std::size_t height,
                           std::size_t columns) {
      const std::size_t span = (columns - 1) * last.from + 1;
      const Tile loaded = spans.next(height, span * parts_),
                 result = picked.next(height, columns * parts_);
      core_.dma.load(loaded, from_.pattern({{rows.from, height}, {1, span}}, from).as(type_));
      core_.vector.copy(result, loaded.pattern({{last.from * parts_, columns}, {1, parts_}}));
      core_.dma.queue(store_queue)
          .store(to_.pattern({{rows.to, height}, {last.to, columns}}, to).as(type_), result);
    };
    const std::size_t whole = split ? rows.size * width : last.size;
    loops.for_others(1, across, [&](std::size_t from, std::size_t to) {
      for_pieces(rows.size, lanes, [&](std::size_t row, std::size_t height) {
        for_pieces(split ? width : last.size, width, [&](std::size_t column, std::size_t columns) {
          block(from + row * rows.from + column * last.from, to + row * rows.to + column * last.to,
                height, columns);
        });
      });
      if (whole != last.size)
        block(from + whole * last.from, to + whole * last.to, 1, last.size - whole);
    });
  }
  // True if a dimension other than the last lies side by side in the source. A transfer that turns
  // would then move single elements.
  bool turns(const CopyLoops& loops, std::size_t rows) const {
    constexpr std::size_t worth_it = 256;  // elements
    return rows + 1 < loops.rank() && loops.inner(0).to == 1 &&
           loops.dimension(rows).size * loops.inner(0).size >= worth_it;
  }
  // Blocks of rows are loaded as they lie, turned on the Vector engine, and stored as rows of the
  // copy.
  void turn(const CopyLoops& loops, std::size_t side_by_side) const {
    const Dimension rows = loops.dimension(side_by_side), columns = loops.inner(0);
    const std::size_t height = (std::min)(rows.size, large),
                      width = (std::min)(columns.size, large);
    const auto buffers = [&](std::size_t partitions, std::size_t elements) {
      std::vector<Pair> result;
      for_pieces(partitions, lanes, [&](std::size_t, std::size_t) {
        result.push_back(pair((std::min)(partitions, lanes), elements));
      });
      return result;
    };
    std::vector<Pair> loaded = buffers(width, height), turned = buffers(height, width);
    loops.for_others(1, side_by_side, [&](std::size_t from, std::size_t to) {
      for_pieces(rows.size, large, [&](std::size_t row, std::size_t high) {
        for_pieces(columns.size, large, [&](std::size_t column, std::size_t wide) {
          turn_block({loaded, turned, high, wide}, {rows, from + row + column * columns.from},
                     {columns, to + row * rows.to + column});
        });
      });
    });
  }
  struct Block {
    std::vector<Pair>&loaded, &turned;
    std::size_t high, wide;
  };
  struct Corner {
    Dimension along;
    std::size_t offset;  // elements
  };
  void turn_block(const Block& block, const Corner& from, const Corner& to) const {
    std::vector<Tile> results;
    for_pieces(block.high, lanes, [&](std::size_t row, std::size_t count) {
      results.push_back(block.turned[row / lanes].next(count, block.wide * parts_));
    });
    for_pieces(block.wide, lanes, [&](std::size_t column, std::size_t count) {
      const Tile tile = block.loaded[column / lanes].next(count, block.high * parts_);
      core_.dma.load(tile, from_
                               .pattern({{to.along.from, count}, {1, block.high}},
                                        from.offset + column * to.along.from)
                               .as(type_));
      for_pieces(block.high, little, [&](std::size_t row, std::size_t rows) {
        const Tile& result = results[row / lanes];
        for_pieces(count, little, [&](std::size_t at, std::size_t columns) {
          for (std::size_t word = 0; word < parts_; ++word)
            core_.vector.transpose(
                result.rows(row % lanes, row % lanes + rows)
                    .columns((column + at) * parts_ + word, (column + at + columns) * parts_,
                             parts_),
                tile.rows(at, at + columns)
                    .columns(row * parts_ + word, (row + rows) * parts_, parts_));
        });
      });
    });
    for_pieces(block.high, lanes, [&](std::size_t row, std::size_t count) {
      core_.dma.queue(store_queue)
          .store(to_.pattern({{from.along.to, count}, {1, block.wide}},
                             to.offset + row * from.along.to)
                     .as(type_),
                 results[row / lanes]);
    });
  }
  // A single dimension lies across the partitions in rows.
  void split(const Dimension& all) const {
    const ElementTiles tiles(all.size);
    Pair buffers = pair(tiles.partitions(), tiles.width());
    tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
      move(buffers, first * all.from, first * all.to,
           {{{rows, columns * all.from, columns * all.to}, {}, {columns, all.from, all.to}}});
    });
  }
  void move(Pair& tiles, std::size_t from, std::size_t to,
            const std::array<Dimension, 3>& dimensions) const {
    std::array<neuroncore::PatternStep, 3> source{}, target{};
    std::size_t elements = parts_;
    for (std::size_t i = 0; i < 3; ++i) {
      source[i] = {dimensions[i].from, dimensions[i].size};
      target[i] = {dimensions[i].to, dimensions[i].size};
      if (i != 0) elements *= dimensions[i].size;
    }
    const Tile tile = tiles.next(dimensions[0].size, elements);
    core_.dma.load(tile, from_.pattern(source, from).as(type_));
    core_.dma.queue(store_queue).store(to_.pattern(target, to).as(type_), tile);
  }

  Core& core_;
  HbmView from_, to_;
  DType type_;
  std::size_t parts_, most_;  // words of an element; elements of a partition: 16 KiB
};

}  // namespace SOMA_NAMESPACE::programs::detail

namespace SOMA_NAMESPACE::programs {

SOMA_INLINE Tensor row_major(Core& core, const Tensor& tensor) {
  if (tensor.contiguous()) return tensor;
  const Tensor copy = core.hold(Tensor::empty(core.context(), tensor.shape(), tensor.dtype()));
  copy_elements(core, tensor, copy);
  return copy;
}

SOMA_INLINE void copy_elements(Core& core, const Tensor& from, const Tensor& to) {
  if (from.elements() == 0) return;
  const Core::Scope scope(core);
  detail::ViewCopy(core, from, to).run(detail::CopyLoops(from, to));
}

SOMA_INLINE HostNumbers::HostNumbers(Core& core, const Tensor& input) {
  if (!input.defined()) return;
  core.check_host_read("program", input);
  numbers_ = contiguous(core.context(), input);
}

SOMA_INLINE DeviceRows::DeviceRows(Core& core, const Tensor& tensor)
    : rows_(soma::detail::rows_of(
          core.context(), soma::detail::has_rows(tensor) ? tensor : row_major(core, tensor))),
      view_(view_of(rows_)) {}

SOMA_INLINE std::size_t DeviceRows::rows() const { return view_.rows(); }

SOMA_INLINE std::size_t DeviceRows::columns() const { return view_.row_elements(); }

SOMA_INLINE DType DeviceRows::dtype() const { return view_.dtype(); }

SOMA_INLINE HbmView DeviceRows::block(std::size_t row, std::size_t rows, std::size_t column,
                                      std::size_t columns) const {
  return view_.rows(row, row + rows).columns(column, column + columns);
}

SOMA_INLINE HbmView DeviceRows::target(const Tensor& output) {
  if (output.rank() < 2) return hbm_target(output);
  return hbm_target(output.reshape(Shape{output.shape().rows(), output.shape().columns()}));
}

SOMA_INLINE HbmView DeviceRows::view_of(const soma::detail::TensorRows& rows) {
  const Tensor& tensor = rows.tensor();
  if (tensor.rank() < 2) return hbm(tensor);
  if (tensor.elements() == 0) return hbm(tensor.reshape(Shape{rows.rows(), rows.columns()}));
  const neuroncore::PatternStep dimensions[] = {{rows.row_stride(), rows.rows()},
                                                {rows.column_stride(), rows.columns()}};
  return neuroncore::hbm_first(tensor).pattern(dimensions);
}

SOMA_INLINE DeviceRows adjacent_rows(Core& core, const Tensor& tensor) {
  const DeviceRows rows(core, tensor);
  return rows.view().adjacent() ? rows : DeviceRows(core, row_major(core, tensor));
}

SOMA_INLINE HbmView flat_view(const Tensor& contiguous) {
  return hbm(contiguous.reshape(Shape{contiguous.elements()}));
}

SOMA_INLINE HbmView flat_target(const Tensor& contiguous) {
  return hbm_target(contiguous.reshape(Shape{contiguous.elements()}));
}

}  // namespace SOMA_NAMESPACE::programs

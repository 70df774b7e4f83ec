#pragma once
// 2-D convolution without unfolded columns in memory. A patch of the image is in SBUF, with
// channels on partitions and zeros around it, and each position of the kernel reads its pixels
// through an access pattern. The Tensor engine sums over channels; the sums of positions and of
// blocks of channels are added in PSUM.

#include <soma/ops/image/convolution.hpp>
#include <soma/programs/image/image_tiles.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace SOMA_NAMESPACE::programs {

using neuroncore::Accumulate;

inline constexpr std::size_t weight_elements = 16384;  // that stay in SBUF: 64 KiB
inline constexpr std::size_t kernel_positions = 32;    // that are worked on at a time

// Images [N, C, H, W] in device memory. Their patches are loaded with zeros around them.
class Patches {
 public:
  Patches(Core& core, const Tensor& images, const Extent& height, const Extent& width,
          const ConvolutionPlan& plan)
      : core_(core),
        images_(images),
        height_(height),
        width_(width),
        tiles_(core, images.dtype(), (std::max)((std::min)(images.size(1), lanes), std::size_t{1}),
               plan.patch()) {}

  // [channels, images, rows, columns]
  Tile load(const Interval& channels, const Interval& images, const Interval& rows,
            const Interval& columns, const Interval& kernel_rows, const Interval& kernel_columns) {
    const PatchSpan down(height_, rows, kernel_rows), across(width_, columns, kernel_columns);
    const Tile flat = tiles_.next(channels.size, images.size * down.size * across.size);
    const Tile tile = flat.reshape({images.size, down.size, across.size});
    if (!down.whole() || !across.whole()) core_.vector.memset(flat, 0);
    if (down.begin == down.end || across.begin == across.end) return tile;
    const HbmView view = hbm(images_)
                             .rows(images.begin, images.end())
                             .slice(1, channels.begin, channels.end())
                             .slice(2, down.pixel, down.pixel + down.end - down.begin)
                             .slice(3, across.pixel, across.pixel + across.end - across.begin)
                             .swap(0, 1);
    core_.dma.load(tile.slice(1, down.begin, down.end).slice(2, across.begin, across.end), view);
    return tile;
  }
  // The part of a loaded patch that the outputs read at one position of the kernel: [channels,
  // images, rows, columns].
  Tile at(const Tile& patch, std::size_t kernel_row, std::size_t kernel_column,
          const Interval& rows, const Interval& columns) const {
    const std::size_t row = kernel_row * height_.dilation, column = kernel_column * width_.dilation;
    return patch.slice(1, row, row + (rows.size - 1) * height_.stride + 1, height_.stride)
        .slice(2, column, column + (columns.size - 1) * width_.stride + 1, width_.stride);
  }

 private:
  Core& core_;
  const Tensor& images_;
  Extent height_, width_;
  Pair tiles_;
};

// A block of a weight [O, C, kernel height, kernel width] in the layout of the array: channels that
// are summed over are on partitions. Blocks stay in SBUF if all of them fit.
class ConvolutionWeights {
 public:
  // `turned`: the contraction runs over C, else over O.
  ConvolutionWeights(Core& core, const Tensor& weight, bool turned, const ConvolutionPlan& plan)
      : core_(core), weight_(weight), turned_(turned), blocks_(core.context().heap()) {
    const std::size_t contracted = weight.size(turned ? 1 : 0), kept = weight.size(turned ? 0 : 1);
    const std::size_t height = weight.size(2), width = weight.size(3);
    const std::size_t depth = (std::max)((std::min)(contracted, lanes), std::size_t{1});
    const std::size_t positions = plan.rows.positions * plan.columns.positions;
    const std::size_t elements = (std::min)(kept, lanes) * positions;
    const std::size_t blocks = piece_count(contracted, lanes) * piece_count(kept, lanes) *
                               piece_count(height, plan.rows.positions) *
                               piece_count(width, plan.columns.positions);
    if (blocks * elements <= weight_elements)
      for (std::size_t i = 0; i < blocks; ++i)
        blocks_.push_back({core.sbuf.tile(DType::fp32, depth, elements)});
    else
      streamed_.emplace(core, DType::fp32, depth, elements);
    if (!turned) return;
    // Loads the block with the kept channels on partitions, then transposes it.
    loaded_.emplace(core, weight.dtype(), (std::min)(kept, lanes), depth * positions);
    turning_ = core.psum.tile(lanes, lanes);
  }

  // [contracted, positions, kept]; `number` identifies the block: the same arguments need the same
  // number.
  Tile block(std::size_t number, const Interval& contracted, const Interval& kept,
             const Interval& rows, const Interval& columns) {
    const std::size_t positions = rows.size * columns.size, size = positions * kept.size;
    const Tile tile = (streamed_ ? streamed_->next(contracted.size, size)
                                 : blocks_[number].tile.rows(0, contracted.size).columns(0, size))
                          .reshape({positions, kept.size});
    if (!streamed_ && std::exchange(blocks_[number].there, true)) return tile;
    const Interval &o = turned_ ? kept : contracted, &c = turned_ ? contracted : kept;
    const HbmView view = hbm(weight_)
                             .rows(o.begin, o.end())
                             .slice(1, c.begin, c.end())
                             .slice(2, rows.begin, rows.end())
                             .slice(3, columns.begin, columns.end());
    if (!turned_) {
      core_.dma.load(tile.swap(0, 1), view);
      return tile;
    }
    const Tile loaded = loaded_->next(o.size, c.size * positions);
    core_.dma.load(loaded, view);
    for (std::size_t p = 0; p < positions; ++p) {
      const Tile turned = turning_.rows(0, c.size).columns(0, o.size);
      core_.tensor.transpose(turned, loaded.reshape({c.size, positions}).columns(p, p + 1));
      core_.vector.copy(tile.slice(0, p, p + 1), turned);
    }
    return tile;
  }

 private:
  struct Block {
    Tile tile;
    bool there = false;
  };
  Core& core_;
  const Tensor& weight_;
  bool turned_;
  HeapVector<Block> blocks_;
  std::optional<Pair> streamed_, loaded_;
  Tile turning_;
};

// to [N, M, H', W'] = sum over channels k and positions p of weight(k, m, p) from(k, pixel of p),
// plus bias(m).
struct Correlation {
  const Tensor& from;
  const Tensor& weight;
  const Tensor& to;  // any strides
  Tensor bias{};
  Extent height, width;
  bool turned = true;  // the weight is [M, K, ...], else [K, M, ...] and its positions run backward
};

inline void correlate(Core& core, const Correlation& c) {
  const Core::Scope scope(core);
  const std::size_t depth = c.from.size(1), outputs = c.to.size(1);
  const ConvolutionPlan plan(c.from.size(0), c.height, c.width, core.machine().matmul_moving_free,
                             kernel_positions);
  ConvolutionWeights weights(core, c.weight, c.turned, plan);
  Patches patches(core, c.from, c.height, c.width, plan);
  // The number of blocks of outputs that share a patch; each has a bank of PSUM.
  constexpr std::size_t group = 4;
  const std::size_t most = (std::min)(outputs, lanes), pixels = plan.pixels();
  HeapVector<Tile> sums(core.context().heap());
  for (std::size_t o = 0; o < (std::min)(piece_count(outputs, lanes), group); ++o)
    sums.push_back(core.psum.tile(most, pixels));
  Pair results(core, DType::fp32, most, pixels);
  // Column i is the bias of block i.
  Tile bias;
  if (c.bias.defined()) {
    bias = core.sbuf.tile(DType::fp32, most, piece_count(outputs, lanes));
    for_pieces(outputs, lanes, [&](std::size_t first, std::size_t count) {
      core.dma.load(
          bias.rows(0, count).columns(first / lanes, first / lanes + 1),
          hbm(c.bias).columns(first, first + 1).with_rows(count, soma::detail::step_of(c.bias, 0)));
    });
  }
  const auto backward = [&](const Interval& positions, std::size_t kernel) {
    return c.turned ? positions : Interval{kernel - positions.end(), positions.size};
  };

  for_output_tiles(
      c.from.size(0), c.height, c.width, plan,
      [&](const Interval& images, const Interval& rows, const Interval& columns) {
        const std::size_t count = images.size * rows.size * columns.size;
        for_pieces(outputs, group * lanes, [&](std::size_t first, std::size_t in_group) {
          bool begun = false;
          std::size_t number = 0;
          for_pieces(depth, lanes, [&](std::size_t k, std::size_t deep) {
            for_pieces(c.height.kernel, plan.rows.positions, [&](std::size_t a, std::size_t as) {
              for_pieces(
                  c.width.kernel, plan.columns.positions, [&](std::size_t b, std::size_t bs) {
                    const Tile patch =
                        patches.load({k, deep}, images, rows, columns, {a, as}, {b, bs});
                    const std::size_t chunk = number++;
                    for_pieces(in_group, lanes, [&](std::size_t o, std::size_t size) {
                      const std::size_t block = (first + o) / lanes;
                      const Tile weight = weights.block(
                          chunk * piece_count(outputs, lanes) + block, {k, deep}, {first + o, size},
                          backward({a, as}, c.height.kernel), backward({b, bs}, c.width.kernel));
                      const Tile sum = sums[o / lanes].rows(0, size).columns(0, count);
                      for (std::size_t p = 0; p < as * bs; ++p) {
                        const std::size_t of_weight = c.turned ? p : as * bs - 1 - p;
                        core.tensor.matmul(sum, weight.slice(0, of_weight, of_weight + 1),
                                           patches.at(patch, p / bs, p % bs, rows, columns),
                                           begun || p != 0 ? Accumulate::yes : Accumulate::no);
                      }
                    });
                    begun = true;
                  });
            });
          });
          for_pieces(in_group, lanes, [&](std::size_t o, std::size_t size) {
            const Tile result = results.next(size, count);
            const std::size_t block = (first + o) / lanes;
            const Tile offset =
                bias.defined() ? bias.rows(0, size).columns(block, block + 1) : Tile();
            const neuroncore::ActivationOptions options{.bias = bias.defined() ? &offset : nullptr};
            if (!begun) core.vector.memset(result, 0);  // a sum over nothing
            core.scalar.activation(result,
                                   begun ? sums[o / lanes].rows(0, size).columns(0, count) : result,
                                   Function::copy, options);
            core.dma.queue(store_queue)
                .store(hbm_target(c.to)
                           .rows(images.begin, images.end())
                           .slice(1, first + o, first + o + size)
                           .slice(2, rows.begin, rows.end())
                           .slice(3, columns.begin, columns.end())
                           .swap(0, 1),
                       result.reshape({images.size, rows.size, columns.size}));
          });
        });
      });
}

// The channels or rows of a group: part `group` of dimension `dimension`.
inline Tensor of_group(const Tensor& tensor, std::size_t dimension, std::size_t group,
                       std::size_t groups) {
  const std::size_t size = tensor.size(dimension) / groups;
  return groups == 1 ? tensor : tensor.slice(dimension, group * size, (group + 1) * size);
}

inline void convolution(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<ConvolutionSetting>();
  const Tensor x = row_major(core, call.inputs[0]);
  const Tensor weight = row_major(core, call.inputs[1]);
  const Tensor bias = soma::detail::input_or_none(call.inputs, 2);
  const Window window = soma::detail::convolution_window(x, weight, setting);
  for (std::size_t group = 0; group < setting.groups; ++group) {
    const Tensor from = of_group(x, 1, group, setting.groups),
                 kernel = of_group(weight, 0, group, setting.groups),
                 to = of_group(call.outputs[0], 1, group, setting.groups);
    correlate(core, {.from = from,
                     .weight = kernel,
                     .to = to,
                     .bias = bias.defined() ? of_group(bias, 0, group, setting.groups) : bias,
                     .height = height_of(window),
                     .width = width_of(window)});
  }
}

}  // namespace SOMA_NAMESPACE::programs

// Depthwise convolution of one channel, directly. In the layout of DepthwisePlanes a whole plane of
// results is one run of multiply-adds with one pixel for each position of the kernel, whatever
// stride, dilation and padding are: no edges, no gathers, and full vectors for small images too.

#if defined(SOMA_KERNELS_IMAGE_DEPTHWISE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_IMAGE_DEPTHWISE_INL_HPP
#undef SOMA_KERNELS_IMAGE_DEPTHWISE_INL_HPP
#else
#define SOMA_KERNELS_IMAGE_DEPTHWISE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/image/args.hpp>
#include <soma/kernels/rows/row_sums-inl.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The workspace: tables of the kernel's positions, the planes of the image and of its gradient, and
// a result or a gradient in their layout.
struct DepthwiseSpace {
  DepthwisePlanes planes;
  // For each position: its plane, where it begins there, and where among all planes; and the
  // positions of one plane.
  std::size_t *phases, *within, *offsets, *chosen;
  float *image, *dimage, *result;

  DepthwiseSpace(const Window& w, std::byte* memory) : planes(w) {
    const std::size_t size = planes.row_phases * planes.column_phases * planes.plane;
    const std::size_t positions = planes.positions;
    phases = reinterpret_cast<std::size_t*>(memory);
    within = phases + positions;
    offsets = within + positions;
    chosen = offsets + positions;
    image = reinterpret_cast<float*>(phases + (4 * positions + 15) / 16 * 16);
    dimage = image + size;
    result = dimage + size + planes.front;
    for (std::size_t b = 0; b < w.kernel_width; ++b) {
      phases[b] = b * w.dilation_width % w.stride_width;
      within[b] = b * w.dilation_width / w.stride_width;
    }
    // The first row last: the other rows read it. Divisions cost as much as a small image.
    for (std::size_t a = w.kernel_height; a-- != 0;) {
      const std::size_t down = a * w.dilation_height;
      const std::size_t phase = down % w.stride_height * planes.column_phases;
      const std::size_t first = down / w.stride_height * planes.columns;
      for (std::size_t b = 0; b < w.kernel_width; ++b) {
        const std::size_t k = a * w.kernel_width + b;
        phases[k] = phase + phases[b];
        within[k] = first + within[b];
        offsets[k] = phases[k] * planes.plane + within[k];
      }
    }
  }
};

// Calls row(pixels of the image, place in the planes, number) for each row of each plane that has
// pixels of the image; these are a stride apart.
template <class Row>
HWY_INLINE void for_plane_rows(const Window& w, const DepthwisePlanes& planes, const Row& row) {
  for (std::size_t f = 0; f < planes.column_phases; ++f) {
    const std::size_t skipped = w.pad_width > f ? w.pad_width - f : 0;
    const std::size_t end = w.pad_width + w.width > f ? w.pad_width + w.width - f : 0;
    const std::size_t first = (skipped + w.stride_width - 1) / w.stride_width;
    const std::size_t last =
        (std::min)((end + w.stride_width - 1) / w.stride_width, planes.columns);
    if (first >= last) continue;
    for (std::size_t p = 0; p < planes.row_phases; ++p)
      for (std::size_t i = 0; i < planes.rows; ++i) {
        const std::size_t padded = i * w.stride_height + p;
        if (padded < w.pad_height || padded >= w.pad_height + w.height) continue;
        row((padded - w.pad_height) * w.width + first * w.stride_width + f - w.pad_width,
            (p * planes.column_phases + f) * planes.plane + i * planes.columns + first,
            last - first);
      }
  }
}

// Rows of small images are a few pixels: a call of memcpy would cost more than the copy.
HWY_INLINE void copy_row(const float* from, std::size_t count, float* to) {
  const hn::CappedTag<float, 4> d;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
    hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = from[i];
}

static inline void lay_out(const Window& w, const DepthwisePlanes& planes, const float* image,
                           float* to) {
  std::fill_n(to, planes.row_phases * planes.column_phases * planes.plane, 0.0f);
  for_plane_rows(w, planes, [&](std::size_t pixel, std::size_t place, std::size_t count) {
    if (w.stride_width == 1)
      copy_row(image + pixel, count, to + place);
    else
      for (std::size_t j = 0; j < count; ++j) to[place + j] = image[pixel + j * w.stride_width];
  });
}

// The gradient dy in the layout of a plane, with zeros in all gaps, before it and behind it.
static inline void lay_out_gradient(const Window& w, const DepthwisePlanes& planes, const float* dy,
                                    float* to) {
  std::fill_n(to - planes.front, planes.front + planes.plane, 0.0f);
  for (std::size_t i = 0; i < w.out_height; ++i)
    copy_row(dy + i * w.out_width, w.out_width, to + i * planes.columns);
}

// One vector, or eight, of add_positions().
template <std::size_t kVectors, bool kBackward>
HWY_INLINE void add_positions_at(const float* from, const std::size_t* offsets,
                                 const std::size_t* chosen, std::size_t count, const float* weights,
                                 const float* start, float first, float* to) {
  const Floats d;
  FloatVector sums[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v)
    sums[v] = start != nullptr ? hn::LoadU(d, start + v * float_lanes) : hn::Set(d, first);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t position = kBackward ? chosen[k] : k;
    const float* x = kBackward ? from - offsets[position] : from + offsets[position];
    const auto weight = hn::Set(d, weights[position]);
    for (std::size_t v = 0; v < kVectors; ++v)
      sums[v] = fused(d, weight, hn::LoadU(d, x + v * float_lanes), sums[v]);
  }
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, to + v * float_lanes);
}

// to[i] = first (or what is there, `adds`) + sum over k of weights[k] from[i + offsets[k]], or, for
// the gradient, over positions k = chosen[...] of weights[k] from[i - offsets[k]]; whole vectors.
template <bool kBackward>
HWY_NOINLINE HWY_MAYBE_UNUSED static void add_positions(
    const float* from, const std::size_t* offsets, const std::size_t* chosen, std::size_t count,
    const float* weights, bool adds, float first, float* to, std::size_t size) {
  constexpr std::size_t vectors = 8;
  std::size_t i = 0;
  for (; i + vectors * float_lanes <= size; i += vectors * float_lanes)
    add_positions_at<vectors, kBackward>(from + i, offsets, chosen, count, weights,
                                         adds ? to + i : nullptr, first, to + i);
  for (; i < size; i += float_lanes)
    add_positions_at<1, kBackward>(from + i, offsets, chosen, count, weights,
                                   adds ? to + i : nullptr, first, to + i);
}

static inline std::size_t result_length(const Window& w, const DepthwisePlanes& planes) {
  return (w.out_height - 1) * planes.columns + w.out_width;
}

static inline void depthwise(const DepthwiseArgs& args) noexcept {
  const Window& w = args.window;
  const DepthwiseSpace space(w, args.workspace);
  const DepthwisePlanes& planes = space.planes;
  lay_out(w, planes, args.image, space.image);
  float* y = args.y;
  for (std::size_t o = 0; o < args.outputs; ++o) {
    add_positions<false>(
        space.image, space.offsets, nullptr, planes.positions, args.weight + o * planes.positions,
        false, args.bias != nullptr ? args.bias[o] : 0.0f, space.result, result_length(w, planes));
    for (std::size_t i = 0; i < w.out_height; ++i, y += w.out_width)
      copy_row(space.result + i * planes.columns, w.out_width, y);
  }
}

// The sums of products of a gradient with the planes at kCount positions of the kernel.
template <std::size_t kCount>
HWY_INLINE void add_position_gradients(const DepthwiseSpace& space, std::size_t length,
                                       const std::size_t* offsets, float* dweight) {
  const auto sums = sums_of_row<kCount, row_run>(
      length, [&](std::size_t first, std::size_t count, LaneSums<kCount>& lanes) {
        std::array<const float*, kCount + 1> in{space.result + first};
        for (std::size_t k = 0; k < kCount; ++k) in[k + 1] = space.image + offsets[k] + first;
        accumulate<kCount, kCount + 1>(in, count, lanes,
                                       [](FloatVector* sum, FloatVector dy, auto... pixels) {
                                         const Floats d;
                                         std::size_t k = 0;
                                         ((sum[k] = fused(d, dy, pixels, sum[k]), ++k), ...);
                                       });
      });
  for (std::size_t k = 0; k < kCount; ++k) dweight[k] += sums[k];
}

static inline void add_weight_gradients(const DepthwiseSpace& space, std::size_t length,
                                        float* dweight) {
  constexpr std::size_t together = 3;  // accumulators of AVX2's sixteen registers
  std::size_t k = 0;
  for (; k + together <= space.planes.positions; k += together)
    add_position_gradients<together>(space, length, space.offsets + k, dweight + k);
  for (; k < space.planes.positions; ++k)
    add_position_gradients<1>(space, length, space.offsets + k, dweight + k);
}

// Adds what a result's gradient sends to the planes. `begun`: not the first result.
static inline void add_image_gradients(const DepthwiseSpace& space, const float* weight,
                                       bool begun) {
  const DepthwisePlanes& planes = space.planes;
  for (std::size_t phase = 0; phase < planes.row_phases * planes.column_phases; ++phase) {
    std::size_t count = 0;
    for (std::size_t k = 0; k < planes.positions; ++k)
      if (space.phases[k] == phase) space.chosen[count++] = k;
    add_positions<true>(space.result, space.within, space.chosen, count, weight, begun, 0.0f,
                        space.dimage + phase * planes.plane, planes.rows * planes.columns);
  }
}

static inline void depthwise_backward(const DepthwiseArgs& args) noexcept {
  const Window& w = args.window;
  const DepthwiseSpace space(w, args.workspace);
  const DepthwisePlanes& planes = space.planes;
  if (args.dweight != nullptr) lay_out(w, planes, args.image, space.image);
  for (std::size_t o = 0; o < args.outputs; ++o) {
    lay_out_gradient(w, planes, args.dy + o * w.out_height * w.out_width, space.result);
    if (args.dweight != nullptr)
      add_weight_gradients(space, result_length(w, planes), args.dweight + o * planes.positions);
    if (args.dimage != nullptr)
      add_image_gradients(space, args.weight + o * planes.positions, o != 0);
  }
  if (args.dimage == nullptr) return;
  std::fill_n(args.dimage, w.height * w.width, 0.0f);
  for_plane_rows(w, planes, [&](std::size_t pixel, std::size_t place, std::size_t count) {
    if (w.stride_width == 1) return copy_row(space.dimage + place, count, args.dimage + pixel);
    for (std::size_t j = 0; j < count; ++j)
      args.dimage[pixel + j * w.stride_width] = space.dimage[place + j];
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

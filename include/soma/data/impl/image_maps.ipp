#pragma once
// The functions of image_maps.hpp.

#include <soma/data/image_maps.hpp>

#include <soma/base/error.hpp>
#include <soma/data/mapped_source.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data::detail {

// The images of a batch, which are changed in place: its tensors are its own.
struct ImagesOf {
  ImagesOf(std::string_view operation, const Batch& batch) {
    const Tensor& rows = batch.inputs.rows;
    if (!rows.defined() || rows.rank() != 4 || rows.dtype() != DType::fp32 || !rows.contiguous() ||
        rows.size(0) != batch.inputs.sequences.count())
      fail(error_id::data_feature, operation, "inputs",
           rows.defined() ? rows.describe() : std::string("not defined"),
           "fp32 [images, channels, height, width], row-major");
    images = rows.size(0);
    channels = rows.size(1);
    height = rows.size(2);
    width = rows.size(3);
    pixels = rows.mutable_data<float>();
  }
  float* plane(std::size_t image, std::size_t channel) const {
    return pixels + (image * channels + channel) * height * width;
  }
  std::size_t images = 0, channels = 0, height = 0, width = 0;
  float* pixels = nullptr;
};

}  // namespace SOMA_NAMESPACE::data::detail

namespace SOMA_NAMESPACE::data {

SOMA_INLINE MappedSource::Function random_crop(std::size_t pad) {
  return [pad](Batch& batch, const ItemDraws& draws) {
    const detail::ImagesOf images("random_crop", batch);
    if (pad > (std::min)(images.height, images.width))
      fail(error_id::data_feature, "random_crop", "pad", std::to_string(pad),
           "at most the smaller side of " + batch.inputs.rows.describe());
    const auto distant = static_cast<std::ptrdiff_t>(pad);
    const auto height = static_cast<std::ptrdiff_t>(images.height),
               width = static_cast<std::ptrdiff_t>(images.width);
    std::vector<float> before(images.height * images.width);
    for (std::size_t i = 0; i < images.images; ++i) {
      DrawSequence draw = draws(i);
      const auto distance = [&] {
        return static_cast<std::ptrdiff_t>(draw.below(static_cast<std::uint32_t>(2 * pad + 1))) -
               distant;
      };
      const std::ptrdiff_t down = distance(), right = distance();
      const std::ptrdiff_t begin = (std::max)(std::ptrdiff_t{0}, right),
                           end = (std::min)(width, width + right);
      for (std::size_t c = 0; c < images.channels; ++c) {
        float* to = images.plane(i, c);
        std::copy_n(to, before.size(), before.begin());
        std::fill_n(to, before.size(), 0.0f);
        for (std::ptrdiff_t y = 0; y < height; ++y, to += width) {
          if (y - down < 0 || y - down >= height) continue;
          const auto row = before.begin() + (y - down) * width;
          std::copy(row + (begin - right), row + (end - right), to + begin);
        }
      }
    }
  };
}

SOMA_INLINE MappedSource::Function random_flip() {
  return [](Batch& batch, const ItemDraws& draws) {
    const detail::ImagesOf images("random_flip", batch);
    for (std::size_t i = 0; i < images.images; ++i) {
      if (draws(i).below(2) == 0) continue;
      for (std::size_t c = 0; c < images.channels; ++c)
        for (std::size_t y = 0; y < images.height; ++y) {
          float* row = images.plane(i, c) + y * images.width;
          std::reverse(row, row + images.width);
        }
    }
  };
}

SOMA_INLINE MappedSource::Function normalised(std::vector<float> mean,
                                              std::vector<float> deviation) {
  return [mean = std::move(mean), deviation = std::move(deviation)](Batch& batch,
                                                                    const ItemDraws&) {
    const detail::ImagesOf images("normalised", batch);
    const bool above =
        std::all_of(deviation.begin(), deviation.end(), [](float value) { return value > 0; });
    if (mean.size() != images.channels || deviation.size() != images.channels || !above)
      fail(error_id::data_feature, "normalised", "mean and deviation",
           std::to_string(mean.size()) + " and " + std::to_string(deviation.size()) + " numbers" +
               (above ? "" : ", not all above 0"),
           "one of each for " + std::to_string(images.channels) + " channels, deviations above 0");
    for (std::size_t i = 0; i < images.images; ++i)
      for (std::size_t c = 0; c < images.channels; ++c) {
        float* pixel = images.plane(i, c);
        for (std::size_t p = 0; p < images.height * images.width; ++p)
          pixel[p] = (pixel[p] - mean[c]) / deviation[c];
      }
  };
}

}  // namespace SOMA_NAMESPACE::data

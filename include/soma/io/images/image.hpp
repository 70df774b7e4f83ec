#pragma once
// Parts that PNG and JPEG share: options, limits, pixels in memory, and their conversion to a
// tensor.

#include <soma/base/error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

struct ImageOptions {
  // 1: grey values, 3: red, green, blue, 4: red, green, blue, opacity. Files with other channels
  // are converted.
  std::size_t channels = 3;
  // The most pixels of a file, checked before memory is allocated.
  std::size_t max_pixels = std::size_t{1} << 26;
};

namespace detail {

// Row by row, the channels of a pixel side by side.
struct Pixels {
  std::size_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> values{};
};

struct ImageSource {
  std::string_view operation, name;
  std::span<const std::byte> bytes;

  [[noreturn]] void failed(ErrorId id, std::string_view problem, std::string_view wanted) const {
    std::string given = soma::quoted(name);
    given.append(" (").append(problem).append(")");
    fail(id, operation, "file", given, wanted);
  }
  [[noreturn]] void damaged(std::string_view problem) const {
    failed(error_id::image_damaged, problem, "a whole image");
  }
};

// Memory for an image with the size in a file. Error image.size.
inline Pixels pixels_for(const ImageSource& source, const ImageOptions& options, std::size_t height,
                         std::size_t width) {
  if (height == 0 || width == 0 || width > options.max_pixels / height)
    source.failed(error_id::image_size,
                  std::to_string(width) + " x " + std::to_string(height) + " pixels",
                  "from 1 to " + std::to_string(options.max_pixels) + " pixels (max_pixels)");
  Pixels pixels{.height = height, .width = width, .channels = options.channels};
  pixels.values.resize(checked_multiply(checked_multiply(height, width, source.operation),
                                        options.channels, source.operation));
  return pixels;
}

// Copies the pixels to [channels, height, width], a plane for each channel.
inline void put_planes(const Pixels& pixels, std::span<std::uint8_t> to) {
  const std::size_t plane = pixels.height * pixels.width;
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t c = 0; c < pixels.channels; ++c)
      to[c * plane + i] = pixels.values[i * pixels.channels + c];
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE

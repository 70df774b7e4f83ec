#pragma once
// PNG through libpng 1.6's interface for whole images, which returns errors as values.

#include <soma/io/images/image.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include <png.h>

namespace SOMA_NAMESPACE::detail {

inline bool is_png(std::span<const std::byte> bytes) {
  constexpr unsigned char mark[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (bytes.size() < sizeof mark) return false;
  for (std::size_t i = 0; i < sizeof mark; ++i)
    if (std::to_integer<unsigned char>(bytes[i]) != mark[i]) return false;
  return true;
}

// libpng's record of one image; the destructor frees its memory.
struct PngImage {
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  std::string_view message() const { return image.message; }

  png_image image{};
};

// Errors image.damaged, image.size.
inline Pixels decode_png(const ImageSource& source, const ImageOptions& options) {
  PngImage png;
  if (png_image_begin_read_from_memory(&png.image, source.bytes.data(), source.bytes.size()) == 0)
    source.damaged(png.message());
  Pixels pixels = pixels_for(source, options, png.image.height, png.image.width);
  png.image.format = options.channels == 1   ? PNG_FORMAT_GRAY
                     : options.channels == 3 ? PNG_FORMAT_RGB
                                             : PNG_FORMAT_RGBA;
  // Without opacity in the result, an image is drawn on white.
  const png_color white{255, 255, 255};
  const int stride = 0;  // rows without room between them
  if (png_image_finish_read(&png.image, &white, pixels.values.data(), stride, nullptr) == 0)
    source.damaged(png.message());
  return pixels;
}

}  // namespace SOMA_NAMESPACE::detail

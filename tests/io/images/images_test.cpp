// These tests check images: pixels of files that libpng and libjpeg write here, folders of them,
// and that a damaged file is an error and never a crash.

#include <soma/images.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

using namespace soma;
using namespace soma_test;

namespace {

using Bytes = std::vector<std::uint8_t>;

// Smooth, so that JPEG has little to lose; another value in each channel.
Bytes gradient(std::size_t height, std::size_t width, std::size_t channels) {
  Bytes pixels;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c)
        pixels.push_back(static_cast<std::uint8_t>(20 + 2 * y + 3 * x + 30 * c));
  return pixels;
}

Bytes png_of(const Bytes& pixels, std::size_t height, std::size_t width, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr) != 0);
  Bytes file(size);
  REQUIRE(png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr) != 0);
  file.resize(size);
  return file;
}

Bytes jpeg_of(const Bytes& pixels, std::size_t height, std::size_t width, int channels,
              bool progressive = false) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_CreateCompress(&state, JPEG_LIB_VERSION, sizeof state);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&state, &memory, &size);
  state.image_width = static_cast<JDIMENSION>(width);
  state.image_height = static_cast<JDIMENSION>(height);
  state.input_components = channels;
  state.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, 100, TRUE);
  if (progressive) jpeg_simple_progression(&state);
  jpeg_start_compress(&state, TRUE);
  Bytes rows = pixels;
  while (state.next_scanline < state.image_height) {
    JSAMPROW row =
        rows.data() + std::size_t{state.next_scanline} * width * static_cast<std::size_t>(channels);
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  Bytes file(memory, memory + size);
  std::free(memory);
  return file;
}

Tensor decode(Context& context, const Bytes& file, const ImageOptions& options = {}) {
  return decode_image(context, std::as_bytes(std::span(file)), options);
}

// The largest difference of a decoded image from pixels that have as many channels.
int difference(const Tensor& image, const Bytes& pixels) {
  const std::size_t channels = image.size(0), plane = image.size(1) * image.size(2);
  REQUIRE(image.elements() == pixels.size());
  int worst = 0;
  for (std::size_t i = 0; i < plane; ++i)
    for (std::size_t c = 0; c < channels; ++c)
      worst = (std::max)(worst, std::abs(int{image.data<std::uint8_t>()[c * plane + i]} -
                                         int{pixels[i * channels + c]}));
  return worst;
}

}  // namespace

TEST_CASE("PNG files give their pixels, in the channels that are asked for", "[unit]") {
  auto context = make_context({.threads = 1});
  const Bytes rgb = gradient(6, 9, 3);
  const Tensor image = decode(context, png_of(rgb, 6, 9, PNG_FORMAT_RGB));
  CHECK(image.shape() == Shape{3, 6, 9});
  CHECK(image.dtype() == DType::uint8);
  CHECK(difference(image, rgb) == 0);
  const Bytes grey = gradient(6, 9, 1);
  CHECK(difference(decode(context, png_of(grey, 6, 9, PNG_FORMAT_GRAY), {.channels = 1}), grey) ==
        0);
  const Tensor three = decode(context, png_of(grey, 6, 9, PNG_FORMAT_GRAY));
  for (std::size_t i = 0; i < 54; ++i)
    for (std::size_t c = 0; c < 3; ++c) CHECK(three.data<std::uint8_t>()[54 * c + i] == grey[i]);
  // Transparent pixels become white, or keep their opacity.
  const Bytes clear{10, 20, 30, 0, 10, 20, 30, 255};
  const Bytes file = png_of(clear, 1, 2, PNG_FORMAT_RGBA);
  CHECK(difference(decode(context, file, {.channels = 4}), clear) == 0);
  CHECK(difference(decode(context, file), {255, 255, 255, 10, 20, 30}) == 0);
  const Tensor features = image_features(context, image);
  CHECK(features.span<float>()[5] == static_cast<float>(image.data<std::uint8_t>()[5]) / 255);
  CHECK(id_of([&] { image_features(context, features); }) == "tensor.dtype");
}

TEST_CASE("JPEG files give their pixels up to what JPEG loses", "[unit]") {
  auto context = make_context({.threads = 1});
  const Bytes grey = gradient(16, 24, 1);
  // At quality 100 coefficients are rounded to whole numbers: a pixel moves by two at most.
  for (const bool progressive : {false, true})
    CHECK(difference(decode(context, jpeg_of(grey, 16, 24, 1, progressive), {.channels = 1}),
                     grey) <= 2);
  const Bytes rgb = gradient(16, 24, 3);
  const Tensor image = decode(context, jpeg_of(rgb, 16, 24, 3));
  CHECK(image.shape() == Shape{3, 16, 24});
  CHECK(difference(image, rgb) <= 6);  // and the conversion of colours by another few
  const Tensor opaque = decode(context, jpeg_of(rgb, 16, 24, 3), {.channels = 4});
  for (std::size_t i = 0; i < 384; ++i) {
    for (std::size_t c = 0; c < 3; ++c)
      CHECK(opaque.data<std::uint8_t>()[384 * c + i] == image.data<std::uint8_t>()[384 * c + i]);
    CHECK(opaque.data<std::uint8_t>()[384 * 3 + i] == 255);
  }
  CHECK(id_of([&] { decode(context, jpeg_of(gradient(8, 8, 4), 8, 8, 4)); }) == "image.format");
}

TEST_CASE("no image is larger than it may be, and none is of an unknown kind", "[unit]") {
  auto context = make_context({.threads = 1});
  const Bytes rgb = gradient(16, 24, 3);
  for (const Bytes& file : {png_of(rgb, 16, 24, PNG_FORMAT_RGB), jpeg_of(rgb, 16, 24, 3)}) {
    CHECK(id_of([&] { decode(context, file, {.max_pixels = 383}); }) == "image.size");
    CHECK(id_of([&] { decode(context, file, {.max_pixels = 384}); }) == "no error");
    CHECK(id_of([&] { decode(context, file, {.channels = 2}); }) == "image.format");
  }
  // Sizes that a head of a few bytes claims are compared before there is memory for them.
  Bytes claims = jpeg_of(rgb, 16, 24, 3);
  for (std::size_t i = 0; i + 9 < claims.size(); ++i)
    if (claims[i] == 0xFF && claims[i + 1] == 0xC0)
      for (std::size_t j = 5; j < 9; ++j) claims[i + j] = 0xFF;
  const std::string id = id_of([&] { decode(context, claims); });
  CHECK((id == "image.size" || id == "image.damaged"));
  for (const char* text : {"", "GIF89a", "\x89PNG"})
    CHECK(id_of([&] {
            decode(context, Bytes(text, text + std::char_traits<char>::length(text)));
          }) == "image.format");
  CHECK(id_of([&] { load_image(context, "/nowhere/a.png"); }) == "file.read");
}

TEST_CASE("a damaged image is an error, or an image of the size that it says", "[unit]") {
  auto context = make_context({.threads = 1});
  const ImageOptions small{.max_pixels = 4096};
  const Bytes rgb = gradient(12, 10, 3);
  for (const Bytes& file : {png_of(rgb, 12, 10, PNG_FORMAT_RGB), jpeg_of(rgb, 12, 10, 3),
                            jpeg_of(rgb, 12, 10, 3, true)}) {
    const std::string whole = id_of([&] { decode(context, file, small); });
    CHECK(whole == "no error");
    // Cut short: the end mark is the last that may lack.
    for (std::size_t length = 0; length + 12 < file.size(); ++length) {
      const std::string id =
          id_of([&] { decode(context, Bytes(file.data(), file.data() + length), small); });
      CHECK((id == "image.damaged" || id == "image.format"));
    }
    for (std::size_t at = 0; at < file.size(); ++at)
      for (const int flip : {0x01, 0x80, 0xFF}) {
        Bytes damaged = file;
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ flip);
        const std::string id = id_of([&] {
          const Tensor image = decode(context, damaged, small);
          CHECK(image.elements() <= 3 * 4096);
        });
        CHECK((id == "no error" || id.starts_with("image.")));
      }
  }
}

TEST_CASE("no pixel of a PNG changes unseen", "[unit]") {
  auto context = make_context({.threads = 1});
  const Bytes file = png_of(gradient(12, 10, 3), 12, 10, PNG_FORMAT_RGB);
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::size_t begin = text.find("IDAT") + 4, end = text.find("IEND") - 4;
  REQUIRE(begin < end);
  for (std::size_t at = begin; at < end; ++at) {
    Bytes damaged = file;
    damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ 0x10);
    CHECK(id_of([&] { decode(context, damaged); }) == "image.damaged");
  }
}

TEST_CASE("a folder of images has a class for each folder in it", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::filesystem::path folder = "/tmp/soma_images." + std::to_string(::getpid());
  struct Cleaning {
    std::filesystem::path path;
    ~Cleaning() { std::filesystem::remove_all(path); }
  } cleaning{folder};
  const auto write = [&](const std::string& name, const Bytes& bytes) {
    std::filesystem::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  const Bytes rgb = gradient(6, 9, 3);
  write("dog/b.JPG", jpeg_of(rgb, 6, 9, 3));
  write("dog/a.png", png_of(rgb, 6, 9, PNG_FORMAT_RGB));
  write("cat/c.png", png_of(rgb, 6, 9, PNG_FORMAT_RGB));
  write("cat/notes.txt", {1});
  const LabelledImages images = load_image_folder(context, folder.string());
  CHECK(images.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(images.images.shape() == Shape{3, 3, 6, 9});
  CHECK(std::vector<std::int32_t>(images.labels.span<std::int32_t>().begin(),
                                  images.labels.span<std::int32_t>().end()) ==
        std::vector<std::int32_t>{0, 1, 1});
  CHECK(images.files[1].ends_with("dog/a.png"));
  CHECK(difference(images.images.select(0, 1), rgb) == 0);
  const auto load = [&](const ImageFolderOptions& options = {}) {
    return id_of([&] { load_image_folder(context, folder.string(), options); });
  };
  CHECK(load({.max_bytes = 485}) == "image.folder");
  CHECK(load({.max_bytes = 486}) == "no error");
  write("dog/z.png", png_of(gradient(5, 9, 3), 5, 9, PNG_FORMAT_RGB));
  CHECK(load() == "image.folder");
  write("dog/z.png", {1, 2, 3});
  CHECK(load() == "image.format");
  std::filesystem::remove(folder / "dog/z.png");
  std::filesystem::create_directory(folder / "empty");
  CHECK(load() == "image.folder");
  CHECK(id_of([&] { load_image_folder(context, (folder / "cat").string()); }) == "image.folder");
  CHECK(id_of([&] { load_image_folder(context, "/nowhere"); }) == "image.folder");
}

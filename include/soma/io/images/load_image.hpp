#pragma once
// load_image(): a PNG or JPEG file as a tensor; load_image_folder(): a folder of such files with
// labels.

#include <soma/io/images/jpeg.hpp>
#include <soma/io/images/png.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/system/paths.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline Pixels decode_image(const ImageSource& source, const ImageOptions& options) {
  if (options.channels != 1 && options.channels != 3 && options.channels != 4)
    fail(error_id::image_format, source.operation, "channels", std::to_string(options.channels),
         "1, 3 or 4");
  if (is_png(source.bytes)) return decode_png(source, options);
  if (is_jpeg(source.bytes)) return decode_jpeg(source, options);
  source.failed(error_id::image_format, "neither begins as PNG nor as JPEG", "PNG or JPEG");
}

}  // namespace detail

// uint8 [channels, height, width]; the file's name does not matter. Files with 16 bits a channel
// keep the upper 8, by libpng's rules for gamma. Without an opacity channel in the result, an image
// is drawn on white; marks of orientation (EXIF) are ignored. Errors file.read, image.format
// (neither PNG nor JPEG, colours that cannot be converted, channels that are not 1, 3 or 4),
// image.size (more pixels than max_pixels), image.damaged (even if a library could continue with a
// damaged file).
inline Tensor load_image(Context& context, std::string_view path,
                         const ImageOptions& options = {}) {
  const auto file = MappedFile::open("load_image", path);
  const detail::Pixels pixels = detail::decode_image({"load_image", path, file->bytes()}, options);
  const Tensor image =
      Tensor::empty(context, Shape{pixels.channels, pixels.height, pixels.width}, DType::uint8);
  detail::put_planes(pixels, image.mutable_span<std::uint8_t>());
  return image;
}
// The same for a file's content in memory.
inline Tensor decode_image(Context& context, std::span<const std::byte> content,
                           const ImageOptions& options = {}) {
  const detail::Pixels pixels = detail::decode_image({"decode_image", "memory", content}, options);
  const Tensor image =
      Tensor::empty(context, Shape{pixels.channels, pixels.height, pixels.width}, DType::uint8);
  detail::put_planes(pixels, image.mutable_span<std::uint8_t>());
  return image;
}

struct LabelledImages {
  Tensor images{};                     // uint8 [count, channels, height, width]
  Tensor labels{};                     // int32 [count], numbers in `classes`
  std::vector<std::string> classes{};  // names of the folders, ascending
  std::vector<std::string> files{};    // the file of each image
};

struct ImageFolderOptions {
  ImageOptions image{};
  std::uint64_t max_bytes = std::uint64_t{1} << 32;  // limit for all images together
};

namespace detail {

// The names in a folder, ascending: of folders, or of files with endings of images. Error
// image.folder.
inline std::vector<std::string> names_of_images(const std::string& folder, bool folders) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(system::path_of(folder), error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    std::string ending = system::text_of(at->path().extension());
    for (char& letter : ending)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter + 32);
    const bool wanted =
        at->is_directory(ignored)
            ? folders
            : !folders && (ending == ".png" || ending == ".jpg" || ending == ".jpeg");
    const std::string name = system::name_of(*at);
    if (wanted && !name.starts_with('.')) names.push_back(name);
  }
  if (error)
    fail(error_id::image_folder, "load_image_folder", "folder",
         soma::quoted(folder) + " (" + error.message() + ")", "a folder that can be listed");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace detail

// The images of a folder that has one folder for each class, named after the class: PNG and JPEG
// files, in the order of their names, all of one size. Errors as of load_image(), and image.folder
// (no classes, a class without images, an image of another size than the first, more than
// max_bytes).
inline LabelledImages load_image_folder(Context& context, std::string_view path,
                                        const ImageFolderOptions& options = {}) {
  constexpr std::string_view operation = "load_image_folder";
  const std::string folder(path);
  LabelledImages result;
  result.classes = detail::names_of_images(folder, true);
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < result.classes.size(); ++i) {
    const std::string inner = folder + "/" + result.classes[i];
    const std::vector<std::string> names = detail::names_of_images(inner, false);
    if (names.empty())
      fail(error_id::image_folder, operation, "folder", soma::quoted(inner) + ", without images",
           "files that end in .png, .jpg or .jpeg");
    for (const std::string& name : names) {
      result.files.push_back(inner + "/" + name);
      labels.push_back(static_cast<std::int32_t>(i));
    }
  }
  if (result.files.empty())
    fail(error_id::image_folder, operation, "folder", soma::quoted(folder) + ", without folders",
         "a folder with images for each class");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < result.files.size(); ++i) {
    const auto file = MappedFile::open(operation, result.files[i]);
    const detail::Pixels pixels =
        detail::decode_image({operation, result.files[i], file->bytes()}, options.image);
    const Shape shape{result.files.size(), pixels.channels, pixels.height, pixels.width};
    if (i == 0) {
      bytes = pixels.values.size();
      if (result.files.size() > options.max_bytes / bytes)
        fail(error_id::image_folder, operation, "images of " + soma::quoted(folder),
             std::to_string(result.files.size()) + " of " + std::to_string(bytes) + " bytes",
             "at most " + std::to_string(options.max_bytes) + " bytes together (max_bytes)");
      result.images = Tensor::empty(context, shape, DType::uint8);
    }
    if (shape != result.images.shape())
      fail(error_id::image_folder, operation, "size of " + soma::quoted(result.files[i]),
           std::to_string(pixels.width) + " x " + std::to_string(pixels.height),
           std::to_string(result.images.size(3)) + " x " + std::to_string(result.images.size(2)) +
               ", as the first image has");
    detail::put_planes(pixels,
                       result.images.mutable_span<std::uint8_t>().subspan(i * bytes, bytes));
  }
  result.labels = Tensor::from<std::int32_t>(context, labels, Shape{labels.size()});
  return result;
}

// Bytes of images as inputs of a network: fp32 of the same shape, 0 to 1. Error tensor.dtype.
inline Tensor image_features(Context& context, const Tensor& images) {
  if (images.dtype() != DType::uint8)
    fail(error_id::tensor_dtype, "image_features", "images", images.describe(), "uint8");
  const Tensor bytes = contiguous(context, images);
  Tensor result = Tensor::empty(context, images.shape());
  const std::span<float> values = result.mutable_span<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(bytes.data<std::uint8_t>()[i]) / 255.0f;
  return result;
}

}  // namespace SOMA_NAMESPACE

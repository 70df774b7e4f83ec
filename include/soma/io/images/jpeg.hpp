#pragma once
// JPEG through libjpeg (libjpeg-turbo, or version 8 or later).
//
// libjpeg leaves a function by longjmp on an error. Between setjmp and a call that may jump back,
// no object with a destructor may be made: JpegDecoder's members keep to that, and its destructor
// frees libjpeg's memory.

#include <soma/io/images/image.hpp>

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include <jpeglib.h>

namespace SOMA_NAMESPACE::detail {

inline bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xFF} && bytes[1] == std::byte{0xD8} &&
         bytes[2] == std::byte{0xFF};
}

class JpegDecoder {
 public:
  JpegDecoder() {
    state_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = &leave;
    errors_.base.emit_message = &note;
    errors_.base.output_message = &be_quiet;
    progress_.progress_monitor = &check_scans;
  }
  ~JpegDecoder() {
    if (made_) jpeg_destroy_decompress(&state_);
  }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the file's header. Returns false on an error; message() then has the reason.
  bool read_header(std::span<const std::byte> bytes) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_CreateDecompress(&state_, JPEG_LIB_VERSION, sizeof state_);
    made_ = true;
    state_.progress = &progress_;
    // (Some versions take non-constant bytes; none of them writes to the bytes.)
    jpeg_mem_src(&state_,
                 const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data())),
                 static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&state_, TRUE);
    return errors_.base.num_warnings == 0;
  }
  // Reads row by row into `pixels`, of height() * width() * (1 or 3) bytes. Returns as above.
  bool read_pixels(unsigned char* pixels, bool grey) {
    if (setjmp(errors_.back) != 0) return false;
    state_.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    state_.dct_method = JDCT_ISLOW;  // the exact one
    jpeg_start_decompress(&state_);
    const std::size_t row = std::size_t{state_.output_width} * (grey ? 1 : 3);
    while (state_.output_scanline < state_.output_height) {
      JSAMPROW to = pixels + row * state_.output_scanline;
      jpeg_read_scanlines(&state_, &to, 1);
    }
    jpeg_finish_decompress(&state_);
    return errors_.base.num_warnings == 0;
  }

  std::size_t height() const { return state_.image_height; }
  std::size_t width() const { return state_.image_width; }
  // True if libjpeg converts the file's colours to grey values, or to red, green and blue.
  bool converts(bool grey) const {
    const J_COLOR_SPACE from = state_.jpeg_color_space;
    return from == JCS_GRAYSCALE || from == JCS_YCbCr || (from == JCS_RGB && !grey);
  }
  std::string_view message() const { return errors_.text.data(); }

 private:
  // libjpeg knows the first member only.
  struct Errors {
    jpeg_error_mgr base;
    std::jmp_buf back;
    std::array<char, JMSG_LENGTH_MAX> text;
  };
  // A file with more scans than any encoder writes is made to waste a reader's time.
  static constexpr int most_scans = 500;

  static Errors& errors_of(j_common_ptr state) { return *reinterpret_cast<Errors*>(state->err); }
  static void leave(j_common_ptr state) {
    Errors& errors = errors_of(state);
    errors.base.format_message(state, errors.text.data());
    std::longjmp(errors.back, 1);
  }
  // A warning means damage that libjpeg has concealed; the text of the first one is kept.
  static void note(j_common_ptr state, int level) {
    if (level >= 0) return;
    Errors& errors = errors_of(state);
    if (errors.base.num_warnings++ == 0) errors.base.format_message(state, errors.text.data());
  }
  static void be_quiet(j_common_ptr) {}
  static void check_scans(j_common_ptr state) {
    if (!state->is_decompressor) return;
    if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number <= most_scans) return;
    Errors& errors = errors_of(state);
    std::snprintf(errors.text.data(), errors.text.size(), "more than %d scans", most_scans);
    std::longjmp(errors.back, 1);
  }

  jpeg_decompress_struct state_{};
  jpeg_progress_mgr progress_{};
  Errors errors_{};
  bool made_ = false;
};

// Errors image.damaged, image.size, image.format (colours that libjpeg does not convert).
inline Pixels decode_jpeg(const ImageSource& source, const ImageOptions& options) {
  JpegDecoder decoder;
  if (!decoder.read_header(source.bytes)) source.damaged(decoder.message());
  const bool grey = options.channels == 1;
  if (!decoder.converts(grey))
    source.failed(error_id::image_format, "JPEG of colours that are not converted, such as CMYK",
                  "grey values, YCbCr or RGB");
  Pixels pixels = pixels_for(source, options, decoder.height(), decoder.width());
  if (!decoder.read_pixels(pixels.values.data(), grey)) source.damaged(decoder.message());
  if (options.channels != 4) return pixels;
  // Three bytes a pixel become four, from the end on, so that no byte is overwritten before it is
  // read.
  for (std::size_t i = pixels.height * pixels.width; i-- > 0;) {
    std::uint8_t* to = pixels.values.data() + 4 * i;
    const std::uint8_t* from = pixels.values.data() + 3 * i;
    const std::uint8_t red = from[0], green = from[1], blue = from[2];
    to[0] = red, to[1] = green, to[2] = blue, to[3] = 255;
  }
  return pixels;
}

}  // namespace SOMA_NAMESPACE::detail

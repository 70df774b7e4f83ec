// Image to columns and back, and max pooling: the same bits as the plain reference, on every
// target.

#include <soma/kernels/reference/image.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/every_target.hpp"
#include "support/samples.hpp"
#include "support/stored_run.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using soma_test::finite_floats;
using soma_test::on_every_target;
using soma_test::same_bits;

namespace {

Window window(std::size_t channels, std::size_t height, std::size_t width,
              std::size_t kernel_height, std::size_t kernel_width, std::size_t stride_height,
              std::size_t stride_width, std::size_t pad_height, std::size_t pad_width) {
  Window w{channels,      height,       width,      kernel_height, kernel_width,
           stride_height, stride_width, pad_height, pad_width};
  w.out_height = (height + 2 * pad_height - kernel_height) / stride_height + 1;
  w.out_width = (width + 2 * pad_width - kernel_width) / stride_width + 1;
  return w;
}

// The same reach with fewer pixels, so many apart.
Window dilated(Window w, std::size_t down, std::size_t across) {
  w.kernel_height = (w.kernel_height - 1) / down + 1;
  w.kernel_width = (w.kernel_width - 1) / across + 1;
  w.dilation_height = down;
  w.dilation_width = across;
  return w;
}

std::vector<Window> windows() {
  std::vector<Window> all{
      window(3, 7, 5, 3, 3, 1, 1, 1, 1),    window(2, 8, 9, 3, 2, 2, 3, 0, 1),
      window(1, 1, 1, 1, 1, 1, 1, 0, 0),    window(4, 5, 6, 1, 1, 2, 2, 0, 0),
      window(1, 4, 4, 4, 4, 4, 4, 0, 0),    window(2, 32, 48, 16, 16, 16, 16, 0, 0),
      window(1, 3, 40, 3, 25, 1, 7, 1, 12), window(1, 5, 5, 5, 5, 1, 1, 2, 2),
      window(2, 9, 4, 2, 2, 3, 3, 1, 1)};
  Window empty = window(1, 4, 4, 2, 2, 2, 2, 0, 0);
  empty.channels = 0;
  all.push_back(empty);
  return all;
}

// Also windows that lie wholly in the padding, which a convolution may have.
std::vector<Window> convolutions() {
  std::vector<Window> all = windows();
  all.push_back(window(2, 3, 3, 1, 1, 1, 1, 2, 2));
  all.push_back(window(2, 2, 3, 2, 2, 1, 2, 4, 3));
  all.push_back(dilated(window(2, 9, 8, 5, 7, 1, 1, 1, 2), 2, 3));
  all.push_back(dilated(window(3, 6, 11, 5, 5, 2, 3, 4, 3), 4, 2));
  return all;
}

std::size_t image_size(const Window& w) { return w.channels * w.height * w.width; }
std::size_t windows_of(const Window& w) { return w.out_height * w.out_width; }
std::size_t columns_of(const Window& w) { return w.channels * w.kernel_height * w.kernel_width; }

std::string describe(const Window& w) {
  return std::to_string(w.channels) + " x " + std::to_string(w.height) + " x " +
         std::to_string(w.width) + ", kernel " + std::to_string(w.kernel_height) + " x " +
         std::to_string(w.kernel_width);
}

}  // namespace

TEST_CASE("images unfold into columns", "[unit][image]") {
  on_every_target([](Context& context) {
    for (const Window& w : convolutions()) {
      const std::vector<float> image = soma_test::hard_floats(image_size(w));
      const std::size_t size = windows_of(w) * columns_of(w);
      std::vector<float> columns(size + 1, 9.0f), expected(size + 1, 9.0f);
      context.kernels().image.unfold(
          {.window = w, .image = image.data(), .columns = columns.data()});
      reference::unfold(w, image.data(), expected.data());
      INFO(describe(w));
      CHECK(std::memcmp(columns.data(), expected.data(), columns.size() * sizeof(float)) == 0);
    }
  });
}

TEST_CASE("columns fold into images in ascending order", "[unit][image]") {
  on_every_target([](Context& context) {
    for (const Window& w : convolutions()) {
      const std::size_t size = windows_of(w) * columns_of(w);
      const std::vector<float> columns = soma_test::small_floats(DType::fp32, size, 3);
      std::vector<float> image(image_size(w) + 1, 9.0f), expected(image.size(), 9.0f);
      context.kernels().image.fold({.window = w, .columns = columns.data(), .image = image.data()});
      reference::fold(w, columns.data(), expected.data());
      INFO(describe(w));
      CHECK(same_bits(image, expected));
      // Each pixel is a sum of at most one term per window: that many roundings.
      const std::vector<double> wide(columns.begin(), columns.end());
      std::vector<double> magnitudes(wide), exact(image_size(w)), most(image_size(w));
      for (double& value : magnitudes) value = std::fabs(value);
      reference::fold(w, wide.data(), exact.data());
      reference::fold(w, magnitudes.data(), most.data());
      bool close = true;
      for (std::size_t p = 0; p < image_size(w); ++p)
        close =
            close && !(std::fabs(static_cast<double>(image[p]) - exact[p]) >
                       static_cast<double>(w.kernel_height * w.kernel_width) * 0x1p-24 * most[p]);
      CHECK(close);
    }
  });
}

TEST_CASE("max pooling takes the first of the largest, NaN before all", "[unit][image]") {
  on_every_target([](Context& context) {
    for (const Window& w : windows()) {
      const std::size_t outputs = w.channels * windows_of(w);
      // All special values; few distinct ones, so that many tie; nothing but -infinity.
      const std::vector<float> hard = soma_test::hard_floats(image_size(w), 5);
      std::vector<float> ties(image_size(w));
      for (std::size_t i = 0; i < ties.size(); ++i)
        ties[i] = static_cast<float>(random_word({.seed = 2}, i) % 3) - 1.0f;
      const std::vector<float> lowest(image_size(w), -std::numeric_limits<float>::infinity());
      for (const std::vector<float>& image : {hard, ties, lowest}) {
        std::vector<float> y(outputs), expected(outputs);
        std::vector<std::int32_t> indices(outputs), expected_indices(outputs);
        MaxPoolArgs args{.window = w, .image = image.data(), .y = y.data()};
        context.kernels().image.max_pool(args);  // without indices
        reference::max_pool(w, image.data(), expected.data(), expected_indices.data());
        INFO(describe(w));
        const auto same = [&] {
          return outputs == 0 ||
                 std::memcmp(y.data(), expected.data(), outputs * sizeof(float)) == 0;
        };
        CHECK(same());
        std::fill(y.begin(), y.end(), 9.0f);
        args.indices = indices.data();
        context.kernels().image.max_pool(args);
        CHECK(same());
        CHECK(indices == expected_indices);

        const std::vector<float> dy = finite_floats(outputs, 4);
        std::vector<float> dimage(image_size(w), 9.0f), expected_dimage(image_size(w));
        args.dy = dy.data();
        args.dimage = dimage.data();
        context.kernels().image.max_pool_backward(args);
        reference::max_pool_backward(w, indices.data(), dy.data(), expected_dimage.data());
        CHECK(same_bits(dimage, expected_dimage));
      }
    }
  });
}

TEST_CASE("depthwise convolution adds positions in order", "[unit][image]") {
  on_every_target([](Context& context) {
    std::vector<Window> all = convolutions();
    Window behind = window(1, 5, 37, 3, 3, 2, 1, 1, 1);  // one row and column more
    ++behind.out_width;
    all.push_back(behind);
    all.push_back(window(1, 40, 70, 3, 3, 1, 1, 1, 1));  // more than one run of pixels
    for (Window w : all) {
      if (w.channels == 0) continue;
      w.channels = 1;
      for (const std::size_t outputs : {1u, 2u}) {
        INFO(describe(w));
        const std::size_t area = w.kernel_height * w.kernel_width, windows = windows_of(w);
        const std::vector<float> image = soma_test::small_floats(DType::fp32, image_size(w), 1);
        const std::vector<float> weight = soma_test::small_floats(DType::fp32, outputs * area, 2);
        const std::vector<float> dy = soma_test::small_floats(DType::fp32, outputs * windows, 3);
        const std::vector<float> bias{0.5f, -2.0f};
        const std::size_t bytes = DepthwisePlanes(w).workspace_bytes();
        const Storage workspace = Storage::allocate(context.heap(), bytes);
        std::vector<float> y(outputs * windows + 1, 9.0f), expected(y);
        std::vector<float> dimage(image_size(w) + 1, 9.0f), expected_dimage(dimage);
        std::vector<float> dweight(outputs * area, 1.0f);
        std::vector<double> exact(outputs * area), most(outputs * area);
        DepthwiseArgs args{.window = w,
                           .outputs = outputs,
                           .image = image.data(),
                           .weight = weight.data(),
                           .bias = bias.data(),
                           .y = y.data(),
                           .dy = dy.data(),
                           .dimage = dimage.data(),
                           .dweight = dweight.data(),
                           .workspace = workspace.data()};
        context.kernels().image.depthwise(args);
        reference::depthwise(w, outputs, image.data(), weight.data(), bias.data(), expected.data());
        CHECK(same_bits(y, expected));
        context.kernels().image.depthwise_backward(args);
        reference::depthwise_backward(w, outputs, image.data(), weight.data(), dy.data(),
                                      expected_dimage.data(), exact.data());
        // Gaps add zeros of either sign: -0, of products that underflow, may become 0.
        for (float& value : dimage) value += 0.0f;
        for (float& value : expected_dimage) value += 0.0f;
        CHECK(same_bits(dimage, expected_dimage));
        std::vector<float> sizes(image), steps(dy), unused(dimage);
        for (float& value : sizes) value = std::fabs(value);
        for (float& value : steps) value = std::fabs(value);
        reference::depthwise_backward(w, outputs, sizes.data(), weight.data(), steps.data(),
                                      unused.data(), most.data());
        // A lane's multiply-adds, the tree of lanes, a level of the tree of runs, and the addition.
        bool close = true;
        for (std::size_t k = 0; k < exact.size(); ++k)
          close = close && std::fabs(static_cast<double>(dweight[k]) - 1 - exact[k]) <=
                               72 * 0x1p-24 * (most[k] + 1);
        CHECK(close);
        // Gradients that nobody wants are not written.
        const std::vector<float> before(dweight);
        args.dimage = nullptr;
        args.dweight = nullptr;
        context.kernels().image.depthwise_backward(args);
        CHECK(dweight == before);
      }
    }
  });
}

#pragma once
// Tensors as text, for people, by PyTorch's rules: one notation for all elements (integers with a
// point, a fixed number of decimals, or scientific where values are very large, very small or far
// apart), aligned columns, and "..." for the middle of long dimensions.
//
//   [[ 1.0000, -2.5000],
//    [ 3.0000,  0.1250]], shape [2, 2], fp32

#include <soma/numeric/codec.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

struct PrintOptions {
  std::size_t edge = 3;          // elements shown at either end of a dimension that is abbreviated
  std::size_t threshold = 1000;  // a tensor of more elements is abbreviated
  int precision = 4;             // decimals, 0 to 20
  std::size_t line_width = 80;   // rows are broken before they are longer, where they can be
};

namespace detail {

// The notation of a tensor's floating elements.
struct FloatNotation {
  bool integral = true, scientific = false;
  int precision = 4;

  static FloatNotation choose(const std::vector<double>& values, int precision);

  std::string text(double value) const;
};

class TensorPrinter {
 public:
  TensorPrinter(const Tensor& tensor, const PrintOptions& options)
      : tensor_(tensor), options_(options), abbreviated_(tensor.elements() > options.threshold) {}

  std::string text();

 private:
  // Calls one(index) for the shown indices of a dimension, gap() between its ends.
  template <class One, class Gap>
  void walk(std::size_t dimension, One&& one, Gap&& gap) const {
    const std::size_t size = tensor_.size(dimension), edge = options_.edge;
    const bool cut = abbreviated_ && size / 2 >= edge && size > 2 * edge;
    for (std::size_t i = 0; i < (cut ? edge : size); ++i) one(i);
    if (!cut) return;
    gap();
    for (std::size_t i = size - edge; i < size; ++i) one(i);
  }

  void collect(std::size_t dimension, std::size_t offset);
  void collect_element(std::size_t offset);

  void make_texts();

  void append_number(std::string& result);

  void append(std::string& result, std::size_t dimension);

  void append_row(std::string& result);

  const Tensor& tensor_;
  const PrintOptions& options_;
  bool abbreviated_;
  std::vector<double> values_;      // the numbers of a floating tensor, as they are shown
  std::vector<std::string> texts_;  // the text of every element that is shown
  std::size_t width_ = 0, next_ = 0;
};

}  // namespace detail

std::string to_string(const Tensor& tensor, const PrintOptions& options = {});

// Writes to_string(tensor). A template, so that this header does not include the stream library.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const Tensor& tensor) {
  return out << std::string_view(to_string(tensor));
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/print.ipp>
#endif

// Views of tensors: slices, selections, transposes, reshapes and broadcasts, and views of those,
// against a plain table of offsets; copies between any strides.

#include <soma/soma.hpp>
#include <soma/tensor/tensor.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

Tensor counting(Context& context, const Shape& shape) {
  const Tensor tensor = Tensor::empty(context, shape, DType::int32);
  std::iota(tensor.mutable_span<std::int32_t>().begin(), tensor.mutable_span<std::int32_t>().end(),
            0);
  return tensor;
}

// The elements in row-major order, each found by a product of its own index.
std::vector<std::int32_t> listed(const Tensor& tensor) {
  std::vector<std::int32_t> result;
  for (std::size_t flat = 0; flat < tensor.elements(); ++flat) {
    std::size_t rest = flat, offset = 0;
    for (std::size_t i = tensor.rank(); i-- > 0;) {
      offset += rest % tensor.size(i) * tensor.strides()[i];
      rest /= tensor.size(i);
    }
    result.push_back(tensor.data<std::int32_t>()[offset]);
  }
  return result;
}

// A tensor as nested lists are thought of: its shape, and the value at each index.
struct Model {
  std::vector<std::size_t> sizes;
  std::vector<std::int32_t> values;

  template <class Pick>  // the index of the source, of an index of the result
  Model make(std::vector<std::size_t> result_sizes, Pick&& pick) const {
    Model result{std::move(result_sizes), {}};
    std::size_t count = 1;
    for (const std::size_t size : result.sizes) count *= size;
    for (std::size_t flat = 0; flat < count; ++flat) {
      std::vector<std::size_t> index(result.sizes.size());
      std::size_t rest = flat;
      for (std::size_t i = index.size(); i-- > 0;) {
        index[i] = rest % result.sizes[i];
        rest /= result.sizes[i];
      }
      const std::vector<std::size_t> from = pick(index);
      std::size_t at = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) at = at * sizes[i] + from[i];
      result.values.push_back(values[at]);
    }
    return result;
  }
};

using Index = std::vector<std::size_t>;

}  // namespace

TEST_CASE("chains of random views read what lists would", "[unit][tensor]") {
  auto context = make_context();
  std::mt19937 random(20240917);
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random() % static_cast<std::uint32_t>(bound));
  };
  for (int round = 0; round < 400; ++round) {
    Index sizes(below(5));
    for (std::size_t& size : sizes) size = below(8) == 0 ? 0 : 1 + below(5);
    Tensor tensor = counting(context, Shape(std::span<const std::size_t>(sizes)));
    Model model{sizes, listed(tensor)};
    for (int step = 0; step < 5; ++step) {
      const std::size_t rank = tensor.rank();
      const std::size_t dimension = rank == 0 ? 0 : below(rank);
      const std::size_t kind = rank == 0 ? 3 : below(4);
      if (kind == 0) {
        const std::size_t begin = below(tensor.size(dimension) + 1);
        const std::size_t end = begin + below(tensor.size(dimension) - begin + 1);
        const std::size_t stride = 1 + below(3);
        tensor = tensor.slice(dimension, begin, end, stride);
        Index next = model.sizes;
        next[dimension] = (end - begin + stride - 1) / stride;
        model = model.make(next, [&](Index index) {
          index[dimension] = begin + index[dimension] * stride;
          return index;
        });
      } else if (kind == 1 && tensor.size(dimension) > 0) {
        const std::size_t at = below(tensor.size(dimension));
        tensor = tensor.select(dimension, at);
        Index next = model.sizes;
        next.erase(next.begin() + static_cast<std::ptrdiff_t>(dimension));
        model = model.make(next, [&](Index index) {
          index.insert(index.begin() + static_cast<std::ptrdiff_t>(dimension), at);
          return index;
        });
      } else if (kind == 2) {
        const std::size_t other = below(rank);
        tensor = tensor.transpose(dimension, other);
        Index next = model.sizes;
        std::swap(next[dimension], next[other]);
        model = model.make(next, [&](Index index) {
          std::swap(index[dimension], index[other]);
          return index;
        });
      } else if (rank < 7) {
        Index next = model.sizes;
        const Index before = next;
        for (std::size_t& size : next)
          if (size == 1) size = 1 + below(3);
        next.insert(next.begin(), 1 + below(2));
        tensor = tensor.broadcast_to(Shape(std::span<const std::size_t>(next)));
        model = model.make(next, [&](Index index) {
          index.erase(index.begin());
          for (std::size_t i = 0; i < index.size(); ++i)
            if (before[i] == 1) index[i] = 0;
          return index;
        });
      }
      CAPTURE(round, step, tensor.describe());
      REQUIRE(Index(tensor.shape().begin(), tensor.shape().end()) == model.sizes);
      REQUIRE(listed(tensor) == model.values);
      const Tensor compact = contiguous(context, tensor);
      REQUIRE(compact.contiguous());
      REQUIRE(std::ranges::equal(compact.span<std::int32_t>(), model.values));
      if (tensor.contiguous() && !model.values.empty()) REQUIRE(compact.raw() == tensor.raw());
    }
  }
}

TEST_CASE("copies go between any strides, in every width", "[unit][tensor]") {
  auto context = make_context();
  for (const DType dtype : dtypes) {
    CAPTURE(to_string(dtype));
    const std::size_t width = size_of(dtype);
    const Tensor from = Tensor::empty(context, {3, 4, 5}, dtype);
    for (std::size_t i = 0; i < from.bytes(); ++i) from.mutable_raw()[i] = std::byte(i % 251);
    const Tensor store = Tensor::zeros(context, {7, 5, 8}, dtype);
    const Tensor to = store.slice(0, 1, 6, 1)
                          .slice(2, 0, 8, 2)
                          .transpose(0, 2)
                          .slice(2, 0, 3)
                          .transpose(1, 0);  // [5, 4, 3] of an original [7, 5, 8]
    REQUIRE(to.shape() == Shape{5, 4, 3});
    copy(from.transpose(0, 2), to.transpose(0, 0));
    for (std::size_t i = 0; i < 5; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        for (std::size_t k = 0; k < 3; ++k) {
          const std::byte* a = from.raw() + (k * 20 + j * 5 + i) * width;
          const std::byte* b = store.raw() + ((k + 1) * 40 + i * 8 + j * 2) * width;
          REQUIRE(std::equal(a, a + width, b));
        }
    // Nothing else was touched.
    std::size_t touched = 0;
    for (std::size_t i = 0; i < store.elements(); ++i)
      touched += std::any_of(store.raw() + i * width, store.raw() + (i + 1) * width,
                             [](std::byte byte) { return byte != std::byte{0}; });
    CHECK(touched <= 60);
  }
}

TEST_CASE("copies of nothing, of one, and onto itself", "[unit][tensor]") {
  auto context = make_context();
  copy(Tensor::zeros(context, {0, 3}), Tensor::zeros(context, {0, 3}));
  const Tensor scalar = Tensor::scalar(context, 1.0f);
  copy(Tensor::scalar(context, 5.0f), scalar);
  CHECK(scalar.item<float>() == 5);
  const Tensor matrix = counting(context, {3, 4});
  copy(matrix.transpose(0, 1), matrix.transpose(0, 1));
  copy(matrix, matrix);
  CHECK(listed(matrix) == listed(counting(context, {3, 4})));
  copy(Tensor::full(context, {}, 7).broadcast_to({3, 4}), matrix);
  CHECK(listed(matrix) == std::vector<std::int32_t>(12, 7));

  CHECK(message_of([&] {
          copy(matrix, Tensor::zeros(context, {4, 3}, DType::int32));
        }) == "copy: to is [4, 3] int32, wanted [3, 4] int32 [tensor.shape]");
  CHECK(message_of([&] {
          copy(matrix, Tensor::zeros(context, {3, 4}));
        }) == "copy: to is [3, 4] fp32, wanted [3, 4] int32 [tensor.shape]");
}

TEST_CASE("slices and selections refuse what is outside", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = counting(context, {3, 4});
  CHECK(message_of([&] { tensor.slice(2, 0); }) ==
        "Tensor::slice: dimension is 2, wanted below the rank of [3, 4] int32 [tensor.index]");
  CHECK(message_of([&] { tensor.slice(1, 3, 2); }) ==
        "Tensor::slice: range is 3 to 2 by 1, wanted 0 <= begin <= end <= 4, step at least 1 "
        "[tensor.index]");
  CHECK(id_of([&] { tensor.slice(1, 0, 5); }) == "tensor.index");
  CHECK(id_of([&] { tensor.slice(1, 5); }) == "tensor.index");
  CHECK(id_of([&] { tensor.slice(1, 0, 4, 0); }) == "tensor.index");
  CHECK(message_of([&] { tensor.select(0, 3); }) ==
        "Tensor::select: index is 3, wanted below 3 [tensor.index]");
  CHECK(id_of([&] { tensor.select(2, 0); }) == "tensor.index");
  CHECK(id_of([&] { tensor.transpose(0, 2); }) == "tensor.index");
  CHECK(id_of([&] { tensor.transpose(2, 0); }) == "tensor.index");
  CHECK(id_of([&] { Tensor::zeros(context, {0}).select(0, 0); }) == "tensor.index");

  CHECK(tensor.slice(1, 4).elements() == 0);
  CHECK(listed(tensor.slice(0, 1, to_end, to_end)) == std::vector<std::int32_t>{4, 5, 6, 7});
  CHECK(listed(tensor.slice(1, 0, 4, 3)) == std::vector<std::int32_t>{0, 3, 4, 7, 8, 11});
}

TEST_CASE("views of tensors without elements stay inside their memory", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = Tensor::adopt(context, std::span<float>(), {0, 5});
  CHECK(tensor.slice(1, 2, 4).raw() == nullptr);
  CHECK(tensor.select(1, 3).raw() == nullptr);
  CHECK(tensor.transpose(0, 1).contiguous());
  CHECK(tensor.broadcast_to({2, 0, 5}).elements() == 0);
  CHECK(tensor.reshape({5, 0, 7}).shape() == Shape{5, 0, 7});
}

TEST_CASE("reshape keeps the elements and never copies", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = counting(context, {3, 4});
  const Tensor flat = tensor.reshape({2, 6});
  CHECK(flat.raw() == tensor.raw());
  CHECK(flat.strides() == Strides{6, 1});
  CHECK(tensor.slice(0, 1).reshape({8}).span<std::int32_t>()[0] == 4);
  CHECK(tensor.reshape({1, 3, 1, 2, 1, 2, 1, 1}).rank() == 8);
  CHECK(Tensor::scalar(context, 1).reshape({1, 1}).rank() == 2);
  CHECK(message_of([&] { tensor.reshape({5}); }) ==
        "Tensor::reshape: elements is 12, wanted 5 for shape [5] [tensor.size]");
  CHECK(message_of([&] { tensor.transpose(0, 1).reshape({12}); }) ==
        "Tensor::reshape: tensor is [4, 3] int32 with gaps, wanted row-major elements (make a "
        "copy with soma::contiguous) [tensor.not_contiguous]");
  CHECK(id_of([&] { tensor.slice(1, 0, 2).span<std::int32_t>(); }) == "tensor.not_contiguous");
  CHECK(id_of([&] { tensor.slice(1, 0, 2).mutable_span<std::int32_t>(); }) ==
        "tensor.not_contiguous");
  CHECK(id_of([&] {
          tensor.broadcast_to({2, 3, 4}).span<std::int32_t>();
        }) == "tensor.not_contiguous");
}

TEST_CASE("contiguous says whether elements are row-major without gaps", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = counting(context, {3, 4});
  CHECK(tensor.contiguous());
  CHECK(tensor.slice(0, 1, 3).contiguous());
  CHECK_FALSE(tensor.slice(1, 1, 3).contiguous());
  CHECK(tensor.slice(1, 1, 2).slice(0, 2, 3).contiguous());  // one element
  CHECK_FALSE(tensor.slice(1, 1, 2).contiguous());
  CHECK_FALSE(tensor.transpose(0, 1).contiguous());
  CHECK(counting(context, {1, 4}).transpose(0, 1).contiguous());
  CHECK(counting(context, {4}).broadcast_to({1, 4}).contiguous());
  CHECK_FALSE(counting(context, {4}).broadcast_to({2, 4}).contiguous());
  CHECK(Tensor::zeros(context, {3, 0}).transpose(0, 1).contiguous());
}

TEST_CASE("views of rank 8 keep no stride behind their last dimension", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = counting(context, {1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(tensor.select(0, 0).strides() == Strides{8, 8, 4, 4, 2, 2, 1, 0});
  CHECK(listed(tensor.select(7, 1)) == std::vector<std::int32_t>{1, 3, 5, 7, 9, 11, 13, 15});
}

TEST_CASE("a transpose exchanges sizes whose product with others would not fit", "[unit][tensor]") {
  auto context = make_context();
  constexpr std::size_t large = std::size_t{1} << 40;
  const Tensor tensor = Tensor::scalar(context, 1.0f).broadcast_to({large, 1, 1 << 20});
  CHECK(tensor.transpose(0, 1).shape() == Shape{1, large, 1 << 20});
}

TEST_CASE("broadcast_to grows ones and adds dimensions", "[unit][tensor]") {
  auto context = make_context();
  const Tensor column = counting(context, {3, 1});
  const Tensor grown = column.broadcast_to({2, 3, 4});
  CHECK(grown.strides() == Strides{0, 1, 0});
  CHECK(listed(grown.select(0, 1)) ==
        std::vector<std::int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
  CHECK(column.broadcast_to({3, 0}).elements() == 0);
  CHECK(message_of([&] {
          column.broadcast_to({2, 4});
        }) ==
        "Tensor::broadcast_to: shape is [2, 4], wanted a shape that broadcasts with [3, 1] "
        "[tensor.broadcast]");
  CHECK(message_of([&] {
          column.broadcast_to({1, 1});
        }) ==
        "Tensor::broadcast_to: shape is [1, 1], wanted a shape that [3, 1] broadcasts to "
        "[tensor.broadcast]");
  CHECK(message_of([&] { column.broadcast_to({3}); }).find("broadcasts to [tensor.broadcast]") !=
        std::string::npos);
}

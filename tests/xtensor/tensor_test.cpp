// The bridge: tensors as xtensor views and xtensor's containers as tensors, without a copy.

#include <soma/soma.hpp>
#include <soma/xtensor.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#if __has_include(<xtensor/views/xview.hpp>)
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/core/xnoalias.hpp>
#include <xtensor/views/xstrided_view.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xnoalias.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

Tensor counting(Context& context, const Shape& shape) {
  const Tensor tensor = Tensor::empty(context, shape, DType::int32);
  const auto span = tensor.mutable_span<std::int32_t>();
  std::iota(span.begin(), span.end(), 0);
  return tensor;
}

}  // namespace

TEST_CASE("a tensor of any strides reads as an xtensor view", "[unit][xtensor]") {
  auto context = make_context();
  const Tensor store = counting(context, {4, 5, 6});
  for (const Tensor& tensor :
       {store, store.transpose(0, 2), store.slice(1, 1, 5, 2), store.select(0, 3).transpose(0, 1),
        store.slice(0, 2, 3), store.select(2, 1).slice(0, 1, 2).broadcast_to({3, 7, 5}),
        store.slice(2, 6), store.select(0, 0).select(0, 0)}) {
    CAPTURE(tensor.describe());
    const auto view = xtensor::adapt<std::int32_t>(tensor);
    CHECK(std::ranges::equal(view.shape(), tensor.shape()));
    const Tensor rows = contiguous(context, tensor);
    const auto wanted = rows.span<std::int32_t>();
    CHECK(std::equal(view.begin(), view.end(), wanted.begin(), wanted.end()));
    const xt::xarray<std::int32_t> doubled = view * 2;
    CHECK(doubled.size() == tensor.elements());
    CHECK(std::equal(view.begin(), view.end(), doubled.begin(), doubled.end(),
                     [](std::int32_t a, std::int32_t b) { return 2 * a == b; }));
  }
  CHECK(store.version() == 1);
  const Tensor scalar = Tensor::scalar(context, 7);
  CHECK(xtensor::adapt<std::int32_t>(scalar)() == 7);
  CHECK(&xtensor::adapt<std::int32_t>(store)(1, 2, 3) == store.data<std::int32_t>() + 45);
  CHECK(id_of([&] { xtensor::adapt<float>(store); }) == "tensor.dtype");
  CHECK(id_of([&] { xtensor::adapt<float>(Tensor()); }) == "tensor.undefined");
}

TEST_CASE("a dimension of one broadcasts against others", "[unit][xtensor]") {
  auto context = make_context();
  const Tensor column = counting(context, {3, 4}).slice(1, 1, 2);  // 3 x 1, stride 1
  const Tensor row = counting(context, {1, 5});
  const xt::xarray<std::int32_t> sum =
      xtensor::adapt<std::int32_t>(column) + xtensor::adapt<std::int32_t>(row);
  CHECK(sum.dimension() == 2);
  CHECK(sum(2, 4) == 9 + 4);
  CHECK(sum(0, 3) == 1 + 3);
}

TEST_CASE("a tensor is written through its view, and only its elements", "[unit][xtensor]") {
  auto context = make_context();
  const Tensor store = Tensor::zeros(context, {3, 8});
  const Tensor part = store.slice(1, 1, 8, 2).transpose(0, 1);  // 4 x 3
  auto view = xtensor::mutable_adapt<float>(part);
  CHECK(store.version() == 1);
  view = xt::arange<float>(0, 12).reshape({4, 3});
  CHECK(part.view<float>()(3, 1) == 10);
  view(0, 0) = 5;
  view += 1.0f;
  xt::noalias(view) = view * 2.0f;
  CHECK(part.view<float>()(0, 0) == 12);
  CHECK(part.view<float>()(3, 2) == 24);
  const auto all = store.view<float>();
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 8; j += 2) CHECK(all(i, j) == 0);
  auto moved = std::move(view);
  moved(1, 1) = -1;
  const auto copied = moved;
  CHECK(copied(1, 1) == -1);
  CHECK(all(1, 3) == -1);
  const std::vector<float> constants(4);
  const Tensor constant = Tensor::adopt(context, std::span(constants), {2, 2});
  CHECK(xtensor::adapt<float>(constant)(1, 1) == 0);
  CHECK(id_of([&] { xtensor::mutable_adapt<float>(constant); }) == "tensor.read_only");
}

TEST_CASE("other element types go both ways", "[unit][xtensor]") {
  auto context = make_context();
  const Tensor halves = Tensor::full(context, {2, 3}, bf16(1.5f));
  CHECK(static_cast<float>(xtensor::adapt<bf16>(halves)(1, 2)) == 1.5f);
  xt::xarray<bool> flags{true, false, true};
  CHECK(xtensor::tensor(context, flags).describe() == "[3] bool");
  CHECK(xtensor::tensor(context, flags).span<bool>()[2]);
  xt::xarray<fp16> codes = xt::xarray<fp16>::from_shape({4});
  CHECK(xtensor::tensor(context, codes).dtype() == DType::fp16);
}

TEST_CASE("a container with a name becomes a tensor of its memory", "[unit][xtensor]") {
  auto context = make_context();
  xt::xarray<float> array = xt::arange<float>(0, 24).reshape({2, 3, 4});
  const Tensor tensor = xtensor::tensor(context, array);
  CHECK(tensor.describe() == "[2, 3, 4] fp32");
  CHECK(tensor.contiguous());
  CHECK(tensor.data<float>() == array.data());
  tensor.mutable_view<float>()(1, 2, 3) = 99;
  CHECK(array(1, 2, 3) == 99);
  const xt::xarray<float>& constant = array;
  CHECK(id_of([&] { xtensor::tensor(context, constant).mutable_raw(); }) == "tensor.read_only");

  xt::xtensor<std::int32_t, 2> matrix{{1, 2}, {3, 4}};
  CHECK(xtensor::tensor(context, matrix).view<std::int32_t>()(1, 0) == 3);
  std::vector<float> memory(6, 2.0f);
  auto adaptor = xt::adapt(memory, std::vector<std::size_t>{2, 3});
  xtensor::tensor(context, adaptor).mutable_view<float>()(1, 2) = 8;
  CHECK(memory[5] == 8);
  xt::xarray<float> scalar = 3.0f;
  CHECK(xtensor::tensor(context, scalar).item<float>() == 3);
  xt::xarray<float> empty = xt::xarray<float>::from_shape({2, 0});
  CHECK(xtensor::tensor(context, empty).describe() == "[2, 0] fp32");
}

TEST_CASE("column-major containers and views keep their strides", "[unit][xtensor]") {
  auto context = make_context();
  xt::xarray<float, xt::layout_type::column_major> columns =
      xt::xarray<float, xt::layout_type::column_major>::from_shape({3, 4});
  columns = xt::arange<float>(0, 12).reshape({3, 4});
  const Tensor tensor = xtensor::tensor(context, columns);
  CHECK(tensor.strides() == Strides{1, 3});
  CHECK(tensor.view<float>()(1, 2) == columns(1, 2));
  CHECK(clone(context, tensor).span<float>()[6] == columns(1, 2));

  xt::xarray<float> array = xt::arange<float>(0, 60).reshape({3, 4, 5});
  auto part = xt::view(array, xt::range(1, 3), 2, xt::range(0, 5, 2));
  const Tensor of_part = xtensor::tensor(context, part);
  CHECK(of_part.describe() == "[2, 3] fp32");
  CHECK(of_part.view<float>()(1, 2) == array(2, 2, 4));
  of_part.mutable_view<float>()(0, 1) = -1;
  CHECK(array(1, 2, 2) == -1);
  auto strided = xt::strided_view(array, {xt::all(), xt::range(1, 4, 2), 3});
  CHECK(xtensor::tensor(context, strided).view<float>()(2, 1) == array(2, 3, 3));
  auto turned = xt::transpose(array);
  CHECK(xtensor::tensor(context, turned).view<float>()(4, 3, 2) == array(2, 3, 4));
  auto one = xt::view(array, xt::range(1, 2), xt::all(), xt::range(2, 3));
  CHECK(xtensor::tensor(context, one).view<float>()(0, 3, 0) == array(1, 3, 2));

  auto reversed =
      xt::strided_view(array, {xt::range(xt::placeholders::_, xt::placeholders::_, -1)});
  CHECK(message_of([&] { xtensor::tensor(context, reversed); }) ==
        "xtensor::tensor: container is reversed along a dimension, wanted a container without "
        "negative strides [xtensor.layout]");
  xt::xarray<float> deep = xt::xarray<float>::from_shape({1, 1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(id_of([&] { xtensor::tensor(context, deep); }) == "tensor.rank");
}

TEST_CASE("a container that is given away lives as long as the tensor", "[unit][xtensor]") {
  auto context = make_context();
  Tensor tensor;
  const float* memory = nullptr;
  {
    xt::xarray<float> array = xt::arange<float>(0, 6).reshape({2, 3});
    memory = array.data();
    tensor = xtensor::tensor(context, std::move(array)).select(0, 1);
  }
  CHECK(tensor.data<float>() == memory + 3);  // moved, not copied
  CHECK(tensor.span<float>()[2] == 5);
  CHECK_NOTHROW(tensor.mutable_raw());
  const Tensor made =
      xtensor::tensor(context, xt::xtensor<double, 1>{1, 2}.size() == 2 ? xt::xarray<float>{7, 8}
                                                                        : xt::xarray<float>{});
  CHECK(made.span<float>()[1] == 8);

  auto held = std::make_shared<std::vector<float>>(4, 1.0f);  // an adaptor with its own owner
  const std::weak_ptr<std::vector<float>> watch = held;
  Tensor shared = xtensor::tensor(
      context, xt::adapt_smart_ptr(held->data(), std::vector<std::size_t>{2, 2}, held));
  held.reset();
  CHECK_FALSE(watch.expired());
  CHECK(shared.view<float>()(1, 1) == 1);
  shared = Tensor();
  CHECK(watch.expired());
}

// Tensors: making, adopting, reading, writing, versions, and every refusal.

#include <soma/soma.hpp>
#include <soma/tensor/tensor.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/limited_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

TEST_CASE("tensors are made from nothing, zeros, values and a value", "[unit][tensor]") {
  auto context = make_context();
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(none.describe() == "no tensor");

  const Tensor zeros = Tensor::zeros(context, {2, 3}, DType::int64);
  CHECK(zeros.describe() == "[2, 3] int64");
  CHECK(zeros.bytes() == 48);
  CHECK(zeros.rank() == 2);
  CHECK(zeros.size(1) == 3);
  for (const std::int64_t value : zeros.span<std::int64_t>()) CHECK(value == 0);

  const Tensor values = Tensor::from(context, {1.0f, 2.0f, 3.0f}, {3, 1});
  CHECK(values.dtype() == DType::fp32);
  CHECK(values.span<float>()[2] == 3);
  CHECK(reinterpret_cast<std::uintptr_t>(values.raw()) % memory_alignment == 0);

  const Tensor full = Tensor::full(context, {4}, bf16(1.5f));
  CHECK(full.dtype() == DType::bf16);
  CHECK(static_cast<float>(full.span<bf16>()[3]) == 1.5f);

  const Tensor scalar = Tensor::scalar(context, true);
  CHECK(scalar.describe() == "[] bool");
  CHECK(scalar.item<bool>());
  CHECK(Tensor::full(context, {1, 1, 1, 1, 1, 1, 1, 1}, 7).item<std::int32_t>() == 7);

  const Tensor empty = Tensor::empty(context, {3, 0, 2});
  CHECK(empty.elements() == 0);
  CHECK(empty.span<float>().empty());
  CHECK(Tensor::zeros(context, {0}).defined());
  CHECK(Tensor::from(context, std::span<const float>(), {5, 0}).elements() == 0);
}

TEST_CASE("sizes that do not fit are refused before memory is touched", "[unit][tensor]") {
  soma_test::LimitedMemory limited(std::size_t{1} << 30);
  auto context = make_context({.memory = &limited});
  constexpr std::size_t half = std::size_t{1} << 32;
  CHECK(message_of([&] {
          Tensor::empty(context, {half, half / 2});
        }) ==
        "Tensor: size is 9223372036854775808 * 4, wanted a product below 2^64 "
        "[base.size_overflow]");
  CHECK(id_of([&] { Tensor::empty(context, {~std::size_t{0}}, DType::int8); }) ==
        "base.size_overflow");  // the header of the storage does not fit any more
  CHECK(id_of([&] { Tensor::empty(context, {std::size_t{1} << 60}, DType::int8); }) ==
        "memory.exhausted");
  CHECK(message_of([&] {
          Tensor::from(context, {1.0f, 2.0f}, {3});
        }) == "Tensor::from: elements is 2, wanted 3 for shape [3] [tensor.size]");
  std::vector<float> values(5);
  CHECK(message_of([&] {
          Tensor::adopt(context, std::span(values), {2, 3});
        }) == "Tensor::adopt: elements is 5, wanted 6 for shape [2, 3] [tensor.size]");
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("typed access refuses another type", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = Tensor::zeros(context, {2, 2}, DType::fp16);
  CHECK(message_of([&] { tensor.data<float>(); }) ==
        "Tensor: type is fp32, wanted the element type of [2, 2] fp16 [tensor.dtype]");
  CHECK(id_of([&] { tensor.mutable_data<bf16>(); }) == "tensor.dtype");
  CHECK(id_of([&] { tensor.span<std::int8_t>(); }) == "tensor.dtype");
  CHECK(id_of([&] { tensor.mutable_span<bool>(); }) == "tensor.dtype");
  CHECK(id_of([&] { tensor.view<tf32>(); }) == "tensor.dtype");
  CHECK(id_of([&] { tensor.mutable_view<tf32>(); }) == "tensor.dtype");
  CHECK(id_of([&] { Tensor::scalar(context, 1.0f).item<std::int32_t>(); }) == "tensor.dtype");
  CHECK(tensor.version() == 0);  // a refused write is none
  CHECK(message_of([&] { tensor.item<fp16>(); }) ==
        "Tensor::item: tensor is [2, 2] fp16, wanted one of one element [tensor.size]");
  CHECK(id_of([&] { Tensor::empty(context, {0}).item<float>(); }) == "tensor.size");
}

TEST_CASE("what needs elements refuses a tensor without storage", "[unit][tensor]") {
  auto context = make_context();
  const Tensor none, one = Tensor::scalar(context, 1.0f);
  CHECK(message_of([&] { none.mutable_raw(); }) ==
        "Tensor: tensor is no tensor, wanted one with elements [tensor.undefined]");
  CHECK(id_of([&] { none.data<float>(); }) == "tensor.undefined");
  CHECK(id_of([&] { none.mutable_data<float>(); }) == "tensor.undefined");
  CHECK(id_of([&] { none.span<float>(); }) == "tensor.undefined");
  CHECK(id_of([&] { none.item<float>(); }) == "tensor.undefined");
  CHECK(message_of([&] { copy(none, one); }) ==
        "copy: from is no tensor, wanted one with elements [tensor.undefined]");
  CHECK(message_of([&] { copy(one, none); }) ==
        "copy: to is no tensor, wanted one with elements [tensor.undefined]");
  CHECK(id_of([&] { copy(none, none); }) == "tensor.undefined");
  CHECK(id_of([&] { clone(context, none); }) == "tensor.undefined");
  CHECK_FALSE(contiguous(context, none).defined());
  CHECK(id_of([&] { none.slice(0, 0); }) == "tensor.index");
  CHECK(id_of([&] { none.select(0, 0); }) == "tensor.index");
}

TEST_CASE("every write advances the version that all views share", "[unit][tensor]") {
  auto context = make_context();
  const Tensor tensor = Tensor::zeros(context, {2, 3});
  const Tensor row = tensor.select(0, 1), turned = tensor.transpose(0, 1);
  CHECK(tensor.version() == 0);
  static_cast<void>(tensor.data<float>());
  static_cast<void>(tensor.span<float>());
  static_cast<void>(tensor.view<float>());
  static_cast<void>(tensor.raw());
  CHECK(tensor.version() == 0);
  row.mutable_data<float>()[0] = 4;
  CHECK(tensor.version() == 1);
  CHECK(turned.version() == 1);
  tensor.mutable_view<float>()(0, 0) = 1;
  turned.mutable_raw();
  row.mutable_span<float>()[1] = 5;
  CHECK(row.version() == 4);
  CHECK(turned.view<float>()(0, 1) == 4);
  copy(Tensor::full(context, {3}, 2.0f), row);
  CHECK(tensor.version() == 5);
  CHECK(tensor.span<float>()[5] == 2);
  const Tensor other = clone(context, tensor);
  CHECK(other.version() == 1);  // written once, by clone
  CHECK(tensor.version() == 5);
}

TEST_CASE("copies share, handles count", "[unit][tensor]") {
  auto context = make_context();
  Tensor a = Tensor::zeros(context, {3});
  CHECK(a.storage().unique());
  {
    const Tensor b = a;
    CHECK_FALSE(a.storage().unique());
    CHECK(a.storage() == b.storage());
    b.mutable_data<float>()[1] = 1;
  }
  CHECK(a.storage().unique());
  CHECK(a.data<float>()[1] == 1);
  Tensor c = std::move(a);
  CHECK_FALSE(a.defined());  // NOLINT: what a moved-from tensor is, is part of the promise
  CHECK(c.storage().unique());
  c = c.slice(0, 1);
  CHECK(c.storage().unique());
  CHECK(c.data<float>()[0] == 1);
  c = Tensor();
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("handles are counted by many threads", "[unit][tensor]") {
  auto context = make_context();
  {
    const Tensor tensor = Tensor::zeros(context, {64});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 20000; ++i) {
          const Tensor copy = tensor;
          const Tensor part = copy.slice(0, 1);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(tensor.storage().unique());
  }
  CHECK(context.heap().bytes_in_use() == 0);
}

TEST_CASE("adopted elements keep their owner alive, and no longer", "[unit][tensor]") {
  auto context = make_context();
  auto owner = std::make_shared<std::vector<float>>(6, 1.0f);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor part;
  {
    const Tensor tensor = Tensor::adopt(context, std::span(*owner), {2, 3}, owner);
    CHECK(tensor.raw() == reinterpret_cast<const std::byte*>(owner->data()));
    tensor.mutable_data<float>()[4] = 7;
    CHECK((*owner)[4] == 7);
    part = tensor.select(0, 1).slice(0, 1, 2);
    owner.reset();
    CHECK_FALSE(watch.expired());
  }
  CHECK(part.item<float>() == 7);
  CHECK_FALSE(watch.expired());
  part = Tensor();
  CHECK(watch.expired());
  CHECK(context.heap().bytes_in_use() == 0);

  std::vector<std::int32_t> bare{1, 2, 3};  // without an owner: the caller keeps them
  const Tensor lent = Tensor::adopt(context, std::span(bare), {3});
  lent.mutable_data<std::int32_t>()[0] = 9;
  CHECK(bare[0] == 9);
}

TEST_CASE("adopted constants refuse to be written, through any view", "[unit][tensor]") {
  auto context = make_context();
  const std::vector<float> values{1, 2, 3, 4};
  const Tensor tensor = Tensor::adopt(context, std::span<const float>(values), {2, 2});
  CHECK(tensor.span<float>()[3] == 4);
  CHECK(message_of([&] { tensor.mutable_raw(); }) ==
        "Tensor: tensor is [2, 2] fp32 of constant elements, wanted a writable tensor "
        "[tensor.read_only]");
  CHECK(id_of([&] { tensor.mutable_data<float>(); }) == "tensor.read_only");
  CHECK(id_of([&] { tensor.select(0, 0).mutable_span<float>(); }) == "tensor.read_only");
  CHECK(id_of([&] { tensor.transpose(0, 1).mutable_view<float>(); }) == "tensor.read_only");
  CHECK(id_of([&] { copy(Tensor::zeros(context, {2, 2}), tensor); }) == "tensor.read_only");
  CHECK(tensor.version() == 0);
  CHECK(values == std::vector<float>{1, 2, 3, 4});
  CHECK_NOTHROW(clone(context, tensor).mutable_raw());
}

TEST_CASE("elements at any distances are adopted as they lie", "[unit][tensor]") {
  auto context = make_context();
  std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  auto* data = reinterpret_cast<std::byte*>(values.data());
  const Tensor columns =
      Tensor::adopt_bytes(context, data, {3, 4}, Strides{1, 3}, DType::fp32, nullptr, true);
  CHECK(columns.view<float>()(1, 2) == 7);
  CHECK(columns.storage().bytes() == 48);
  CHECK_FALSE(columns.contiguous());
  const Tensor sparse =
      Tensor::adopt_bytes(context, data, {2, 2}, Strides{7, 3, 99}, DType::fp32, nullptr, true);
  CHECK(sparse.view<float>()(1, 1) == 10);
  CHECK(sparse.storage().bytes() == 44);  // up to the last element
  CHECK(sparse.strides() == Strides{7, 3});
  const Tensor none =
      Tensor::adopt_bytes(context, nullptr, {0, 2}, Strides{7, 3}, DType::fp32, nullptr, true);
  CHECK(none.storage().bytes() == 0);
  CHECK(id_of([&] {
          Tensor::adopt_bytes(context, data, {3}, Strides{~std::size_t{0}}, DType::fp32, nullptr,
                              true);
        }) == "base.size_overflow");
}

TEST_CASE("a tensor that is not defined has no storage to look at", "[unit][tensor]") {
  const Tensor none;
  const std::string wanted =
      "Tensor: tensor is no tensor, wanted one with elements [tensor.undefined]";
  CHECK(message_of([&] { static_cast<void>(none.version()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.mutable_raw()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.data<float>()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.item<float>()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.storage().data()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.storage().bytes()); }) == wanted);
  CHECK(message_of([&] { static_cast<void>(none.storage().unique()); }) == wanted);
  CHECK(id_of([&] { static_cast<void>(none.size(0)); }) == "tensor.index");
  CHECK(id_of([&] { static_cast<void>(none.select(0, 0)); }) == "tensor.index");
  auto context = make_context();
  CHECK(id_of([&] {
          static_cast<void>(Tensor::zeros(context, {2, 3}).size(2));
        }) == "tensor.index");
}

TEST_CASE("tensors are made from containers, and printed without another header",
          "[unit][tensor]") {
  auto context = make_context({.threads = 1});
  const std::vector<float> numbers{1, 2, 3, 4};
  const std::array<std::int64_t, 3> labels{7, 8, 9};
  const Tensor matrix = Tensor::from(context, numbers, {2, 2});
  CHECK(matrix.dtype() == DType::fp32);
  CHECK(matrix.span<float>()[3] == 4);
  const Tensor vector = Tensor::from(context, labels, {3});
  CHECK(vector.dtype() == DType::int64);
  CHECK(vector.span<std::int64_t>()[2] == 9);
  CHECK(id_of([&] { Tensor::from(context, numbers, {5}); }) == "tensor.size");
  std::ostringstream text;
  text << matrix;
  CHECK(text.str().find('4') != std::string::npos);
}

TEST_CASE("an identity is of one tensor only, also if its address returns", "[unit]") {
  auto context = make_context();
  std::vector<float> memory(4);
  std::vector<TensorIdentity> known{{}};
  const auto is_new = [&](const Tensor& tensor) {
    const TensorIdentity identity = tensor.identity();
    const bool fresh = std::find(known.begin(), known.end(), identity) == known.end();
    known.push_back(identity);
    return fresh && identity == Tensor(tensor).identity();
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(is_new(Tensor::empty(context, Shape{4})));
    CHECK(is_new(Tensor::adopt(context, std::span<float>(memory), Shape{4})));
  }
  const Tensor tensor = Tensor::zeros(context, Shape{2, 2});
  CHECK(is_new(tensor));
  CHECK(is_new(tensor.transpose(0, 1)));
  CHECK(is_new(tensor.slice(0, 1, 2)));
  CHECK(is_new(tensor.reshape(Shape{4})));
  static_cast<void>(tensor.mutable_raw());
  CHECK(is_new(tensor));
  auto other = make_context();  // heaps number their storages by themselves
  CHECK(is_new(Tensor::empty(other, Shape{4})));
}

// Programs of lookups and of what adds gradients up: the same numbers as the host's kernels.

#include "programs/device_run.hpp"

#include "support/errors.hpp"

using namespace soma;
using soma_test::bits;
using soma_test::difference;
using soma_test::random_of;
using soma_test::run_on_device;

namespace {

Tensor numbers(Context& context, std::size_t count, std::size_t below, DType dtype) {
  const Tensor ids = Tensor::empty(context, Shape{count}, dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t id = (i * i * 31 + i * 7) % below;
    if (dtype == DType::int32)
      ids.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(id);
    else
      ids.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(id);
  }
  return ids;
}

}  // namespace

TEST_CASE("a lookup's program copies rows, its gradient adds them up", "[unit][programs]") {
  auto context = make_context({.threads = 2});
  for (const DType dtype : {DType::fp32, DType::bf16})
    for (const std::size_t columns : {std::size_t{1}, std::size_t{70}, std::size_t{2100}}) {
      const Tensor ids = numbers(context, 300, 41, columns == 70 ? DType::int64 : DType::int32);
      const Tensor table = random_of(context, Shape{41, columns}, dtype, "table");
      CHECK(bits(context, run(context, ops::embedding, EmbeddingSetting{}, {table, ids})[0]) ==
            bits(context,
                 run_on_device(context, ops::embedding, EmbeddingSetting{}, {table, ids})[0]));
      const detail::Occurrences all = detail::occurrences(context, ids);
      const std::vector<Tensor> inputs{random_of(context, Shape{300, columns}, dtype, "dy"),
                                       all.list, all.starts};
      CHECK(difference(context, run_on_device(context, ops::embedding_backward, {}, inputs)[0],
                       run(context, ops::embedding_backward, {}, inputs)[0], 300 * 0x1p-24) == "");
    }
}

TEST_CASE("gradients add up on the device to the host's bits", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  const auto both = [&](const Operator& op, const Tensor& total, std::vector<Tensor> inputs) {
    const Tensor host = clone(context, total), device = clone(context, total);
    inputs.insert(inputs.begin(), host);
    run(context, op, {}, inputs);
    inputs[0] = device;
    run_on_device(context, op, {}, inputs);
    CHECK(bits(context, host) == bits(context, device));
    CHECK(bits(context, host) != bits(context, total));
  };
  for (const Shape& shape :
       {Shape{}, Shape{5}, Shape{129, 37}, Shape{300, 1000}, Shape{2, 3, 5}, Shape{2, 3, 1, 2, 5}})
    both(ops::accumulate, soma_test::random_tensor(context, shape, "total"),
         {soma_test::random_tensor(context, shape, "more")});
  for (const std::size_t columns : {std::size_t{3}, std::size_t{2100}}) {
    const Tensor rows = Tensor::empty(context, Shape{200}, DType::int64);
    const Tensor known = Tensor::empty(context, Shape{450}, DType::int64);
    for (std::size_t i = 0; i < 450; ++i) {
      if (i < 200) rows.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(2 * i + i / 7);
      known.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(i);
    }
    const Tensor values = soma_test::random_tensor(context, Shape{200, columns}, "values");
    const Tensor total = soma_test::random_tensor(context, Shape{450, columns}, "total");
    both(ops::accumulate_rows, total, {values, rows});
    both(ops::accumulate_rows, total, {values, rows, known});
  }
}

TEST_CASE("numbers of rows that are none are refused on both", "[unit][programs]") {
  auto context = make_context({.threads = 1});
  const auto refused = [&](const Operator& op, const std::vector<Tensor>& inputs,
                           const Attributes& attributes = {}) {
    const auto host = [&] { run(context, op, attributes, inputs); };
    const auto device = [&] { run_on_device(context, op, attributes, inputs); };
    CHECK(soma_test::id_of(host) == "operator.value");
    CHECK(soma_test::id_of(device) == "operator.value");
  };
  const Tensor table = Tensor::zeros(context, Shape{4, 3});
  refused(ops::embedding, {table, soma_test::ints(context, {1, 4})}, EmbeddingSetting{});
  refused(ops::embedding, {table, soma_test::ints(context, {-1})}, EmbeddingSetting{});
  const auto longs = [&](std::initializer_list<std::int64_t> values) {
    return Tensor::from(context, values, Shape{values.size()});
  };
  const Tensor dy = Tensor::zeros(context, Shape{2, 3});
  refused(ops::embedding_backward, {dy, soma_test::ints(context, {0, 2}), longs({0, 1, 2})});
  refused(ops::embedding_backward, {dy, soma_test::ints(context, {0, 1}), longs({0, 3})});
  refused(ops::embedding_backward, {dy, soma_test::ints(context, {0, 1}), longs({1, 0, 2})});
  refused(ops::accumulate_rows, {table, dy, longs({1, 4})});
  refused(ops::accumulate_rows, {table, dy, longs({-1, 2})});
  refused(ops::accumulate_rows, {table, dy, longs({2, 1}), longs({0, 1, 2, 3})});
}

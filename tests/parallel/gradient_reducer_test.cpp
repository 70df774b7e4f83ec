// Gradients of ranks: dense and sparse, added up in the tree, rounded once.

#include <soma/parallel/gradient_reducer.hpp>
#include <soma/soma.hpp>

#include "parallel/ranks.hpp"

#include "catch.hpp"

#include <cstring>

using namespace soma;
using namespace soma_test;

namespace {

template <class T>
std::vector<T> list_of(const Tensor& tensor) {
  const std::span<const T> all = tensor.span<T>();
  return {all.begin(), all.end()};
}

Tensor numbers(Context& context, const std::vector<float>& values) {
  return Tensor::from(context, std::span<const float>(values), Shape{values.size()});
}

void on_ranks(int ranks, const std::function<void(Context&, Communicator&)>& function) {
  for (const std::string& message :
       run_ranks(Transport::threads, ranks, [&](Communicator&communicator, Heap&) {
         auto context = make_context({.threads = 1});
         function(context, communicator);
       }))
    CHECK(message == "");
}

}  // namespace

TEST_CASE("dense gradients: in the tree, with what is left to do, addend by addend", "[unit]") {
  for (const std::size_t bucket : {std::size_t{1}, std::size_t{20}, std::size_t{1} << 20})
    for (const bool overlap : {false, true})
      on_ranks(4, [&](Context& context, Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const Var a = Var::parameter(context, Tensor::zeros(context, Shape{2}));
        const Var b = Var::parameter(context, Tensor::zeros(context, Shape{1}));
        GradientReducer reducer(context, communicator, {bucket, overlap});
        for (int step = 0; step < 2; ++step) {
          a.clear_gradient();
          b.clear_gradient();
          // ((2^24 + 1) + (1 + 1)): 2^24 + 2, where from left to right it is 2^24.
          reducer.receive(a, {numbers(context, {rank == 0 ? 0x1p24f : 1.0f, -0.0f}), {}});
          Gradient rounded{numbers(context, {0x1p-9f}), {}};
          rounded.factor = 3;
          rounded.stored = DType::bf16;
          if (rank == 0) rounded.values.mutable_data<float>()[0] = 1;
          reducer.receive(b, rounded);
          reducer.receive(a, {numbers(context, {1, 0}), {}});
          reducer.finish();
          CHECK(list_of<float>(a.gradient().values) == std::vector<float>{0x1p24f + 6, 0});
          CHECK(b.gradient().values.dtype() == DType::bf16);
          // 3 + 9 * 2^-9 is 3.017...: between 3.015625 and 3.03125, which are apart by 2^-6.
          CHECK(static_cast<float>(b.gradient().values.data<soma::bf16>()[0]) == 3.015625f);
        }
        CHECK(reducer.times().total >= reducer.times().waited);
      });
}

TEST_CASE("a summed bucket is given away before the end", "[unit]") {
  on_ranks(1, [](Context& context, Communicator& communicator) {
    const std::size_t count = 1 << 16, parameters = 32;
    GradientReducer reducer(context, communicator, {.bucket_bytes = count * sizeof(float)});
    std::vector<Var> weights;
    for (std::size_t i = 0; i < parameters; ++i)
      weights.push_back(Var::parameter(context, Tensor::zeros(context, Shape{count})));
    const std::size_t before = context.memory_use().peak_bytes;
    for (const Var& weight : weights) {
      Gradient addend{Tensor::full(context, Shape{count}, 1.0f), {}};
      addend.stored = DType::bf16;
      reducer.receive(weight, std::move(addend));
      CHECK(weight.gradient().values.dtype() == DType::bf16);
    }
    // All in bf16, and a few of them in fp32.
    CHECK(context.memory_use().peak_bytes - before < (parameters / 2 + 8) * count * sizeof(float));
    reducer.finish();
    for (const Var& weight : weights)
      CHECK(static_cast<float>(weight.gradient().values.data<soma::bf16>()[7]) == 1);
  });
}

TEST_CASE("sparse gradients: the rows of all ranks", "[unit]") {
  on_ranks(4, [](Context& context, Communicator& communicator) {
    const std::vector<std::vector<std::int64_t>> rows{{1, 5}, {}, {0, 5, 7}, {5}};
    const auto& own = rows[static_cast<std::size_t>(communicator.rank())];
    const Var table = Var::parameter(context, Tensor::zeros(context, Shape{9, 2}));
    const Tensor values = Tensor::empty(context, Shape{own.size(), 2});
    for (std::size_t i = 0; i < own.size(); ++i) {
      values.mutable_data<float>()[2 * i] = static_cast<float>(own[i]);
      values.mutable_data<float>()[2 * i + 1] = 1;
    }
    GradientReducer reducer(context, communicator);
    reducer.receive(table, {values, Tensor::from(context, std::span<const std::int64_t>(own),
                                                 Shape{own.size()})});
    reducer.finish();
    CHECK(list_of<std::int64_t>(table.gradient().rows) == std::vector<std::int64_t>{0, 1, 5, 7});
    CHECK(list_of<float>(table.gradient().values) == std::vector<float>{0, 1, 1, 1, 15, 3, 7, 1});
  });
}

TEST_CASE("a gradient that was rounded already is refused", "[unit]") {
  auto context = make_context();
  const std::vector<std::string> messages =
      run_ranks(Transport::threads, 1, [&](Communicator& communicator, Heap&) {
        GradientReducer reducer(context, communicator);
        const Var a = Var::parameter(context, Tensor::zeros(context, Shape{2}));
        reducer.receive(a, {Tensor::zeros(context, Shape{2}, DType::bf16), {}});
      });
  CHECK(messages.front().find("[parallel.gradient]") != std::string::npos);
}

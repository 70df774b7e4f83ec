// Gradients of ranks: dense and sparse, added up in the tree, rounded once.

#include <soma/parallel/gradient_reducer.hpp>
#include <soma/soma.hpp>

#include "parallel/checks.hpp"
#include "parallel/ranks.hpp"

#include "catch.hpp"
#include "support/tensors.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>

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
          if (rank == 0) rounded.values.mutable_data<float>()[0] = 1;
          reducer.receive(b, rounded);
          reducer.complete(b, DType::bf16);
          reducer.receive(a, {numbers(context, {1, 0}), {}});
          reducer.finish();
          require(list_of<float>(a.gradient().values) == std::vector<float>{0x1p24f + 6, 0},
                  "sum of two addends of four ranks");
          require(b.gradient().values.dtype() == DType::bf16, "type of the stored sum");
          // 3 + 9 * 2^-9 is 3.017...: between 3.015625 and 3.03125, which are apart by 2^-6.
          require(static_cast<float>(b.gradient().values.data<soma::bf16>()[0]) == 3.015625f,
                  "sum times its factor, rounded once");
        }
        require(reducer.times().total >= reducer.times().waited, "times");
      });
}

TEST_CASE("a sum is rounded after its last addend, not before", "[unit]") {
  for (const bool overlap : {false, true})
    on_ranks(2, [&](Context& context, Communicator& communicator) {
      const Var a = Var::parameter(context, Tensor::zeros(context, Shape{1, 2}));
      GradientReducer reducer(context, communicator, {.bucket_bytes = 1, .overlap = overlap});
      const auto give = [&](float value) {
        reducer.receive(a, {Tensor::full(context, Shape{1, 2}, value), {}});
      };
      // 2 + 2^-7 is 2 in bf16, and so would be all of it; 2 + 2^-6 is a number of bf16.
      give(1);
      give(0x1p-8f);
      give(0x1p-8f);
      reducer.complete(a, DType::bf16);
      reducer.finish();
      const Tensor& sum = a.gradient().values;
      require(sum.dtype() == DType::bf16, "type of the sum");
      require(static_cast<float>(sum.data<soma::bf16>()[1]) == 2.015625f, "sum");
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
      reducer.receive(weight, {Tensor::full(context, Shape{count}, 1.0f), {}});
      reducer.complete(weight, DType::bf16);
      require(weight.gradient().values.dtype() == DType::bf16, "type of the stored sum");
    }
    // All in bf16, and a few of them in fp32.
    require(context.memory_use().peak_bytes - before < (parameters / 2 + 8) * count * sizeof(float),
            "peak memory");
    reducer.finish();
    for (const Var& weight : weights)
      require(static_cast<float>(weight.gradient().values.data<soma::bf16>()[7]) == 1, "sum");
  });
}

TEST_CASE("more buckets than travel at once, and a rank that comes late", "[unit]") {
  for (const bool overlap : {false, true})
    on_ranks(4, [&](Context& context, Communicator& communicator) {
      const std::size_t parameters = 300, width = 5;
      const auto rank = static_cast<std::size_t>(communicator.rank());
      GradientReducer reducer(context, communicator, {.bucket_bytes = 1, .overlap = overlap});
      std::vector<Var> weights;
      for (std::size_t i = 0; i < parameters; ++i)
        weights.push_back(Var::parameter(context, Tensor::zeros(context, Shape{width})));
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (std::size_t i = 0; i < parameters; ++i)
        reducer.receive(
            weights[i],
            {Tensor::full(context, Shape{width}, static_cast<float>(i + 1000 * rank)), {}});
      reducer.finish();
      for (std::size_t i = 0; i < parameters; ++i)
        require(list_of<float>(weights[i].gradient().values) ==
                    std::vector<float>(width, static_cast<float>(4 * i + 6000)),
                "sum of addend " + std::to_string(i));
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
    require(list_of<std::int64_t>(table.gradient().rows) == std::vector<std::int64_t>{0, 1, 5, 7},
            "rows of all ranks");
    require(list_of<float>(table.gradient().values) == std::vector<float>{0, 1, 1, 1, 15, 3, 7, 1},
            "sums of these rows");
  });
}

TEST_CASE("a gradient that was rounded already is refused", "[unit]") {
  auto context = make_context();
  const std::vector<std::string> messages =
      run_ranks(Transport::threads, 1, [&](Communicator& communicator, Heap&) {
        GradientReducer reducer(context, communicator);
        const Var a = Var::parameter(context, Tensor::zeros(context, Shape{2}));
        // A narrow type alone loses nothing.
        reducer.receive(a, {Tensor::full(context, Shape{2}, soma::bf16(3.0f)), {}});
        reducer.finish();
        require(list_of<float>(a.gradient().values) == std::vector<float>{3, 3}, "widened");
        Gradient rounded{Tensor::zeros(context, Shape{2}), {}};
        rounded.rounded = true;
        reducer.receive(a, std::move(rounded));
      });
  CHECK(messages.front().find("[parallel.gradient]") != std::string::npos);
}

namespace {

// Gradients of all kinds: of a matrix whose rows are shared, twice, of a vector that is one rank's,
// of a number, of a table by its rows.
struct Model {
  explicit Model(Context& context)
      : matrix(Var::parameter(context, Tensor::zeros(context, Shape{40, 100}))),
        vector(Var::parameter(context, Tensor::zeros(context, Shape{7}))),
        number(Var::parameter(context, Tensor::zeros(context, Shape{}))),
        table(Var::parameter(context, Tensor::zeros(context, Shape{500, 8}))) {}

  std::vector<Var> all() const { return {matrix, vector, number, table}; }

  void receive(Context& context, GradientReducer& reducer, int rank, std::uint32_t step) const {
    const auto addend = [&](const Shape& shape, const char* name) {
      return random_tensor(context, shape, name + std::to_string(rank),
                           static_cast<float>(1 + step));
    };
    reducer.receive(matrix, {addend(Shape{40, 100}, "a"), {}});
    reducer.receive(vector, {addend(Shape{7}, "b"), {}});
    Gradient narrow{addend(Shape{40, 100}, "c"), {}};
    narrow.factor = 0.5f;
    reducer.receive(matrix, std::move(narrow));
    reducer.receive(number, {addend(Shape{}, "d"), {}});
    std::vector<std::int64_t> rows;
    for (std::int64_t row = rank; row < 500; row += 3 + rank) rows.push_back(row);
    reducer.receive(
        table, {addend(Shape{rows.size(), 8}, "e"),
                Tensor::from(context, std::span<const std::int64_t>(rows), Shape{rows.size()})});
  }
  void clear() const {
    for (const Var& var : all()) var.clear_gradient();
  }

  Var matrix, vector, number, table;
};

// All gradients as one list, dense: what other ranks have is 0.
std::vector<float> whole(Context& context, const Model& model) {
  std::vector<float> result;
  for (const Var& var : model.all()) {
    const Gradient& gradient = var.gradient();
    const std::size_t width = var.shape().rank() == 2 ? var.shape()[1] : 1;
    std::vector<float> dense(var.value().elements());
    const std::vector<float> values = soma_test::values(context, gradient.values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::size_t row = i / width;
      if (gradient.sparse())
        row = static_cast<std::size_t>(list_of<std::int64_t>(gradient.rows)[row]);
      dense[(gradient.first_row + row) * width + i % width] = values[i];
    }
    result.insert(result.end(), dense.begin(), dense.end());
  }
  return result;
}

// Rank by rank, after two steps.
std::vector<std::vector<float>> reduced(int ranks, const GradientReducerOptions& options,
                                        DrawMapping mapping = DrawMapping::automatic) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](Context& context, Communicator& communicator) {
    const Model model(context);
    GradientReducer reducer(context, communicator, options);
    for (std::uint32_t step = 0; step < 2; ++step) {
      model.clear();
      reducer.begin_step(step, mapping);
      model.receive(context, reducer, communicator.rank(), step);
      reducer.finish();
    }
    results[static_cast<std::size_t>(communicator.rank())] = whole(context, model);
  });
  return results;
}

}  // namespace

TEST_CASE("each rank gets the sums of its own rows only", "[unit]") {
  for (const int ranks : {1, 2, 4, 8})
    for (const bool overlap : {false, true})
      for (const std::size_t bucket : {std::size_t{1}, std::size_t{20000}, std::size_t{1} << 20}) {
        INFO(ranks << " ranks, overlap " << overlap << ", buckets of " << bucket);
        GradientReducerOptions options{.bucket_bytes = bucket, .overlap = overlap};
        const std::vector<float> all = reduced(ranks, options).front();
        options.keep_own_rows = true;
        const std::vector<std::vector<float>> parts = reduced(ranks, options);
        std::size_t shared = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
          std::size_t owners = 0;
          for (const std::vector<float>& part : parts)
            if (part[i] != 0) {
              REQUIRE(part[i] == all[i]);
              ++owners;
            }
          REQUIRE(owners == (all[i] != 0 ? 1u : 0u));
          if (all[i] != 0 && parts.front()[i] == 0) ++shared;
        }
        // The matrix is two blocks of 2000.
        CHECK((shared >= 2000) == (ranks > 1));
      }
}

TEST_CASE("sums that travel in a narrow format: rounded in the tree, by the element", "[unit]") {
  using Mapping = DrawMapping;
  struct Narrow {
    FloatFormat format;
    RoundingMode mode;
    Mapping asked, run, drawn;
  };
  constexpr RoundingMode draws = RoundingMode::stochastic;
  for (const Narrow& how :
       {Narrow{formats::bf16, draws, Mapping::automatic, Mapping::automatic, Mapping::philox},
        Narrow{formats::bf16, draws, Mapping::automatic, Mapping::ars, Mapping::ars},
        Narrow{formats::bf16, draws, Mapping::philox, Mapping::ars, Mapping::philox},
        Narrow{formats::fp16, RoundingMode::nearest_even, Mapping::automatic, Mapping::ars,
               Mapping::automatic},
        Narrow{formats::fp8_e5m2, draws, Mapping::ars, Mapping::philox, Mapping::ars}})
    for (const int ranks : {2, 4}) {
      const FloatFormat format = how.format;
      INFO(to_string(format) << " on " << ranks << " ranks");
      const Quantizer narrow{.format = format, .rounding = {.mode = how.mode, .draws = how.asked}};
      GradientReducerOptions options{.format = narrow, .seed = 3};
      const std::vector<float> all = reduced(ranks, options, how.run).front();
      for (const std::vector<float>& other : reduced(ranks, options, how.run)) CHECK(other == all);
      // By hand, the matrix of the last step: its two addends one after the other.
      auto context = make_context();
      const int bits = random_bits(narrow.rounding, format);
      const auto rounded = [&](float value, int from, int count, std::size_t index) {
        const Draw draw{
            .seed = 3,
            .stream =
                stream_id(std::to_string(count) + "/" + std::to_string(from / count), "reduction"),
            .step = 1,
            .index = index};
        return decode(format, encode(format, value, narrow.rounding,
                                     rounding_word(draw, bits, 0, how.drawn)));
      };
      const std::function<float(const std::vector<std::vector<float>>&, int, int, std::size_t,
                                std::size_t)>
          sum = [&](const auto& addends, int from, int count, std::size_t i, std::size_t place) {
            const float value = count == 1
                                    ? addends[static_cast<std::size_t>(from)][i]
                                    : sum(addends, from, count / 2, i, place) +
                                          sum(addends, from + count / 2, count / 2, i, place);
            return rounded(value, from, count, place + i);
          };
      std::vector<std::vector<float>> first, second;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto addend = [&](const std::string& name) {
          return values(context,
                        random_tensor(context, Shape{40, 100}, name + std::to_string(rank), 2));
        };
        first.push_back(addend("a"));
        second.push_back(addend("c"));
      }
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < 4000; ++i) {
        const float a = sum(first, 0, ranks, i, 0), b = sum(second, 0, ranks, i, 4007);
        wrong += all[i] != a + 0.5f * b ? 1u : 0u;
      }
      CHECK(wrong == 0);
      // Neither buckets, overlap nor who owns a sum change a bit.
      options.bucket_bytes = 1;
      options.overlap = false;
      CHECK(reduced(ranks, options, how.run).front() == all);
      options.keep_own_rows = true;
      std::vector<float> together(all.size());
      for (const std::vector<float>& part : reduced(ranks, options, how.run))
        for (std::size_t i = 0; i < all.size(); ++i) together[i] += part[i];
      CHECK(together == all);
    }
  // One rank exchanges nothing.
  CHECK(reduced(1, {.format = {.format = formats::bf16}}) == reduced(1, {}));
}

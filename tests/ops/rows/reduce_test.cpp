// Sums over rows for any number of threads: the bits of one call of the kernel, whose order
// tests/kernels/reduce/ holds.

#include <soma/ops/rows/reduce.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/stored_run.hpp"

#include <vector>

using namespace soma;

TEST_CASE("sums over rows have the same bits for any number of threads", "[unit][reduce]") {
  constexpr std::size_t rows = 400'003;
  const std::vector<float> all = soma_test::small_floats(DType::fp32, 18 * rows);
  const std::vector<std::size_t> lengths = {0, 5, 100'000, 1, 250'000, 49'997};
  for (const int threads : {1, 2, 3, 7}) {
    auto context = make_context({.threads = threads});
    const Sequences cut = Sequences::from_lengths(context, lengths, {.shards = 4});
    for (const std::size_t columns : std::vector<std::size_t>{1, 3, 18})
      for (const Sequences& sequences : {Sequences(), cut}) {
        const std::span<const float> values(all.data(), rows * columns);
        const Tensor x = Tensor::from<float>(context, values, Shape{rows, columns});
        const Tensor sum = run(context, ops::reduce, ReduceSetting{1, false}, {x}, sequences)[0];
        std::vector<float> wanted(columns);
        const detail::RowSegments segments(sequences, rows);
        const detail::TensorRows x_rows = detail::rows_of(context, x);
        parallel(context, 1, [&](int) {
          context.kernels().reduce.column_sums({.rows = rows,
                                                .columns = columns,
                                                .x = detail::operand(x_rows),
                                                .segments = segments.get(),
                                                .out = wanted.data()});
        });
        INFO(threads << " threads, " << columns << " columns, sequences " << sequences.defined());
        CHECK(soma_test::same_bits(sum.span<float>(), wanted));
      }
  }
}

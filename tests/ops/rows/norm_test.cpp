// Gradients of norms for any number of threads: the bits of a pass of the kernel for dx and another
// for gamma and beta, whose order tests/kernels/norm/ holds.

#include <soma/ops/rows/norm.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/tensors.hpp"

#include <vector>

using namespace soma;
using soma_test::bits;
using soma_test::random_tensor;

TEST_CASE("gradients of a norm have the same bits for any number of threads", "[unit][norm]") {
  constexpr std::size_t rows = 2700, columns = 21;
  // Shards alike, so unlike that threads would wait, of which one is longer than a run, and few
  // rows in many.
  const std::vector<std::vector<std::size_t>> cuts = {
      {}, {300, 400, 0, 350, 250, 700, 400, 300}, {1, 2000, 699}, {2700}};
  for (const bool rms : {false, true})
    for (const std::size_t shards : {1, 8, 512})
      for (const std::vector<std::size_t>& lengths : cuts)
        for (const int threads : {1, 2, 3, 9}) {
          auto context = make_context({.threads = threads});
          const Sequences sequences =
              lengths.empty() ? Sequences()
                              : Sequences::from_lengths(context, lengths, {.shards = shards});
          const NormSetting setting{1e-5f, rms};
          const Tensor x = random_tensor(context, Shape{rows, columns}, "x", 2),
                       dy = random_tensor(context, Shape{rows, columns}, "dy"),
                       gamma = random_tensor(context, Shape{columns}, "gamma");
          const Outputs y = run(context, ops::norm, setting, {x, gamma}, sequences);
          const Outputs gradients =
              run(context, ops::norm_backward, setting, {x, gamma, y[1], y[2], dy}, sequences);

          const Tensor dx = Tensor::empty(context, x.shape()),
                       dgamma = Tensor::empty(context, gamma.shape()),
                       dbeta = Tensor::empty(context, gamma.shape());
          const detail::RowSegments segments(sequences, rows);
          const detail::TensorRows x_rows = detail::rows_of(context, x),
                                   dy_rows = detail::rows_of(context, dy);
          parallel(context, 1, [&](int) {
            NormArgs args{.rows = rows, .columns = columns, .rms = rms, .epsilon = 1e-5f};
            args.x = detail::operand(x_rows), args.dy = detail::operand(dy_rows);
            args.dx = detail::target(dx);
            args.gamma = gamma.data<float>();
            args.mean = rms ? nullptr : y[1].mutable_data<float>();
            args.rstd = y[2].mutable_data<float>();
            args.segments = segments.get();
            args.column_count = columns;
            args.dgamma = dgamma.mutable_data<float>(), args.dbeta = dbeta.mutable_data<float>();
            context.kernels().norm.backward(args);
            context.kernels().norm.backward_parameters(args);
          });
          INFO(threads << " threads, " << lengths.size() << " sequences in " << shards
                       << " shards, rms " << rms);
          CHECK((bits(context, gradients[0]) == bits(context, dx)));
          CHECK((bits(context, gradients[1]) == bits(context, dgamma)));
          CHECK((bits(context, gradients[2]) == bits(context, dbeta)));
        }
}

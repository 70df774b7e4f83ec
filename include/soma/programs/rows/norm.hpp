#pragma once
// Layer norm and RMS norm over rows. The Vector engine's batch-norm instructions compute the
// statistics. The gradients of gamma and beta are sums over rows, computed as products with a row
// of ones that are added in PSUM.
//
// Layer norm takes the statistics of x, and then the statistics of x - mean: the first mean has an
// error of some units in its last place, which is more than the spread of numbers that are nearly
// equal. A row of equal numbers gives beta exactly. Errors have the bounds of kernels/norm/args.hpp
// with s = 300 and 4 more for each further piece of a row, because an instruction sums up to 256
// elements in any order (ReduceOrder). Here "variance" in the bound of the variance's error is
// variance + ((s + 1) u mean of |x|)^2, since the second mean and variance share one pass.

#include <soma/ops/rows/norm.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace SOMA_NAMESPACE::programs {

// Mean and variance of rows that are loaded in pieces.
class RowStatistics {
 public:
  RowStatistics(Core& core, std::size_t partitions)
      : core_(core),
        triples_(core.sbuf.tile(DType::fp32, partitions, 3 + 6 * most_chunks)),
        result_(core.sbuf.tile(DType::fp32, partitions, 2)) {}
  void add(const Tile& data, bool first) {
    const std::size_t rows = data.partitions(), chunk = core_.machine().bn_stats_free;
    // The statistics of earlier pieces are the first triple: count, mean, count * variance.
    const Tile triples = triples_.rows(0, rows);
    if (!first) {
      const Tile before = triples.columns(0, 3), result = result_.rows(0, rows);
      const auto seen = static_cast<float>(count_);
      core_.vector.memset(before.columns(0, 1), seen)
          .copy(before.columns(1, 2), result.columns(0, 1))
          .tensor_scalar(before.columns(2, 3), result.columns(1, 2), Alu::multiply, seen);
    } else {
      count_ = 0;
    }
    std::size_t end = 3;
    for_pieces(data.free_size(), chunk, [&](std::size_t column, std::size_t size) {
      core_.vector.bn_stats(triples.columns(end, end + 6), data.columns(column, column + size));
      end += 6;
    });
    count_ += data.free_size();
    core_.vector.bn_aggr(result_.rows(0, rows), triples.columns(first ? 3 : 0, end));
  }
  // [P, 1]; valid until the next rows.
  Tile mean(std::size_t rows) const { return result_.rows(0, rows).columns(0, 1); }
  Tile variance(std::size_t rows) const { return result_.rows(0, rows).columns(1, 2); }

 private:
  static constexpr std::size_t most_chunks = longest_whole_row / 512;
  Core& core_;
  Tile triples_, result_;
  std::size_t count_ = 0;
};

inline void norm(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<NormSetting>();
  const DeviceRows x(core, call.inputs[0]);
  const HbmView y = DeviceRows::target(call.outputs[0]);
  const std::size_t columns = x.columns(), width = piece_columns(columns);
  const std::size_t partitions = row_partitions(x.rows());
  if (columns == 0) {  // their mean is 0 / 0
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    if (!setting.rms) fill(core, call.outputs[1], nan);
    return fill(core, call.outputs[2], nan);
  }
  RowPieces pieces(core, x);
  RepeatedRow gamma(core, call.inputs[1], partitions);
  RepeatedRow beta(core, call.inputs.size() > 2 ? call.inputs[2] : Tensor(), partitions);
  Pair out(core, y.dtype(), partitions, width), columns_out(core, DType::fp32, partitions, 2);
  RowStatistics statistics(core, partitions);
  Scratch scratch(core, partitions, width);
  for_pieces(x.rows(), lanes, [&](std::size_t row, std::size_t rows) {
    pieces.start(row, rows);
    const Tile both = columns_out.next(rows, 2);
    const Tile mean = both.columns(0, 1), rstd = both.columns(1, 2);
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile source = pieces.read(column, size);
      if (setting.rms)
        core.scalar.activation(
            scratch.tile(0, rows, size), source, Function::square,
            {.reduce = column == 0 ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
             .reduce_result = &rstd});
      else
        statistics.add(source, column == 0);
    });
    if (setting.rms) {
      core.vector.tensor_scalar(rstd, rstd, Alu::multiply, 1 / static_cast<float>(columns),
                                Alu::add, setting.epsilon);
    } else {
      core.vector.copy(mean, statistics.mean(rows));
      for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
        const Tile difference = scratch.tile(0, rows, size);
        core.vector.tensor_scalar(difference, pieces.read(column, size), Alu::subtract, mean);
        statistics.add(difference, column == 0);
      });
      core.vector.tensor_tensor(mean, mean, statistics.mean(rows), Alu::add)
          .tensor_scalar(rstd, statistics.variance(rows), Alu::add, setting.epsilon);
    }
    // The engine's square root is valid from 2^-116 on; rows of equal elements with epsilon 0 have
    // a smaller variance.
    core.vector.tensor_scalar(rstd, rstd, Alu::maximum, 0x1p-116f, Alu::none, {},
                              {.reverse0 = true});
    core.scalar.activation(rstd, rstd, Function::sqrt);
    core.vector.reciprocal(rstd, rstd);
    core.dma.queue(store_queue).store(column_of(hbm_target(call.outputs[2]), row, rows), rstd);
    if (!setting.rms)
      core.dma.queue(store_queue).store(column_of(hbm_target(call.outputs[1]), row, rows), mean);
    for_pieces(columns, width, [&](std::size_t column, std::size_t size) {
      const Tile source = pieces.read(column, size), result = out.next(rows, size);
      const Tile scale = gamma.read(rows, column, size), wide = scratch.tile(0, rows, size);
      if (setting.rms)
        core.vector.scalar_tensor_tensor(beta.defined() ? wide : result, source, Alu::multiply,
                                         rstd, Alu::multiply, scale);
      else
        core.vector.scalar_tensor_tensor(wide, source, Alu::subtract, mean, Alu::multiply, scale);
      if (beta.defined())
        core.vector.scalar_tensor_tensor(
            result, wide, Alu::multiply,
            setting.rms ? neuroncore::ScalarOperand(1) : neuroncore::ScalarOperand(rstd), Alu::add,
            beta.read(rows, column, size));
      else if (!setting.rms)
        core.scalar.activation(result, wide, Function::copy, {.scale_tile = &rstd});
      core.dma.queue(store_queue)
          .store(y.rows(row, row + rows).columns(column, column + size), result);
    });
  });
}

// With n = (x - mean) rstd and g = dy gamma:
//     dx = rstd (g - mean of g - n (mean of g n)), dgamma = sum of dy n, dbeta = sum of dy.
// RMS norm has no means of x and g. At least one row.
class NormBackward {
 public:
  NormBackward(Core& core, const OperatorCall& call)
      : core_(core),
        call_(call),
        rms_(call.attributes.as<NormSetting>().rms),
        x_rows_(core, call.inputs[0]),
        dy_rows_(core, call.inputs[4]),
        means_(row_major(core, call.inputs[2])),
        rstds_(row_major(core, call.inputs[3])),
        rows_(x_rows_.rows()),
        columns_(x_rows_.columns()),
        width_(piece_columns(columns_)),
        dx_(DeviceRows::target(call.outputs[0])),
        x_(core, x_rows_),
        dy_(core, dy_rows_),
        gamma_(core, call.inputs[1], row_partitions(rows_)),
        out_(core, dx_.dtype(), row_partitions(rows_), width_),
        statistics_(core, DType::fp32, row_partitions(rows_), 4),
        sums_out_(core, DType::fp32, 1, (std::min)(columns_, sums_columns)),
        scratch_(core, row_partitions(rows_), width_),
        ones_(column_tile(core, row_partitions(rows_))) {}

  void run() {
    core_.vector.memset(ones_, 1);
    // Rows whose sums fit in PSUM are read once, for dx and for the sums.
    const bool once = columns_ <= sums_columns;
    if (!once)
      for_pieces(rows_, lanes, [&](std::size_t row, std::size_t rows) {
        start(row, rows);
        if (width_ == columns_) prepare(0, columns_);
        backward_of_rows();
      });
    for_pieces(columns_, sums_columns, [&](std::size_t column, std::size_t columns) {
      const Core::Scope scope(core_);
      const Tile dgamma = core_.psum.tile(1, columns), dbeta = core_.psum.tile(1, columns);
      for_pieces(rows_, lanes, [&](std::size_t row, std::size_t rows) {
        start(row, rows);
        if (once)
          prepare(0, columns);
        else
          normalize(column, columns);
        const Tile gradient = dy_.read(column, columns), product = scratch(products, columns);
        core_.vector.tensor_tensor(product, scratch(normalized, columns), gradient, Alu::multiply);
        add_rows(dgamma, product);
        if (gradient.dtype() == DType::fp32) {
          add_rows(dbeta, gradient);
        } else {  // the ones are fp32, and so is the other input of a product
          core_.scalar.copy(product, gradient);
          add_rows(dbeta, product);
        }
        if (once) backward_of_rows();
      });
      store_sums(call_.outputs[1], column, dgamma);
      store_sums(call_.outputs[2], column, dbeta);
    });
  }

 private:
  static constexpr std::size_t bank = 512;               // fp32 elements of a product
  static constexpr std::size_t sums_columns = 4 * bank;  // half of PSUM each for dgamma and dbeta
  enum ScratchTile : std::size_t { normalized, scaled, products };

  Tile scratch(ScratchTile number, std::size_t columns) {
    return scratch_.tile(number, count_, columns);
  }
  void start(std::size_t row, std::size_t count) {
    row_ = row;
    count_ = count;
    x_.start(row, count);
    dy_.start(row, count);
    const Tile all = statistics_.next(count, 4);
    mean_ = all.columns(0, 1);
    rstd_ = all.columns(1, 2);
    mean_g_ = all.columns(2, 3);
    mean_gn_ = all.columns(3, 4);
    if (!rms_) core_.dma.load(mean_, column_of(hbm(means_), row, count));
    core_.dma.load(rstd_, column_of(hbm(rstds_), row, count));
  }
  // Computes n of the current rows.
  void normalize(std::size_t column, std::size_t columns) {
    const Tile x = x_.read(column, columns), n = scratch(normalized, columns);
    if (rms_)
      core_.scalar.activation(n, x, Function::copy, {.scale_tile = &rstd_});
    else
      core_.vector.tensor_scalar(n, x, Alu::subtract, mean_, Alu::multiply, rstd_);
  }
  // Computes n and g.
  void prepare(std::size_t column, std::size_t columns) {
    normalize(column, columns);
    core_.vector.tensor_tensor(scratch(scaled, columns), dy_.read(column, columns),
                               gamma_.read(count_, column, columns), Alu::multiply);
  }
  void add_rows(const Tile& sums, const Tile& values) {
    for_pieces(values.free_size(), bank, [&](std::size_t column, std::size_t columns) {
      core_.tensor.matmul(sums.columns(column, column + columns), ones_.rows(0, count_),
                          values.columns(column, column + columns),
                          row_ == 0 ? neuroncore::Accumulate::no : neuroncore::Accumulate::yes);
    });
  }
  void store_sums(const Tensor& output, std::size_t column, const Tile& sums) {
    const Tile result = sums_out_.next(1, sums.free_size());
    core_.scalar.copy(result, sums);
    core_.dma.queue(store_queue)
        .store(hbm_target(output).columns(column, column + sums.free_size()), result);
  }

  // Rows of a single piece have n and g already; longer rows compute them in every pass.
  template <class Call>
  void for_columns(const Call& call) {
    for_pieces(columns_, width_, [&](std::size_t column, std::size_t columns) {
      if (width_ != columns_) prepare(column, columns);
      call(column, scratch(normalized, columns), scratch(scaled, columns));
    });
  }
  // result = minus the mean of `values`, whose first column is `column` of their rows.
  void add_to_mean(const Tile& values, std::size_t column, const Tile& result) {
    core_.scalar.activation(
        scratch(products, values.free_size()), values, Function::copy,
        {.scale = -1 / static_cast<float>(columns_),
         .reduce = column == 0 ? neuroncore::Reduce::reset_reduce : neuroncore::Reduce::reduce,
         .reduce_result = &result});
  }
  void backward_of_rows() {
    if (!rms_)
      for_columns(
          [&](std::size_t column, const Tile&, const Tile& g) { add_to_mean(g, column, mean_g_); });
    for_columns([&](std::size_t column, const Tile& n, const Tile& g) {
      const Tile product = scratch(products, n.free_size());
      core_.vector.tensor_tensor(product, g, n, Alu::multiply);
      add_to_mean(product, column, mean_gn_);
    });
    for_columns([&](std::size_t column, const Tile& n, const Tile& g) {
      const Tile result = out_.next(count_, n.free_size());
      core_.vector.scalar_tensor_tensor(n, n, Alu::multiply, mean_gn_, Alu::add, g);
      if (rms_)
        core_.scalar.activation(result, n, Function::copy, {.scale_tile = &rstd_});
      else
        core_.vector.tensor_scalar(result, n, Alu::add, mean_g_, Alu::multiply, rstd_);
      core_.dma.queue(store_queue)
          .store(dx_.rows(row_, row_ + count_).columns(column, column + n.free_size()), result);
    });
  }

  Core& core_;
  const OperatorCall& call_;
  bool rms_;
  DeviceRows x_rows_, dy_rows_;
  Tensor means_, rstds_;
  std::size_t rows_, columns_, width_;
  HbmView dx_;
  RowPieces x_, dy_;
  RepeatedRow gamma_;
  Pair out_, statistics_, sums_out_;
  Scratch scratch_;
  Tile ones_;
  // The current rows: their place, mean, rstd, and the negated means of g and g n.
  std::size_t row_ = 0, count_ = 0;
  Tile mean_{}, rstd_{}, mean_g_{}, mean_gn_{};
};

inline void norm_backward(Core& core, const OperatorCall& call) {
  if (call.inputs[0].elements() != 0) return NormBackward(core, call).run();
  fill(core, call.outputs[1], 0);
  fill(core, call.outputs[2], 0);
}

}  // namespace SOMA_NAMESPACE::programs

#pragma once
// Total: the sum of columns of partial sums as one number. A product with ones adds the partitions.

#include <soma/programs/pieces.hpp>

namespace SOMA_NAMESPACE::programs {

class Total {
 public:
  explicit Total(Core& core)
      : core_(core), sums_(column_tile(core, lanes)), ones_(column_tile(core, lanes)) {
    core.vector.memset(sums_, 0).memset(ones_, 1);
  }
  // A column of up to 128 numbers.
  void add(const Tile& column) {
    const Tile sums = sums_.rows(0, column.partitions());
    core_.vector.tensor_tensor(sums, sums, column, Alu::add);
  }
  // output, one number, = factor * the sum.
  void store(const Tensor& output, float factor = 1) {
    const Tile sum = core_.psum.tile(1, 1), result = column_tile(core_, 1);
    core_.tensor.matmul(sum, sums_, ones_);
    core_.scalar.activation(result, sum, Function::copy, {.scale = factor});
    core_.dma.queue(store_queue).store(hbm_target(output.reshape(Shape{1})), result);
  }

 private:
  Core& core_;
  Tile sums_, ones_;
};

}  // namespace SOMA_NAMESPACE::programs

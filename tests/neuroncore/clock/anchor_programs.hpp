// The kernels behind the vendor's published timings, as programs of a core. Shapes and loops are
// those of the vendor's tutorials (nki/tutorials/matrix_multiplication, fused_mamba).
#pragma once

#include "neuroncore/test_core.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace soma_test {

// A program is recorded and not computed.
inline constexpr nc::CoreOptions dry{.record = true, .compute = false};

// `count` tiles that take turns.
class Turns {
 public:
  Turns(nc::Core& core, std::size_t count, soma::DType dtype, std::size_t elements) {
    for (std::size_t i = 0; i < count; ++i) tiles_.push_back(core.sbuf.tile(dtype, 128, elements));
  }
  Turns(nc::Core& core, std::size_t banks) {
    for (std::size_t i = 0; i < banks; ++i) tiles_.push_back(core.psum.tile(128, 512));
  }
  const nc::Tile& next() { return tiles_[turn_++ % tiles_.size()]; }

 private:
  std::vector<nc::Tile> tiles_;
  std::size_t turn_ = 0;
};

// result [M, N] = left [K, M] transposed * right [K, N], in bf16.
struct Product {
  Product(soma::Context& context, std::size_t m, std::size_t n, std::size_t k)
      : left(soma::Tensor::empty(context, soma::Shape{k, m}, soma::DType::bf16)),
        right(soma::Tensor::empty(context, soma::Shape{k, n}, soma::DType::bf16)),
        result(soma::Tensor::empty(context, soma::Shape{m, n}, soma::DType::bf16)) {}

  std::size_t m() const { return left.size(1) / 128; }  // tiles
  std::size_t n() const { return right.size(1) / 512; }
  std::size_t k() const { return left.size(0) / 128; }
  static nc::HbmView block(const nc::HbmView& view, std::size_t row, std::size_t column,
                           std::size_t columns) {
    return view.rows(128 * row, 128 * (row + 1)).columns(column, column + columns);
  }
  nc::HbmView left_tile(std::size_t k, std::size_t m) const {
    return block(nc::hbm(left), k, 128 * m, 128);
  }
  nc::HbmView right_tile(std::size_t k, std::size_t n) const {
    return block(nc::hbm(right), k, 512 * n, 512);
  }
  void store(nc::Core& core, std::size_t m, std::size_t n, const nc::Tile& tile) const {
    core.dma.queue(1).store(block(nc::hbm_target(result), m, 512 * n, 512), tile);
  }

  soma::Tensor left, right, result;
};

constexpr nc::Accumulate unless_first(std::size_t k) {
  return k == 0 ? nc::Accumulate::no : nc::Accumulate::yes;
}

// A1: both operands are loaded in the innermost loop.
inline void product_tiled(nc::Core& core, const Product& product) {
  const nc::Core::Scope scope(core);
  Turns left(core, 8, soma::DType::bf16, 128), right(core, 8, soma::DType::bf16, 512);
  Turns out(core, 2, soma::DType::bf16, 512), sums(core, 2);
  for (std::size_t m = 0; m < product.m(); ++m)
    for (std::size_t n = 0; n < product.n(); ++n) {
      const nc::Tile &sum = sums.next(), &rounded = out.next();
      for (std::size_t k = 0; k < product.k(); ++k) {
        const nc::Tile &a = left.next(), &b = right.next();
        core.dma.load(a, product.left_tile(k, m)).load(b, product.right_tile(k, n));
        core.tensor.matmul(sum, a, b, unless_first(k));
      }
      core.vector.copy(rounded, sum);
      product.store(core, m, n, rounded);
    }
  core.finish();
}

// A2: the left tiles of a row of the result are loaded once.
inline void product_hoisted(nc::Core& core, const Product& product) {
  const nc::Core::Scope scope(core);
  Turns left(core, 2, soma::DType::bf16, 128 * product.k()), right(core, 8, soma::DType::bf16, 512);
  Turns out(core, 2, soma::DType::bf16, 512), sums(core, 2);
  for (std::size_t m = 0; m < product.m(); ++m) {
    const nc::Tile& row = left.next();
    for (std::size_t k = 0; k < product.k(); ++k)
      core.dma.load(row.columns(128 * k, 128 * (k + 1)), product.left_tile(k, m));
    for (std::size_t n = 0; n < product.n(); ++n) {
      const nc::Tile &sum = sums.next(), &rounded = out.next();
      for (std::size_t k = 0; k < product.k(); ++k) {
        const nc::Tile& b = right.next();
        core.dma.load(b, product.right_tile(k, n));
        core.tensor.matmul(sum, row.columns(128 * k, 128 * (k + 1)), b, unless_first(k));
      }
      core.vector.copy(rounded, sum);
      product.store(core, m, n, rounded);
    }
  }
  core.finish();
}

// A3: two by two tiles of the result at a time.
inline void product_blocked_free(nc::Core& core, const Product& product) {
  const nc::Core::Scope scope(core);
  Turns left(core, 2, soma::DType::bf16, 2 * 128 * product.k());
  Turns right(core, 8, soma::DType::bf16, 512), out(core, 4, soma::DType::bf16, 512), sums(core, 8);
  for (std::size_t m = 0; m < product.m(); m += 2) {
    const nc::Tile& rows = left.next();
    const auto tile = [&](std::size_t k, std::size_t i) {
      return rows.columns(128 * (2 * k + i), 128 * (2 * k + i + 1));
    };
    for (std::size_t k = 0; k < product.k(); ++k)
      for (std::size_t i = 0; i < 2; ++i) core.dma.load(tile(k, i), product.left_tile(k, m + i));
    for (std::size_t n = 0; n < product.n(); n += 2) {
      const std::array<nc::Tile, 4> block{sums.next(), sums.next(), sums.next(), sums.next()};
      for (std::size_t k = 0; k < product.k(); ++k)
        for (std::size_t j = 0; j < 2; ++j) {
          const nc::Tile& b = right.next();
          core.dma.load(b, product.right_tile(k, n + j));
          for (std::size_t i = 0; i < 2; ++i)
            core.tensor.matmul(block[2 * i + j], tile(k, i), b, unless_first(k));
        }
      for (std::size_t i = 0; i < 4; ++i) {
        const nc::Tile& rounded = out.next();
        core.vector.copy(rounded, block[i]);
        product.store(core, m + i / 2, n + i % 2, rounded);
      }
    }
  }
  core.finish();
}

// A4: blocks of 16, 2 and 8 tiles of M, N and K.
inline void product_blocked(nc::Core& core, const Product& product) {
  constexpr std::size_t bm = 16, bn = 2, bk = 8;
  const nc::Core::Scope scope(core);
  const nc::Tile result = core.sbuf.tile(soma::DType::bf16, 128, product.m() * bn * 512);
  Turns right(core, 2, soma::DType::bf16, bk * bn * 512);
  Turns left(core, 2, soma::DType::bf16, bk * bm * 128), sums(core, 8);
  for (std::size_t n = 0; n < product.n(); n += bn) {
    for (std::size_t k = 0; k < product.k(); k += bk) {
      const nc::Tile& b = right.next();
      for (std::size_t i = 0; i < bk; ++i)
        core.dma.load(b.columns(i * bn * 512, (i + 1) * bn * 512),
                      Product::block(nc::hbm(product.right), k + i, 512 * n, bn * 512));
      for (std::size_t m = 0; m < product.m(); m += bm) {
        const nc::Tile& a = left.next();
        for (std::size_t i = 0; i < bk; ++i)
          core.dma.load(a.columns(i * bm * 128, (i + 1) * bm * 128),
                        Product::block(nc::hbm(product.left), k + i, 128 * m, bm * 128));
        for (std::size_t j = 0; j < bn; ++j)
          for (std::size_t i = 0; i < bm; ++i) {
            const nc::Tile& sum = sums.next();
            for (std::size_t l = 0; l < bk; ++l) {
              const std::size_t at = l * bn * 512 + j * 512, from = l * bm * 128 + i * 128;
              core.tensor.matmul(sum, a.columns(from, from + 128), b.columns(at, at + 512),
                                 unless_first(l));
            }
            const std::size_t to = ((m + i) * bn + j) * 512;
            const nc::Tile total = result.columns(to, to + 512);
            if (k == 0)
              core.vector.copy(total, sum);
            else
              core.vector.tensor_tensor(total, total, sum, nc::Alu::add);
          }
      }
    }
    for (std::size_t m = 0; m < product.m(); ++m)
      core.dma.queue(1).store(Product::block(nc::hbm_target(product.result), m, 512 * n, bn * 512),
                              result.columns(m * bn * 512, (m + 1) * bn * 512));
  }
  core.finish();
}

// B: the scan of a Mamba layer in fp32, y[c] = sum over states of scan(exp(delta A), delta u B) C.
class Mamba {
 public:
  static constexpr std::size_t states = 16, length = 512;

  Mamba(nc::Core& core, std::size_t channels)
      : core_(core),
        tiles_(channels / 128),
        delta_(matrix(channels)),
        u_(matrix(channels)),
        y_(matrix(channels)),
        a_(soma::Tensor::empty(core.context(), soma::Shape{channels, states})),
        b_(matrix(states)),
        c_(matrix(states)) {}

  // Everything is loaded in the innermost loop, channels inside of states.
  void first() {
    const nc::Core::Scope scope(core_);
    begin();
    const nc::Tile sums = core_.sbuf.tile(soma::DType::fp32, 128, tiles_ * length);
    core_.vector.memset(sums, 0);
    Turns delta(core_, 2, soma::DType::fp32, length), u(core_, 2, soma::DType::fp32, length);
    for (std::size_t state = 0; state < states; ++state)
      for (std::size_t tile = 0; tile < tiles_; ++tile) {
        const nc::Tile &d = delta.next(), &x = u.next();
        core_.dma.load(d, rows(delta_, tile)).load(x, rows(u_, tile));
        step(state, tile, d, x, sums.columns(tile * length, (tile + 1) * length));
      }
    for (std::size_t tile = 0; tile < tiles_; ++tile)
      core_.dma.queue(1).store(target(tile), sums.columns(tile * length, (tile + 1) * length));
    core_.finish();
  }
  // States inside of channels, whose rows are loaded once.
  void hoisted() {
    const nc::Core::Scope scope(core_);
    begin();
    Turns delta(core_, 2, soma::DType::fp32, length), u(core_, 2, soma::DType::fp32, length);
    Turns sums(core_, 2, soma::DType::fp32, length);
    for (std::size_t tile = 0; tile < tiles_; ++tile) {
      const nc::Tile &d = delta.next(), &x = u.next(), &sum = sums.next();
      core_.dma.load(d, rows(delta_, tile)).load(x, rows(u_, tile));
      core_.gpsimd.memset(sum, 0);
      for (std::size_t state = 0; state < states; ++state) step(state, tile, d, x, sum);
      core_.dma.queue(1).store(target(tile), sum);
    }
    core_.finish();
  }

 private:
  struct Buffers {
    explicit Buffers(nc::Core& core)
        : scale(core, 4, soma::DType::fp32, 1),
          row(core, 4, soma::DType::fp32, length),
          decay(core, 2, soma::DType::fp32, length),
          work(core, 4, soma::DType::fp32, length),
          spread(core, 4),
          ones(core.sbuf.tile(soma::DType::fp32, 1, 128)) {}
    Turns scale, row, decay, work, spread;
    nc::Tile ones;
  };

  soma::Tensor matrix(std::size_t rows) const {
    return soma::Tensor::empty(core_.context(), soma::Shape{rows, length});
  }
  static nc::HbmView rows(const soma::Tensor& tensor, std::size_t tile) {
    return nc::hbm(tensor).rows(128 * tile, 128 * (tile + 1));
  }
  nc::HbmView target(std::size_t tile) const {
    return nc::hbm_target(y_).rows(128 * tile, 128 * (tile + 1));
  }
  void begin() {
    buffers_.emplace_back(core_);
    core_.vector.memset(buffers_.back().ones, 1);
  }
  // A row of b or c in every partition: a product with ones.
  const nc::Tile& spread(const soma::Tensor& tensor, std::size_t state) {
    Buffers& own = buffers_.back();
    const nc::Tile row = own.row.next().rows(0, 1), &to = own.spread.next();
    core_.dma.queue(2).load(row, nc::hbm(tensor).rows(state, state + 1));
    core_.tensor.matmul(to, own.ones, row);
    return to;
  }
  void step(std::size_t state, std::size_t tile, const nc::Tile& d, const nc::Tile& x,
            const nc::Tile& sum) {
    Buffers& own = buffers_.back();
    const nc::Tile &scale = own.scale.next(), &decay = own.decay.next();
    core_.dma.queue(2).load(scale, rows(a_, tile).columns(state, state + 1));
    core_.scalar.activation(decay, d, nc::Function::exp, {.scale_tile = &scale});
    const nc::Tile &b = spread(b_, state), &c = spread(c_, state), &work = own.work.next();
    core_.vector.tensor_tensor(work, d, x, nc::Alu::multiply);
    core_.vector.tensor_tensor(work, work, b, nc::Alu::multiply);
    core_.vector.tensor_tensor_scan(work, decay, work, 0.0f, nc::Alu::multiply, nc::Alu::add);
    core_.vector.tensor_tensor(work, work, c, nc::Alu::multiply);
    core_.vector.tensor_tensor(sum, sum, work, nc::Alu::add);
  }

  nc::Core& core_;
  std::size_t tiles_;
  soma::Tensor delta_, u_, y_, a_, b_, c_;
  std::vector<Buffers> buffers_;
};

}  // namespace soma_test

#pragma once
// Attention of an image model: every query sees every key, out = softmax(q k^T / sqrt(width)) v,
// for one head. 128 queries at a time; their scores against all keys fit in SBUF.
//
// The engines run their own instructions in order. So the scores of the next queries stand in front
// of the second half of these: while the Scalar engine takes exponentials, the array has work.

#include "kernels/turned.hpp"

#include <array>

namespace kernels {

class ImageAttention {
 public:
  // q and k [width, tokens], v and out [tokens, width], fp32 or bf16 (the products are bf16);
  // tokens are a multiple of 512, width is at most 128.
  ImageAttention(nc::Core& core, const Tensor& q, const Tensor& k, const Tensor& v,
                 const Tensor& out)
      : core_(core),
        width_(q.size(0)),
        tokens_(q.size(1)),
        out_(out),
        queries_(core.sbuf.tile(DType::bf16, width_, tokens_)),
        keys_(core.sbuf.tile(DType::bf16, width_, tokens_)),
        values_(core.sbuf.tile(DType::bf16, lanes, tokens_ / lanes * width_)),
        turned_(core.sbuf.tile(DType::bf16, lanes, tokens_)),
        turn_blocks_(core, DType::bf16) {
    core.dma.load(keys_, nc::hbm(k));  // rounds where k is fp32
    core.dma.queue(1).load(queries_, nc::hbm(q));
    for (std::size_t b = 0; b < tokens_ / lanes; ++b)
      core.dma.queue(2).load(values_.columns(b * width_, (b + 1) * width_),
                             nc::hbm(v).rows(b * lanes, (b + 1) * lanes));
    for (Tile& bank : banks_) bank = core.psum.tile(lanes, group);
    for (Buffers& own : buffers_)
      own = {core.sbuf.tile(DType::fp32, lanes, tokens_),
             core.sbuf.tile(DType::bf16, lanes, tokens_),
             core.sbuf.tile(DType::fp32, lanes, tokens_ / group),
             core.sbuf.tile(DType::fp32, lanes, 2),
             core.sbuf.tile(out.dtype(), lanes, width_),
             core.psum.tile(lanes, width_)};
  }

  void run() {
    const std::size_t blocks = tokens_ / lanes;
    scores(0);
    for (std::size_t b = 0; b < blocks; ++b) {
      if (b + 1 < blocks) scores(b + 1);
      finish(b);
    }
  }

 private:
  static constexpr std::size_t group = 512;  // keys of one product

  // The scores of 128 queries, and exp((score - largest) / sqrt(width)).
  void scores(std::size_t block) {
    const Buffers& own = buffers_[block % 2];
    for (std::size_t g = 0; g < tokens_ / group; ++g) {
      const Tile& bank = banks_[g % banks_.size()];
      core_.tensor.matmul(bank, queries_.columns(block * lanes, (block + 1) * lanes),
                          keys_.columns(g * group, (g + 1) * group));
      core_.vector.tensor_reduce(own.maxima.columns(g, g + 1), bank, Alu::maximum);
      core_.scalar.copy(own.scores.columns(g * group, (g + 1) * group), bank);
    }
    const Tile shift = own.numbers.columns(0, 1), total = own.numbers.columns(1, 2);
    const float scale = 1 / std::sqrt(float(width_));
    core_.vector.tensor_reduce(shift, own.maxima, Alu::maximum);
    core_.vector.tensor_scalar(shift, shift, Alu::multiply, -scale);
    core_.scalar.activation_reduce(own.weights, own.scores, Function::exp, total,
                                   {.scale = scale, .bias = &shift});
  }
  // The weighted values, divided by the sum of the weights.
  void finish(std::size_t block) {
    const Buffers& own = buffers_[block % 2];
    turn_blocks_(turned_, own.weights);
    for (std::size_t b = 0; b < tokens_ / lanes; ++b)
      core_.tensor.matmul(own.sums, turned_.columns(b * lanes, (b + 1) * lanes),
                          values_.columns(b * width_, (b + 1) * width_),
                          b == 0 ? Accumulate::no : Accumulate::yes);
    const Tile total = own.numbers.columns(1, 2);
    core_.vector.reciprocal(total, total);
    core_.vector.tensor_scalar(own.result, own.sums, Alu::multiply, total);
    core_.dma.queue(3).store(nc::hbm_target(out_).rows(block * lanes, (block + 1) * lanes),
                             own.result);
  }

  struct Buffers {
    Tile scores, weights, maxima, numbers, result, sums;
  };
  nc::Core& core_;
  std::size_t width_, tokens_;
  Tensor out_;
  Tile queries_, keys_, values_, turned_;
  std::array<Tile, 4> banks_;
  Turned turn_blocks_;
  std::array<Buffers, 2> buffers_;
};

inline void image_attention(nc::Core& core, const Tensor& q, const Tensor& k, const Tensor& v,
                            const Tensor& out) {
  const nc::Core::Scope scope(core);
  ImageAttention(core, q, k, v, out).run();
}

}  // namespace kernels

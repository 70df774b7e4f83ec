#pragma once
// TensorEngine: the 128 x 128 systolic array. It reads SBUF, writes PSUM, multiplies in the type of
// its inputs and adds in fp32.

#include <soma/neuroncore/engines/sequencer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// yes: a matmul adds to its destination; no: it overwrites the destination. Adding is allowed only
// to the result of a matmul.
enum class Accumulate : std::uint8_t { no, yes };

// transpose: the product only moves data, because one operand is an identity or a permutation.
// Reports do not count its operations as the model's (MFU); nothing else depends on it.
enum class ProductUse : std::uint8_t { product, transpose };

class TensorEngine : public Sequencer<TensorEngine, Engine::tensor> {
 public:
  using Sequencer::Sequencer;

  // dst [M, N] (+)= stationary [K, M] transposed * moving [K, N]: the contraction runs over the
  // partitions of both (at most 128), M is at most 128, N at most what the machine moves (512 and
  // within one PSUM bank; on trn3 4,096 over eight).
  // Types: bf16, fp16 and cFP8 in any pair; fp32 and tf32 with each other (fp32 takes four passes,
  // performance mode). Products are exact. CoreOptions::sum_order chooses the order of their
  // addition, followed by one fp32 addition to PSUM. Error bound: K 2^-24 sum |a| |b|. dst is fp32,
  // or from NeuronCore-v4 on bf16, whose sum is `rounded` at each write.
  TensorEngine& matmul(const Tile& dst, const Tile& stationary, const Tile& moving,
                       Accumulate accumulate = Accumulate::no, ProductUse use = ProductUse::product,
                       const Rounded& rounded = {}, SourceLine source = calling_line());

  // From NeuronCore-v3 on: the same of fp8 e4m3 and e5m2 (from v4 on e4m3fn) in any pair, with two
  // rows of the contraction in each partition, in the time of one: stationary [K, 2 x M], moving
  // [K, 2 x N], the contraction is 2 K. Errors neuroncore.generation; neuroncore.rule: e4m3 beside
  // e4m3fn.
  TensorEngine& matmul_double_row(const Tile& dst, const Tile& stationary, const Tile& moving,
                                  Accumulate accumulate = Accumulate::no,
                                  const Rounded& rounded = {}, SourceLine source = calling_line());

  // From NeuronCore-v4 on: a product of MX numbers, four rows of the contraction in each partition,
  // in the time of one. stationary and moving are views packed4() of fp8 e4m3fn or e5m2, [K / 4,
  // M x 4] and [K / 4, N x 4]: M even, K / 4 a multiple of 32. Their scales lie as quantize_mx()
  // writes them. Products of codes and scales are exact; a scale NaN makes its 32 numbers NaN.
  // Errors neuroncore.generation, neuroncore.rule.
  TensorEngine& matmul_mx(const Tile& dst, const Tile& stationary, const Tile& moving,
                          const Tile& stationary_scales, const Tile& moving_scales,
                          Accumulate accumulate = Accumulate::no, const Rounded& rounded = {},
                          SourceLine source = calling_line());

  // dst [N, K] = src [K, N] transposed, both at most 128 and of the same type: on trn1 a product
  // with the identity, exact for finite values except for the sign of zero. A NaN or infinity in a
  // partition turns the other partitions in that row of the result into NaN, because 0 * infinity
  // is NaN. Where the machine's rules say exact_transposes, bit for bit.
  TensorEngine& transpose(const Tile& dst, const Tile& src, SourceLine source = calling_line());

 private:
  // A product of an instruction: [M, N], `rows` rows of the contraction in each partition.
  struct Product {
    const Tile &dst, &stationary, &moving;
    std::size_t m = 0, n = 0;
    Accumulate accumulate = Accumulate::no;
    const Rounded& rounded;
    std::size_t rows = 1;
    const Tile *stationary_scales = nullptr, *moving_scales = nullptr;  // for MX

    std::size_t depth() const { return stationary.partitions() * rows; }
    bool is_mx() const { return stationary_scales != nullptr; }
  };

  void check_inputs(const CallSite& call, const Tile& stationary, const Tile& moving);
  void check_pair(const CallSite& call, const Tile& stationary, const Tile& moving);
  void check_product(const CallSite& call, const Product& product);
  TensorEngine& run(const CallSite& call, Opcode opcode, ProductUse use, const Product& product);
  void check_destination(const CallSite& call, const Tile& dst);

  // Widens an operand to rows of `count` floats, `padded` floats to a row, with zeros after the
  // last: each partition has `rows` of them, one after the other.
  void widen(const Tile& tile, std::size_t count, std::size_t rows, float* to, std::size_t padded);
  // The same of MX numbers. Returns false if a number is too large for fp32.
  bool widen_mx(const Tile& tile, const Tile& scales, std::size_t count, float* to,
                std::size_t padded);

  void multiply(const Product& product);
  // The sums of MX numbers too large for fp32: in double, rounded to fp32 once.
  void multiply_wide(const Product& product, float* sums, std::size_t padded);

  // The other orders of addition, by plain loops.
  void multiply_slowly(std::size_t m, std::size_t n, std::size_t k, const float* a,
                       std::size_t a_stride, const float* b, std::size_t b_stride, float* sums);

  void turn(const Tile& dst, const Tile& src);
  void turn_bits(const Tile& dst, const Tile& src);

  // Transposes stored codes. Returns false, without effect, if a code may not be a finite number.
  template <class Code>
  bool turn_codes(const Tile& dst, const Tile& src) {
    const FloatFormat format = format_of(src.held());  // a bias moves no special code
    if (format.specials != Specials::ieee || !format.is_signed) return false;
    constexpr std::size_t block = 16;
    const std::size_t k = src.partitions(), n = src.free_size();
    const auto special = static_cast<Code>(format.infinity_code() << format.storage_shift());
    const auto negative_zero = static_cast<Code>(format.sign_mask() << format.storage_shift());
    std::vector<const Code*> rows(k);
    unsigned found = 0;
    for (std::size_t p = 0; p < k; ++p) {
      rows[p] = reinterpret_cast<const Code*>(core_.sbuf.at(src, p));
      for (std::size_t j = 0; j < n; ++j)
        found |= static_cast<unsigned>((rows[p][j] & special) == special);
    }
    if (found != 0) return false;
    for (std::size_t first = 0; first < n; first += block) {
      const std::size_t last = (std::min)(n, first + block);
      Code* to[block];
      for (std::size_t j = first; j < last; ++j)
        to[j - first] = reinterpret_cast<Code*>(core_.psum.at(dst, j));
      for (std::size_t p = 0; p < k; ++p)
        for (std::size_t j = first; j < last; ++j) {
          const Code code = rows[p][j];
          to[j - first][p] = code == negative_zero ? Code{0} : code;
        }
    }
    return true;
  }

  void turn_numbers(const Tile& dst, const Tile& src);
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/tensor_engine.ipp>
#endif

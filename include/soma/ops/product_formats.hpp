#pragma once
// In which numbers the products of linear layers are computed. LinearFormats: those of one layer,
// and what is remembered of its operands from call to call. ProductFormats: who has them for a
// model.
//
// The way from an option to a product: TrainerOptions::precision, a Precision, becomes a
// PrecisionState (nn/precision_state.hpp), which is the ProductFormats of a tape
// (TapeOptions::precision); nn::linear_at() asks it for the layer's LinearFormats and hands them to
// the operator quantized_linear (ops/product/quantized_linear.hpp).

#include <soma/numeric/draw.hpp>
#include <soma/numeric/inspect.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace soma {

struct LinearOperand {
  Quantizer quantizer{};
  Draw draw{};  // seed and stream of stochastic rounding
  // Delayed: the scale of this step. 0: unknown, as no amax but 0 was seen; the operand's own amax
  // gives it.
  float scale = 0;
  float amax = 0;  // the largest magnitude since the last step, of delayed operands
  numeric::Inspection* statistics = nullptr;  // collects what conversion does, where it is wanted
};

// Maxima over all ranks of a run, in place. Where there are others, their calls match.
struct GlobalMaximum {
  void* self = nullptr;
  void (*run)(void* self, std::span<float> values) = nullptr;
};

struct LinearFormats {
  LinearOperand x{}, weight{}, gradient{};
  std::optional<DType> input_gradient{};               // none: the input's type
  std::optional<DType> weight_gradient = DType::fp32;  // none: the output gradient's type
  // The batch is a part of a larger one: weight gradients stay unrounded fp32 sums, and say what is
  // left to do with them (Gradient::stored).
  bool part = false;
  Accumulation accumulation{};
  GlobalMaximum maximum{};

  // The converted weight, until somebody writes the weight or the scale changes.
  struct Converted {
    const std::byte* source = nullptr;
    std::uint64_t version = 0;
    float wanted_scale = 0;
    Tensor values{};
    float scale = 1;
    float amax = 0;  // of a delayed one
  };
  Converted forward{}, backward{};  // with groups along the inputs, and along the outputs
};

class ProductFormats {
 public:
  virtual ~ProductFormats() = default;
  ProductFormats(const ProductFormats&) = delete;
  ProductFormats& operator=(const ProductFormats&) = delete;
  // Formats of the layer at that path of the model; nullptr: the layer multiplies stored numbers.
  // `edge`: the first or the last layer of a model, which recipes leave alone.
  virtual LinearFormats* formats(std::string_view layer, bool edge) = 0;

 protected:
  ProductFormats() = default;
};

}  // namespace soma

#pragma once
// The number formats of products in linear layers and convolutions. LinearFormats: the formats of
// one layer, with the history of its operands from call to call. ProductFormats: the formats of a
// whole model.
//
// The path from an option to a product: TrainerOptions::precision, a Precision, becomes a
// PrecisionState (nn/precision_state.hpp), which is the ProductFormats of a tape
// (TapeOptions::precision). nn::linear_at() gets the layer's LinearFormats from it and passes them
// to the operator quantized_linear (ops/product/quantized_linear.hpp); nn::convolution_at() passes
// them to quantized_convolution (ops/image/quantized_convolution.hpp).

#include <soma/numeric/draw.hpp>
#include <soma/numeric/inspect.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE {

struct Operator;  // ops/operator.hpp

struct LinearOperand {
  Quantizer quantizer{};
  // For the second product that reads the operand: the gradient of the weight reads x and the
  // gradient, that of the input the weight. None: as the first.
  std::optional<Quantizer> second{};
  Draw draw{};  // seed and stream of stochastic rounding
  // Delayed: the scale of this step. 0: unknown, because every amax was 0; the operand's own amax
  // then gives the scale.
  float scale = 0;
  float amax = 0;  // the largest magnitude since the last step, of delayed operands
  numeric::Inspection* statistics = nullptr;  // collects what conversion does, where it is wanted
};

// Computes maxima over all ranks of a run, in place. Collective: all ranks must call it equally
// often.
struct GlobalMaximum {
  void* self = nullptr;
  void (*run)(void* self, std::span<float> values) = nullptr;
};

struct LinearFormats {
  // The record of quantized_linear. The formats name it, and linear_at() does not, so that a
  // header-only program without a precision compiles none of it.
  const Operator* product = nullptr;
  LinearOperand x{}, weight{}, gradient{};
  std::optional<DType> input_gradient{};  // none: the input's type
  // The batch is a part of a larger one: weight gradients stay sums of stored numbers, and carry
  // the factor for the sum of all parts (Gradient::factor).
  bool part = false;
  Accumulation accumulation{};
  GlobalMaximum maximum{};
  // The signs of rotations: of y, dx and dW.
  std::array<Draw, 3> signs{};

  // The converted weight, valid until the weight or the scale changes.
  struct Converted {
    TensorIdentity source{};
    float wanted_scale = 0;
    std::uint32_t step = 0;  // the one that drew its signs
    Tensor values{};
    bool coded = false;  // values are codes and scales (ops/product/coded.hpp), as training keeps
    float scale = 1;
    float amax = 0;  // for delayed scales
  };
  Converted forward{}, backward{};  // with groups along the inputs, and along the outputs
};

// A product that asks for its formats.
struct ProductPlace {
  std::string_view layer;  // its path in the model
  bool edge = false;  // the first and the last layer of a model, which most recipes leave alone
  DType x = DType::fp32, weight = DType::fp32;  // as they are stored
  bool convolution = false;  // its operands have one scale each, and its sums are fp32
};

class ProductFormats {
 public:
  virtual ~ProductFormats() = default;
  ProductFormats(const ProductFormats&) = delete;
  ProductFormats& operator=(const ProductFormats&) = delete;
  // nullptr: the layer multiplies stored numbers. Error train.precision: a convolution is asked for
  // what it does not have.
  virtual LinearFormats* formats(const ProductPlace& place) = 0;
  // The type in which the complete gradient of a parameter of that shape is stored: sums over
  // shards, uses, micro-batches, ranks and the batches of a step are fp32, and are rounded once.
  virtual DType gradient_type(const Shape& /*parameter*/) const { return DType::fp32; }

 protected:
  ProductFormats() = default;
};

}  // namespace SOMA_NAMESPACE

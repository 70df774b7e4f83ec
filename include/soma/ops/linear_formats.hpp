#pragma once
// LinearFormats: in which numbers the products of one linear layer are computed, and what is
// remembered of its operands from call to call. nn/precision_state.hpp keeps them for a model.

#include <soma/numeric/draw.hpp>
#include <soma/numeric/inspect.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace soma {

struct LinearOperand {
  Quantizer quantizer{};
  Draw draw{};      // seed and stream of stochastic rounding
  float scale = 0;  // delayed: the scale of this step; 0: none yet, the operand's own amax gives it
  float amax = 0;   // the largest magnitude since the last step, of delayed operands
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
  };
  Converted forward{}, backward{};  // with groups along the inputs, and along the outputs
};

}  // namespace soma

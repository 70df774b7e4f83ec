#pragma once
// TapeOptions: what a tape records, and what operators and layers on it go by.

#include <soma/tensor/dtype.hpp>

#include <cstdint>

namespace soma {

class BatchSums;         // ops/basic.hpp
class GradientReceiver;  // autograd/var.hpp
class ProductFormats;    // ops/product_formats.hpp

// Is told between two operators, forward and backward: for what has to move on meanwhile, such as
// messages.
class TapeHook {
 public:
  virtual ~TapeHook() = default;
  virtual void between() = 0;

 protected:
  TapeHook() = default;
  TapeHook(const TapeHook&) = default;
  TapeHook& operator=(const TapeHook&) = default;
};

struct TapeOptions {
  bool record = true;      // false: values only; backward is an error
  bool training = true;    // what dropout asks
  std::uint64_t seed = 0;  // with the step, the key of what dropout draws
  std::uint32_t step = 0;
  // Looks at every result, forward and backward, and stops at the first that is not finite: error
  // autograd.not_finite names the operator. Costs a pass over each result.
  bool stop_at_non_finite = false;
  // Models cast their hidden states to this type behind the embedding; later layers keep it.
  DType activations = DType::fp32;
  // In which numbers linear layers multiply, where that is not what is stored.
  ProductFormats* precision = nullptr;
  // Gets the gradients of parameters; without one they are added to the parameters.
  GradientReceiver* receiver = nullptr;
  TapeHook* hook = nullptr;
  // Where ranks share a batch: how norms over the whole of it add up.
  BatchSums* batch_sums = nullptr;
};

}  // namespace soma

#pragma once
// TapeOptions: the choices that a tape and the operators and layers on it follow.

#include <soma/tensor/dtype.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

class BatchSums;         // ops/rows/settings.hpp
class GradientReceiver;  // autograd/var.hpp
class PackedWeights;     // ops/product/packed_weights.hpp
class ProductFormats;    // ops/product_formats.hpp

// Called between two operators, forward and backward: for work that has to progress meanwhile, such
// as messages.
class TapeHook {
 public:
  SOMA_INLINE virtual ~TapeHook() = default;
  virtual void between() = 0;

 protected:
  TapeHook() = default;
  TapeHook(const TapeHook&) = default;
  TapeHook& operator=(const TapeHook&) = default;
};

struct TapeOptions {
  bool record = true;      // false: values only; backward is an error
  bool training = true;    // true: dropout is active
  std::uint64_t seed = 0;  // with the step, the key of dropout's draws
  std::uint32_t step = 0;
  // Checks every result, forward and backward, and stops at the first that is not finite: error
  // autograd.not_finite names the operator. Costs a pass over each result.
  bool stop_at_non_finite = false;
  // Models cast their hidden states to this type behind the embedding; later layers keep it.
  DType activations = DType::fp32;
  // The number formats of products in linear layers; nullptr: the stored formats.
  ProductFormats* precision = nullptr;
  // Linear layers read their weights' panels from there, with the same bits. Not for a tape that
  // records.
  PackedWeights* packed = nullptr;
  // Receives the gradients of parameters; nullptr: gradients are added to the parameters.
  GradientReceiver* receiver = nullptr;
  TapeHook* hook = nullptr;
  // If ranks share a batch: adds the sums of norms over the whole batch.
  BatchSums* batch_sums = nullptr;
};

}  // namespace SOMA_NAMESPACE

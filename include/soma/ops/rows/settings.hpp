#pragma once
// The settings of batch_norm.

#include <soma/ops/fields.hpp>

#include <span>

namespace SOMA_NAMESPACE {

// Sums over all ranks that share a batch, for norms over a whole batch. A trainer provides it
// (TapeOptions::batch_sums).
class BatchSums {
 public:
  virtual ~BatchSums() = default;
  // Replaces each number by its sum over all ranks, in the order of the shard tree. Collective:
  // every rank calls it in the same order, with the same number of numbers.
  virtual void add(std::span<float> numbers) = 0;

 protected:
  BatchSums() = default;
  BatchSums(const BatchSums&) = default;
  BatchSums& operator=(const BatchSums&) = default;
};

struct BatchNormSetting {
  float epsilon = 1e-5f;
  bool given = false;         // true: mean and variance are inputs, not computed from the batch
  BatchSums* sums = nullptr;  // adds the other ranks' sums; nullptr: x is the whole batch
};
void fields(FieldVisitor& visitor, BatchNormSetting& setting);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/rows/impl/settings.ipp>
#endif

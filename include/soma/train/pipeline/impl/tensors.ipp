#pragma once
// The functions of tensors.hpp.

#include <soma/train/pipeline/tensors.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/state/tensor_source.hpp>
#include <soma/train/pipeline/groups.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE StageTensors::StageTensors(Context& context, PipelineGroups& groups,
                                       const Parameters& all,
                                       const std::vector<std::size_t>& stages)
    : context_(context), groups_(groups) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return all[a].name < all[b].name; });
  for (const std::size_t i : order) {
    parameters_.push_back(&all[i]);
    entries_.emplace_back(all[i].name, all[i].value().outline());
    owners_.push_back(groups.first_of(stages[i]));
  }
}

SOMA_INLINE bool StageTensors::first() const { return groups_.world().rank() == 0; }

SOMA_INLINE Tensor StageTensors::fetch(std::size_t i) {
  if (owners_[i] == 0) return parameters_[i]->value();
  ask(owners_[i], i);
  const Tensor& outline = entries_[i].second;
  Tensor tensor = Tensor::empty(context_, outline.shape(), outline.dtype());
  if (tensor.bytes() != 0)
    groups_.world().receive(owners_[i], collective_tag, {tensor.mutable_raw(), tensor.bytes()});
  return tensor;
}

SOMA_INLINE void StageTensors::finish() {
  for (std::size_t stage = 0; stage < groups_.partitions(); ++stage)
    if (const int owner = groups_.first_of(stage); owner != 0) ask(owner, entries_.size());
}

SOMA_INLINE void StageTensors::serve() {
  if (groups_.replica() != 0) return;  // the same tensors are on another rank
  for (;;) {
    std::uint64_t wanted = 0;
    groups_.world().receive(0, collective_tag, std::as_writable_bytes(std::span(&wanted, 1)));
    if (wanted >= entries_.size()) return;
    const Tensor value =
        contiguous(context_, parameters_[static_cast<std::size_t>(wanted)]->value());
    if (value.bytes() != 0) groups_.world().send(0, collective_tag, {value.raw(), value.bytes()});
  }
}

SOMA_INLINE void StageTensors::ask(int owner, std::uint64_t wanted) {
  groups_.world().send(owner, collective_tag, std::as_bytes(std::span(&wanted, 1)));
}

}  // namespace SOMA_NAMESPACE::train

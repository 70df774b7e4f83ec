#pragma once
// StageTensors: gives the first rank the parameters of all stages, one tensor at a time.

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

// Every rank makes one. The first rank calls fetch(), and finish() at the end; the first replica of
// each other stage answers in serve().
class StageTensors final : public TensorSource {
 public:
  // `stages`: the stage of each parameter of the model. Parameters and groups must outlive it.
  StageTensors(Context& context, PipelineGroups& groups, const Parameters& all,
               const std::vector<std::size_t>& stages);

  bool first() const;
  std::span<const StateDict::Entry> entries() const override { return entries_; }

  // Errors as Communicator.
  SOMA_INLINE Tensor fetch(std::size_t i) override;
  // Ends serve() on the other ranks. Errors as of Communicator.
  void finish();

  // Answers until the first rank calls finish(). Errors as of Communicator.
  void serve();

 private:
  void ask(int owner, std::uint64_t wanted);

  Context& context_;
  PipelineGroups& groups_;
  std::vector<StateDict::Entry> entries_{};  // ascending by name, as the next two
  std::vector<const Parameter*> parameters_{};
  std::vector<int> owners_{};  // ranks that have them
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/tensors.ipp>
#endif

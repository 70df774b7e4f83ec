#pragma once
// SharedParameters: variables that pieces of several stages use, such as a table of tokens that is
// the head's weight, too (nn::Piece::shared). Each of these stages has a copy. The last one owns
// it: it adds the gradients of the earlier stages to its own, in the order in which backward of one
// process would, takes the step, and sends the values back. Moments, norms and checkpoints know the
// owner only.

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/var.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/parallel/communicator.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/runtime/context.hpp>

#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE::train {

// Stands between the sums of micro-batches and those of replicas.
class SharedParameters final : public GradientReceiver {
 public:
  SharedParameters(Context& context, Communicator& pipeline, GradientReceiver& next)
      : context_(context), pipeline_(pipeline), next_(next) {}
  // Finds the variables that stages share.
  void set(const nn::Pieces& pieces, const PipelinePlan& plan);

  // The last stage that uses a variable; `stage`, if only one does.
  std::size_t owner_of(const Var& var, std::size_t stage) const;
  // The variables of other stages that this one has a copy of.
  const Parameters& copies() const { return copies_; }
  bool has_copy(const Var& var) const;
  // True if the first stage has a copy of the variable, or owns it while others have one.
  bool first_has(const Var& var) const;

  // Errors train.options (an earlier stage uses a shared variable more than once: the order of its
  // sums would be another one), and those of the next receiver.
  SOMA_INLINE void receive(const Var& parameter, Gradient addend) override;
  SOMA_INLINE void complete(const Var& parameter, DType type) override;

  // After the sums over replicas of a batch: sends the gradients to their owners, which add them
  // and round the sums. Sends the rows that the batch used, where gradients have few rows. Errors
  // as of Communicator.
  void add_gradients(const PrecisionState& precision);
  // Sends the owners' values to the copies. Errors as of Communicator.
  void update();

 private:
  struct Entry {
    Parameter parameter;
    std::vector<std::size_t> stages{};  // that use it, ascending
    std::size_t received = 0;           // addends of this batch
  };

  const Entry* find(const Var& var) const;
  bool owns(const Entry& entry) const;
  void send(const Entry& entry) const;
  void add(const Entry& entry, std::size_t from) const;

  Context& context_;
  Communicator& pipeline_;
  GradientReceiver& next_;
  std::vector<Entry> entries_{};
  Parameters copies_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/shared.ipp>
#endif

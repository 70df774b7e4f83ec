#pragma once
// CallGraph: calls of operators that were recorded and have not run, in their order. Whoever reads
// or writes a tensor that they hold makes them run first (tensor/storage.hpp, PendingCalls).
//
// The order is never changed, so reads and writes of one storage, through whatever views, keep
// theirs. A call is dead, and does not run, if it writes no input, has outputs, and nobody but the
// graph needs their storages: there is no handle outside, and no later live call reads or writes
// them.

#include <soma/ops/operator.hpp>
#include <soma/runtime/callback.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

struct RecordedCall {
  const Operator* op = nullptr;
  Attributes attributes{};
  std::vector<Tensor> inputs, outputs;
  Sequences sequences{};
  const void* state = nullptr;
};

class CallGraph final : public PendingCalls {
 public:
  // `cut` runs the calls that take() gives; it is called when the host needs one of the storages,
  // with the name of the operator that makes it, or reads it last.
  template <class Cut>
  CallGraph(Heap& heap, Cut cut) : cut_(heap, std::move(cut)) {}
  CallGraph(const CallGraph&) = delete;
  CallGraph& operator=(const CallGraph&) = delete;
  // Calls that are still there never run, and their tensors keep their old content: the owner runs
  // them before, or marks their results.
  ~CallGraph();

  bool empty() const;
  std::size_t size() const;

  // Versions of what it writes advance now, as if it had run.
  void add(const Operator& op, const OperatorCall& call);

  // Takes the calls out; those that are dead are left out and counted. Storages know of them no
  // more.
  std::vector<RecordedCall> take();
  SOMA_INLINE void run_pending(std::uintptr_t storage) override;
  // Dead calls so far.
  std::uint64_t removed() const { return removed_; }

  // True if a call may write the input. A record without outputs need not list the inputs that it
  // writes: any may be written.
  static bool writes(const Operator& op, std::size_t input);
  // visit(storage, write) for each tensor of a call that has one.
  template <class Visit>
  static void for_storages(const RecordedCall& call, const Visit& visit) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i].defined()) visit(call.inputs[i].storage(), writes(*call.op, i));
    for (const Tensor& output : call.outputs)
      if (output.defined()) visit(output.storage(), true);
  }

 private:
  // A storage of the calls: how many of its handles are theirs, and whether somebody needs it.
  struct Held {
    const Storage* storage;
    std::size_t handles = 0;
    bool needed = false;
  };
  static std::vector<bool> find_live(const std::vector<RecordedCall>& calls);

  std::vector<RecordedCall> calls_;
  Callback<void(std::string_view)> cut_;
  std::uint64_t removed_ = 0;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/graph/impl/call_graph.ipp>
#endif

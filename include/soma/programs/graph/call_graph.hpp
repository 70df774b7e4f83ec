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

namespace soma {

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
  // Recorded calls that never ran stay undone: their tensors keep their old content.
  ~CallGraph() { (void)take(); }

  bool empty() const { return calls_.empty(); }
  std::size_t size() const { return calls_.size(); }

  // Versions of what it writes advance now, as if it had run.
  void add(const Operator& op, const OperatorCall& call) {
    RecordedCall recorded{&op,
                          call.attributes,
                          {call.inputs.begin(), call.inputs.end()},
                          {call.outputs.begin(), call.outputs.end()},
                          call.sequences,
                          call.state};
    for_storages(recorded, [this](const Storage& storage, bool write) {
      storage.set_pending(this, write);
      if (write) storage.advance_version();
    });
    calls_.push_back(std::move(recorded));
  }

  // Takes the calls out; those that are dead are left out and counted. Storages know of them no
  // more.
  std::vector<RecordedCall> take() {
    std::vector<RecordedCall> calls = std::exchange(calls_, {});
    for (const RecordedCall& call : calls)
      for_storages(call, [](const Storage& storage, bool) { storage.set_pending(nullptr, false); });
    const std::vector<bool> live = find_live(calls);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (live[i]) {
        if (kept != i) calls[kept] = std::move(calls[i]);
        ++kept;
      }
    removed_ += calls.size() - kept;
    calls.resize(kept);
    return calls;
  }
  void run_pending(std::uintptr_t storage) override {
    std::string_view name;
    for (const RecordedCall& call : calls_)
      for_storages(call, [&](const Storage& used, bool) {
        if (used.identity() == storage) name = call.op->name;
      });
    cut_(name);
  }
  // Dead calls so far.
  std::uint64_t removed() const { return removed_; }

  // True if a call may write the input. A record without outputs need not list the inputs that it
  // writes: any may be written.
  static bool writes(const Operator& op, std::size_t input) {
    return op.writes_inputs == 0 ? op.outputs == 0 : (op.writes_inputs >> input & 1) != 0;
  }
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
  static std::vector<bool> find_live(const std::vector<RecordedCall>& calls) {
    std::vector<Held> all;
    for (const RecordedCall& call : calls)
      for_storages(call, [&](const Storage& storage, bool) { all.push_back({&storage, 1}); });
    // One entry a storage, in the order of their blocks.
    const auto before = [](const Held& a, const Held& b) {
      return a.storage->identity() < b.storage->identity();
    };
    std::sort(all.begin(), all.end(), before);
    std::size_t count = 0;
    for (const Held& held : all) {
      if (count != 0 && *all[count - 1].storage == *held.storage)
        ++all[count - 1].handles;
      else
        all[count++] = held;
    }
    all.resize(count);
    for (Held& held : all) held.needed = held.storage->handles() > held.handles;
    const auto find = [&](const Storage& storage) -> Held& {
      return *std::lower_bound(all.begin(), all.end(), Held{&storage}, before);
    };
    std::vector<bool> live(calls.size());
    for (std::size_t i = calls.size(); i-- > 0;) {
      const RecordedCall& call = calls[i];
      bool needed = call.op->writes_inputs != 0 || call.outputs.empty();
      for (const Tensor& output : call.outputs)
        needed = needed || (output.defined() && find(output.storage()).needed);
      live[i] = needed;
      if (!needed) continue;
      for_storages(call, [&](const Storage& storage, bool) { find(storage).needed = true; });
    }
    return live;
  }

  std::vector<RecordedCall> calls_;
  Callback<void(std::string_view)> cut_;
  std::uint64_t removed_ = 0;
};

}  // namespace soma

#pragma once
// The functions of call_graph.hpp.

#include <soma/programs/graph/call_graph.hpp>

#include <soma/ops/operator.hpp>
#include <soma/runtime/callback.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE CallGraph::~CallGraph() { (void)take(); }

SOMA_INLINE bool CallGraph::empty() const { return calls_.empty(); }

SOMA_INLINE std::size_t CallGraph::size() const { return calls_.size(); }

SOMA_INLINE void CallGraph::add(const Operator& op, const OperatorCall& call) {
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

SOMA_INLINE std::vector<RecordedCall> CallGraph::take() {
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

SOMA_INLINE void CallGraph::run_pending(std::uintptr_t storage) {
  std::string_view name;
  for (const RecordedCall& call : calls_)
    for_storages(call, [&](const Storage& used, bool) {
      if (used.identity() == storage) name = call.op->name;
    });
  cut_(name);
}

SOMA_INLINE bool CallGraph::writes(const Operator& op, std::size_t input) {
  return op.writes_inputs == 0 ? op.outputs == 0 : (op.writes_inputs >> input & 1) != 0;
}

SOMA_INLINE std::vector<bool> CallGraph::find_live(const std::vector<RecordedCall>& calls) {
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

}  // namespace SOMA_NAMESPACE

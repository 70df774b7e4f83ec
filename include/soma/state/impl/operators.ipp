#pragma once
// The functions of operators.hpp.

#include <soma/state/operators.hpp>

#include <soma/base/record.hpp>
#include <soma/ops/registry.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE void set_operators(Record& record, Context& context) {
  std::string names;
  for (const Operator* op : context.operators().all())
    if (op->registration != nullptr && op->registration->used.load(std::memory_order_relaxed))
      names.append(names.empty() ? "" : " ").append(op->name);
  if (!names.empty()) record.set("operators", names);
}

SOMA_INLINE void check_operators(const Record& record, Context& context) {
  if (!record.contains("operators")) return;
  for (std::string_view rest = record.text("operators"); !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(name.size() < rest.size() ? name.size() + 1 : rest.size());
    if (!name.empty() && context.operators().find(name) == nullptr)
      fail(error_id::checkpoint_operator, "check_operators", "operator",
           quoted(name).append(", which the checkpoint's model ran"),
           "an operator that is registered in the context");
  }
}

}  // namespace SOMA_NAMESPACE

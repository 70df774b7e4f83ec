#pragma once
// OperatorRegistry: operators by name, in a context: Context::operators() begins with the built-in
// ones.

#include <soma/ops/built_in.hpp>
#include <soma/ops/operator.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <span>
#include <string>
#include <string_view>

namespace soma {

// Not thread-safe while operators are being added.
class OperatorRegistry {
 public:
  explicit OperatorRegistry(Heap& heap) : operators_(heap) {}

  // The record is used by address and outlives the context. Errors operator.incomplete (no name,
  // shape rule or host kernel, too many inputs or outputs), operator.duplicate_name.
  void add(const Operator& op) {
    detail::check_complete("OperatorRegistry::add", op);
    if (find(op.name) != nullptr)
      fail(error_id::operator_duplicate, "OperatorRegistry::add", "name", quoted(op.name),
           "a name that is not taken");
    operators_.push_back(&op);
  }

  // nullptr: not there.
  const Operator* find(std::string_view name) const {
    for (const Operator* op : operators_)
      if (op->name == name) return op;
    return nullptr;
  }
  // Error operator.unknown.
  const Operator& at(std::string_view name) const {
    const Operator* op = find(name);
    if (op == nullptr)
      fail(error_id::operator_unknown, "OperatorRegistry::at", "name", quoted(name),
           "one of the " + std::to_string(operators_.size()) + " registered operators");
    return *op;
  }
  // All of them, in the order in which they were added.
  std::span<const Operator* const> all() const { return operators_; }

 private:
  HeapVector<const Operator*> operators_;
};

inline OperatorRegistry& Context::operators() {
  if (!operators_ready_.load(std::memory_order_acquire)) {
    const Mutex::Lock lock(made_on_first_use_);
    if (operators_ == nullptr) {
      operators_ = new OperatorRegistry(heap_);
      end_operators_ = [](OperatorRegistry* registry) { delete registry; };
      for (const Operator* op : built_in().all) operators_->add(*op);
    }
    operators_ready_.store(true, std::memory_order_release);
  }
  return *operators_;
}

}  // namespace soma

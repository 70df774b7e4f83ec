#pragma once
// OperatorRegistry: the operators of a context by name. Context::operators() starts with the
// built-in ones. Nothing is registered before main() or for all contexts: a program adds the
// operators that it needs, from any thread.

#include <soma/ops/operator.hpp>
#include <soma/runtime/context.hpp>
#include <soma/system/threads.hpp>
#include <soma/tensor/owner.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// A line of the program, for messages: the caller of a function that has here() as a default
// argument. (clang 14 lacks std::source_location.)
struct Place {
  const char* file;
  int line;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  std::string text() const;
};

// A record for a registry, and the state that must live as long as the record.
struct NewOperator {
  Operator record;
  Owner state{};
};

// Thread-safe.
class OperatorRegistry {
 public:
  // The built-in operators must outlive the registry.
  explicit OperatorRegistry(std::span<const Operator* const> built_in);
  ~OperatorRegistry();
  OperatorRegistry(const OperatorRegistry&) = delete;
  OperatorRegistry& operator=(const OperatorRegistry&) = delete;

  // Copies a record; the returned record lives as long as the contexts that have it. The name is
  // "namespace::name": letters, digits and underscores. Pass the object behind the record's state
  // pointer as NewOperator::state, or let it outlive the contexts. The state must hold no tensors
  // or other memory of a context, which may end before the others. Errors operator.incomplete,
  // operator.name, operator.duplicate_name (which names the places of both registrations).
  const Operator& add(const Operator& record, Place place = Place::here());
  const Operator& add(NewOperator one, std::string_view place);
  // Adds several at once: all, or none if one of them is refused.
  std::vector<const Operator*> add_all(std::span<NewOperator> several, std::string_view place);
  // Adds the operators that another registry owns, by address, and shares their ownership: all, or
  // none if a name is already taken. For contexts of the same program, such as ranks.
  void share(const OperatorRegistry& from);

  // Returns nullptr if there is no such operator.
  const Operator* find(std::string_view name) const;
  // Error operator.unknown.
  const Operator& at(std::string_view name) const;
  // All present operators, in the order of addition.
  std::vector<const Operator*> all() const;

 private:
  struct Owned {
    Registration registration;
    std::string name;
    Owner state;
    Operator record;
    std::atomic<std::size_t> registries{1};  // that own it; the last one ends it
  };

  static void check_name(std::string_view name);
  [[noreturn]] static void refuse_duplicate(const Operator& there, std::string_view place);
  const Operator* find_unlocked(std::string_view name) const;

  void reserve(std::size_t more);
  void keep(Owned* one);

  mutable Mutex mutex_;
  std::vector<const Operator*> operators_;
  std::vector<Owned*> owned_;
};

// A line for each operator: name, inputs, outputs, its functions and its origin. (Programs of
// built-in operators belong to the device that runs them and are not listed.)
std::string describe(const OperatorRegistry& registry);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/registry.ipp>
#endif

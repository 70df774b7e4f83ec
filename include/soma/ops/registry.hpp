#pragma once
// OperatorRegistry: the operators of a context by name. Context::operators() starts with the
// built-in ones. Nothing is registered before main() or for all contexts: a program adds the
// operators that it needs, from any thread.

#include <soma/ops/built_in.hpp>
#include <soma/ops/operator.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/mutex.hpp>
#include <soma/tensor/owner.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma {

// A line of the program, for messages: the caller of a function that has here() as a default
// argument. (clang 14 lacks std::source_location.)
struct Place {
  const char* file;
  int line;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  std::string text() const { return std::string(file).append(":").append(std::to_string(line)); }
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
  explicit OperatorRegistry(std::span<const Operator* const> built_in) {
    operators_.reserve(built_in.size());
    for (const Operator* one : built_in) operators_.push_back(one);
  }
  ~OperatorRegistry() {
    while (!owned_.empty()) {  // the last first: it may use an earlier one
      Owned* last = owned_.back();
      owned_.pop_back();
      if (last->registries.fetch_sub(1, std::memory_order_acq_rel) == 1) delete last;
    }
  }
  OperatorRegistry(const OperatorRegistry&) = delete;
  OperatorRegistry& operator=(const OperatorRegistry&) = delete;

  // Copies a record; the returned record lives as long as the contexts that have it. The name is
  // "namespace::name": letters, digits and underscores. Pass the object behind the record's state
  // pointer as NewOperator::state, or let it outlive the contexts. The state must hold no tensors
  // or other memory of a context, which may end before the others. Errors operator.incomplete,
  // operator.name, operator.duplicate_name (which names the places of both registrations).
  const Operator& add(const Operator& record, Place place = Place::here()) {
    NewOperator one{record, {}};
    return add(std::move(one), place.text());
  }
  const Operator& add(NewOperator one, std::string_view place) {
    return *add_all({&one, 1}, place).front();
  }
  // Adds several at once: all, or none if one of them is refused.
  std::vector<const Operator*> add_all(std::span<NewOperator> several, std::string_view place) {
    for (const NewOperator& one : several) {
      check_name(one.record.name);
      detail::check_complete("OperatorRegistry::add", one.record);
    }
    const Mutex::Lock lock(mutex_);
    for (std::size_t i = 0; i < several.size(); ++i) {
      const std::string_view name = several[i].record.name;
      if (const Operator* other = find_unlocked(name)) refuse_duplicate(*other, place);
      for (std::size_t j = 0; j < i; ++j)
        if (several[j].record.name == name)
          fail(error_id::operator_duplicate, "OperatorRegistry::add", "name",
               quoted(name).append(" twice in ").append(place), "each name once");
    }
    std::vector<const Operator*> added;
    added.reserve(several.size());
    reserve(several.size());
    for (NewOperator& one : several) {
      auto* owned = new Owned{.registration = {.place = std::string(place)},
                              .name = std::string(one.record.name),
                              .state = std::move(one.state),
                              .record = one.record};
      owned->record.name = owned->name;
      owned->record.registration = &owned->registration;
      keep(owned);
      added.push_back(&owned->record);
    }
    return added;
  }
  // Adds the operators that another registry owns, by address, and shares their ownership: all, or
  // none if a name is already taken. For contexts of the same program, such as ranks.
  void share(const OperatorRegistry& from) {
    std::vector<Owned*> several;
    {
      const Mutex::Lock lock(from.mutex_);
      several = from.owned_;
    }
    const Mutex::Lock lock(mutex_);
    for (const Owned* one : several)
      if (const Operator* other = find_unlocked(one->name))
        refuse_duplicate(*other, one->registration.place);
    reserve(several.size());
    for (Owned* one : several) {
      one->registries.fetch_add(1, std::memory_order_relaxed);
      keep(one);
    }
  }

  // Returns nullptr if there is no such operator.
  const Operator* find(std::string_view name) const {
    const Mutex::Lock lock(mutex_);
    return find_unlocked(name);
  }
  // Error operator.unknown.
  const Operator& at(std::string_view name) const {
    const Operator* op = find(name);
    if (op == nullptr)
      fail(error_id::operator_unknown, "OperatorRegistry::at", "name", quoted(name),
           "one of the " + std::to_string(all().size()) + " registered operators");
    return *op;
  }
  // All present operators, in the order of addition.
  std::vector<const Operator*> all() const {
    const Mutex::Lock lock(mutex_);
    return operators_;
  }

 private:
  struct Owned {
    Registration registration;
    std::string name;
    Owner state;
    Operator record;
    std::atomic<std::size_t> registries{1};  // that own it; the last one ends it
  };

  static void check_name(std::string_view name) {
    const auto is_word = [](std::string_view part) {
      for (const char c : part)
        if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
              (c >= 'A' && c <= 'Z')))
          return false;
      return !part.empty();
    };
    bool good = name.find("::") != std::string_view::npos;
    for (std::string_view rest = name; good;) {
      const std::size_t end = rest.find("::");
      good = is_word(rest.substr(0, end));
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 2);
    }
    if (!good)
      fail(error_id::operator_name, "OperatorRegistry::add", "name", quoted(name),
           "\"namespace::name\" of letters, digits and underscores");
  }
  [[noreturn]] static void refuse_duplicate(const Operator& there, std::string_view place) {
    std::string given = quoted(there.name);
    given.append(" at ").append(place);
    fail(error_id::operator_duplicate, "OperatorRegistry::add", "name", given,
         there.registration == nullptr
             ? "another one: it is built in"
             : "another one: it was registered at " + there.registration->place);
  }
  const Operator* find_unlocked(std::string_view name) const {
    for (const Operator* op : operators_)
      if (op->name == name) return op;
    return nullptr;
  }

  void reserve(std::size_t more) {
    owned_.reserve(owned_.size() + more);
    operators_.reserve(operators_.size() + more);
  }
  void keep(Owned* one) {
    owned_.push_back(one);
    operators_.push_back(&one->record);
  }

  mutable Mutex mutex_;
  std::vector<const Operator*> operators_;
  std::vector<Owned*> owned_;
};

// A line for each operator: name, inputs, outputs, its functions and its origin. (Programs of
// built-in operators belong to the device that runs them and are not listed.)
std::string describe(const OperatorRegistry& registry);

inline OperatorRegistry& Context::operators() {
  if (!operators_ready_.load(std::memory_order_acquire)) {
    const Mutex::Lock lock(made_on_first_use_);
    if (operators_ == nullptr) {
      operators_ = new OperatorRegistry(built_in().all);
      end_operators_ = [](OperatorRegistry* registry) { delete registry; };
    }
    operators_ready_.store(true, std::memory_order_release);
  }
  return *operators_;
}

inline std::string describe(const OperatorRegistry& registry) {
  struct Line {
    std::string name, inputs, outputs, parts, place;
  };
  std::vector<Line> lines{{"name", "inputs", "outputs", "has", "from"}};
  for (const Operator* op : registry.all()) {
    Line line{.name = std::string(op->name),
              .inputs = std::to_string(op->min_inputs),
              .outputs = std::to_string(op->outputs),
              .parts = {},
              .place = op->registration == nullptr ? "built in" : op->registration->place};
    if (op->max_inputs != op->min_inputs)
      line.inputs.append("-").append(std::to_string(op->max_inputs));
    const auto part = [&](bool has, std::string_view name) {
      if (has) line.parts.append(line.parts.empty() ? "" : ", ").append(name);
    };
    part(op->gradient != nullptr, "gradient");
    part(op->samples != nullptr, "samples");
    part(op->program != nullptr, "program");
    lines.push_back(std::move(line));
  }
  const auto widest = [&](std::string Line::*column) {
    std::size_t width = 0;
    for (const Line& line : lines) width = (std::max)(width, (line.*column).size());
    return width;
  };
  const std::size_t name = widest(&Line::name), inputs = widest(&Line::inputs),
                    outputs = widest(&Line::outputs), parts = widest(&Line::parts);
  std::string text;
  for (const Line& line : lines) {
    const auto cell = [&text](const std::string& value, std::size_t width) {
      text.append(value).append(width - value.size() + 2, ' ');
    };
    cell(line.name, name);
    cell(line.inputs, inputs);
    cell(line.outputs, outputs);
    cell(line.parts, parts);
    text.append(line.place).push_back('\n');
  }
  return text;
}

}  // namespace soma

#pragma once
// The functions of registry.hpp.

#include <soma/ops/registry.hpp>

#include <soma/ops/built_in.hpp>
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

SOMA_INLINE std::string Place::text() const {
  return std::string(file).append(":").append(std::to_string(line));
}

SOMA_INLINE OperatorRegistry::OperatorRegistry(std::span<const Operator* const> built_in) {
  operators_.reserve(built_in.size());
  for (const Operator* one : built_in) operators_.push_back(one);
}

SOMA_INLINE OperatorRegistry::~OperatorRegistry() {
  while (!owned_.empty()) {  // the last first: it may use an earlier one
    Owned* last = owned_.back();
    owned_.pop_back();
    if (last->registries.fetch_sub(1, std::memory_order_acq_rel) == 1) delete last;
  }
}

SOMA_INLINE const Operator& OperatorRegistry::add(const Operator& record, Place place) {
  NewOperator one{record, {}};
  return add(std::move(one), place.text());
}

SOMA_INLINE const Operator& OperatorRegistry::add(NewOperator one, std::string_view place) {
  return *add_all({&one, 1}, place).front();
}

SOMA_INLINE std::vector<const Operator*> OperatorRegistry::add_all(std::span<NewOperator> several,
                                                                   std::string_view place) {
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

SOMA_INLINE void OperatorRegistry::share(const OperatorRegistry& from) {
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

SOMA_INLINE const Operator* OperatorRegistry::find(std::string_view name) const {
  const Mutex::Lock lock(mutex_);
  return find_unlocked(name);
}

SOMA_INLINE const Operator& OperatorRegistry::at(std::string_view name) const {
  const Operator* op = find(name);
  if (op == nullptr)
    fail(error_id::operator_unknown, "OperatorRegistry::at", "name", quoted(name),
         "one of the " + std::to_string(all().size()) + " registered operators");
  return *op;
}

SOMA_INLINE std::vector<const Operator*> OperatorRegistry::all() const {
  const Mutex::Lock lock(mutex_);
  return operators_;
}

SOMA_INLINE void OperatorRegistry::check_name(std::string_view name) {
  const auto is_word = [](std::string_view part) {
    for (const char c : part)
      if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
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

SOMA_INLINE void OperatorRegistry::refuse_duplicate(const Operator& there, std::string_view place) {
  std::string given = quoted(there.name);
  given.append(" at ").append(place);
  fail(error_id::operator_duplicate, "OperatorRegistry::add", "name", given,
       there.registration == nullptr
           ? "another one: it is built in"
           : "another one: it was registered at " + there.registration->place);
}

SOMA_INLINE const Operator* OperatorRegistry::find_unlocked(std::string_view name) const {
  for (const Operator* op : operators_)
    if (op->name == name) return op;
  return nullptr;
}

SOMA_INLINE void OperatorRegistry::reserve(std::size_t more) {
  owned_.reserve(owned_.size() + more);
  operators_.reserve(operators_.size() + more);
}

SOMA_INLINE void OperatorRegistry::keep(Owned* one) {
  owned_.push_back(one);
  operators_.push_back(&one->record);
}

SOMA_INLINE OperatorRegistry& Context::operators() {
  if (!operators_ready_.load(std::memory_order_acquire)) {
    const Mutex::Lock lock(made_on_first_use_);
    if (operators_ == nullptr) {
      operators_ = new OperatorRegistry(built_in().all());
      end_operators_ = [](OperatorRegistry* registry) { delete registry; };
    }
    operators_ready_.store(true, std::memory_order_release);
  }
  return *operators_;
}

SOMA_INLINE std::string describe(const OperatorRegistry& registry) {
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
    part(op->has_samples(), "samples");
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

}  // namespace SOMA_NAMESPACE

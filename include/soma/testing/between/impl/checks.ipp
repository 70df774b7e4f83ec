#pragma once
// The functions of checks.hpp.

#include <soma/testing/between/checks.hpp>

#include <soma/ops/sparse/table.hpp>
#include <soma/testing/between/generate.hpp>
#include <soma/testing/between/truth.hpp>
#include <soma/testing/checker.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

// Memory in which every byte has a value before anybody writes it.
class FilledMemory {
 public:
  explicit FilledMemory(int byte) : byte_(byte) {}
  void* allocate(std::size_t bytes, std::size_t alignment) {
    void* block = ::operator new (bytes, std::align_val_t{alignment});
    std::memset(block, byte_, bytes);
    return block;
  }
  void deallocate(void* block, std::size_t bytes, std::size_t alignment) {
    ::operator delete (block, bytes, std::align_val_t{alignment});
  }

 private:
  int byte_;
};

struct Checks::Own {
  OrderedExecutor backwards{true};
  std::map<std::string, std::unique_ptr<Context>> contexts;
};

SOMA_INLINE Checks::Checks(const TargetList& targets, const ContextOptions& options,
                           const OperatorRegistry& registry, const OperatorBook& book)
    : targets_(targets),
      options_(options),
      registry_(registry),
      book_(book),
      own_(std::make_unique<Own>()) {
  options_.threads = 1;
}

SOMA_INLINE Checks::~Checks() = default;

SOMA_INLINE void Checks::add_place(std::string name, double units, Place place) {
  names_.push_back(name);
  places_[std::move(name)] = {units, std::move(place)};
}

SOMA_INLINE void Checks::begin(Context& context) const {
  context.operators().share(registry_);
  if (prepare) prepare(context);
}

SOMA_INLINE Context& Checks::context(const std::string& name, ContextOptions options) {
  std::unique_ptr<Context>& context = own_->contexts[name];
  if (context == nullptr) {
    context = std::make_unique<Context>(options, targets_);
    begin(*context);
  }
  return *context;
}

SOMA_INLINE Made Checks::make(std::uint64_t seed, std::size_t number) {
  return Maker(context("plain", options_), book_, names_, seed, static_cast<std::uint32_t>(number))
      .make();
}

SOMA_INLINE Outcome Checks::filled(const Program& program, int byte) {
  FilledMemory memory(byte);
  ContextOptions options = options_;
  options.memory = &memory;
  Context context(options, targets_);
  begin(context);
  return run_program(context, book_, program);
}

SOMA_INLINE Outcome Checks::somewhere(const Program& program, const std::string& place) {
  ContextOptions options = options_;
  if (place == "backwards") options.executor = own_->backwards.get();
  if (place.starts_with("threads")) options.threads = std::stoi(place.substr(7));
  if (place == "backwards" || place.starts_with("threads"))
    return run_program(context(place, options), book_, program);
  return run_program(context("plain", options_), book_, program,
                     {.row_major = place == "row_major", .recompute = place == "recompute"});
}

SOMA_INLINE std::string Checks::together(const Program& program, const Outcome& plain) {
  std::string wrong;
  const auto run = [&](std::string& what) {
    Context context(options_, targets_);
    begin(context);
    for (int i = 0; i < 3 && what.empty(); ++i)
      what = plain.difference(run_program(context, book_, program));
  };
  std::string other;
  std::thread beside([&] { run(other); });
  run(wrong);
  beside.join();
  return wrong.empty() ? other : wrong;
}

SOMA_INLINE bool Checks::refusal_is_named(const Outcome& outcome, const std::string& place,
                                          Verdict& verdict) {
  if (outcome.refused.empty()) return true;
  const bool named = std::any_of(
      std::begin(named_refusals), std::end(named_refusals), [&](const NamedRefusal& refusal) {
        return outcome.refused == refusal.id &&
               outcome.message.find(refusal.wanted) != std::string::npos;
      });
  if (named && !outcome.late) return true;
  verdict.kind = (outcome.late ? "late " : "refused ") + outcome.refused + " of " +
                 outcome.message.substr(0, outcome.message.find(':')) + place;
  verdict.what = outcome.message;
  return false;
}

SOMA_INLINE bool Checks::true_to(const Program& program, const Outcome& outcome,
                                 const std::string& place, double units, Verdict& verdict) const {
  Truth truth(book_, program, outcome);
  verdict.checks += 2;
  verdict.what = truth.results(units);
  verdict.kind = "results" + place;
  if (!verdict.what.empty()) return false;
  verdict.what = truth.gradients(units);
  verdict.kind = "gradients" + place;
  if (!verdict.what.empty()) return false;
  verdict.kind.clear();
  return true;
}

SOMA_INLINE bool Checks::on_targets(const Program& program, Verdict& verdict) {
  Outcome first;
  bool known = false;
  for (const Target& target : targets_.targets) {
    if (!target.fused_multiply_add) continue;
    ContextOptions options = options_;
    options.math = Math::portable;
    options.target = target.name;
    const Outcome outcome =
        run_program(context("portable " + std::string(target.name), options), book_, program);
    if (!known) {
      first = outcome;
      known = true;
      if (!refusal_is_named(outcome, " portable", verdict)) return false;
      if (outcome.refused.empty() && !true_to(program, outcome, " portable", 1, verdict))
        return false;
      continue;
    }
    ++verdict.checks;
    verdict.what = first.difference(outcome);
    verdict.kind = "bits portable " + std::string(target.name);
    if (!verdict.what.empty()) return false;
  }
  verdict.kind.clear();
  return true;
}

SOMA_INLINE Outcome Checks::plain(const Program& program) {
  return run_program(context("plain", options_), book_, program);
}

SOMA_INLINE Verdict Checks::check(const Program& program) {
  check_program(program);
  Verdict verdict;
  const Outcome plain = this->plain(program);
  ++verdict.checks;
  if (!refusal_is_named(plain, "", verdict)) return verdict;
  verdict.refused = !plain.refused.empty();
  if (!verdict.refused && !true_to(program, plain, "", 1, verdict)) return verdict;
  std::map<std::string, Outcome> families;
  for (const std::string& place : program.where) {
    if (const auto found = places_.find(place); found != places_.end()) {
      if (verdict.refused) continue;
      Outcome outcome;
      found->second.place(
          [&](Context& context) { outcome = run_program(context, book_, program); });
      if (!refusal_is_named(outcome, " " + place, verdict)) return verdict;
      if (!outcome.refused.empty()) continue;
      const auto [family, added] = families.try_emplace(place.substr(0, place.find(':')), outcome);
      if (added) {
        if (!true_to(program, outcome, " " + place, found->second.units, verdict)) return verdict;
        continue;
      }
      verdict.what = family->second.difference(outcome);
    } else if (place == "portable") {
      if (!on_targets(program, verdict)) return verdict;
      continue;
    } else if (place == "fills") {
      verdict.what = plain.difference(filled(program, 0));
      if (verdict.what.empty()) verdict.what = plain.difference(filled(program, 0xFF));
      ++verdict.checks;
    } else if (place == "together") {
      verdict.what = together(program, plain);
    } else {
      verdict.what = plain.difference(somewhere(program, place));
    }
    ++verdict.checks;
    if (!verdict.what.empty()) {
      verdict.kind = "bits " + place;
      return verdict;
    }
  }
  return verdict;
}

}  // namespace SOMA_NAMESPACE::testing::detail

#pragma once
// The functions of between.hpp.

#include <soma/testing/between.hpp>

#include <soma/ops/registry.hpp>
#include <soma/testing/between/book.hpp>
#include <soma/testing/between/checks.hpp>
#include <soma/testing/between/generate.hpp>
#include <soma/testing/between/program.hpp>
#include <soma/testing/between/reduce.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing {

SOMA_INLINE std::string BetweenFailure::test() const {
  return "TEST_CASE(\"between: " + kind +
         "\") {\n"
         "  const soma::Context context = soma::make_context({.threads = 1});\n"
         "  soma::testing::Between between({.threads = 1}, context.operators());\n"
         "  const auto report = between.replay(R\"(" +
         program +
         ")\");\n"
         "  INFO(report);\n"
         "  CHECK(report.passed());\n"
         "}\n";
}

SOMA_INLINE bool BetweenReport::passed() const { return failures.empty(); }

SOMA_INLINE std::string to_string(const BetweenReport& report) {
  std::string text = std::to_string(report.programs) + " programs, " +
                     std::to_string(report.refused) + " refused, " + std::to_string(report.checks) +
                     " checks, " + std::to_string(report.failures.size()) + " failures\n";
  for (const BetweenFailure& failure : report.failures)
    text += "\n" + failure.kind + ": " + failure.what + "\n" + failure.program + "found in:\n" +
            failure.found_in + "\n" + failure.test();
  return text;
}

struct Between::State {
  State(const TargetList& targets, const ContextOptions& options, const OperatorRegistry& registry)
      : book(registry), checks(targets, options, registry, book) {}

  void one(const detail::Program& program, BetweenReport& report) {
    ++report.programs;
    const std::string text = detail::to_string(program);
    if (before) before(text);
    const detail::Verdict verdict = checks.check(program);
    report.checks += verdict.checks;
    report.refused += verdict.refused ? 1u : 0u;
    if (verdict.kind.empty()) return;
    const detail::Program little = detail::reduce(checks, program, verdict.kind);
    report.failures.push_back({.kind = verdict.kind,
                               .what = checks.check(little).what,
                               .program = detail::to_string(little),
                               .found_in = text,
                               .calls = little.calls.size()});
  }

  detail::OperatorBook book;
  detail::Checks checks;
  std::function<void(const std::string&)> before{};
};

SOMA_INLINE Between::Between(const TargetList& targets, const ContextOptions& options,
                             const OperatorRegistry& registry)
    : state_(std::make_unique<State>(targets, options, registry)) {}

SOMA_INLINE Between::~Between() = default;

SOMA_INLINE void Between::add_place(std::string name, double units, Place place) {
  state_->checks.add_place(std::move(name), units, std::move(place));
}

SOMA_INLINE void Between::prepare(std::function<void(Context&)> function) {
  state_->checks.prepare = std::move(function);
}

SOMA_INLINE void Between::before_each(std::function<void(const std::string&)> function) {
  state_->before = std::move(function);
}

SOMA_INLINE void Between::run(std::uint64_t seed, std::size_t programs, BetweenReport& report,
                              std::size_t first) {
  for (std::size_t i = first; i < first + programs; ++i) {
    if (report.failures.size() >= most_failures) break;
    state_->one(state_->checks.make(seed, i).program, report);
  }
}

SOMA_INLINE BetweenReport Between::replay(std::string_view text) {
  BetweenReport report;
  const detail::Program program = detail::parse(text, state_->book);
  ++report.programs;
  const detail::Verdict verdict = state_->checks.check(program);
  report.checks = verdict.checks;
  report.refused = verdict.refused ? 1u : 0u;
  if (!verdict.kind.empty())
    report.failures.push_back({.kind = verdict.kind,
                               .what = verdict.what,
                               .program = detail::to_string(program),
                               .found_in = detail::to_string(program),
                               .calls = program.calls.size()});
  return report;
}

SOMA_INLINE std::string Between::text(std::uint64_t seed, std::size_t program) {
  return detail::to_string(state_->checks.make(seed, program).program);
}

SOMA_INLINE std::vector<std::string> Between::missing_pairs(std::uint64_t seed,
                                                            std::size_t programs) {
  const std::span<const detail::Entry> entries = state_->book.entries();
  std::map<std::string, std::set<std::string>> readers;
  std::map<std::string, std::uint32_t> ranks;  // of results
  for (std::size_t i = 0; i < programs; ++i) {
    const detail::Made made = state_->checks.make(seed, i);
    for (const detail::Call& call : made.program.calls)
      for (const detail::Ref& input : call.inputs)
        if (input.kind == detail::Ref::Kind::call)
          readers[made.program.calls[input.index].name].insert(call.name);
    for (const detail::Known& known : made.known)
      if (known.ref.kind == detail::Ref::Kind::call && is_floating(known.dtype))
        ranks[made.program.calls[known.ref.index].name] |= 1u << known.shape().rank();
  }
  std::vector<std::string> missing;
  for (const detail::Entry& first : entries)
    for (const detail::Entry& second : entries)
      if (detail::rule_of(second.name) != nullptr &&
          (ranks[first.name] & detail::ranks_of(second.name)) != 0 &&
          !readers[first.name].contains(second.name))
        missing.push_back(first.name + " " + second.name);
  return missing;
}

}  // namespace SOMA_NAMESPACE::testing

#pragma once
// Between: random programs of operators, for faults that only combinations show. Include it beside
// soma.hpp.
//
//   auto context = soma::make_context();
//   my::add_operators(context);
//   soma::testing::Between between({.threads = 1}, context.operators());
//   soma::testing::BetweenReport report;
//   between.run(1, 2000, report);
//   CHECK(report.passed());  // of any test framework
//   std::cout << report;     // failures, made small, as texts and as tests
//
// A program is a small graph: leaves with views of all kinds, operators of the registry that have
// samples with a reference, functions of tapes, and backward from one result. An operator of your
// own joins by its samples (docs/between.md). What is checked:
//
// - Results against the references in double, one after the other, and gradients against central
//   differences of that chain: to 2e-5, and in narrow types within what their roundings carry.
// - Bits: the same for leaves without views, on a second use of the context, for any threads, with
//   tasks backwards, in memory filled with 0 and with 0xFF, with recompute(), in two threads at
//   once; with Math::portable, on every target.
// - Every refusal is a soma::Error of a kind that documents name, and comes before backward.

#include <soma/ops/registry.hpp>
#include <soma/runtime/context.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing {

struct BetweenFailure {
  std::string kind;       // "results", "gradients", "bits threads3", "late tensor.dtype", ...
  std::string what;       // in words
  std::string program;    // made small: a text for Between::replay()
  std::string found_in;   // the text of the program that was generated
  std::size_t calls = 0;  // of the small program

  // A test case (Catch2) that replays the small program.
  std::string test() const;
};

struct BetweenReport {
  std::size_t programs = 0;  // that ran
  std::size_t refused = 0;   // of those, with an error that documents name
  std::size_t checks = 0;    // comparisons
  std::vector<BetweenFailure> failures;

  bool passed() const;
};

std::string to_string(const BetweenReport& report);

// For std::ostream, or any class that takes texts like it.
template <class Stream>
Stream& operator<<(Stream& stream, const BetweenReport& report) {
  stream << to_string(report);
  return stream;
}

class Between {
 public:
  // Contexts that programs run in are like `options`, on one thread where a program does not say
  // otherwise, and share the operators. The registry must outlive this.
  template <class Options = ContextOptions>
  Between(const Options& options, const OperatorRegistry& registry)
      : Between(make_context(options).targets(), options, registry) {}
  Between(const TargetList& targets, const ContextOptions& options,
          const OperatorRegistry& registry);
  ~Between();
  Between(const Between&) = delete;
  Between& operator=(const Between&) = delete;

  // A further place to run programs, for example a device: calls its argument with a context.
  // Results there are compared with the references to `units` times the error that is allowed on
  // the host, and their bits with those of places whose names are equal up to the first ':'.
  using Place = std::function<void(const std::function<void(Context&)>&)>;
  void add_place(std::string name, double units, Place place);

  // Called with each context of its own, before programs run there: for operators that need more
  // than the registry, such as those of add_sparse(). Call it before the first program.
  void prepare(std::function<void(Context&)> function);

  // Called with the text of each program before it runs: for programs that end the process.
  void before_each(std::function<void(const std::string&)> function);

  // Runs `programs` programs from number `first` on, which depend on seed and number alone.
  // A failure is made smaller, for up to 20 seconds. After `most_failures` failures it returns.
  void run(std::uint64_t seed, std::size_t programs, BetweenReport& report, std::size_t first = 0);
  static constexpr std::size_t most_failures = 20;

  // Runs the program of a text. Error operator.value: no such text.
  BetweenReport replay(std::string_view text);

  // The text of a program, without running it.
  std::string text(std::uint64_t seed, std::size_t program);
  // "first second": the pairs of operators and functions in which no call of the second reads a
  // result of the first in the programs from number 0, although a result of the first has had a
  // rank that the second takes.
  std::vector<std::string> missing_pairs(std::uint64_t seed, std::size_t programs);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace SOMA_NAMESPACE::testing

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/between.ipp>
#endif

#pragma once
// Checks: one program at all its places, beside its truth.

#include <soma/ops/registry.hpp>
#include <soma/runtime/context.hpp>
#include <soma/testing/between/book.hpp>
#include <soma/testing/between/generate.hpp>
#include <soma/testing/between/program.hpp>
#include <soma/testing/between/runner.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

// Errors in which a program may end before anything ran, because documents name them.
struct NamedRefusal {
  std::string_view id, wanted;  // a part of the message
};
inline constexpr NamedRefusal named_refusals[] = {
    {"tensor.dtype", "wanted fp32"},                    // parameters of layers, running statistics
    {"neuroncore.rule_broken", "wanted a type that "},  // the core has not
    {"neuroncore.generation", "wanted NeuronCore-v"},   // a later core has
};

struct Verdict {
  std::string kind{}, what{};  // empty: nothing is wrong
  std::size_t checks = 0;
  bool refused = false;
};

class Checks {
 public:
  using Place = std::function<void(const std::function<void(Context&)>&)>;

  Checks(const TargetList& targets, const ContextOptions& options, const OperatorRegistry& registry,
         const OperatorBook& book);
  ~Checks();
  Checks(const Checks&) = delete;
  Checks& operator=(const Checks&) = delete;

  void add_place(std::string name, double units, Place place);
  Made make(std::uint64_t seed, std::size_t number);
  Verdict check(const Program& program);
  Outcome plain(const Program& program);

  std::function<void(Context&)> prepare{};  // for each context that programs run in

 private:
  struct Own;
  struct NamedPlace {
    double units = 1;
    Place place;
  };

  // A new context gets the operators, and is prepared.
  void begin(Context& context) const;
  // The context of that name, which stays.
  Context& context(const std::string& name, ContextOptions options);
  Outcome somewhere(const Program& program, const std::string& place);
  Outcome filled(const Program& program, int byte);
  std::string together(const Program& program, const Outcome& plain);
  // Sets kind and what and returns false if the outcome is no refusal that documents name.
  static bool refusal_is_named(const Outcome& outcome, const std::string& place, Verdict& verdict);
  bool true_to(const Program& program, const Outcome& outcome, const std::string& place,
               double units, Verdict& verdict) const;
  bool on_targets(const Program& program, Verdict& verdict);

  TargetList targets_;
  ContextOptions options_;
  const OperatorRegistry& registry_;
  const OperatorBook& book_;
  std::unique_ptr<Own> own_;
  std::map<std::string, NamedPlace> places_;
  std::vector<std::string> names_;  // of the places
};

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/checks.ipp>
#endif

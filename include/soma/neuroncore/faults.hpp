#pragma once
// The errors of instructions that a core cannot run. Every error names the instruction,
// its line, the operand, the value and the limit, and its id is the class of the fault:
//
//   neuroncore.rule_broken      forbidden by the hardware's documents
//   neuroncore.undefined        allowed, with a result that the documents leave undefined
//   neuroncore.undisclosed      not in the documents, and no policy was chosen
//   neuroncore.not_implemented  a feature of the hardware that this model lacks
//   neuroncore.generation       the machine has no such instruction, type or form
//   neuroncore.rule             operands of MX products in another layout than they have
//   neuroncore.race             two instructions touch the same bytes and nothing orders them

#include <soma/base/error.hpp>
#include <soma/neuroncore/source_line.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

// The call that an error names: an instruction, or another call of a program, and its line. A
// kernel of a custom operator has no line.
struct CallSite {
  template <std::convertible_to<std::string_view> Text>
  CallSite(const Text& call, SourceLine line = {}) : name(call), source(line) {}  // NOLINT

  // "matmul at softmax.cpp:12"
  std::string text() const;

  std::string_view name;
  SourceLine source;
};

[[noreturn]] void rule_broken(const CallSite& call, std::string_view operand,
                              const std::string& value, std::string_view limit);
[[noreturn]] void undefined(const CallSite& call, std::string_view operand,
                            const std::string& value, std::string_view limit);
[[noreturn]] void undisclosed(const CallSite& call, std::string_view operand,
                              const std::string& value, std::string_view limit);
[[noreturn]] void not_implemented(const CallSite& call, std::string_view operand,
                                  const std::string& value, std::string_view limit);
// "instruction is matmul_mx on trn2, wanted NeuronCore-v4": the first generation with it.
[[noreturn]] void no_such_thing(const CallSite& call, std::string_view operand,
                                std::string_view thing, std::string_view machine,
                                std::size_t first_generation);

// The shortest decimal text that reads back as the same number.
template <std::floating_point Number>
std::string text_of(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

// Error neuroncore.rule.
[[noreturn]] void layout_broken(const CallSite& call, std::string_view operand,
                                const std::string& value, std::string_view limit);

// Requires value <= limit; otherwise a rule is broken.
void at_most(const CallSite& call, std::string_view operand, std::size_t value, std::size_t limit,
             std::string_view what);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/faults.ipp>
#endif

// Programs that are lists of lines, as lives and trainings: made smaller by leaving lines out, and
// printed as a test.
#pragma once

#include <soma/soma.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace soma_test {

using Lines = std::vector<std::string>;

inline std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
inline Lines lines_of(const std::string& text) {
  std::istringstream in(text);
  Lines lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}
inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// What a program ends in; `kind` is empty if all is right.
struct Verdict {
  std::string kind{}, what{};
  std::string id{}, operation{}, argument{};  // of the error it ended in
};
inline Verdict refused(const soma::Error& error, const std::string& where) {
  // "sbuf.tile at tanh.hpp:31 of layer \"l1\""
  std::string operation = error.operation();
  for (const char* behind : {" of layer ", " at "})
    operation = operation.substr(0, operation.find(behind));
  return {"refused " + std::string(error.id().name) + where, error.what(),
          std::string(error.id().name), operation, error.argument()};
}

// The errors in which lives and trainings may end, because documents name them.
struct NamedRefusal {
  std::string_view id, operation, argument;
};
inline constexpr NamedRefusal named_refusals[] = {
    // docs/scaling.md: stages are at most the pieces that can be apart; scales of whole tensors,
    // and pieces that mix sequences, have one micro-batch.
    {"train.options", "PipelineTrainer", "pipeline.partitions"},
    {"train.options", "PipelineTrainer", "pipeline.microbatches"},
    // docs/neuroncore.md: a precision's type that the core does not have.
    {"neuroncore.rule_broken", "sbuf.tile", "dtype"},
    {"neuroncore.generation", "sbuf.tile", "dtype"},
    // docs/layers.md: batch norm of one number a channel; running statistics that are not fp32.
    {"operator.value", "batch_norm", "x"},
    {"tensor.dtype", "BatchNorm", "running_mean"},
    {"tensor.dtype", "BatchNorm", "running_var"},
};
inline bool is_named(const Verdict& verdict) {
  for (const NamedRefusal& named : named_refusals)
    if (verdict.id == named.id && verdict.operation == named.operation &&
        verdict.argument == named.argument)
      return true;
  return false;
}

using Check = std::function<Verdict(const Lines&)>;

// Leaves out lines, and makes numbers smaller, as long as the program fails in the same way; at
// most 20 seconds.
inline Lines reduced(const Check& check, Lines lines, const std::string& kind) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto fails = [&](const Lines& candidate) {
    return std::chrono::steady_clock::now() < end && check(candidate).kind == kind;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = lines.size(); i-- > 0;) {
      Lines candidate = lines;
      candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(i));
      if (!fails(candidate)) continue;
      lines = candidate;
      smaller = true;
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::vector<std::string> words = words_of(lines[i]);
      for (std::size_t w = 1; w < words.size(); ++w)
        for (const char* less : {"1", "2", "4"}) {
          if (words[w].find_first_not_of("0123456789") != std::string::npos ||
              std::stoul(words[w]) <= std::stoul(less))
            continue;
          Lines candidate = lines;
          candidate[i].clear();
          for (std::size_t j = 0; j < words.size(); ++j)
            candidate[i] += (j == 0 ? "" : " ") + (j == w ? std::string(less) : words[j]);
          if (!fails(candidate)) continue;
          lines = candidate;
          smaller = true;
          break;
        }
    }
  }
  return lines;
}

// A failure in words: the program, small and as it was made, and a test case.
inline std::string failure_text(const Check& check, const char* function, const Lines& lines,
                                const Verdict& verdict) {
  const Lines small = reduced(check, lines, verdict.kind);
  return verdict.kind + ": " + check(small).what + "\n" + text_of(small) + "found in:\n" +
         text_of(lines) + "\nTEST_CASE(\"between: " + verdict.kind + "\") {\n  CHECK(" + function +
         "(lines_of(R\"(" + text_of(small) + ")\")).what == \"\");\n}\n\n";
}

}  // namespace soma_test

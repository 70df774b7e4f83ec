#pragma once
// Runner: runs a program at one place and keeps the bits of all results and gradients.

#include <soma/autograd/tape.hpp>
#include <soma/testing/between/book.hpp>
#include <soma/testing/between/program.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

struct Bits {
  Shape shape{};
  DType dtype = DType::fp32;
  std::vector<std::byte> bytes{};
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits_of(Context& context, const Tensor& tensor);
ReferenceTensor values_of(const Bits& bits);

struct Outcome {
  std::vector<std::vector<Bits>> results{};         // of each call
  std::vector<std::vector<std::size_t>> lengths{};  // of the sequences that each call got
  std::vector<Bits> gradients{};                    // of each leaf; no bytes: none
  std::string refused{};                            // the id of the error that it ended in
  std::string message{};
  bool late = false;  // the error came from backward

  bool same(const Outcome& other) const;
  // The first difference in words; empty: none.
  std::string difference(const Outcome& other) const;
};

struct RunChoices {
  bool row_major = false;  // leaves without their views
  bool recompute = false;  // the calls run again in backward
};

// Without exceptions, an error ends the program.
Outcome run_program(Context& context, const OperatorBook& book, const Program& program,
                    const RunChoices& choices = {});

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/runner.ipp>
#endif

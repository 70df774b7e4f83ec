#pragma once
// OperatorBook: what programs are made of: the operators of a registry that have samples with a
// reference, and functions of tapes that are composed of several operators.

#include <soma/autograd/tape.hpp>
#include <soma/ops/registry.hpp>
#include <soma/testing/between/program.hpp>
#include <soma/testing/samples.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

// The facts that a program's maker knows of a leaf or result.
struct Known {
  Ref ref{};
  DType dtype = DType::fp32;
  bool gradient = false;
  bool view = false;  // shares its elements with another
  std::vector<std::size_t> lengths{};
  ReferenceTensor value{};

  const Shape& shape() const { return value.shape; }
};

struct Entry {
  std::string name{};
  const Operator* op = nullptr;  // nullptr: a composed function
  OperatorSamples samples{};
  Var (*apply)(Tape&, std::span<const Var>, const Attributes&) = nullptr;
  bool differentiable = true;

  std::vector<ReferenceTensor> reference(const Attributes& attributes,
                                         const std::vector<std::size_t>& lengths,
                                         const std::vector<ReferenceTensor>& inputs) const;
};

class OperatorBook final : public Settings {
 public:
  // The registry must outlive the book.
  explicit OperatorBook(const OperatorRegistry& registry);

  std::span<const Entry> entries() const { return entries_; }
  // Error operator.unknown.
  const Entry& at(std::string_view name) const;
  Attributes of(std::string_view name, std::size_t sample) const override;

 private:
  std::vector<Entry> entries_;
};

// The entries of composed functions.
std::vector<Entry> composed_functions();

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/book.ipp>
#endif

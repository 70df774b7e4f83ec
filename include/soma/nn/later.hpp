#pragma once
// Later: postpones initial values. Modules that are built from a Scope with a Later have parameters
// with a shape and without elements. make() fills the chosen parameters with the same bits that
// they would have had at once. So a process may hold only some pieces of a model, and read only
// these from a file.

#include <soma/nn/initial.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

class Later final : public InitialStore {
 public:
  // Makes the elements of parameters without elements, each in its own type.
  void make(Context& context, const Parameters& parameters) const;
  // The same, but a parameter that is one whole tensor of a file, in its own type, stays there:
  // read-only, and mapped as long as a variable has it.
  void make_in_place(Context& context, const Parameters& parameters) const;

  SOMA_INLINE void add(const Var& parameter, const Initial* begin, const Initial* end) override;
  // The last replacement wins. Error tensor.undefined: the parameter was not added.
  SOMA_INLINE void replace(const Parameter& rows, const Tensor& from, Fill fill) override;
  SOMA_INLINE void order_rows(const Parameter& parameter,
                              const std::vector<std::size_t>& indices) override;

 private:
  struct Replacement {
    std::size_t first_row, last_row;  // as in Parameter
    Tensor from;
    Fill fill;
    bool whole() const { return first_row == 0 && last_row == to_end; }
  };
  struct Waiting {
    Var var;
    std::vector<Initial> initial;
    std::vector<Replacement> replacements{};
    std::vector<std::size_t> indices{};  // new indices of rows; empty: unchanged
  };

  std::size_t find(std::string_view operation, const Parameter& parameter) const;
  void make_one(Context& context, const Waiting& waiting) const;
  // Skips random numbers that would all be replaced.
  static Tensor begin(Context& context, const Waiting& waiting);

  std::vector<Waiting> waiting_;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/later.ipp>
#endif

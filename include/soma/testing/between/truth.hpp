#pragma once
// Truth: what a program has to compute: the operators' own references in double, one after the
// other, and central differences of that chain.
//
// A result of a narrow type is rounded, and what follows reads the rounded number. So the chain
// adds to each result what its rounding added, a constant for differences. How far roundings may
// carry is measured: the chain runs again with each number moved by half a unit in the last place
// of its type, up or down at random; that also moves gradients as their own roundings do.

#include <soma/testing/between/book.hpp>
#include <soma/testing/between/program.hpp>
#include <soma/testing/between/runner.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

class Truth {
 public:
  // Types and sequences are those of the run; values are not read before compare().
  Truth(const OperatorBook& book, const Program& program, const Outcome& run);

  // A sentence about the first wrong result, or gradient; empty if all are right. `units`: how many
  // roundings of a call count as one.
  std::string results(double units);
  std::string gradients(double units);

 private:
  using Values = std::vector<std::vector<ReferenceTensor>>;

  // The chain from its leaves, with the roundings of the run: base_ and rounded_by_.
  void settle();
  // noise: 0: none, else which one.
  Values evaluate(const std::vector<ReferenceTensor>& leaves, std::uint32_t noise,
                  bool only_needed) const;
  std::vector<ReferenceTensor> call(std::size_t which, const std::vector<ReferenceTensor>& leaves,
                                    const Values& before) const;
  std::string wrong_result(const std::vector<Values>& moved, double units) const;
  double loss(const Values& values) const;
  // The largest change of a result on the way to the one that is differentiated.
  double farthest(const Values& up, const Values& down) const;
  void move(ReferenceTensor& tensor, DType dtype, std::uint32_t noise, std::size_t which) const;
  void mark_needed(const Ref& ref);
  std::string direction(std::size_t leaf, const std::vector<double>& along,
                        const ReferenceTensor& given, double units, const std::string& name);

  const OperatorBook& book_;
  const Program& program_;
  const Outcome& run_;
  std::vector<const Entry*> entries_;
  std::vector<ReferenceTensor> leaves_;
  Values base_, rounded_by_;
  std::vector<bool> needed_;
  std::vector<double> seed_;  // the gradient that backward was given
  double greatest_seed_ = 0;
  double coarsest_ = 0;  // rounding of all types on the way from leaves to the result
};

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/truth.ipp>
#endif

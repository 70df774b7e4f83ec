#pragma once
// Generator: makes the program of a seed and a number. It follows the values of a program in
// double, so that a logarithm gets positive numbers and nothing overflows. It reads values only to
// compare them with bounds that they rarely touch.

#include <soma/testing/between/book.hpp>
#include <soma/testing/between/choice.hpp>
#include <soma/testing/between/program.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

inline constexpr std::size_t most_elements = 600;  // of a generated tensor
inline constexpr double largest_value = 1e4;
inline constexpr std::size_t most_calls = 12;

struct Made {
  Program program{};
  std::vector<Known> known{};  // of its leaves and results
};

class Maker {
 public:
  // `places`: where programs may run beside the host.
  Maker(Context& scratch, const OperatorBook& book, const std::vector<std::string>& places,
        std::uint64_t seed, std::uint32_t number)
      : scratch_(scratch),
        book_(book),
        places_(places),
        choice_(seed, number),
        seed_(seed),
        number_(number) {}

  Made make();

  // ---- for rules

  Choice& choice() { return choice_; }
  std::size_t size();
  Shape shape(std::size_t rank);
  // A new leaf; its type is that of the call's first input, mostly.
  Ref leaf(const Shape& shape, double low = -1, double high = 1, bool constant = false);
  Ref whole_numbers(const Shape& shape, DType dtype, double low, double high);
  Ref listed(const Shape& shape, DType dtype, std::vector<double> values);
  // A floating result or leaf of that shape, or a new leaf.
  Ref like(const Shape& shape);
  const Known& known(const Ref& ref) const;
  double least(const Known& x) const;
  double greatest(const Known& x) const;
  // Gives the sequences of a call: those of x, or new ones on a copy of it if x has none.
  bool sequences(const Known& x, Call& call);

 private:
  Leaf floating_leaf(const Shape& shape, double low, double high);
  void add_views(Leaf& leaf, bool read_only);
  Ref add_leaf(Leaf leaf);
  bool add_call(const Entry& entry, const Known& x);
  bool by_samples(const Entry& entry, const Known& x, Call& call);
  bool finish(const Entry& entry, Call call);
  bool accepts(const Entry& entry, const Call& call, const std::vector<std::size_t>& lengths,
               std::vector<DType>& types) const;
  bool supports(DType dtype, double greatest) const;
  Ref start(const Entry& first);
  bool pair(const Entry& first, const Entry& second);
  void spine();
  void choose_result();
  void choose_places();

  Context& scratch_;
  const OperatorBook& book_;
  const std::vector<std::string>& places_;
  Choice choice_;
  std::uint64_t seed_;
  std::uint32_t number_;
  Program program_{};
  std::vector<Known> known_{};
  DType type_ = DType::fp32;  // of new leaves
  bool mixed_ = false;
  int sign_ = 0;  // of the numbers of the first leaves: -1, 0 for both, 1
};

// Sets the settings and the inputs of a call whose first input is x, or another one if the rule
// says so. Returns false if x does not fit.
using Rule = bool (*)(Maker& maker, const Known& x, Call& call);

// The rule for calls of that name. nullptr: there is none, as for a host's own operator, whose
// calls get the inputs of its samples.
Rule rule_of(std::string_view name);
// Those for operators on images (impl/image_rules.ipp).
bool convolution_rule(Maker& maker, const Known& x, Call& call);
bool convolution_transpose_rule(Maker& maker, const Known& x, Call& call);
bool resize_rule(Maker& maker, const Known& x, Call& call);
bool pool_rule(Maker& maker, const Known& x, Call& call);
// Bit r: the rule takes a first input of rank r.
std::uint32_t ranks_of(std::string_view name);

// The elements of a leaf, row-major, as its type stores them.
ReferenceTensor leaf_values(const Leaf& leaf);

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/generate.ipp>
#include <soma/testing/between/impl/image_rules.ipp>
#include <soma/testing/between/impl/rules.ipp>
#endif

#pragma once
// Choice: the random numbers of generated programs. They are draws of numeric/draw.hpp, so that a
// seed gives the same programs on every machine and with every compiler.

#include <soma/base/config.hpp>
#include <soma/numeric/draw.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace SOMA_NAMESPACE::testing::detail {

class Choice {
 public:
  Choice(std::uint64_t seed, std::uint32_t program) : draw_{.seed = seed, .step = program} {}

  std::uint32_t word();
  // 0 to below `count`; 0 if there is nothing to choose from.
  std::size_t below(std::size_t count);
  // True in `percent` of 100 cases.
  bool chance(unsigned percent);
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  Draw draw_;
};

// Number `index` of the sequence in which each pair of `count` symbols stands once, one behind the
// other; it repeats after count * count symbols.
std::size_t pair_walk(std::size_t count, std::uint64_t index);

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/choice.ipp>
#endif

#pragma once
// stress(): tests if a program's results depend on the times at which its transfers end.
//
//   const auto result = neuroncore::stress(20, [&](std::uint64_t seed) {
//     auto core = neuroncore::make_core(context, neuroncore::trn1(), {.dma_stress_seed = seed});
//     return std::vector{my_kernel(core, x)};
//   });
//   if (!result.equal()) puts(result.text().c_str());
//
// Only transfers are delayed: a missing wait between two engines changes nothing here; the race
// check finds it (Synchronization::manual, CoreOptions::check_races).

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/hbm_rows.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// The first difference, by seed, then tensor, then element in row-major order.
struct StressResult {
  std::uint64_t seed = 0;               // the seed of the run that differs; 0: no run differs
  std::size_t tensor = 0, element = 0;  // which
  std::string given, wanted;            // the element's value in this run, and in the first run

  bool equal() const { return seed == 0; }
  // "seed 3: element 12 of tensor 0 is nan (0x7fc00000), 0.5 (0x3f000000) where transfers end at
  // once"
  std::string text() const;
};

namespace detail {

// An element's value and its bits.
std::string element_text(DType dtype, const std::byte* at);

// Finds the first difference of two tensors of one shape and type; returns false if there is none.
bool first_difference(const Tensor& a, const Tensor& b, StressResult& result);

}  // namespace detail

// Calls run(seed) for seed 0, where transfers end at once, and for seeds 1 to `seeds`, and compares
// the bits of the returned tensors, which must end before their context. run makes a core with
// CoreOptions::dma_stress_seed = seed each time. Errors: those of the runs; neuroncore.rule_broken:
// a run returned tensors of other sizes or types than the first.
template <class Run>
StressResult stress(std::uint64_t seeds, const Run& run) {
  const std::vector<Tensor> wanted = run(std::uint64_t{0});
  StressResult result;
  for (std::uint64_t seed = 1; seed != 0 && seed <= seeds; ++seed) {
    const std::vector<Tensor> given = run(seed);
    if (given.size() != wanted.size())
      rule_broken("stress", "run", std::to_string(given.size()) + " tensors",
                  std::to_string(wanted.size()) + ", as in the first run");
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].shape() != wanted[i].shape() || given[i].dtype() != wanted[i].dtype())
        rule_broken("stress", "run", given[i].describe(),
                    wanted[i].describe() + ", as in the first run");
      if (!detail::first_difference(given[i], wanted[i], result)) continue;
      result.seed = seed;
      result.tensor = i;
      return result;
    }
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/stress.ipp>
#endif

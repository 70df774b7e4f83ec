#pragma once
// LogicalCore: two cores that appear as one (LNC 2 of the vendor's documentation), on machines that
// have Feature::logical_cores. Both run the same program on tensors in device memory that they
// share, each with a number of its own, and meet at barriers.
//
//   auto first = neuroncore::make_core(context, neuroncore::trn2(), {.record = true});
//   auto second = neuroncore::make_core(context, neuroncore::trn2(), {.record = true});
//   neuroncore::LogicalCore both(first, second);
//   both.run([&](neuroncore::Core& core, std::size_t program_id) { half(core, program_id); });
//   both.core_barrier();
//   both.run(...);  // may read what the other core wrote
//
// Between two barriers a core neither reads nor writes what the other one writes: nobody checks
// this.

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/order/record.hpp>

#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE::neuroncore {

class LogicalCore {
 public:
  static constexpr std::size_t count = 2;

  // Cores of one context, which outlive this. Error neuroncore.instance: their machine has no
  // logical cores, or they are not two of one machine.
  LogicalCore(Core& first, Core& second);

  // Calls program(core, 0) and program(core, 1), one after the other; both have ended after it.
  template <class Program>
  void run(const Program& program) {
    for (std::size_t id = 0; id < count; ++id) {
      program(*cores_[id], id);
      cores_[id]->finish();
    }
  }

  // Both cores wait until the other has come here. Keeps their records so far.
  void core_barrier();

  // The predicted time of everything so far, with CoreOptions::record: between two barriers the
  // longer of the two. A barrier costs a semaphore's hop of the Vector engine, which is this
  // model's: nothing is published.
  double ns();

 private:
  std::array<Core*, count> cores_;
  double before_ = 0;  // all that ended at a barrier
  bool launched_ = false;

  // The longer of the records since the last barrier, which it takes.
  double take();
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/logical_core.ipp>
#endif

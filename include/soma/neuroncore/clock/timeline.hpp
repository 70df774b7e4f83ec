#pragma once
// timeline(): estimates when each instruction of a record runs, by published rules. The estimate is
// not a bound:
//
//   An engine, and a DMA queue, runs its instructions in order. Of all lanes' next instructions the
//   one that can begin first begins; of several the one of the lowest lane.
//   An instruction occupies its engine for interval_ns(). An instruction that reads what the one
//   before it on its own engine wrote begins no sooner than issue_cycles + dependence_cycles after
//   that one began.
//   An instruction that waits for another lane begins semaphore_hop_cycles after that one ended.
//   Vector and GpSimd engine share a port to SBUF, Vector and Scalar engine one to PSUM: an
//   instruction that uses the memory holds the port until it ends (architecture guide). The
//   machine's rules (Exclusion) say whether that is so, and whether each bank has a port.
//   A transfer's buffers are dealt to the DMA engines, or to as many as serve its partitions
//   (dma_engine_partitions); each buffer takes buffer_ns(). Every DMA engine moves the buffers of a
//   queue in their order, and the transfers of a queue end in their order. A transfer's first byte
//   moves dma_start_ns after its trigger, which is when its waits are over; earlier transfers of
//   its queue hide that time. A transfer that waits holds up its own queue only.
//   The descriptors of a transfer whose rows are chosen at run time are written by the GpSimd
//   engine, from the transfer's trigger on, for descriptors_ns(): the transfer starts behind them,
//   and the engine does nothing else meanwhile.

#include <soma/base/error.hpp>
#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/dma_engines.hpp>
#include <soma/neuroncore/machine_check.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// Rules that may be switched off, to see their share of a program's time.
struct ClockOptions {
  bool ports = true;            // engines exclude each other on a memory's port
  bool own_lane_waits = true;   // an instruction waits for the result of its own engine's previous
  bool queues_overtake = true;  // false: transfers begin in the order in which they were issued
};

// The last thing that an instruction waited for before it began.
enum class Bound : std::uint8_t {
  launch,       // the start of the program
  lane,         // its engine, or its queue, was busy with the one before it
  result,       // the result of the one before it on its own engine
  semaphore,    // an instruction of another lane
  port,         // an instruction of another engine that held the memory's port
  dma_engines,  // a transfer of another queue that occupied the DMA engines
  descriptors,  // the GpSimd engine, which wrote descriptors
};
inline constexpr std::size_t bound_count = 7;

struct Timed {
  static constexpr std::uint32_t nobody = (std::numeric_limits<std::uint32_t>::max)();

  double start = 0, end = 0;     // ns from the start of the program
  double described = 0;          // when the engine began to write a transfer's descriptors
  std::uint32_t cause = nobody;  // the instruction that it waited for last
  Bound bound = Bound::launch;
};

struct Timeline {
  std::vector<Timed> instructions;   // as in the record
  std::vector<std::uint32_t> order;  // indices in the order in which they began
  double ns = 0;                     // when the last one ended
};

namespace detail {

[[noreturn]] void bad_record(std::size_t index, const std::string& given, std::string_view wanted);

// The positions of each lane's instructions in a record.
class Lanes {
 public:
  // Error neuroncore.record.
  explicit Lanes(std::span<const Instruction> record);

  // nobody: the instruction was taken from the record earlier.
  std::uint32_t find(std::size_t lane, std::uint32_t number) const {
    return number < first_[lane] ? Timed::nobody : indices_[lane][number - first_[lane]];
  }
  const std::vector<std::uint32_t>& operator[](std::size_t lane) const { return indices_[lane]; }

 private:
  void add(const Instruction& instruction, std::size_t index);

  std::array<std::vector<std::uint32_t>, lane_count> indices_;
  // For a lane without instructions so far: the last one that others waited for, taken earlier.
  std::array<std::uint32_t, lane_count> taken_{};
  // Before a lane's first instruction, everything was taken earlier.
  std::array<std::uint32_t, lane_count> first_ = [] {
    std::array<std::uint32_t, lane_count> none{};
    none.fill((std::numeric_limits<std::uint32_t>::max)());
    return none;
  }();
};

class Clock {
 public:
  // `factors`: each instruction's time is multiplied by its factor, and an instruction of factor 0
  // takes no time at all; empty: none is changed.
  Clock(std::span<const Instruction> record, const Machine& machine, const ClockOptions& options,
        std::span<const float> factors = {});

  Timeline run();

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr std::size_t no_lane = lane_count;

  // The next instruction of a lane.
  struct Head {
    std::size_t next = 0;             // in the lane
    std::size_t waits_for = no_lane;  // a lane that has to begin another one first
    double ready = never;             // without ports and DMA engines
    std::uint32_t cause = Timed::nobody;
    Bound bound = Bound::launch;
    double trigger = 0;  // the time of the lane's last transfer that is ready
    std::uint32_t trigger_cause = Timed::nobody;
    Bound trigger_bound = Bound::launch;
    bool to_describe = false;  // a transfer whose descriptors are not written yet

    void wait(double until, std::uint32_t instruction, Bound why);
  };

  // Computes when the lane's next instruction is ready, as far as its waits are known.
  void prepare(std::size_t lane);

  void wait_for_own(Head& ready, std::size_t lane, const Instruction& instruction) const;

  bool begun(std::size_t lane, std::uint32_t index) const;
  double factor(std::uint32_t index) const {
    return factors_.empty() ? 1.0 : static_cast<double>(factors_[index]);
  }

  // Without overtaking: true if all transfers that were issued earlier have begun.
  bool earlier_transfers_begun(std::uint32_t index, std::size_t lane, Head& head) const;

  // A memory's port: the time until which an engine holds it, and the instruction that holds it.
  struct Port {
    double free = 0;
    std::uint32_t holder = Timed::nobody;
    std::size_t lane = no_lane;
  };
  static constexpr std::size_t vector_lane = lane_of(Engine::vector),
                               scalar_lane = lane_of(Engine::scalar),
                               gpsimd_lane = lane_of(Engine::gpsimd);

  // Visits the ports that the lane's next instruction needs.
  template <class Visit>
  void for_ports(std::size_t lane, const Visit& visit) {
    if (!options_.ports || lane > gpsimd_lane || lane < vector_lane) return;
    const Instruction& instruction = record_[lanes_[lane][heads_[lane].next]];
    const MachineRules& rules = machine_.rules;
    if (lane != scalar_lane && instruction.uses_sbuf && rules.vector_gpsimd_sbuf != Exclusion::none)
      visit(sbuf_port_);
    if (lane == gpsimd_lane || !instruction.uses_psum) return;
    if (rules.vector_scalar_psum == Exclusion::memory) return visit(psum_ports_[0]);
    if (rules.vector_scalar_psum == Exclusion::none) return;
    for (std::uint64_t banks = instruction.psum_banks; banks != 0; banks &= banks - 1)
      visit(psum_ports_[static_cast<std::size_t>(std::countr_zero(banks))]);
  }
  // When the lane's next instruction can begin, or the writing of its descriptors.
  double start_of(std::size_t lane);

  std::size_t first_to_begin();

  // The GpSimd engine writes the descriptors of the lane's next transfer.
  void describe(std::size_t lane);

  void begin(std::size_t lane);

  std::span<const Instruction> record_;
  const Machine& machine_;
  ClockOptions options_;
  std::span<const float> factors_;
  Lanes lanes_;
  DmaEngines dma_;
  std::array<double, 4> hop_{};  // ns, of each engine
  std::array<Head, lane_count> heads_{};
  Port sbuf_port_;
  std::array<Port, 64> psum_ports_{};  // one a bank, or the first for all of PSUM
  Port gpsimd_;  // the engine itself, which runs its own instructions and writes descriptors
  std::uint32_t latest_transfer_ = Timed::nobody;  // that has begun
  Timeline result_;
};

}  // namespace detail

// `record`: from Core::recorded() or Core::take_recorded(). It may begin at any number:
// instructions that were taken earlier count as ended at time 0. A pure function: the same record
// gives the same bits. 0.5 s for 300,000 instructions. Errors neuroncore.record (an instruction is
// missing), neuroncore.machine.
Timeline timeline(std::span<const Instruction> record, const Machine& machine,
                  const ClockOptions& options = {});

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/timeline.ipp>
#endif

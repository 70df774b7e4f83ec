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
//   instruction that uses the memory holds the port until it ends (architecture guide).
//   A transfer's buffers are dealt to the DMA engines, each buffer takes buffer_ns(). Every DMA
//   engine moves the buffers of a queue in their order, and the transfers of a queue end in their
//   order. A transfer's first byte moves dma_start_ns after its trigger, which is when its waits
//   are over; earlier transfers of its queue hide that time. A transfer that waits holds up its own
//   queue only.

#include <soma/base/error.hpp>
#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/dma_engines.hpp>
#include <soma/neuroncore/machine_check.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace soma::neuroncore {

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
};
inline constexpr std::size_t bound_count = 6;

struct Timed {
  static constexpr std::uint32_t nobody = (std::numeric_limits<std::uint32_t>::max)();

  double start = 0, end = 0;     // ns from the start of the program
  std::uint32_t cause = nobody;  // the instruction that it waited for last
  Bound bound = Bound::launch;
};

struct Timeline {
  std::vector<Timed> instructions;   // as in the record
  std::vector<std::uint32_t> order;  // indices in the order in which they began
  double ns = 0;                     // when the last one ended
};

namespace detail {

[[noreturn]] inline void bad_record(std::size_t index, const std::string& given,
                                    std::string_view wanted) {
  fail(error_id::neuroncore_record, "timeline", "instruction " + std::to_string(index), given,
       wanted);
}

// The places of each lane's instructions in a record.
class Lanes {
 public:
  // Error neuroncore.record.
  explicit Lanes(std::span<const Instruction> record) {
    if (record.size() >= Timed::nobody)
      bad_record(Timed::nobody, "one of " + std::to_string(record.size()), "fewer than 2^32 - 1");
    std::array<std::size_t, lane_count> sizes{};
    for (std::size_t i = 0; i < record.size(); ++i) {
      const Position at = record[i].position;
      if (at.lane >= lane_count || at.number == 0)
        bad_record(i, "number " + std::to_string(at.number) + " of lane " + std::to_string(at.lane),
                   "a number from 1 on of a lane below " + std::to_string(lane_count));
      if (static_cast<std::size_t>(record[i].opcode) >= opcode_count)
        bad_record(i, "of an unknown opcode", "an opcode");
      ++sizes[at.lane];
    }
    for (std::size_t lane = 0; lane < lane_count; ++lane) indices_[lane].reserve(sizes[lane]);
    for (std::size_t i = 0; i < record.size(); ++i) add(record[i], i);
  }

  // nobody: the instruction was taken from the record earlier.
  std::uint32_t find(std::size_t lane, std::uint32_t number) const {
    return number < first_[lane] ? Timed::nobody : indices_[lane][number - first_[lane]];
  }
  const std::vector<std::uint32_t>& operator[](std::size_t lane) const { return indices_[lane]; }

 private:
  void add(const Instruction& instruction, std::size_t index) {
    const Position at = instruction.position;
    auto& own = indices_[at.lane];
    const std::uint64_t next =
        own.empty() ? std::uint64_t{taken_[at.lane]} + 1 : first_[at.lane] + own.size();
    if (own.empty() ? at.number < next : at.number != next)
      bad_record(index, "number " + std::to_string(at.number) + " of its lane",
                 "number " + std::to_string(next) + ", or a record without gaps");
    if (own.empty()) first_[at.lane] = at.number;
    // No instruction waits for a later one: one can always begin.
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const std::uint32_t after = instruction.after[lane];
      if (indices_[lane].empty()) {
        taken_[lane] = (std::max)(taken_[lane], after);
      } else if (after >= first_[lane] + indices_[lane].size()) {
        bad_record(index,
                   "after number " + std::to_string(after) + " of lane " + std::to_string(lane),
                   "after instructions that stand before it in the record");
      }
    }
    own.push_back(static_cast<std::uint32_t>(index));
  }

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
  Clock(std::span<const Instruction> record, const Machine& machine, const ClockOptions& options)
      : record_(record),
        machine_(machine),
        options_(options),
        lanes_(record),
        dma_(machine.dma_engines) {
    for (std::size_t lane = 0; lane < 4; ++lane)
      hop_[lane] = machine.semaphore_hop_cycles / ghz_of(machine, static_cast<Engine>(lane));
    result_.instructions.resize(record.size());
    result_.order.reserve(record.size());
  }

  Timeline run() {
    for (std::size_t lane = 0; lane < lane_count; ++lane) prepare(lane);
    for (std::size_t left = record_.size(); left != 0; --left) {
      const std::size_t lane = first_to_begin();
      begin(lane);
      ++heads_[lane].next;
      prepare(lane);
      for (std::size_t other = 0; other < lane_count; ++other)
        if (heads_[other].waits_for == lane) prepare(other);
    }
    for (const Timed& timed : result_.instructions) result_.ns = (std::max)(result_.ns, timed.end);
    return std::move(result_);
  }

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

    void wait(double until, std::uint32_t instruction, Bound why) {
      if (until <= ready) return;
      ready = until;
      cause = instruction;
      bound = why;
    }
  };

  // Computes when the lane's next instruction is ready, as far as its waits are known.
  void prepare(std::size_t lane) {
    Head& head = heads_[lane];
    head.waits_for = no_lane;
    head.ready = never;
    if (head.next == lanes_[lane].size()) return;
    const std::uint32_t index = lanes_[lane][head.next];
    const Instruction& instruction = record_[index];
    Head ready = head;
    ready.ready = machine_.launch_ns;
    ready.cause = Timed::nobody;
    ready.bound = Bound::launch;
    const bool transfer = lane >= 4;
    if (transfer && head.next != 0) {
      ready.ready = head.trigger;
      ready.cause = head.trigger_cause;
      ready.bound = head.trigger_bound;
    }
    for (std::size_t other = 0; other < lane_count; ++other) {
      if (other == lane || instruction.after[other] == 0) continue;
      const std::uint32_t earlier = lanes_.find(other, instruction.after[other]);
      if (earlier == Timed::nobody) continue;
      if (!begun(other, earlier)) {
        head.waits_for = other;
        return;
      }
      ready.wait(result_.instructions[earlier].end + (transfer ? 0 : hop_[lane]), earlier,
                 Bound::semaphore);
    }
    if (!options_.queues_overtake && transfer && !earlier_transfers_begun(index, lane, head))
      return;
    if (transfer) {
      ready.trigger = ready.ready;
      ready.trigger_cause = ready.cause;
      ready.trigger_bound = ready.bound;
      ready.ready += machine_.dma_start_ns;
      if (!options_.queues_overtake && latest_transfer_ != Timed::nobody)
        ready.wait(result_.instructions[latest_transfer_].start, latest_transfer_,
                   Bound::dma_engines);
    }
    if (head.next != 0) wait_for_own(ready, lane, instruction);
    head = ready;
  }

  void wait_for_own(Head& ready, std::size_t lane, const Instruction& instruction) const {
    const std::uint32_t previous = lanes_[lane][ready.next - 1];
    const Timed& before = result_.instructions[previous];
    // If two reasons end at the same time, the lane's own is named. A transfer begins after the one
    // before it has begun, because it may use other engines.
    const bool transfer = lane >= 4;
    if (const double free = transfer ? before.start : before.end; free >= ready.ready) {
      ready.ready = free;
      ready.cause = previous;
      ready.bound = Bound::lane;
    }
    if (transfer || !instruction.reads_previous || !options_.own_lane_waits) return;
    const Engine engine = static_cast<Engine>(lane);
    const double extra =
        engine == Engine::scalar ? machine_.scalar_dependence_cycles : machine_.dependence_cycles;
    const double wait = (machine_.issue_cycles + extra) / ghz_of(machine_, engine);
    ready.wait(before.start + wait, previous, Bound::result);
  }

  bool begun(std::size_t lane, std::uint32_t index) const {
    const std::size_t next = heads_[lane].next;
    return next == lanes_[lane].size() || lanes_[lane][next] > index;
  }

  // Without overtaking: true if all transfers that were issued earlier have begun.
  bool earlier_transfers_begun(std::uint32_t index, std::size_t lane, Head& head) const {
    for (std::size_t other = 4; other < lane_count; ++other)
      if (other != lane && heads_[other].next < lanes_[other].size() &&
          lanes_[other][heads_[other].next] < index) {
        head.waits_for = other;
        return false;
      }
    return true;
  }

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
    if (lane != scalar_lane && instruction.uses_sbuf) visit(sbuf_port_);
    if (lane != gpsimd_lane && instruction.uses_psum) visit(psum_port_);
  }
  double start_of(std::size_t lane) {
    double start = heads_[lane].ready;
    if (start == never) return never;
    for_ports(lane, [&](const Port& port) {
      if (port.lane != lane) start = (std::max)(start, port.free);
    });
    return lane >= 4 ? (std::max)(start, dma_.first_free()) : start;
  }

  std::size_t first_to_begin() {
    std::size_t first = no_lane;
    double earliest = never;
    for (std::size_t lane = 0; lane < lane_count; ++lane)
      if (const double start = start_of(lane); start < earliest) {
        earliest = start;
        first = lane;
      }
    return first;
  }

  void begin(std::size_t lane) {
    Head& head = heads_[lane];
    const std::uint32_t index = lanes_[lane][head.next];
    const Instruction& instruction = record_[index];
    Timed& timed = result_.instructions[index];
    result_.order.push_back(index);
    for_ports(lane, [&](const Port& port) {
      if (port.lane != lane) head.wait(port.free, port.holder, Bound::port);
    });
    if (lane >= 4) {
      const std::uint32_t user = dma_.first_user();
      const bool own = user != Timed::nobody && record_[user].position.lane == lane;
      head.wait(dma_.first_free(), user, own ? Bound::lane : Bound::dma_engines);
      timed.end =
          dma_.run(index, head.ready, instruction.cost.buffers, buffer_ns(instruction, machine_));
      if (head.next != 0)
        timed.end = (std::max)(timed.end, result_.instructions[lanes_[lane][head.next - 1]].end);
    } else {
      timed.end = head.ready + interval_ns(instruction, machine_);
    }
    timed.start = head.ready;
    timed.cause = head.cause;
    timed.bound = head.bound;
    if (lane >= 4) latest_transfer_ = index;
    for_ports(lane, [&](Port& port) { port = {timed.end, index, lane}; });
  }

  std::span<const Instruction> record_;
  const Machine& machine_;
  ClockOptions options_;
  Lanes lanes_;
  DmaEngines dma_;
  std::array<double, 4> hop_{};  // ns, of each engine
  std::array<Head, lane_count> heads_{};
  Port sbuf_port_, psum_port_;
  std::uint32_t latest_transfer_ = Timed::nobody;  // that has begun
  Timeline result_;
};

}  // namespace detail

// `record`: from Core::recorded() or Core::take_recorded(). It may begin at any number:
// instructions that were taken earlier count as ended at time 0. A pure function: the same record
// gives the same bits. 0.5 s for 300,000 instructions. Errors neuroncore.record (an instruction is
// missing), neuroncore.machine.
inline Timeline timeline(std::span<const Instruction> record, const Machine& machine,
                         const ClockOptions& options = {}) {
  return detail::Clock(record, checked(machine), options).run();
}

}  // namespace soma::neuroncore

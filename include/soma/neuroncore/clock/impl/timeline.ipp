#pragma once
// The functions of timeline.hpp.

#include <soma/neuroncore/clock/timeline.hpp>

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

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE void bad_record(std::size_t index, const std::string& given, std::string_view wanted) {
  fail(error_id::neuroncore_record, "timeline", "instruction " + std::to_string(index), given,
       wanted);
}

SOMA_INLINE Lanes::Lanes(std::span<const Instruction> record) {
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

SOMA_INLINE void Lanes::add(const Instruction& instruction, std::size_t index) {
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

SOMA_INLINE Clock::Clock(std::span<const Instruction> record, const Machine& machine,
                         const ClockOptions& options, std::span<const float> factors)
    : record_(record),
      machine_(machine),
      options_(options),
      factors_(factors),
      lanes_(record),
      dma_(machine.dma_engines) {
  for (std::size_t lane = 0; lane < 4; ++lane)
    hop_[lane] = machine.semaphore_hop_cycles / ghz_of(machine, static_cast<Engine>(lane));
  result_.instructions.resize(record.size());
  result_.order.reserve(record.size());
}

SOMA_INLINE Timeline Clock::run() {
  for (std::size_t lane = 0; lane < lane_count; ++lane) prepare(lane);
  for (std::size_t left = record_.size(); left != 0;) {
    const std::size_t lane = first_to_begin();
    if (heads_[lane].to_describe) {
      describe(lane);
      continue;
    }
    begin(lane);
    --left;
    ++heads_[lane].next;
    prepare(lane);
    for (std::size_t other = 0; other < lane_count; ++other)
      if (heads_[other].waits_for == lane) prepare(other);
  }
  for (const Timed& timed : result_.instructions) result_.ns = (std::max)(result_.ns, timed.end);
  return std::move(result_);
}

SOMA_INLINE void Clock::Head::wait(double until, std::uint32_t instruction, Bound why) {
  if (until <= ready) return;
  ready = until;
  cause = instruction;
  bound = why;
}

SOMA_INLINE void Clock::prepare(std::size_t lane) {
  Head& head = heads_[lane];
  head.waits_for = no_lane;
  head.ready = never;
  head.to_describe = false;
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
  if (!options_.queues_overtake && transfer && !earlier_transfers_begun(index, lane, head)) return;
  if (transfer) {
    ready.trigger = ready.ready;
    ready.trigger_cause = ready.cause;
    ready.trigger_bound = ready.bound;
    if (factor(index) != 0) ready.ready += machine_.dma_start_ns;
    ready.to_describe = factor(index) != 0 && descriptors_ns(instruction, machine_) > 0;
    if (!options_.queues_overtake && latest_transfer_ != Timed::nobody)
      ready.wait(result_.instructions[latest_transfer_].start, latest_transfer_,
                 Bound::dma_engines);
  }
  if (head.next != 0) wait_for_own(ready, lane, instruction);
  head = ready;
}

SOMA_INLINE void Clock::wait_for_own(Head& ready, std::size_t lane,
                                     const Instruction& instruction) const {
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

SOMA_INLINE bool Clock::begun(std::size_t lane, std::uint32_t index) const {
  const std::size_t next = heads_[lane].next;
  return next == lanes_[lane].size() || lanes_[lane][next] > index;
}

SOMA_INLINE bool Clock::earlier_transfers_begun(std::uint32_t index, std::size_t lane,
                                                Head& head) const {
  for (std::size_t other = 4; other < lane_count; ++other)
    if (other != lane && heads_[other].next < lanes_[other].size() &&
        lanes_[other][heads_[other].next] < index) {
      head.waits_for = other;
      return false;
    }
  return true;
}

SOMA_INLINE double Clock::start_of(std::size_t lane) {
  double start = heads_[lane].ready;
  if (start == never) return never;
  if (heads_[lane].to_describe) return (std::max)(heads_[lane].trigger, gpsimd_.free);
  if (lane == gpsimd_lane) start = (std::max)(start, gpsimd_.free);
  for_ports(lane, [&](const Port& port) {
    if (port.lane != lane) start = (std::max)(start, port.free);
  });
  const bool moves = lane >= 4 && factor(lanes_[lane][heads_[lane].next]) != 0;
  return moves ? (std::max)(start, dma_.first_free()) : start;
}

SOMA_INLINE std::size_t Clock::first_to_begin() {
  std::size_t first = no_lane;
  double earliest = never;
  for (std::size_t lane = 0; lane < lane_count; ++lane)
    if (const double start = start_of(lane); start < earliest) {
      earliest = start;
      first = lane;
    }
  return first;
}

SOMA_INLINE void Clock::describe(std::size_t lane) {
  Head& head = heads_[lane];
  const std::uint32_t index = lanes_[lane][head.next];
  const bool waits = gpsimd_.free > head.trigger;
  const double begin = waits ? gpsimd_.free : head.trigger;
  const double end = begin + descriptors_ns(record_[index], machine_);
  head.wait(end + machine_.dma_start_ns, waits ? gpsimd_.holder : head.trigger_cause,
            Bound::descriptors);
  head.to_describe = false;
  result_.instructions[index].described = begin;
  gpsimd_ = {end, index, lane};
}

SOMA_INLINE void Clock::begin(std::size_t lane) {
  Head& head = heads_[lane];
  const std::uint32_t index = lanes_[lane][head.next];
  const Instruction& instruction = record_[index];
  Timed& timed = result_.instructions[index];
  result_.order.push_back(index);
  if (lane == gpsimd_lane && gpsimd_.lane != gpsimd_lane)
    head.wait(gpsimd_.free, gpsimd_.holder, Bound::descriptors);
  for_ports(lane, [&](const Port& port) {
    if (port.lane != lane) head.wait(port.free, port.holder, Bound::port);
  });
  if (lane >= 4 && factor(index) == 0) {
    timed.end = head.ready;
  } else if (lane >= 4) {
    const std::uint32_t user = dma_.first_user();
    const bool own = user != Timed::nobody && record_[user].position.lane == lane;
    head.wait(dma_.first_free(), user, own ? Bound::lane : Bound::dma_engines);
    timed.end = dma_.run(index, head.ready, instruction.cost.buffers,
                         buffer_ns(instruction, machine_) * factor(index),
                         engines_of(instruction, machine_));
    if (head.next != 0)
      timed.end = (std::max)(timed.end, result_.instructions[lanes_[lane][head.next - 1]].end);
  } else {
    timed.end = head.ready + interval_ns(instruction, machine_) * factor(index);
  }
  timed.start = head.ready;
  timed.cause = head.cause;
  timed.bound = head.bound;
  if (lane >= 4) latest_transfer_ = index;
  if (lane == gpsimd_lane) gpsimd_ = {timed.end, index, lane};
  for_ports(lane, [&](Port& port) { port = {timed.end, index, lane}; });
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Timeline timeline(std::span<const Instruction> record, const Machine& machine,
                              const ClockOptions& options) {
  return detail::Clock(record, checked(machine), options).run();
}

}  // namespace SOMA_NAMESPACE::neuroncore

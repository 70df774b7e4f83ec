// Records of instructions without a core, and what must hold of any timeline, said once more and
// plainly.
#pragma once

#include <soma/neuroncore/clock/timeline.hpp>

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace soma_test {

class RecordBuilder {
 public:
  nc::Instruction& add(nc::Lane lane, nc::Opcode opcode) {
    nc::Instruction instruction;
    instruction.opcode = opcode;
    instruction.position = {lane, ++issued_[lane]};
    if (barrier_[lane] != 0) {
      for (std::size_t other = 0; other < nc::lane_count; ++other)
        if (other != lane) instruction.after[other] = at_barrier_[other];
      barrier_[lane] = 0;
      behind_barrier.insert(all.size());
    }
    all.push_back(instruction);
    return all.back();
  }
  // Both of SBUF, fp32.
  nc::Instruction& vector(std::uint32_t n) {
    return engine(nc::Engine::vector, nc::Opcode::tensor_tensor, n, {.tensors = 2});
  }
  nc::Instruction& scalar(std::uint32_t n) {
    return engine(nc::Engine::scalar, nc::Opcode::activation, n, {.tensors = 1});
  }
  nc::Instruction& gpsimd(std::uint32_t n) {
    return engine(nc::Engine::gpsimd, nc::Opcode::copy, n, {.tensors = 1});
  }
  nc::Instruction& matmul(std::uint32_t stationary, std::uint32_t moving, soma::DType dtype) {
    nc::CostFields cost{.stationary = stationary, .contraction = 128, .tensors = 2};
    cost.inputs = {dtype, dtype, dtype};
    nc::Instruction& added = engine(nc::Engine::tensor, nc::Opcode::matmul, moving, cost);
    added.uses_psum = added.result_in_psum = true;
    return added;
  }
  nc::Instruction& transfer(std::size_t queue, std::uint32_t buffers, std::uint64_t bytes) {
    nc::Instruction& added = add(nc::lane_of(nc::Engine::dma, queue), nc::Opcode::dma_copy);
    added.cost.buffers = buffers;
    added.cost.bytes = bytes;
    added.direction = nc::Direction::load;
    added.uses_sbuf = true;
    return added;
  }
  // Later instructions wait for all earlier instructions.
  void barrier() {
    at_barrier_ = issued_;
    barrier_.fill(1);
  }
  std::uint32_t issued(std::size_t lane) const { return issued_[lane]; }

  std::vector<nc::Instruction> all;
  std::set<std::size_t> behind_barrier;  // the first of each lane, by index

 private:
  nc::Instruction& engine(nc::Engine engine, nc::Opcode opcode, std::uint32_t n,
                          nc::CostFields cost) {
    nc::Instruction& added = add(nc::lane_of(engine), opcode);
    cost.partitions = 128;
    cost.free_size = n;
    added.cost = cost;
    added.uses_sbuf = true;
    return added;
  }
  std::array<std::uint32_t, nc::lane_count> issued_{}, at_barrier_{};
  std::array<int, nc::lane_count> barrier_{};
};

// A program of `count` instructions on all engines and four queues.
inline RecordBuilder random_record(std::uint64_t seed, std::size_t count) {
  RecordBuilder record;
  std::uint64_t drawn = 0;
  const auto draw = [&](std::uint32_t below) {
    return static_cast<std::uint32_t>(soma::random_word({.seed = seed, .stream = 57}, drawn++) %
                                      below);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t kind = draw(8), n = 1 + draw(512);
    nc::Instruction* added = nullptr;
    if (kind == 0)
      added =
          &record.matmul(1 + draw(128), n, draw(2) == 0 ? soma::DType::fp32 : soma::DType::bf16);
    else if (kind < 3)
      added = &record.vector(n);
    else if (kind == 3)
      added = &record.scalar(n);
    else if (kind == 4)
      added = &record.gpsimd(n);
    else
      added = &record.transfer(draw(4), 1 + draw(200), 1 + draw(200'000));
    if (kind == 2 || kind == 3) added->uses_psum = draw(2) == 0;
    added->reads_previous = kind != 0 && kind < 5 && added->position.number > 1 && draw(3) == 0;
    for (std::uint32_t waits = draw(3); waits != 0; --waits) {
      const std::size_t lane = draw(8);
      if (lane != added->position.lane && record.issued(lane) != 0)
        added->after[lane] = (std::max)(added->after[lane], 1 + draw(record.issued(lane)));
    }
    if (draw(40) == 0) record.barrier();
  }
  return record;
}

// The rules of the clock, for the instructions that a RecordBuilder makes on trn1().
class Rules {
 public:
  explicit Rules(std::span<const nc::Instruction> record) : record_(record) {
    for (std::size_t i = 0; i < record.size(); ++i) lanes_[record[i].position.lane].push_back(i);
  }

  // The names of the rules that a timeline breaks.
  std::set<std::string> broken(const nc::Timeline& timeline) const {
    std::set<std::string> result;
    const auto& timed = timeline.instructions;
    double sum = 0;
    std::vector<double> chains(record_.size());
    std::array<double, nc::lane_count> busy{}, triggers{};
    const std::vector<double> engines_free = deal(timed, result);
    for (std::size_t i = 0; i < record_.size(); ++i) {
      const nc::Instruction& instruction = record_[i];
      const std::size_t lane = instruction.position.lane;
      const bool transfer = lane >= 4;
      const double start = timed[i].start, own = cost(instruction);
      // Everything that it may have to wait for, and until when.
      std::vector<double> until{transfer ? 1300.0 : 0.0};
      double trigger = 0, hop = transfer ? 1300 : 100 / ghz(lane), chain = transfer ? 1300 : 0;
      if (instruction.position.number > 1) {
        const std::size_t before = lanes_[lane][instruction.position.number - 2];
        // Transfers of a queue begin and end in their order.
        until.push_back(transfer ? timed[before].start : timed[before].end);
        if (start < until.back() || timed[i].end < timed[before].end) result.insert("lane");
        if (!transfer) chain = (std::max)(chain, chains[before]);
        trigger = triggers[lane];
        if (instruction.reads_previous) {
          const double wait = (64 + (lane == 2 ? 200 : 100)) / ghz(lane);
          until.push_back(timed[before].start + wait);
          if (start < until.back()) result.insert("result");
        }
      }
      for (std::size_t other = 0; other < nc::lane_count; ++other) {
        if (other == lane || instruction.after[other] == 0) continue;
        const std::size_t before = lanes_[other][instruction.after[other] - 1];
        if (start < timed[before].end + hop) result.insert("dependency");
        until.push_back(timed[before].end + hop);
        trigger = (std::max)(trigger, timed[before].end);
        chain = (std::max)(chain, chains[before] + hop);
      }
      triggers[lane] = trigger;
      if (transfer) until.push_back(trigger + 1300);
      const double length = timed[i].end - start;
      if (transfer ? length < own * (1 - 1e-12) : std::fabs(length - own) > 1e-6)
        result.insert("cost");
      if (transfer) until.push_back(engines_free[i]);
      if (transfer && start < engines_free[i]) result.insert("engines");
      if (!held_up(timed, i, until)) result.insert("late");
      chains[i] = chain + own;
      const nc::CostFields& fields = instruction.cost;
      busy[transfer ? 4 : lane] += transfer ? fields.buffers * buffer(fields) / 16 : own;
      sum += own + 1300 + 264;
      if (timeline.ns < chains[i] * (1 - 1e-12)) result.insert("chain");
    }
    for (const double ns : busy)
      if (timeline.ns < ns * (1 - 1e-12)) result.insert("busy");
    if (timeline.ns > sum) result.insert("sum");
    if (ports_overlap(timed, 1, 3, &nc::Instruction::uses_sbuf) ||
        ports_overlap(timed, 1, 2, &nc::Instruction::uses_psum))
      result.insert("port");
    return result;
  }

 private:
  static double ghz(std::size_t lane) {
    constexpr double of_engine[] = {2.8, 1.12, 1.4, 1.4};
    return of_engine[lane];
  }
  static double buffer(const nc::CostFields& fields) {
    return (std::max)(142.0, static_cast<double>(fields.bytes) / fields.buffers / 17);
  }
  static double cost(const nc::Instruction& instruction) {
    const nc::CostFields& fields = instruction.cost;
    const double n = fields.free_size;
    switch (instruction.position.lane) {
      case 0:
        return (std::max)((std::min)(64.0, double{1} * fields.stationary), n) *
               (fields.inputs[0] == soma::DType::fp32 ? 4 : 1) / 2.8;
      case 1:
        return (std::max)(64.0, 2 * n) / 1.12;
      case 2:
      case 3:
        return (std::max)(64.0, n) / 1.4;
      default:
        return std::ceil(fields.buffers / 16.0) * buffer(fields);
    }
  }

  // Deals the buffers of all transfers, in the order in which they began, to 16 engines. When the
  // first engine was free before each of them; adds "cost" where one ended at another time.
  std::vector<double> deal(const std::vector<nc::Timed>& timed,
                           std::set<std::string>& broken) const {
    std::vector<std::size_t> transfers;
    for (std::size_t i = 0; i < record_.size(); ++i)
      if (record_[i].position.lane >= 4) transfers.push_back(i);
    std::stable_sort(transfers.begin(), transfers.end(), [&](std::size_t a, std::size_t b) {
      return timed[a].start != timed[b].start ? timed[a].start < timed[b].start
                                              : record_[a].position.lane < record_[b].position.lane;
    });
    std::vector<double> first(record_.size()), engines(16);
    for (const std::size_t i : transfers) {
      const nc::CostFields& cost = record_[i].cost;
      std::sort(engines.begin(), engines.end());  // the first get one more
      first[i] = engines[0];
      double last = 0;
      for (std::uint32_t engine = 0; engine < (std::min)(16u, cost.buffers); ++engine) {
        const double share = cost.buffers / 16 + (engine < cost.buffers % 16 ? 1 : 0);
        engines[engine] = (std::max)(engines[engine], timed[i].start) + share * buffer(cost);
        last = (std::max)(last, engines[engine]);
      }
      const nc::Position at = record_[i].position;
      if (at.number > 1) last = (std::max)(last, timed[lanes_[at.lane][at.number - 2]].end);
      if (std::fabs(last - timed[i].end) > 1e-6) broken.insert("cost");
    }
    return first;
  }

  // True if the instruction began when one of its waits ended, or when another instruction released
  // its port or the DMA engines.
  bool held_up(const std::vector<nc::Timed>& timed, std::size_t i,
               const std::vector<double>& until) const {
    const double start = timed[i].start;
    const auto same = [&](double ns) { return std::fabs(ns - start) <= 1e-9 * (1 + start); };
    if (std::any_of(until.begin(), until.end(), same)) return true;
    const nc::Lane lane = record_[i].position.lane;
    for (std::size_t j = 0; j < record_.size(); ++j) {
      const nc::Lane other = record_[j].position.lane;
      if (other == lane) continue;
      if (lane < 4 && other < 4 && same(timed[j].end)) return true;
    }
    return false;
  }

  // Two engines that use a memory at the same time.
  bool ports_overlap(const std::vector<nc::Timed>& timed, nc::Lane a, nc::Lane b,
                     bool nc::Instruction::*uses) const {
    std::vector<std::size_t> users;
    for (std::size_t i = 0; i < record_.size(); ++i)
      if ((record_[i].position.lane == a || record_[i].position.lane == b) && record_[i].*uses)
        users.push_back(i);
    std::sort(users.begin(), users.end(),
              [&](std::size_t x, std::size_t y) { return timed[x].start < timed[y].start; });
    for (std::size_t i = 1; i < users.size(); ++i)
      if (timed[users[i]].start < timed[users[i - 1]].end) return true;
    return false;
  }

  std::span<const nc::Instruction> record_;
  std::array<std::vector<std::size_t>, nc::lane_count> lanes_;
};

}  // namespace soma_test

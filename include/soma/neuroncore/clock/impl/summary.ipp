#pragma once
// The functions of summary.hpp.

#include <soma/neuroncore/clock/summary.hpp>

#include <soma/neuroncore/clock/path.hpp>
#include <soma/neuroncore/clock/timeline.hpp>
#include <soma/neuroncore/order/record.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::string lane_name(std::size_t lane) {
  return lane < 4 ? std::string(to_string(static_cast<Engine>(lane)))
                  : "dma queue " + std::to_string(lane - 4);
}

}  // namespace SOMA_NAMESPACE::neuroncore

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE Summary Summing::run() {
  check_names();
  sum_.ns = timeline_.ns;
  sum_.instructions = record_.size();
  regions_.resize(names_.regions.size());
  calls_.resize(names_.calls.size());
  begin_calls();
  for (std::size_t i = 0; i < record_.size(); ++i) add(record_[i], timeline_.instructions[i]);
  for_path(timeline_, [&](std::uint32_t index, double ran, double waited) {
    add_path(record_[index], timeline_.instructions[index], ran, waited);
  });
  finish();
  return std::move(sum_);
}

SOMA_INLINE std::size_t Summing::wait_kind(const Instruction& instruction, Bound bound) {
  if (bound == Bound::descriptors) return 4;
  if (instruction.position.lane >= 4) return 3;
  return bound == Bound::launch ? 0 : bound == Bound::result ? 1 : 2;
}

SOMA_INLINE double Summing::Part::path_ns() const {
  double total = 0;
  for (const double ns : path) total += ns;
  return total;
}

SOMA_INLINE std::string Summing::Part::bound() const {
  // The queues together, then the engines and the waits.
  double queues = 0;
  for (std::size_t lane = 4; lane < lane_count; ++lane) queues += path[lane];
  double most = queues;
  std::size_t at = 4;
  for (std::size_t i = 0; i < path.size(); ++i)
    if ((i < 4 || i >= lane_count) && path[i] > most) {
      most = path[i];
      at = i;
    }
  if (most == 0) return {};
  return at >= lane_count ? std::string(wait_names[at - lane_count])
         : at == 4        ? std::string(queues_name)
                          : lane_name(at);
}

SOMA_INLINE void Summing::check_names() const {
  for (std::size_t i = 0; i < names_.regions.size(); ++i)
    if (names_.regions[i].parent > i)
      fail(error_id::neuroncore_record, "report", "region " + std::to_string(i + 1),
           "inside region " + std::to_string(names_.regions[i].parent),
           "inside a region with a lower number");
  for (std::size_t i = 0; i < record_.size(); ++i)
    if (record_[i].region > names_.regions.size() || record_[i].call > names_.calls.size())
      bad_record(i, "of a region or call without a name", "the names of this record");
}

SOMA_INLINE void Summing::begin_calls() {
  std::map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const std::string& name = names_.calls[i].name;
    const auto [at, added] = known.emplace(name, sum_.operators.size());
    if (added) {
      sum_.operators.push_back({});
      sum_.operators.back().name = name;
    }
    calls_[i].op = at->second;
  }
  operators_.resize(sum_.operators.size());
}

SOMA_INLINE void Summing::add(const Instruction& instruction, const Timed& timed) {
  const std::size_t lane = instruction.position.lane;
  // Transfers of a queue overlap: each counts from the end of the one before it.
  const double begin = (std::max)(timed.start, ended_[lane]);
  const double busy = timed.end - begin;
  LaneUse& use = lanes_[lane];
  ++use.instructions;
  use.busy_ns += busy;
  use.bytes += instruction.cost.bytes;
  use.idle_ns[static_cast<std::size_t>(timed.bound)] += begin - ended_[lane];
  ended_[lane] = timed.end;
  for_parts(instruction, [&](Part& part) {
    ++part.instructions;
    part.busy += busy;
  });
  if (instruction.call != 0) {
    Call& call = calls_[instruction.call - 1];
    call.first = call.ran ? (std::min)(call.first, timed.start) : timed.start;
    call.last = (std::max)(call.last, timed.end);
    call.ran = true;
  }
  sum_.sbuf_peak = (std::max)(sum_.sbuf_peak, std::size_t{instruction.sbuf_used});
  sum_.psum_peak = (std::max)(sum_.psum_peak, std::size_t{instruction.psum_used});
  if (lane >= 4)
    add_transfer(instruction);
  else if (static_cast<Engine>(lane) == Engine::tensor)
    add_product(instruction, busy);
}

SOMA_INLINE void Summing::add_transfer(const Instruction& instruction) {
  const CostFields& cost = instruction.cost;
  const Direction to = instruction.direction;
  if (to == Direction::load || to == Direction::in_hbm) sum_.bytes_read += cost.bytes;
  if (to == Direction::store || to == Direction::in_hbm) sum_.bytes_written += cost.bytes;
  if (to == Direction::on_chip) sum_.bytes_on_chip += cost.bytes;
  moved_ += static_cast<double>(cost.bytes);
  sum_.buffers += cost.buffers;
  lanes_[lane_of(Engine::gpsimd)].busy_ns += descriptors_ns(instruction, machine_);
  sum_.dma_busy_ns +=
      cost.buffers * buffer_ns(instruction, machine_) / static_cast<double>(machine_.dma_engines);
}

SOMA_INLINE void Summing::add_product(const Instruction& instruction, double busy) {
  const double operations = array_operations(instruction);
  sum_.array_operations += operations;
  if (!instruction.cost.transposes) return;
  sum_.transpose_operations += operations;
  sum_.transpose_share += busy;
}

SOMA_INLINE void Summing::add_path(const Instruction& instruction, const Timed& timed, double ran,
                                   double waited) {
  const std::size_t lane = instruction.position.lane;
  const std::size_t wait = lane_count + wait_kind(instruction, timed.bound);
  // The first instruction of the path waited for the launch before anything else.
  const double launch = timed.cause == Timed::nobody ? (std::min)(waited, machine_.launch_ns) : 0;
  const auto add = [&](auto& path) {
    path[lane] += ran;
    path[lane_count] += launch;
    path[wait] += waited - launch;
  };
  add(path_);
  for_parts(instruction, [&](Part& part) { add(part.path); });
}

SOMA_INLINE void Summing::rank(std::string_view kind, std::string name, const Part& part) {
  const double path = part.path_ns();
  if (path > 0)
    sum_.ranks.push_back({kind, std::move(name), part.instructions, path, part.busy, part.bound()});
}

SOMA_INLINE void Summing::finish() {
  const std::string all(queues_name);
  Rank queues{.kind = "queues", .name = all, .busy_ns = sum_.dma_busy_ns, .bound = all};
  for (std::size_t lane = 0; lane < lane_count; ++lane) {
    LaneUse& use = lanes_[lane];
    use.lane = static_cast<Lane>(lane);
    if (use.busy_ns > 0 || use.instructions != 0) sum_.lanes.push_back(use);
    if (lane < 4 && path_[lane] > 0)
      sum_.ranks.push_back(
          {"engine", lane_name(lane), use.instructions, path_[lane], use.busy_ns, lane_name(lane)});
    if (lane < 4) continue;
    queues.instructions += use.instructions;
    queues.path_ns += path_[lane];
  }
  if (queues.path_ns > 0) sum_.ranks.push_back(queues);
  for (std::size_t kind = 0; kind < wait_kinds; ++kind)
    if (path_[lane_count + kind] > 0)
      sum_.ranks.push_back({"wait", std::string(wait_names[kind]), 0, path_[lane_count + kind], 0,
                            std::string(wait_names[kind])});
  for (std::size_t i = 0; i < regions_.size(); ++i)
    rank("region", names_.path(static_cast<std::uint32_t>(i + 1)), regions_[i]);
  for (std::size_t i = 0; i < operators_.size(); ++i) {
    rank("operator", sum_.operators[i].name, operators_[i]);
    sum_.operators[i].bound = operators_[i].bound();
  }
  for (const auto& [line, part] : lines_)
    rank("line", std::string(line.first) + ":" + std::to_string(line.second), part);
  std::stable_sort(sum_.ranks.begin(), sum_.ranks.end(),
                   [](const Rank& a, const Rank& b) { return a.path_ns > b.path_ns; });
  for (const Call& call : calls_) {
    if (!call.ran) continue;
    ++sum_.operators[call.op].calls;
    sum_.operators[call.op].ns += call.last - call.first;
  }
  divide();
}

SOMA_INLINE void Summing::divide() {
  const double tensor = lanes_[lane_of(Engine::tensor)].busy_ns;
  if (tensor > 0) sum_.transpose_share /= tensor;
  const auto bytes = static_cast<double>(sum_.bytes_read + sum_.bytes_written);
  const double products = sum_.array_operations - sum_.transpose_operations;
  const double peak = peak_per_ns(machine_);
  sum_.balance = peak / machine_.hbm_gb_per_s;
  if (sum_.buffers != 0) sum_.mean_buffer = moved_ / static_cast<double>(sum_.buffers);
  if (bytes > 0) sum_.intensity = products / bytes;
  if (sum_.ns == 0) return;
  sum_.hfu = sum_.array_operations / (sum_.ns * peak);
  sum_.mfu = products / (sum_.ns * peak);
  sum_.mbu = bytes / (sum_.ns * machine_.hbm_gb_per_s);
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Summary summary(std::span<const Instruction> record, const RecordNames& names,
                            const Machine& machine, const Timeline& timeline) {
  return detail::Summing(record, names, machine, timeline).run();
}

}  // namespace SOMA_NAMESPACE::neuroncore

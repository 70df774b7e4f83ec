#pragma once
// Summary: a timeline in numbers: the program's time, its bottlenecks, the use of the engines, the
// bytes moved, and the memory in use.

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

namespace soma::neuroncore {

inline std::string lane_name(std::size_t lane) {
  return lane < 4 ? std::string(to_string(static_cast<Engine>(lane)))
                  : "dma queue " + std::to_string(lane - 4);
}

// A possible cause of a program's time.
struct Rank {
  std::string_view kind;  // "engine", "queue", "wait", "region", "operator" or "line"
  std::string name;
  std::uint64_t instructions = 0;
  double path_ns = 0;  // time on the path that decides the end
  double busy_ns = 0;  // its instructions together
  std::string bound;   // the engine, queue or wait that has most of its part of the path
};

// An engine, or a DMA queue.
struct LaneUse {
  Lane lane = 0;
  std::uint64_t instructions = 0, bytes = 0;
  double busy_ns = 0;
  std::array<double, bound_count> idle_ns{};  // before its instructions, by what they waited for
};

// All calls of an operator. `ns`: the times from the first instruction of a call to its last, added
// up.
struct OperatorUse {
  std::string name;
  std::uint64_t calls = 0;
  double ns = 0;
  std::string bound;
};

struct Summary {
  double ns = 0;
  std::uint64_t instructions = 0;
  std::vector<Rank> ranks;             // those with most of the path first
  std::vector<LaneUse> lanes;          // those that have instructions
  std::vector<OperatorUse> operators;  // in the order of their first calls
  double dma_busy_ns = 0;              // mean of the DMA engines

  // The operations of the array (array_operations()), transposes included.
  double array_operations = 0, transpose_operations = 0;
  double transpose_share = 0;  // share of the Tensor engine's busy time
  // The shares of the array's and device memory's peak: all operations (hfu), operations without
  // transposes (mfu), bytes (mbu).
  double hfu = 0, mfu = 0, mbu = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0, bytes_on_chip = 0;  // device memory, and none
  std::uint64_t buffers = 0;
  double mean_buffer = 0;  // bytes
  // Operations for each byte of device memory: the program's, and the machine's at its two peaks.
  double intensity = 0, balance = 0;

  std::size_t sbuf_peak = 0, psum_peak = 0;  // bytes a partition
  // Vector engine: time of element-wise instructions that took two cycles an element because of
  // fp32.
  double fp32_twice_ns = 0;
};

namespace detail {

class Summing {
 public:
  Summing(std::span<const Instruction> record, const RecordNames& names, const Machine& machine,
          const Timeline& timeline)
      : record_(record), names_(names), machine_(machine), timeline_(timeline) {}

  Summary run() {
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

 private:
  static constexpr std::size_t wait_kinds = 4;
  static constexpr std::array<std::string_view, wait_kinds> wait_names{
      "launch", "own-lane waits", "semaphore hops", "start of transfers"};
  static std::size_t wait_kind(const Instruction& instruction, Bound bound) {
    if (instruction.position.lane >= 4) return 3;
    return bound == Bound::launch ? 0 : bound == Bound::result ? 1 : 2;
  }

  struct Part {
    std::uint64_t instructions = 0;
    double busy = 0;
    // Time on the critical path: in instructions of each lane, then in each kind of wait.
    std::array<double, lane_count + wait_kinds> path{};
    double path_ns() const {
      double total = 0;
      for (const double ns : path) total += ns;
      return total;
    }
    std::string bound() const {
      const auto most = std::max_element(path.begin(), path.end());
      const auto at = static_cast<std::size_t>(most - path.begin());
      if (*most == 0) return {};
      return at < lane_count ? lane_name(at) : std::string(wait_names[at - lane_count]);
    }
  };
  struct Call {
    std::size_t op = 0;  // in sum_.operators
    double first = 0, last = 0;
    bool ran = false;
  };
  using Line = std::pair<std::string_view, std::uint32_t>;

  void check_names() const {
    for (std::size_t i = 0; i < names_.regions.size(); ++i)
      if (names_.regions[i].parent > i)
        fail(error_id::neuroncore_record, "report", "region " + std::to_string(i + 1),
             "inside region " + std::to_string(names_.regions[i].parent),
             "inside a region with a lower number");
    for (std::size_t i = 0; i < record_.size(); ++i)
      if (record_[i].region > names_.regions.size() || record_[i].call > names_.calls.size())
        bad_record(i, "of a region or call without a name", "the names of this record");
  }
  void begin_calls() {
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

  template <class Visit>
  void for_parts(const Instruction& instruction, const Visit& visit) {
    for (std::uint32_t at = instruction.region; at != 0; at = names_.regions[at - 1].parent)
      visit(regions_[at - 1]);
    if (instruction.call != 0) visit(operators_[calls_[instruction.call - 1].op]);
    const SourceLine& source = instruction.source;
    if (source.line != 0 && source.file != nullptr) visit(lines_[Line{source.file, source.line}]);
  }

  void add(const Instruction& instruction, const Timed& timed) {
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
    else if (static_cast<Engine>(lane) == Engine::vector)
      add_element_wise(instruction, busy);
  }
  void add_transfer(const Instruction& instruction) {
    const CostFields& cost = instruction.cost;
    const Direction to = instruction.direction;
    if (to == Direction::load || to == Direction::in_hbm) sum_.bytes_read += cost.bytes;
    if (to == Direction::store || to == Direction::in_hbm) sum_.bytes_written += cost.bytes;
    if (to == Direction::on_chip) sum_.bytes_on_chip += cost.bytes;
    moved_ += static_cast<double>(cost.bytes);
    sum_.buffers += cost.buffers;
    sum_.dma_busy_ns +=
        cost.buffers * buffer_ns(instruction, machine_) / static_cast<double>(machine_.dma_engines);
  }
  void add_product(const Instruction& instruction, double busy) {
    const double operations = array_operations(instruction);
    sum_.array_operations += operations;
    if (instruction.opcode != Opcode::transpose) return;
    sum_.transpose_operations += operations;
    sum_.transpose_share += busy;
  }
  void add_element_wise(const Instruction& instruction, double busy) {
    const CostFields& cost = instruction.cost;
    if (instruction.opcode != Opcode::tensor_tensor || detail::is_single_rate(cost)) return;
    const bool fp32 = cost.inputs[0] == DType::fp32 || cost.inputs[1] == DType::fp32 ||
                      cost.result == DType::fp32;
    if (fp32 && 2 * cost.free_size > machine_.issue_cycles) sum_.fp32_twice_ns += busy;
  }

  void add_path(const Instruction& instruction, const Timed& timed, double ran, double waited) {
    const std::size_t lane = instruction.position.lane;
    const std::size_t wait = lane_count + wait_kind(instruction, timed.bound);
    path_[lane] += ran;
    path_[wait] += waited;
    for_parts(instruction, [&](Part& part) {
      part.path[lane] += ran;
      part.path[wait] += waited;
    });
  }

  void rank(std::string_view kind, std::string name, const Part& part) {
    const double path = part.path_ns();
    if (path > 0)
      sum_.ranks.push_back(
          {kind, std::move(name), part.instructions, path, part.busy, part.bound()});
  }
  void finish() {
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      LaneUse& use = lanes_[lane];
      use.lane = static_cast<Lane>(lane);
      if (use.instructions != 0) sum_.lanes.push_back(use);
      if (path_[lane] > 0)
        sum_.ranks.push_back({lane < 4 ? "engine" : "queue", lane_name(lane), use.instructions,
                              path_[lane], use.busy_ns, lane_name(lane)});
    }
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
  void divide() {
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

  std::span<const Instruction> record_;
  const RecordNames& names_;
  const Machine& machine_;
  const Timeline& timeline_;
  Summary sum_;
  std::array<LaneUse, lane_count> lanes_{};
  std::array<double, lane_count> ended_{};
  std::array<double, lane_count + wait_kinds> path_{};
  std::vector<Part> regions_, operators_;
  std::vector<Call> calls_;
  std::map<Line, Part> lines_;
  double moved_ = 0;
};

}  // namespace detail

// Error neuroncore.record: an instruction belongs to a region or call that `names` lacks.
inline Summary summary(std::span<const Instruction> record, const RecordNames& names,
                       const Machine& machine, const Timeline& timeline) {
  return detail::Summing(record, names, machine, timeline).run();
}

}  // namespace soma::neuroncore

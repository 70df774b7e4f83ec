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

namespace SOMA_NAMESPACE::neuroncore {

std::string lane_name(std::size_t lane);

// A possible cause of a program's time.
struct Rank {
  std::string_view
      kind;  // "engine", "queues" (all of them), "wait", "region", "operator" or "line"
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
  // The bytes of device memory that transfers read and wrote, and those moved on the chip.
  std::uint64_t bytes_read = 0, bytes_written = 0, bytes_on_chip = 0;
  std::uint64_t buffers = 0;
  double mean_buffer = 0;  // bytes
  // Operations for each byte of device memory: the program's, and the machine's at its two peaks.
  double intensity = 0, balance = 0;

  std::size_t sbuf_peak = 0, psum_peak = 0;  // bytes a partition
};

namespace detail {

class Summing {
 public:
  Summing(std::span<const Instruction> record, const RecordNames& names, const Machine& machine,
          const Timeline& timeline)
      : record_(record), names_(names), machine_(machine), timeline_(timeline) {}

  Summary run();

 private:
  static constexpr std::size_t wait_kinds = 5;
  static constexpr std::array<std::string_view, wait_kinds> wait_names{
      "launch", "own-lane waits", "semaphore hops", "start of transfers", "descriptors"};
  static constexpr std::string_view queues_name = "dma queues";
  static std::size_t wait_kind(const Instruction& instruction, Bound bound);

  struct Part {
    std::uint64_t instructions = 0;
    double busy = 0;
    // Time on the critical path: in instructions of each lane, then in each kind of wait.
    std::array<double, lane_count + wait_kinds> path{};
    double path_ns() const;
    std::string bound() const;
  };
  struct Call {
    std::size_t op = 0;  // in sum_.operators
    double first = 0, last = 0;
    bool ran = false;
  };
  using Line = std::pair<std::string_view, std::uint32_t>;

  void check_names() const;
  void begin_calls();

  template <class Visit>
  void for_parts(const Instruction& instruction, const Visit& visit) {
    for (std::uint32_t at = instruction.region; at != 0; at = names_.regions[at - 1].parent)
      visit(regions_[at - 1]);
    if (instruction.call != 0) visit(operators_[calls_[instruction.call - 1].op]);
    const SourceLine& source = instruction.source;
    if (source.line != 0 && source.file != nullptr) visit(lines_[Line{source.file, source.line}]);
  }

  void add(const Instruction& instruction, const Timed& timed);
  void add_transfer(const Instruction& instruction);
  void add_product(const Instruction& instruction, double busy);

  void add_path(const Instruction& instruction, const Timed& timed, double ran, double waited);

  void rank(std::string_view kind, std::string name, const Part& part);
  void finish();
  void divide();

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
Summary summary(std::span<const Instruction> record, const RecordNames& names,
                const Machine& machine, const Timeline& timeline);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/summary.ipp>
#endif

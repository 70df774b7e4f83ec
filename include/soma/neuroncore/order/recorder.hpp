#pragma once
// Recorder: with CoreOptions::record it keeps the instructions of a core. It always keeps the names
// of the program's parts, because errors name them.

#include <soma/base/error.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/order/record.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace soma::neuroncore {

class Recorder {
 public:
  // `on`: true to keep instructions.
  Recorder(Heap& heap, bool on) : heap_(heap), on_(on), names_(heap), instructions_(heap) {}

  const RecordNames& names() const { return names_; }
  std::span<const Instruction> instructions() const {
    return {instructions_.data(), instructions_.size()};
  }

  // ---- parts of the program

  // The innermost region that has not been left: Instruction::region.
  std::uint32_t region() const { return region_; }
  // Enters a region within it. Returns the argument of leave().
  std::uint32_t enter(std::string_view name) {
    HeapVector<RegionName>& regions = names_.regions;
    std::uint32_t found = 0;
    while (found < regions.size() &&
           (regions[found].parent != region_ || regions[found].name != name))
      ++found;
    if (found == regions.size()) regions.push_back({std::string(name), region_});
    return std::exchange(region_, found + 1);
  }
  void leave(std::uint32_t around) { region_ = around; }

  // Begins a call of an operator. Calls do not nest.
  void begin_call(std::string_view name) {
    if (!on_) return;
    names_.calls.push_back({std::string(name)});
    call_ = static_cast<std::uint32_t>(names_.calls.size());
  }
  void end_call() { call_ = 0; }

  // ---- instructions

  // Keeps an instruction; call, region and reads_previous are filled in here.
  void add(Instruction instruction) {
    Written& written = written_[instruction.position.lane];
    written.before = std::exchange(written.now, {});
    instruction.call = call_;
    instruction.region = region_;
    instruction.source.file = without_folders(instruction.source.file);
    instructions_.push_back(instruction);
  }
  // The work of the last instruction, if only running it tells the work.
  void set_work(std::uint64_t bytes, double nanoseconds) {
    instructions_.back().cost.bytes = bytes;
    instructions_.back().cost.nanoseconds = nanoseconds;
  }
  // The last instruction touches a region, and waits for an earlier instruction.
  void touch(const Region& region, bool writes) {
    Instruction& last = instructions_.back();
    Written& written = written_[last.position.lane];
    if (writes) {
      if (written.now.count < written.now.regions.size())
        written.now.regions[written.now.count++] = region;
      return;
    }
    for (std::size_t i = 0; i < written.before.count; ++i) {
      const Region& before = written.before.regions[i];
      if (before.space == region.space && before.meets(region)) last.reads_previous = true;
    }
  }
  void wait(Position earlier) {
    std::uint32_t& after = instructions_.back().after[earlier.lane];
    after = after < earlier.number ? earlier.number : after;
  }

  // Moves out everything so far. Later instructions form a new record and continue the numbers.
  // Error neuroncore.record: within a region or an operator.
  Record take() {
    if (region_ != 0 || call_ != 0)
      fail(error_id::neuroncore_record, "take_recorded", "record",
           call_ != 0 ? "cut within the operator " + names_.calls[call_ - 1].name
                      : "cut within the region " + names_.path(region_),
           "a cut outside of all regions and operators");
    Record record(heap_);
    std::swap(record.instructions, instructions_);
    std::swap(record.names.calls, names_.calls);
    record.names.regions.reserve(names_.regions.size());
    for (const RegionName& region : names_.regions) record.names.regions.push_back(region);
    return record;
  }

 private:
  // The regions that an instruction wrote: no instruction writes more than two.
  struct Places {
    std::array<Region, 2> regions{};
    std::size_t count = 0;
  };
  struct Written {
    Places now, before;  // the last instruction of the lane, and the one before it
  };

  Heap& heap_;
  bool on_;
  RecordNames names_;
  HeapVector<Instruction> instructions_;
  std::array<Written, lane_count> written_{};
  std::uint32_t region_ = 0, call_ = 0;
};

}  // namespace soma::neuroncore

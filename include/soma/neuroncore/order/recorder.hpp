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

namespace SOMA_NAMESPACE::neuroncore {

class Recorder {
 public:
  // `on`: true to keep instructions.
  Recorder(Heap& heap, bool on) : heap_(heap), on_(on), names_(heap), instructions_(heap) {}

  const RecordNames& names() const { return names_; }
  std::span<const Instruction> instructions() const;

  // ---- parts of the program

  // The innermost region that has not been left: Instruction::region.
  std::uint32_t region() const { return region_; }
  // Enters a region within it. Returns the argument of leave().
  std::uint32_t enter(std::string_view name);
  void leave(std::uint32_t around) { region_ = around; }

  // Begins a call of an operator. Calls do not nest.
  void begin_call(std::string_view name);
  void end_call() { call_ = 0; }

  // ---- instructions

  // Keeps an instruction; call, region and reads_previous are filled in here.
  void add(Instruction instruction);
  // The work of the last instruction, if only running it tells the work.
  void set_work(std::uint64_t bytes, double nanoseconds);
  // The last instruction touches a region, and waits for an earlier instruction.
  void touch(const Region& region, bool writes);
  // `writes`: it waits only to write.
  void wait(Position earlier, bool writes);

  // Moves out everything so far. Later instructions form a new record and continue the numbers.
  // Error neuroncore.record: within a region or an operator.
  Record take();

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
  // The last instruction of each lane whose bytes the last instruction reads, and overwrites.
  std::array<std::uint32_t, lane_count> read_{}, overwritten_{};
  std::uint32_t region_ = 0, call_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/order/impl/recorder.ipp>
#endif

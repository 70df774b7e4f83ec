#pragma once
// Order: tracks which instructions are ordered, and reports two unordered instructions that touch
// the same bytes.
//
// Each engine and each DMA queue runs its own instructions in order; there is no other order
// (guide: each engine has its own instruction stream; data dependencies are enforced by
// semaphores). With Synchronization::automatic a wait is inserted wherever one is needed, as in the
// vendor's compiler. With manual the program itself waits on semaphores, and touching bytes that an
// unordered instruction touched is Error neuroncore.race.
//
// The order is kept as vector clocks (Mattern, "Virtual time and global states of distributed
// systems", 1988): clock[a][b] is the last instruction of lane b that is known to have ended before
// the next one of lane a begins.

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/neuroncore/order/record.hpp>
#include <soma/neuroncore/order/touches.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

enum class Synchronization : std::uint8_t { automatic, manual };

class Order {
 public:
  using Clock = std::array<std::uint32_t, lane_count>;

  // `names`: the regions' names for errors; they must outlive this object.
  Order(Heap& heap, Synchronization synchronization, bool check_races, const RecordNames& names);

  // Begins the next instruction of a lane.
  Position begin(Lane lane);

  // Notes that the instruction touches a region. Calls `wait(position)` for each earlier
  // instruction that has to end first, in the order in which they touched the region. Error
  // neuroncore.race, after which nothing has been noted.
  template <class Wait>
  void touch(const Touch& touch, const Wait& wait) {
    Touches& touches = touches_[static_cast<std::size_t>(touch.region.space)];
    const std::span<const Touches::Index> close_by = touches.close_by(touch.region);
    const Position at = touch.at;
    waits_.clear();
    for (const Touches::Index index : close_by) {
      const Touch& old = touches[index];
      if (old.at.lane == at.lane || !(touch.writes || old.writes) ||
          !old.region.meets(touch.region))
        continue;
      if (synchronization_ == Synchronization::manual) check(touch, old);
      waits_.push_back(old.at);
      std::uint32_t& seen = clocks_[at.lane][old.at.lane];
      seen = (std::max)(seen, old.at.number);
    }
    // Touches that lie under a write, or under a later read of the same lane, no longer matter.
    for (const Touches::Index index : close_by) {
      const Touch& old = touches[index];
      if ((touch.writes || (!old.writes && old.at.lane == at.lane)) &&
          touch.region.holds(old.region))
        touches.erase(index);
    }
    touches.add(touch);
    for (std::size_t i = 0; i < waits_.size(); ++i) wait(Position(waits_[i]));
  }

  // True if an instruction since the last all_done() wrote any of these bytes.
  bool written(const Region& region);

  // The instructions that have ended when the last instruction of a lane has ended. `all`: all of
  // them; `direct`: those that are not known from the record of that instruction: itself, and the
  // instructions for which the lane has waited since.
  struct Ended {
    Clock all{}, direct{};
  };
  Ended ended(Lane lane) const;
  // `lane` waits for these instructions.
  void join(Lane lane, const Ended& ended);
  // Every lane waits for every other: earlier touches need no watching any more.
  void all_done();
  // The instructions for which a lane has waited by barriers and semaphores since its last
  // instruction began; they now belong to the next instruction.
  Clock take_waits(Lane lane);
  Synchronization synchronization() const { return synchronization_; }

 private:
  void check(const Touch& touch, const Touch& old) const;
  // "number 3 of vector at softmax.cpp:12 in attention/softmax"
  std::string place_of(const Touch& touch) const;
  static std::string name(Lane lane);

  Synchronization synchronization_;
  bool check_races_;
  const RecordNames& names_;
  Clock issued_{};
  std::array<Clock, lane_count> clocks_{}, next_waits_{};
  std::array<Touches, 3> touches_;
  HeapVector<Position> waits_;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/order/impl/order.ipp>
#endif

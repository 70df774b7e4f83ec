#pragma once
// Order: which instructions are ordered, and what goes wrong where two that touch the same bytes
// are not.
//
// An engine and a DMA queue run their own instructions in order and nothing else (guide: each
// engine has its own instruction stream; data dependencies are enforced by semaphores). With
// Synchronization::automatic a wait is inserted wherever one is needed, as the vendor's compiler
// does; with manual the program waits on semaphores itself, and touching bytes that an unordered
// instruction touched is Error neuroncore.race.
//
// What is ordered is kept as vector clocks (Mattern, "Virtual time and global states of distributed
// systems", 1988): clock[a][b] is the last instruction of lane b that is known to have ended before
// the next one of lane a begins.

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace soma::neuroncore {

enum class Synchronization : std::uint8_t { automatic, manual };

class Order {
 public:
  using Clock = std::array<std::uint32_t, lane_count>;

  Order(Heap& heap, Synchronization synchronization, bool check_races)
      : synchronization_(synchronization),
        check_races_(check_races),
        touches_{HeapVector<Touch>(heap), HeapVector<Touch>(heap), HeapVector<Touch>(heap)} {}

  // The next instruction of a lane begins.
  Position begin(Lane lane) { return {lane, ++issued_[lane]}; }

  // It touches a region. `wait(position)` is called for each earlier instruction that has to end
  // first. Error neuroncore.race.
  template <class Wait>
  void touch(Opcode opcode, Position at, const Region& region, bool writes, const Wait& wait) {
    HeapVector<Touch>& touches = touches_[static_cast<std::size_t>(region.space)];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < touches.size(); ++i) {
      const Touch& old = touches[i];
      const bool same_lane = old.at.lane == at.lane;
      // What lies under a write, or under a later read of the same lane, no longer matters.
      const bool covered = (writes || (!old.writes && same_lane)) && region.holds(old.region);
      if (!same_lane && (writes || old.writes) && old.region.meets(region)) {
        if (synchronization_ == Synchronization::manual) check(opcode, at, old);
        const Position before = old.at;
        wait(before);
        std::uint32_t& seen = clocks_[at.lane][before.lane];
        seen = (std::max)(seen, before.number);
      }
      if (covered) continue;
      if (kept != i) touches[kept] = touches[i];
      ++kept;
    }
    touches.resize(kept);
    touches.push_back({region, at, opcode, writes});
  }

  // `lane` waits for everything that happened before `clock`.
  void join(Lane lane, const Clock& clock) {
    for (std::size_t i = 0; i < lane_count; ++i)
      clocks_[lane][i] = (std::max)(clocks_[lane][i], clock[i]);
  }
  // What has ended when the lane's last instruction has.
  Clock clock(Lane lane) const {
    Clock result = clocks_[lane];
    result[lane] = issued_[lane];
    return result;
  }
  // Everybody waits for everybody: what came before needs no watching any more.
  void all_done() {
    for (auto& clock : clocks_) clock = issued_;
    for (auto& touches : touches_) touches.clear();
  }
  Synchronization synchronization() const { return synchronization_; }

 private:
  struct Touch {
    Region region;
    Position at;
    Opcode opcode = Opcode::copy;
    bool writes = false;
  };

  void check(Opcode opcode, Position at, const Touch& old) const {
    if (!check_races_ || clocks_[at.lane][old.at.lane] >= old.at.number) return;
    fail(error_id::neuroncore_race, to_string(opcode),
         "number " + std::to_string(at.number) + " of " + name(at.lane),
         "not ordered after " + std::string(to_string(old.opcode)) + ", number " +
             std::to_string(old.at.number) + " of " + name(old.at.lane) +
             (old.writes ? ", which writes" : ", which reads") + " the same bytes",
         "a wait on a semaphore that it signals");
  }
  static std::string name(Lane lane) {
    std::string text(to_string(engine_of(lane)));
    if (lane >= 4) text.append(" queue ").append(std::to_string(lane - 4));
    return text;
  }

  Synchronization synchronization_;
  bool check_races_;
  Clock issued_{};
  std::array<Clock, lane_count> clocks_{};
  std::array<HeapVector<Touch>, 3> touches_;
};

}  // namespace soma::neuroncore

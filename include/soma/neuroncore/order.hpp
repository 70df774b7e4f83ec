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
#include <soma/neuroncore/instruction.hpp>
#include <soma/neuroncore/tile.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace soma::neuroncore {

enum class Synchronization : std::uint8_t { automatic, manual };

// Bytes that an instruction touches: a rectangle of partitions and bytes of each, or, in HBM, bytes
// from an address on (one "partition").
struct Region {
  enum class Space : std::uint8_t { sbuf, psum, hbm } space = Space::sbuf;
  std::uint32_t first_partition = 0, last_partition = 0;  // one past the end
  std::uintptr_t first_byte = 0, last_byte = 0;           // one past the end

  bool meets(const Region& other) const {
    return first_partition < other.last_partition && other.first_partition < last_partition &&
           first_byte < other.last_byte && other.first_byte < last_byte;
  }
  bool holds(const Region& other) const {
    return first_partition <= other.first_partition && other.last_partition <= last_partition &&
           first_byte <= other.first_byte && other.last_byte <= last_byte;
  }
};

inline Region region_of(const Tile& tile) {
  std::ptrdiff_t low = 0, high = 0;
  for (std::size_t i = 0; i < tile.rank(); ++i) {
    const std::ptrdiff_t reach =
        (static_cast<std::ptrdiff_t>(tile.dimension(i).size) - 1) * tile.dimension(i).stride;
    (reach < 0 ? low : high) += reach;
  }
  const auto width = static_cast<std::ptrdiff_t>(size_of(tile.dtype()));
  const auto offset = static_cast<std::ptrdiff_t>(tile.offset());
  return {tile.memory() == Memory::sbuf ? Region::Space::sbuf : Region::Space::psum,
          static_cast<std::uint32_t>(tile.first_partition()),
          static_cast<std::uint32_t>(tile.first_partition() + tile.partitions()),
          static_cast<std::uintptr_t>(offset + low * width),
          static_cast<std::uintptr_t>(offset + (high + 1) * width)};
}

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
      const Touch old = touches[i];
      const bool conflict = (writes || old.writes) && old.region.meets(region);
      if (conflict && old.at.lane != at.lane) {
        if (synchronization_ == Synchronization::manual) check(opcode, at, old);
        wait(old.at);
        std::uint32_t& seen = clocks_[at.lane][old.at.lane];
        seen = (std::max)(seen, old.at.number);
      }
      // What lies under a write, or under a later read of the same lane, no longer matters.
      const bool covered =
          region.holds(old.region) && (writes || (!old.writes && old.at.lane == at.lane));
      if (!covered) touches[kept++] = old;
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

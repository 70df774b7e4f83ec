#pragma once
// The functions of order.hpp.

#include <soma/neuroncore/order/order.hpp>

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

SOMA_INLINE Order::Order(Heap& heap, Synchronization synchronization, bool check_races,
                         const RecordNames& names)
    : synchronization_(synchronization),
      check_races_(check_races),
      names_(names),
      touches_{Touches(heap), Touches(heap), Touches(heap)},
      waits_(heap) {}

SOMA_INLINE Position Order::begin(Lane lane) { return {lane, ++issued_[lane]}; }

SOMA_INLINE bool Order::written(const Region& region) {
  Touches& touches = touches_[static_cast<std::size_t>(region.space)];
  for (const Touches::Index index : touches.close_by(region))
    if (touches[index].writes && touches[index].region.meets(region)) return true;
  return false;
}

SOMA_INLINE auto Order::ended(Lane lane) const -> Ended {
  Ended result{clocks_[lane], next_waits_[lane]};
  result.all[lane] = result.direct[lane] = issued_[lane];
  return result;
}

SOMA_INLINE void Order::join(Lane lane, const Ended& ended) {
  for (std::size_t i = 0; i < lane_count; ++i) {
    clocks_[lane][i] = (std::max)(clocks_[lane][i], ended.all[i]);
    next_waits_[lane][i] = (std::max)(next_waits_[lane][i], ended.direct[i]);
  }
}

SOMA_INLINE void Order::all_done() {
  clocks_.fill(issued_);
  next_waits_.fill(issued_);
  for (Touches& touches : touches_) touches.clear();
}

SOMA_INLINE auto Order::take_waits(Lane lane) -> Clock {
  Clock result = next_waits_[lane];
  result[lane] = 0;
  next_waits_[lane] = {};
  return result;
}

SOMA_INLINE void Order::check(const Touch& touch, const Touch& old) const {
  if (!check_races_ || clocks_[touch.at.lane][old.at.lane] >= old.at.number) return;
  fail(error_id::neuroncore_race, to_string(touch.opcode), place_of(touch),
       "not ordered after " + std::string(to_string(old.opcode)) + ", " + place_of(old) +
           (old.writes ? ", which writes" : ", which reads") + " the same bytes",
       "a wait on a semaphore that it signals");
}

SOMA_INLINE std::string Order::place_of(const Touch& touch) const {
  std::string text = "number " + std::to_string(touch.at.number) + " of " + name(touch.at.lane);
  if (touch.source.line != 0)
    text.append(" at ")
        .append(without_folders(touch.source.file))
        .append(":")
        .append(std::to_string(touch.source.line));
  if (touch.program != 0) text.append(" in ").append(names_.path(touch.program));
  return text;
}

SOMA_INLINE std::string Order::name(Lane lane) {
  std::string text(to_string(engine_of(lane)));
  if (lane >= 4) text.append(" queue ").append(std::to_string(lane - 4));
  return text;
}

}  // namespace SOMA_NAMESPACE::neuroncore

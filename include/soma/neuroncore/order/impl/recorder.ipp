#pragma once
// The functions of recorder.hpp.

#include <soma/neuroncore/order/recorder.hpp>

#include <soma/base/error.hpp>
#include <soma/neuroncore/memory/region.hpp>
#include <soma/neuroncore/order/record.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::span<const Instruction> Recorder::instructions() const {
  return {instructions_.data(), instructions_.size()};
}

SOMA_INLINE std::uint32_t Recorder::enter(std::string_view name) {
  HeapVector<RegionName>& regions = names_.regions;
  std::uint32_t found = 0;
  while (found < regions.size() &&
         (regions[found].parent != region_ || regions[found].name != name))
    ++found;
  if (found == regions.size()) regions.push_back({std::string(name), region_});
  return std::exchange(region_, found + 1);
}

SOMA_INLINE void Recorder::begin_call(std::string_view name) {
  if (!on_) return;
  names_.calls.push_back({std::string(name)});
  call_ = static_cast<std::uint32_t>(names_.calls.size());
}

SOMA_INLINE void Recorder::add(Instruction instruction) {
  read_ = overwritten_ = {};
  Written& written = written_[instruction.position.lane];
  written.before = std::exchange(written.now, {});
  instruction.call = call_;
  instruction.region = region_;
  instruction.source.file = without_folders(instruction.source.file);
  instructions_.push_back(instruction);
}

SOMA_INLINE void Recorder::set_work(std::uint64_t bytes, double nanoseconds) {
  instructions_.back().cost.bytes = bytes;
  instructions_.back().cost.nanoseconds = nanoseconds;
}

SOMA_INLINE void Recorder::touch(const Region& region, bool writes) {
  Instruction& last = instructions_.back();
  if (region.space == Region::Space::hbm) {
    HbmPlace& place = last.hbm;
    const bool more = place.last != 0;
    place.first = more ? (std::min)(place.first, region.first_byte) : region.first_byte;
    place.last = (std::max)(place.last, region.last_byte);
    place.pattern = more ? 0 : region.pattern();
    place.writes = place.writes || writes;
  }
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

SOMA_INLINE void Recorder::wait(Position earlier, bool writes) {
  Instruction& last = instructions_.back();
  std::uint32_t& after = last.after[earlier.lane];
  after = (std::max)(after, earlier.number);
  std::uint32_t& kind = (writes ? overwritten_ : read_)[earlier.lane];
  kind = (std::max)(kind, earlier.number);
  const std::uint32_t bit = std::uint32_t{1} << earlier.lane;
  if (overwritten_[earlier.lane] > read_[earlier.lane])
    last.reuses |= bit;
  else
    last.reuses &= ~bit;
}

SOMA_INLINE Record Recorder::take() {
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

}  // namespace SOMA_NAMESPACE::neuroncore

#pragma once
// The functions of advice.hpp.

#include <soma/neuroncore/clock/advice.hpp>

#include <soma/neuroncore/clock/busy.hpp>
#include <soma/neuroncore/clock/costs.hpp>
#include <soma/neuroncore/clock/path.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>
#include <soma/neuroncore/clock/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

// The length of a piece up to which it costs as much as a longer one.
SOMA_INLINE double free_bytes(const Machine& machine) {
  return machine.dma_buffer_ns *
         (std::min)(machine.dma_engine_gb_per_s,
                    machine.hbm_gb_per_s / static_cast<double>(machine.dma_engines));
}

SOMA_INLINE Advisor::Advisor(std::span<const Instruction> record, const Machine& machine,
                             const Timeline& timeline, const ClockOptions& options)
    : record_(record),
      machine_(machine),
      timeline_(timeline),
      options_(options),
      parts_(record.size()),
      busy_(busy_ns(record, timeline, machine)) {
  for_path(timeline, [this](std::uint32_t index, double ran, double waited) {
    parts_[index].ran += ran;
    parts_[index].waited += waited;
  });
}

SOMA_INLINE std::vector<Advice> Advisor::run() {
  if (timeline_.ns <= 0) return {};
  rules_of_tensor();
  rules_of_lanes();
  rules_of_transfers();
  same_bytes();
  two_buffers();
  Machine free = machine_;
  free.semaphore_hop_cycles = 0;
  without_wait(
      "engines wait for each other's semaphores at every step: give an engine more work between "
      "two "
      "semaphores, larger tiles or several instructions in a row",
      Bound::semaphore, free, options_);
  ClockOptions without = options_;
  without.own_lane_waits = false;
  without_wait(
      "instructions wait for the result of the one before on their own engine: put independent "
      "instructions between them, or merge both into one (two operators, scale and bias)",
      Bound::result, machine_, without);
  free = machine_;
  free.dma_start_ns = 0;
  without_wait(
      "the start of transfers is waited for: load earlier, into more tiles that take turns, and "
      "move "
      "more bytes with one transfer",
      Bound::launch, free, options_);
  free = machine_;
  free.descriptors_start_cycles = free.descriptor_cycles = 0;
  without_wait(
      "the GpSimd engine writes a descriptor for each row that a gather or scatter chooses at run "
      "time: longer rows are fewer, and rows that are known beforehand need none",
      Bound::descriptors, free, options_);
  without = options_;
  without.ports = false;
  without_wait(
      "engines wait for each other's memory port: Vector and GpSimd engine share SBUF's, Vector "
      "and "
      "Scalar engine PSUM's; work on the other memory, or on the Tensor or Scalar engine",
      Bound::port, machine_, without);
  whole_engines();
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Advice& a, const Advice& b) { return a.gain > b.gain + 1e-9; });
  return std::move(found_);
}

SOMA_INLINE void Advisor::without_wait(std::string_view text, Bound bound, const Machine& machine,
                                       const ClockOptions& options) {
  std::vector<double> weights(record_.size());
  bool any = false;
  for (std::size_t i = 0; i < record_.size(); ++i) {
    const Timed& timed = timeline_.instructions[i];
    // Every transfer waits for its start.
    const bool transfer = record_[i].position.lane >= 4;
    const bool waits = bound == Bound::launch        ? transfer
                       : bound == Bound::descriptors ? timed.bound == bound
                                                     : !transfer && timed.bound == bound;
    if (!waits) continue;
    any = true;
    weights[i] = bound == Bound::port ? parts_[i].ran : parts_[i].waited;
  }
  if (any) add({}, std::string(text), Clock(record_, machine, options).run().ns, weights);
}

SOMA_INLINE void Advisor::add(Shortened engine, std::string text, double ns,
                              const std::vector<double>& weights) {
  const double gain = 1 - ns / timeline_.ns;
  if (gain < advice_least) return;
  if (engine) {
    double& best = best_[static_cast<std::size_t>(*engine)];
    best = (std::max)(best, gain);
  }
  std::map<std::pair<std::string_view, std::uint32_t>, double> lines;
  for (std::size_t i = 0; i < record_.size(); ++i) {
    const SourceLine& source = record_[i].source;
    if (weights[i] > 0 && source.line != 0 && source.file != nullptr)
      lines[{source.file, source.line}] += weights[i];
  }
  std::vector<std::pair<double, std::string>> places;
  for (const auto& [line, weight] : lines)
    places.emplace_back(weight, std::string(line.first) + ":" + std::to_string(line.second));
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  Advice advice{gain, std::move(text), {}};
  constexpr std::size_t most_lines = 3;
  for (std::size_t i = 0; i < (std::min)(most_lines, places.size()); ++i)
    advice.lines.push_back(places[i].second);
  found_.push_back(std::move(advice));
}

SOMA_INLINE void Advisor::rules_of_tensor() {
  faster(Engine::tensor,
         "fp32 products pass the array four times: as bf16, or as tf32, they pass it once",
         [](const Instruction& it, std::size_t) { return is_fp32_product(it) ? 0.25 : 1.0; });
  faster(
      Engine::tensor,
      "transposes take the Tensor engine's time: load the operand transposed once, or keep it in "
      "the layout that products want",
      [](const Instruction& it, std::size_t) { return it.cost.transposes ? 0.0 : 1.0; });
  faster(
      Engine::tensor,
      "products of few columns cost as much as 64: merge them, so that more columns move at once",
      [this](const Instruction& it, std::size_t) {
        const double n = it.cost.free_size;
        return it.position.lane == lane_of(Engine::tensor) && it.opcode == Opcode::matmul &&
                       n < machine_.issue_cycles && it.cost.stationary > it.cost.free_size
                   ? n / (std::min)(machine_.issue_cycles, static_cast<double>(it.cost.stationary))
                   : 1.0;
      });
}

SOMA_INLINE void Advisor::rules_of_lanes() {
  const auto on = [](const Instruction& it, Engine engine) {
    return it.position.lane == lane_of(engine);
  };
  faster(Engine::vector,
         "reciprocal takes 8 cycles an element on the Vector engine: the Scalar engine's "
         "Function::reciprocal takes one, and rows may be multiplied by one reciprocal each",
         [&](const Instruction& it, std::size_t) {
           return on(it, Engine::vector) && it.opcode == Opcode::reciprocal ? 1.0 / 8 : 1.0;
         });
  faster(
      Engine::vector,
      "fp32 element-wise work takes two cycles an element: one cycle with one operand in PSUM, or "
      "with all in bf16 in SBUF",
      [&](const Instruction& it, std::size_t) {
        const CostFields& cost = it.cost;
        const bool fp32 = cost.inputs[0] == DType::fp32 || cost.inputs[1] == DType::fp32 ||
                          cost.result == DType::fp32;
        return on(it, Engine::vector) && it.opcode == Opcode::tensor_tensor && fp32 &&
                       !is_single_rate(cost) && 2 * cost.free_size > machine_.issue_cycles
                   ? 0.5
                   : 1.0;
      });
  faster(Engine::gpsimd,
         "partition_reduce and partition_broadcast on the GpSimd engine are slow: a product with a "
         "column, or a row, of ones does it on the Tensor engine",
         [&](const Instruction& it, std::size_t) {
           const bool across =
               it.opcode == Opcode::partition_reduce || it.opcode == Opcode::partition_broadcast;
           const double product =
               (std::max)(machine_.issue_cycles, static_cast<double>(it.cost.free_size)) /
               machine_.tensor_ghz;
           return across ? (std::min)(1.0, product / interval_ns(it, machine_)) : 1.0;
         });
  faster(Engine::gpsimd,
         "rsqrt on the GpSimd engine takes four cycles an element: the Scalar engine's "
         "Function::rsqrt takes one",
         [&](const Instruction& it, std::size_t) {
           return on(it, Engine::gpsimd) && it.opcode == Opcode::tensor_scalar ? 0.25 : 1.0;
         });
  constexpr std::string_view names[] = {"Tensor", "Vector", "Scalar", "GpSimd"};
  for (const Engine engine : {Engine::vector, Engine::scalar, Engine::gpsimd}) {
    const std::string name(names[static_cast<std::size_t>(engine)]);
    faster(engine,
           "small instructions of the " + name +
               " engine cost as much as large ones: merge neighbours into one of more elements",
           [&](const Instruction& it, std::size_t) {
             if (!on(it, engine) || it.opcode == Opcode::custom_operator) return 1.0;
             const double least =
                 engine == Engine::gpsimd ? gpsimd_start_cycles + 64 : machine_.issue_cycles;
             const double n = it.cost.free_size;
             return n < least ? (std::max)(n, 1.0) / least : 1.0;
           });
    faster(engine,
           "elements more than 16 bytes apart halve the rate of the " + name +
               " engine's memory port: keep neighbours of the innermost dimension side by side",
           [&](const Instruction& it, std::size_t) {
             return on(it, engine) && !it.cost.narrow_stride ? 0.5 : 1.0;
           });
  }
}

SOMA_INLINE std::vector<double> Advisor::in_long_pieces() const {
  const double full = free_bytes(machine_);
  std::vector<double> kept(record_.size(), 1.0);
  // Transfers of one line that lie side by side in device memory could be one: the next columns of
  // the same rows, or the next rows of a block without gaps.
  const auto continues = [](const Instruction& before, const Instruction& it) {
    const HbmPlace &a = before.hbm, &b = it.hbm;
    if (before.position.lane != it.position.lane || before.source.line != it.source.line ||
        before.cost.bytes != it.cost.bytes || before.cost.buffers != it.cost.buffers ||
        a.last == 0 || a.pattern != b.pattern)
      return false;
    return b.first == a.first + it.cost.bytes / it.cost.buffers ||
           (b.first == a.last && a.last - a.first == before.cost.bytes);
  };
  std::array<std::vector<std::size_t>, lane_count> runs;
  const auto end_run = [&](std::vector<std::size_t>& run) {
    if (run.empty()) return;
    const Instruction& it = record_[run[0]];
    const auto count = static_cast<double>(run.size());
    // A transfer has a piece for each partition of the tile at least.
    const double least = it.cost.partitions;
    const double pieces =
        (std::clamp)(count * static_cast<double>(it.cost.bytes) / full, least,
                     (std::max)(least, count * static_cast<double>(it.cost.buffers)));
    const double now = count * it.cost.buffers * buffer_ns(it, machine_);
    for (const std::size_t i : run)
      kept[i] = now == 0 ? 1.0 : (std::min)(1.0, pieces * machine_.dma_buffer_ns / now);
    run.clear();
  };
  for (std::size_t i = 0; i < record_.size(); ++i) {
    const Instruction& it = record_[i];
    if (it.position.lane < 4 || it.cost.buffers == 0) continue;
    auto& run = runs[it.position.lane];
    if (!run.empty() && !continues(record_[run.back()], it)) end_run(run);
    run.push_back(i);
  }
  for (auto& run : runs) end_run(run);
  return kept;
}

SOMA_INLINE void Advisor::rules_of_transfers() {
  const double full = free_bytes(machine_);
  const std::vector<double> contiguous = in_long_pieces();
  const auto piece = [](const Instruction& it) {
    return it.cost.buffers == 0 ? 0.0 : static_cast<double>(it.cost.bytes) / it.cost.buffers;
  };
  faster(Engine::dma,
         "transposing loads move single elements: load rows as they lie and transpose them on the "
         "Tensor engine, or keep the tensor in device memory transposed",
         [&](const Instruction& it, std::size_t i) {
           return it.opcode == Opcode::dma_transpose ? contiguous[i] : 1.0;
         });
  faster(
      Engine::dma,
      "short pieces of transfers cost as much as " + soma::fixed(full, 0) +
          " bytes each: load contiguous rows, or let a partition take several rows that lie side "
          "by side",
      [&](const Instruction& it, std::size_t i) {
        return it.position.lane >= 4 && it.opcode != Opcode::dma_transpose && piece(it) < full / 2
                   ? contiguous[i]
                   : 1.0;
      });
}

SOMA_INLINE void Advisor::same_bytes() {
  struct Loaded {
    std::tuple<std::uintptr_t, std::uintptr_t, std::uint64_t> place;
    std::size_t index;
  };
  std::vector<Loaded> loads;
  std::vector<std::size_t> writes;
  std::size_t used = 0;
  for (std::size_t i = 0; i < record_.size(); ++i) {
    const HbmPlace& place = record_[i].hbm;
    used = (std::max)(used, std::size_t{record_[i].sbuf_used});
    if (place.writes)
      writes.push_back(i);
    else if (record_[i].direction == Direction::load && place.pattern != 0 &&
             record_[i].opcode != Opcode::dma_gather)
      loads.push_back({{place.first, place.last, place.pattern}, i});
  }
  std::stable_sort(loads.begin(), loads.end(),
                   [](const Loaded& a, const Loaded& b) { return a.place < b.place; });
  // Groups of equal loads: those that repeat most come first, and have to fit into SBUF together.
  std::vector<std::pair<std::size_t, std::size_t>> groups;
  for (std::size_t begin = 0; begin < loads.size();) {
    std::size_t end = begin + 1;
    while (end < loads.size() && loads[end].place == loads[begin].place) ++end;
    if (end - begin > 1) groups.emplace_back(begin, end);
    begin = end;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.second - a.first > b.second - b.first;
  });
  const auto changed = [&](std::size_t first, std::size_t last) {
    const HbmPlace& place = record_[first].hbm;
    const auto from = std::upper_bound(writes.begin(), writes.end(), first);
    const auto to = std::lower_bound(writes.begin(), writes.end(), last);
    return std::any_of(from, to, [&](std::size_t at) {
      return record_[at].hbm.first < place.last && place.first < record_[at].hbm.last;
    });
  };
  std::vector<bool> again(record_.size());
  std::size_t most = 0;
  for (const auto& [begin, end] : groups) {
    const Instruction& load = record_[loads[begin].index];
    const std::size_t bytes = load.cost.free_size * size_of(load.cost.result);
    if (used + bytes > machine_.sbuf_partition_bytes) continue;
    for (std::size_t i = begin + 1; i < end; ++i)
      if (!changed(loads[begin].index, loads[i].index)) again[loads[i].index] = true;
    used += bytes;
    most = (std::max)(most, end - begin);
  }
  if (most == 0) return;
  faster(Engine::dma,
         "the same bytes are loaded up to " + std::to_string(most) +
             " times: load them once and keep the tile, SBUF has room for it",
         [&](const Instruction&, std::size_t i) { return again[i] ? 0.0 : 1.0; });
}

SOMA_INLINE void Advisor::two_buffers() {
  std::vector<Instruction> changed(record_.begin(), record_.end());
  std::vector<double> weights(record_.size());
  std::array<double, lane_count> ended{};
  // The last instruction of a line waited as this one may, if the tile that both write were two.
  std::map<std::pair<std::string_view, std::uint32_t>, std::size_t> previous;
  double waited = 0;
  for (std::size_t i = 0; i < record_.size(); ++i) {
    const Instruction& it = record_[i];
    const Timed& timed = timeline_.instructions[i];
    const double idle = timed.start - (std::min)(timed.start, ended[it.position.lane]);
    ended[it.position.lane] = (std::max)(ended[it.position.lane], timed.end);
    const std::pair<std::string_view, std::uint32_t> line(it.source.file, it.source.line);
    const auto before = previous.find(line);
    if (it.reuses != 0) {
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        if ((it.reuses >> lane & 1) != 0)
          changed[i].after[lane] =
              before == previous.end() ? 0 : record_[before->second].after[lane];
      const bool by_reuse = timed.bound == Bound::semaphore && timed.cause != Timed::nobody &&
                            (it.reuses >> record_[timed.cause].position.lane & 1) != 0;
      if (by_reuse || it.position.lane >= 4) weights[i] = idle;
      waited += weights[i];
    }
    if (before == previous.end())
      previous.emplace(line, i);
    else
      before->second = i;
  }
  if (waited == 0) return;
  add({},
      "a tile is written again only when its last reader is done, and engines and transfers take "
      "turns meanwhile: two tiles (buffers) that take turns instead of one let them work at once",
      Clock(changed, machine_, options_).run().ns, weights);
}

SOMA_INLINE double Advisor::busy_share(Engine engine) const {
  return busy_[static_cast<std::size_t>(engine)] / timeline_.ns;
}

SOMA_INLINE void Advisor::whole_engines() {
  constexpr std::string_view names[] = {"Tensor", "Vector", "Scalar", "GpSimd"};
  const auto best = best_;
  const auto about = [&](Engine engine, const std::string& text) {
    const std::size_t before = found_.size();
    faster({}, text, [engine](const Instruction& it, std::size_t) {
      return engine_of(it.position.lane) == engine ? 0.5 : 1.0;
    });
    // Something that a program can do about the engine says more.
    if (found_.size() != before && best[static_cast<std::size_t>(engine)] >= found_.back().gain / 2)
      found_.pop_back();
  };
  for (const Engine engine : {Engine::tensor, Engine::vector, Engine::scalar, Engine::gpsimd}) {
    std::string text = "the " + std::string(names[static_cast<std::size_t>(engine)]) +
                       " engine is busy " + percent(busy_share(engine)) +
                       " of the time, and half its work would save that";
    // An engine that could take element-wise work; not one that would wait for the same port.
    if (engine != Engine::tensor) {
      Engine idle = Engine::scalar;
      if (engine == Engine::scalar)
        idle = busy_share(Engine::gpsimd) < busy_share(Engine::vector) ? Engine::gpsimd
                                                                       : Engine::vector;
      if (busy_share(idle) < 0.5)
        text.append(": move work to the ")
            .append(names[static_cast<std::size_t>(idle)])
            .append(" engine, idle ")
            .append(percent(1 - busy_share(idle)));
    }
    about(engine, text);
  }
  about(Engine::dma, "transfers occupy the DMA engines " + percent(busy_share(Engine::dma)) +
                         " of the time, and half the bytes would save that: 16-bit types, or tiles "
                         "that stay in SBUF");
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::string to_string(const Advice& advice) {
  std::string text = "saves " + detail::percent(advice.gain) + ": " + advice.text;
  for (std::size_t i = 0; i < advice.lines.size(); ++i)
    text.append(i == 0 ? " (" : ", ").append(advice.lines[i]);
  return advice.lines.empty() ? text : text + ")";
}

SOMA_INLINE std::vector<Advice> advice(std::span<const Instruction> record, const Machine& machine,
                                       const Timeline& timeline, const ClockOptions& options) {
  return detail::Advisor(record, machine, timeline, options).run();
}

}  // namespace SOMA_NAMESPACE::neuroncore

#pragma once
// CoreState: the state that the engines of one core share, and the path of every instruction: its
// operands are checked, it is ordered among the others, it runs, and its writes are noted.

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/machine_check.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/partition_io.hpp>
#include <soma/neuroncore/options.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/neuroncore/order/order.hpp>
#include <soma/neuroncore/order/recorder.hpp>
#include <soma/numeric/philox.hpp>
#include <soma/runtime/callback.hpp>
#include <soma/runtime/float_environment.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

// The work of a core so far.
struct Statistics {
  std::array<std::uint64_t, opcode_count> instructions{};
  std::array<std::uint64_t, engine_count> of_engine{};
  std::uint64_t hbm_bytes_read = 0, hbm_bytes_written = 0;
  std::uint64_t dma_buffers = 0;   // pieces side by side that transfers moved
  std::uint64_t out_of_range = 0;  // elements outside an activation function's range
};

// A running instruction: it computes in soma's floating-point modes, whatever the host's are.
struct [[nodiscard]] Running {
  Position at;
  FloatEnvironment environment{};
};

class CoreState;
class HbmView;  // memory/hbm.hpp

// Looks on while instructions run: at what each of them reads, before it computes, and at what it
// has written.
class InstructionWatch {
 public:
  virtual void begins(CoreState& core, Opcode opcode, Lane lane, const SourceLine& source) = 0;
  virtual void reads(CoreState& core, const Tile& tile) = 0;
  virtual void reads(CoreState& core, const HbmView& view) = 0;
  virtual void wrote(CoreState& core, const Tile& tile) = 0;
  virtual void wrote(CoreState& core, const HbmView& view) = 0;

 protected:
  ~InstructionWatch() = default;
};

class CoreState {
 public:
  CoreState(Context& context_in, const Machine& machine_in, const CoreOptions& options_in,
            const EngineKernels& kernels_in);
  CoreState(const CoreState&) = delete;
  CoreState& operator=(const CoreState&) = delete;

  OnChipMemory& memory_of(const Tile& tile);

  // ---- checks

  // The rules for every operand of every engine (guide, "Partition and free dimension rules").
  void check(const CallSite& call, const Operand& operand);
  // The rules for an operand of a transfer, which may begin at any partition.
  void check_transfer(const CallSite& call, const Operand& operand);
  // The rules for an operand of a Vector, Scalar or GpSimd instruction.
  void check_free(const CallSite& call, const Operand& operand);
  // Error neuroncore.generation.
  void check_has(const CallSite& call, Feature feature) const;
  static void check_memory(const CallSite& call, const Operand& operand, Memory memory,
                           std::string_view engine);
  static void check_same_partitions(const CallSite& call, const Operand& a, const Operand& b);
  static void check_same_size(const CallSite& call, const Operand& a, const Operand& b);
  static void check_not_both_psum(const CallSite& call, const Operand& a, const Operand& b);
  static void check_floating(const CallSite& call, const Operand& operand);
  static void check_integer(const CallSite& call, const Operand& operand);
  // For an instruction that reads in an order of its own: it may not write where it reads. Error
  // neuroncore.undefined.
  static void check_apart(const CallSite& call, const Operand& src, const Operand& dst);

  // ---- an instruction that was checked

  // The cost fields of an instruction whose cost depends on the size of that tile, if that is not
  // the result.
  static CostFields cost_of(const Tile& tile, Alu op = Alu::none);

  // Orders and counts the instruction; its inputs have then arrived. Refused before that: results
  // that share a place, and results on bytes of an input, unless they are the same elements. After
  // that the instruction is counted and recorded even if an error follows, so that numbers and
  // records have no gaps.
  Running begin(const SourceLine& source, Opcode opcode, Lane lane,
                std::initializer_list<Operand> reads, std::initializer_list<Operand> writes,
                const CostFields& cost = {}, Direction direction = Direction::none);
  // Notes that the last instruction touches bytes of a tile or of device memory.
  void touch(const SourceLine& source, Opcode opcode, Position at, const Region& region,
             bool writes);
  // True in a dry run, which computes nothing: the instruction ends here as if it had written all
  // of the tile.
  bool dry(const Tile& written, Written by = Written::somebody);
  void end(const Tile& written, Written by = Written::somebody);
  // Tells the watch that the instruction that began keeps some elements of its result, or adds to
  // them.
  void show_kept(const Tile& tile);
  // end() without marking, for an instruction that itself marks the elements that it wrote.
  void show(const Tile& written);

  // Calls run(p, buffer) for each partition, with `floats` floats of scratch (aligned to 64 bytes,
  // with room after them for loops over whole vectors). On any threads, in any order.
  template <class Run>
  void for_partitions(std::size_t partitions, std::size_t floats, std::size_t cost,
                      const Run& run) {
    constexpr std::size_t worth_a_task = 262144;
    const std::size_t total = partitions * (std::max)(cost, std::size_t{1});
    std::size_t tasks = (std::min)(partitions, total / worth_a_task + 1);
    if (tasks > 1) tasks = (std::min)(tasks, static_cast<std::size_t>(context.executor().width));
    const std::size_t room = (floats + 47) / 16 * 16;
    const Storage memory = Storage::allocate(context.heap(), tasks * room * sizeof(float));
    parallel(context, static_cast<int>(tasks), [&](int task) {
      const auto index = static_cast<std::size_t>(task);
      auto* buffer = reinterpret_cast<float*>(memory.data()) + index * room;
      for (std::size_t p = partitions * index / tasks; p < partitions * (index + 1) / tasks; ++p)
        run(p, buffer);
    });
  }

  // ---- transfers in progress (CoreOptions::dma_stress_seed)

  // Runs a transfer now, or keeps it until an instruction waits for it. With an instruction watch
  // transfers do not end late, because the watch sees reads and writes together.
  template <class Run>
  void transfer(Position at, Run run) {
    if (options.dma_stress_seed == 0 || instruction_watch != nullptr) {
      const FloatEnvironment environment;
      return run();
    }
    pending_.push_back({at, running_, Callback<void()>(context.heap(), std::move(run))});
    end_random_transfer();
  }
  // Ends the transfers of a lane up to a number.
  void end_transfers(Lane lane, std::uint32_t number);
  void end_transfers();
  // Ends everything; later instructions wait for it.
  void finish();

  // After an error: drops transfers in progress.
  void abandon();

  Context& context;
  const Machine machine;
  const CoreOptions options;
  const EngineKernels& kernels;
  OnChipMemory sbuf, psum;
  Recorder recorder;
  Order order;  // refers to the names that the recorder keeps
  Statistics statistics;
  Callback<void(Opcode, const Tile&)> watcher;    // Core::watch()
  InstructionWatch* instruction_watch = nullptr;  // Core::watch_instructions()
  HeapVector<Storage> held;                       // Core::hold()

 private:
  struct Pending {
    Position at;
    Opcode opcode;
    Callback<void()> run;
  };

  // With probability 1/4 ends the oldest transfer of a random lane.
  void end_random_transfer();

  static void check_places(const CallSite& call, std::initializer_list<Operand> reads,
                           const Operand& written);
  // Fills in the fields that follow from the operands, and keeps the instruction.
  void record(Instruction& instruction, std::initializer_list<Operand> reads,
              std::initializer_list<Operand> writes);
  static void add_cost(CostFields& cost, const Tile& tile);

  Opcode running_ = Opcode::copy;
  HeapVector<Pending> pending_;
  std::uint64_t stressed_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/core_state.ipp>
#endif

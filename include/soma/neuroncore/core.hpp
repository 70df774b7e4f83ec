#pragma once
// Core: one NeuronCore. Four engines, DMA queues and two on-chip memories, driven by a program that
// is ordinary C++: each call is an instruction, checked against the machine's limits and run at
// once.
//
//   auto core = neuroncore::make_core(context, neuroncore::trn1());     // soma/neuroncore.hpp
//   auto w = core.sbuf.tile(DType::bf16, 128, 128), x = core.sbuf.tile(DType::bf16, 128, 512);
//   auto sums = core.psum.tile(128, 512);
//   core.dma.load(w, neuroncore::hbm(weights)).load(x, neuroncore::hbm(activations));
//   core.tensor.matmul(sums, w, x);

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/engines/gpsimd_engine.hpp>
#include <soma/neuroncore/engines/scalar_engine.hpp>
#include <soma/neuroncore/engines/tensor_engine.hpp>
#include <soma/neuroncore/engines/vector_engine.hpp>
#include <soma/neuroncore/memory/dma.hpp>
#include <soma/neuroncore/memory/tile_view.hpp>
#include <soma/neuroncore/order/semaphore.hpp>
#include <soma/runtime/float_environment.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::neuroncore {

class Core {
  // First: the engines below refer to it.
  CoreState state_;

 public:
  // Used by make_core(). `kernels` must outlive the core.
  Core(Context& context, const Machine& machine, const CoreOptions& options,
       const EngineKernels& kernels)
      : state_(context, machine, options, kernels),
        sbuf{state_},
        psum{state_},
        tensor(state_),
        vector(state_),
        scalar(state_),
        gpsimd(state_),
        dma(state_) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Tiles are freed when their Scope ends. Errors neuroncore.rule_broken.
  struct Sbuf {
    CoreState& state;
    Tile tile(DType dtype, std::size_t partitions, std::size_t elements) {
      // A new tile is filled with NaN, but not while a transfer from a tile whose scope has ended
      // is in progress.
      if (state.options.uninitialised == Uninitialised::nan) state.end_transfers();
      return state.sbuf.tile(state.machine, dtype, partitions, elements);
    }
    std::size_t capacity() const { return state.sbuf.capacity(); }  // bytes a partition
    std::size_t used() const { return state.sbuf.used(); }
    std::size_t high_water() const { return state.sbuf.high_water(); }
  } sbuf;
  // Whole banks.
  struct Psum {
    CoreState& state;
    Tile tile(std::size_t partitions, std::size_t elements, DType dtype = DType::fp32) {
      return state.psum.tile(state.machine, dtype, partitions, elements);
    }
    std::size_t capacity() const { return state.psum.capacity(); }
    std::size_t used() const { return state.psum.used(); }
    std::size_t high_water() const { return state.psum.high_water(); }
  } psum;

  TensorEngine tensor;
  VectorEngine vector;
  ScalarEngine scalar;
  GpsimdEngine gpsimd;
  Dma dma;

  // At its end, frees the tiles and semaphores that were made since it began.
  class Scope {
   public:
    explicit Scope(Core& core)
        : core_(core),
          sbuf_(core.state_.sbuf.mark()),
          psum_(core.state_.psum.mark()),
          semaphores_(core.semaphores_) {}
    // A transfer from a tile ends before the tile's bytes are written again.
    ~Scope() {
      core_.state_.sbuf.release(sbuf_);
      core_.state_.psum.release(psum_);
      core_.semaphores_ = semaphores_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Core& core_;
    OnChipMemory::Mark sbuf_, psum_;
    std::size_t semaphores_;
  };

  // Error neuroncore.rule_broken: the machine has no more semaphores.
  Semaphore semaphore() {
    at_most("semaphore", "semaphores", semaphores_ + 1, state_.machine.semaphores, "in use");
    ++semaphores_;
    return {};
  }
  // Ends all transfers; every engine waits for every other.
  void finish() { state_.finish(); }
  // Instead of finish(), after an error: drops transfers in progress.
  void abandon() { state_.abandon(); }
  // The end of both memories from which tiles are allocated from now on, while there are none.
  // Programs that take turns at the two ends wait less for each other's tiles.
  void allocate_from(MemoryEnd end) {
    state_.sbuf.allocate_from(end);
    state_.psum.allocate_from(end);
  }
  // Programs that take turns at the two ends, until it ends: turn() in front of each.
  class Turns {
   public:
    explicit Turns(Core& core) : core_(core) {}
    ~Turns() { core_.allocate_from(MemoryEnd::first); }
    Turns(const Turns&) = delete;
    Turns& operator=(const Turns&) = delete;
    void turn() {
      core_.allocate_from(next_);
      next_ = next_ == MemoryEnd::first ? MemoryEnd::last : MemoryEnd::first;
    }

   private:
    Core& core_;
    MemoryEnd next_ = MemoryEnd::first;
  };
  // high_water() of both memories counts from here.
  void start_high_water() {
    state_.sbuf.start_high_water();
    state_.psum.start_high_water();
  }

  // Step by step: calls watcher(opcode, written) after each instruction that wrote a tile. An
  // instruction that wrote two tiles calls it once for each; a tile that was written in part is
  // passed as a whole. Watching ends with unwatch(), which the watcher may call itself.
  template <class Watcher>
  void watch(Watcher watcher) {
    state_.watcher = {state_.context.heap(), std::move(watcher)};
  }
  void unwatch() { state_.watcher = {}; }
  // The same with what instructions read, transfers among them; nullptr: nobody looks on any more.
  // Not while transfers are under way.
  void watch_instructions(InstructionWatch* watch) { state_.instruction_watch = watch; }

  const Machine& machine() const { return state_.machine; }
  const CoreOptions& options() const { return state_.options; }
  Context& context() const { return state_.context; }
  const Statistics& statistics() const { return state_.statistics; }

  // ---- the record of instructions

  // A part of the program, from here until the object ends; regions nest. Instructions that begin
  // in a region are recorded with it, and errors of races name it.
  //   const auto softmax = core.region("softmax");
  class Region {
   public:
    Region(Recorder& recorder, std::string_view name)
        : recorder_(recorder), around_(recorder.enter(name)) {}
    ~Region() { recorder_.leave(around_); }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

   private:
    Recorder& recorder_;
    std::uint32_t around_;
  };
  [[nodiscard]] Region region(std::string_view name) { return Region(state_.recorder, name); }
  // The same for a call of an operator, used by the runner of its program; such calls do not nest.
  class Call {
   public:
    Call(Recorder& recorder, std::string_view name) : recorder_(recorder) {
      recorder.begin_call(name);
    }
    ~Call() { recorder_.end_call(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Recorder& recorder_;
  };
  [[nodiscard]] Call call(std::string_view operator_name) {
    return Call(state_.recorder, operator_name);
  }

  // With CoreOptions::record: the instructions in the order in which they were issued, since the
  // beginning or the last take_recorded(), and the names that they refer to.
  std::span<const Instruction> recorded() const { return state_.recorder.instructions(); }
  const RecordNames& record_names() const { return state_.recorder.names(); }
  // Moves the record out, so that a long run can be inspected in pieces. Regions keep their
  // numbers; calls count from 1 again. Error neuroncore.record: within a region or an operator's
  // call.
  Record take_recorded() { return state_.recorder.take(); }

  // ---- inspecting tiles

  // The content of a tile, to inspect it between two instructions: as a tensor [partitions,
  // elements] of the type in which it is held (which can be printed), as floats, and as C++ objects
  // in place. With automatic synchronisation, transfers end first; with manual synchronisation only
  // awaited transfers are visible. Error neuroncore.dry_run: there are no numbers.
  Tensor copy_out(const Tile& tile) {
    look("copy_out", tile);
    const Tensor result =
        Tensor::empty(state_.context, Shape{tile.partitions(), tile.free_size()}, tile.held());
    std::byte* to = result.mutable_raw();
    for (std::size_t p = 0; p < tile.partitions(); ++p)
      read_codes(state_.memory_of(tile), tile, p, to + p * tile.free_size() * tile.width());
    return result;
  }
  template <class T>
  TileView<T> view(const Tile& tile) {
    look("view", tile);
    return TileView<T>(state_.memory_of(tile), tile);
  }
  std::vector<float> values(const Tile& tile) {
    look("values", tile);
    const FloatEnvironment environment;
    std::vector<float> result(tile.partitions() * tile.free_size());
    const PartitionReader reader(state_.kernels, state_.memory_of(tile), tile);
    for (std::size_t p = 0; p < tile.partitions(); ++p)
      reader.copy(p, result.data() + p * tile.free_size());
    return result;
  }

 private:
  void look(std::string_view name, const Tile& tile) {
    if (state_.order.synchronization() == Synchronization::automatic) state_.end_transfers();
    state_.check(name, {"tile", tile});
    if (!state_.options.compute)
      fail(error_id::neuroncore_dry_run, name, "tile", tile.describe() + " of a dry run",
           "numbers: CoreOptions::compute = true");
  }
  std::size_t semaphores_ = 0;
};

}  // namespace soma::neuroncore

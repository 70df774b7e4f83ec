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

namespace SOMA_NAMESPACE::neuroncore {

class Core {
  // First: the engines below refer to it.
  CoreState state_;

 public:
  // Used by make_core(). `kernels` must outlive the core.
  Core(Context& context, const Machine& machine, const CoreOptions& options,
       const EngineKernels& kernels);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Tiles are freed when their Scope ends. Errors neuroncore.rule_broken.
  struct Sbuf {
    CoreState& state;
    Tile tile(DType dtype, std::size_t partitions, std::size_t elements,
              SourceLine source = calling_line());
    std::size_t capacity() const;  // bytes a partition
    std::size_t used() const;
    std::size_t high_water() const;
  } sbuf;
  // Whole banks.
  struct Psum {
    CoreState& state;
    Tile tile(std::size_t partitions, std::size_t elements, DType dtype = DType::fp32,
              SourceLine source = calling_line());
    std::size_t capacity() const;
    std::size_t used() const;
    std::size_t high_water() const;
  } psum;

  TensorEngine tensor;
  VectorEngine vector;
  ScalarEngine scalar;
  GpsimdEngine gpsimd;
  Dma dma;

  // At its end, frees the tiles and semaphores that were made since it began.
  class Scope {
   public:
    explicit Scope(Core& core);
    // A transfer from a tile ends before the tile's bytes are written again.
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Core& core_;
    OnChipMemory::Mark sbuf_, psum_;
    std::size_t semaphores_;
  };

  // Error neuroncore.rule_broken: the machine has no more semaphores.
  Semaphore semaphore(SourceLine source = calling_line());
  // Keeps a tensor until finish() or abandon(), because a view in a transfer holds no reference.
  // Memory that is given back earlier could be another tensor's within the same launch, and waits
  // would depend on addresses. Returns the tensor.
  Tensor hold(const Tensor& memory);
  // To call before the host reads a tensor in the midst of a program. Error neuroncore.rule_broken:
  // an instruction since the last finish() wrote it, so that its bytes may still be on their way.
  void check_host_read(std::string_view name, const Tensor& memory);
  // Ends all transfers; every engine waits for every other.
  void finish();
  // Instead of finish(), after an error: drops transfers in progress.
  void abandon();
  // The end of both memories from which tiles are allocated from now on, while there are none.
  // Programs that take turns at the two ends wait less for each other's tiles.
  void allocate_from(MemoryEnd end);
  // Programs that take turns at the two ends, until it ends: turn() in front of each.
  class Turns {
   public:
    explicit Turns(Core& core) : core_(core) {}
    ~Turns();
    Turns(const Turns&) = delete;
    Turns& operator=(const Turns&) = delete;
    void turn();

   private:
    Core& core_;
    MemoryEnd next_ = MemoryEnd::first;
  };
  // The most bytes of the context's heap so far, without those in which this core keeps its SBUF
  // and PSUM: what tensors take of device memory.
  std::size_t hbm_high_water() const;
  // high_water() of both memories counts from here.
  void start_high_water();

  // Step by step: calls watcher(opcode, written) after each instruction that wrote a tile. An
  // instruction that wrote two tiles calls it once for each; a tile that was written in part is
  // passed as a whole. Watching ends with unwatch(), which the watcher may call itself.
  template <class Watcher>
  void watch(Watcher watcher) {
    state_.watcher = {state_.context.heap(), std::move(watcher)};
  }
  void unwatch();
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
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

   private:
    Recorder& recorder_;
    std::uint32_t around_;
  };
  [[nodiscard]] Region region(std::string_view name);
  // The same for a call of an operator, used by the runner of its program; such calls do not nest.
  class Call {
   public:
    Call(Recorder& recorder, std::string_view name);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Recorder& recorder_;
  };
  [[nodiscard]] Call call(std::string_view operator_name);

  // With CoreOptions::record: the instructions in the order in which they were issued, since the
  // beginning or the last take_recorded(), and the names that they refer to.
  std::span<const Instruction> recorded() const;
  const RecordNames& record_names() const;
  // Moves the record out, so that a long run can be inspected in pieces. Regions keep their
  // numbers; calls count from 1 again. Error neuroncore.record: within a region or an operator's
  // call.
  Record take_recorded();

  // ---- inspecting tiles

  // The content of a tile, to inspect it between two instructions: as a tensor [partitions,
  // elements] of the type in which it is held (which can be printed), as floats, and as C++ objects
  // in place. With automatic synchronisation, transfers end first; with manual synchronisation only
  // awaited transfers are visible. Error neuroncore.dry_run: there are no numbers.
  Tensor copy_out(const Tile& tile, SourceLine source = calling_line());
  template <class T>
  TileView<T> view(const Tile& tile, SourceLine source = calling_line()) {
    look({"view", source}, tile);
    return TileView<T>(state_.memory_of(tile), tile);
  }
  std::vector<float> values(const Tile& tile, SourceLine source = calling_line());

 private:
  void look(const CallSite& call, const Tile& tile);
  std::size_t semaphores_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/impl/core.ipp>
#endif

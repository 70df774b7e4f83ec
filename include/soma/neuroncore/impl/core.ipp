#pragma once
// The functions of core.hpp.

#include <soma/neuroncore/core.hpp>

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

SOMA_INLINE Core::Core(Context& context, const Machine& machine, const CoreOptions& options,
                       const EngineKernels& kernels)
    : state_(context, machine, options, kernels),
      sbuf{state_},
      psum{state_},
      tensor(state_),
      vector(state_),
      scalar(state_),
      gpsimd(state_),
      dma(state_) {}

SOMA_INLINE Tile Core::Sbuf::tile(DType dtype, std::size_t partitions, std::size_t elements,
                                  SourceLine source) {
  // A new tile is filled with NaN, but not while a transfer from a tile whose scope has ended
  // is in progress.
  if (state.options.uninitialised == Uninitialised::nan) state.end_transfers();
  return state.sbuf.tile(state.machine, dtype, partitions, elements, source);
}

SOMA_INLINE std::size_t Core::Sbuf::capacity() const { return state.sbuf.capacity(); }

SOMA_INLINE std::size_t Core::Sbuf::used() const { return state.sbuf.used(); }

SOMA_INLINE std::size_t Core::Sbuf::high_water() const { return state.sbuf.high_water(); }

SOMA_INLINE Tile Core::Psum::tile(std::size_t partitions, std::size_t elements, DType dtype,
                                  SourceLine source) {
  return state.psum.tile(state.machine, dtype, partitions, elements, source);
}

SOMA_INLINE std::size_t Core::Psum::capacity() const { return state.psum.capacity(); }

SOMA_INLINE std::size_t Core::Psum::used() const { return state.psum.used(); }

SOMA_INLINE std::size_t Core::Psum::high_water() const { return state.psum.high_water(); }

SOMA_INLINE Core::Scope::Scope(Core& core)
    : core_(core),
      sbuf_(core.state_.sbuf.mark()),
      psum_(core.state_.psum.mark()),
      semaphores_(core.semaphores_) {}

SOMA_INLINE Core::Scope::~Scope() {
  core_.state_.sbuf.release(sbuf_);
  core_.state_.psum.release(psum_);
  core_.semaphores_ = semaphores_;
}

SOMA_INLINE Semaphore Core::semaphore(SourceLine source) {
  at_most({"semaphore", source}, "semaphores", semaphores_ + 1, state_.machine.semaphores,
          "in use");
  ++semaphores_;
  return {};
}

SOMA_INLINE Tensor Core::hold(const Tensor& memory) {
  state_.held.push_back(memory.storage());
  return memory;
}

SOMA_INLINE void Core::check_host_read(std::string_view name, const Tensor& memory) {
  if (memory.elements() == 0) return;
  std::size_t last = 0;  // the last element
  for (std::size_t d = 0; d < memory.rank(); ++d)
    last += (memory.size(d) - 1) * memory.strides()[d];
  const neuroncore::Region region(neuroncore::Region::Space::hbm, 0, 1,
                                  reinterpret_cast<std::uintptr_t>(memory.address()),
                                  (last + 1) * size_of(memory.dtype()), nullptr, 0);
  if (state_.order.written(region))
    rule_broken(name, "input", memory.describe() + ", which this launch writes",
                "one that the device has finished with: Program::host_inputs lists it");
}

SOMA_INLINE void Core::finish() { state_.finish(); }

SOMA_INLINE void Core::abandon() { state_.abandon(); }

SOMA_INLINE void Core::allocate_from(MemoryEnd end) {
  state_.sbuf.allocate_from(end);
  state_.psum.allocate_from(end);
}

SOMA_INLINE Core::Turns::~Turns() { core_.allocate_from(MemoryEnd::first); }

SOMA_INLINE void Core::Turns::turn() {
  core_.allocate_from(next_);
  next_ = next_ == MemoryEnd::first ? MemoryEnd::last : MemoryEnd::first;
}

SOMA_INLINE std::size_t Core::hbm_high_water() const {
  return state_.context.heap().peak_bytes() - state_.sbuf.host_bytes() - state_.psum.host_bytes();
}

SOMA_INLINE void Core::start_high_water() {
  state_.sbuf.start_high_water();
  state_.psum.start_high_water();
}

SOMA_INLINE void Core::unwatch() { state_.watcher = {}; }

SOMA_INLINE Core::Region::~Region() { recorder_.leave(around_); }

SOMA_INLINE auto Core::region(std::string_view name) -> Region {
  return Region(state_.recorder, name);
}

SOMA_INLINE Core::Call::Call(Recorder& recorder, std::string_view name) : recorder_(recorder) {
  recorder.begin_call(name);
}

SOMA_INLINE Core::Call::~Call() { recorder_.end_call(); }

SOMA_INLINE auto Core::call(std::string_view operator_name) -> Call {
  return Call(state_.recorder, operator_name);
}

SOMA_INLINE std::span<const Instruction> Core::recorded() const {
  return state_.recorder.instructions();
}

SOMA_INLINE const RecordNames& Core::record_names() const { return state_.recorder.names(); }

SOMA_INLINE Record Core::take_recorded() { return state_.recorder.take(); }

SOMA_INLINE Tensor Core::copy_out(const Tile& tile, SourceLine source) {
  look({"copy_out", source}, tile);
  const Tensor result =
      Tensor::empty(state_.context, Shape{tile.partitions(), tile.free_size()}, tile.held());
  std::byte* to = result.mutable_raw();
  for (std::size_t p = 0; p < tile.partitions(); ++p)
    read_codes(state_.memory_of(tile), tile, p, to + p * tile.free_size() * tile.width());
  return result;
}

SOMA_INLINE std::vector<float> Core::values(const Tile& tile, SourceLine source) {
  look({"values", source}, tile);
  const FloatEnvironment environment;
  std::vector<float> result(tile.partitions() * tile.free_size());
  const PartitionReader reader(state_.kernels, state_.memory_of(tile), tile);
  for (std::size_t p = 0; p < tile.partitions(); ++p)
    reader.copy(p, result.data() + p * tile.free_size());
  return result;
}

SOMA_INLINE void Core::look(const CallSite& call, const Tile& tile) {
  if (state_.order.synchronization() == Synchronization::automatic) state_.end_transfers();
  state_.check(call, {"tile", tile});
  if (!state_.options.compute)
    fail(error_id::neuroncore_dry_run, call.text(), Operand{"tile", tile}.text(),
         tile.describe() + " of a dry run", "numbers: CoreOptions::compute = true");
}

}  // namespace SOMA_NAMESPACE::neuroncore

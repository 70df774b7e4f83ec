#pragma once
// Context: everything soma needs from its host, in one object that is passed explicitly. There is
// no other state: two contexts in one program do not disturb each other, and every function that
// takes no context is pure.
//
// make_context() (soma.hpp) makes one: it knows the kernels of this unit or of soma::dispatch.

#include <soma/base/error.hpp>
#include <soma/runtime/executor.hpp>
#include <soma/runtime/heap.hpp>
#include <soma/runtime/log.hpp>
#include <soma/runtime/math.hpp>
#include <soma/runtime/memory.hpp>
#include <soma/system/threads.hpp>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

struct Kernels;           // kernels/table.hpp
struct BuiltInOperators;  // ops/built_in.hpp
class OperatorRegistry;   // ops/registry.hpp
class Device;             // ops/device.hpp
struct SparseTable;       // ops/sparse/table.hpp

// Policy for tensors, variables or tapes that still exist when their context ends. Their memory
// belongs to the context, so using them afterwards would be undefined.
enum class Outlived : std::uint8_t {
  log,        // write an error to the log
  terminate,  // write the error to the log and to the error stream, then end the program
};

struct ContextOptions {
  Executor executor{};      // empty: a ThreadPool, made on first use
  MemoryResource memory{};  // empty: the aligned operator new
  LogSink log{};            // empty: silence
  int threads = 0;          // width of that ThreadPool; 0: the cores this process may use
  Math math = Math::fast;
  std::string_view target{};  // "AVX2", ...; empty: the best that program and CPU have
#ifdef NDEBUG
  Outlived outlived = Outlived::log;
#else
  Outlived outlived = Outlived::terminate;
#endif
};

// An instruction set that the program was compiled for and the CPU supports.
struct Target {
  std::string_view name;
  const Kernels* kernels;
  bool fused_multiply_add;
  // Runs `rounds` rounds of multiply-adds in registers and returns the number of floating-point
  // operations.
  double (*multiply_add_rate)(std::uint64_t rounds) noexcept;
  // The same with the bf16 dot instruction, and with bf16 tiles; nullptr where the target was
  // compiled without these instructions. Call them only on a CPU that has the instructions.
  double (*bf16_dot_rate)(std::uint64_t rounds) noexcept = nullptr;
  double (*bf16_tile_rate)(std::uint64_t rounds) noexcept = nullptr;
  Bf16Choice bf16{};  // on this CPU, with Math::fast
};

// The content of a compiled program: its targets, best first, its operators, and its default
// executor. A unit that only uses a context sees this list and none of the definitions behind it.
struct TargetList {
  std::span<const Target> targets;
  bool dispatched;  // true: the CPU was asked (soma::dispatch); false: compiler flags chose
  const BuiltInOperators* operators = nullptr;
  OwnedExecutor (*make_pool)(int threads) = nullptr;
};

class Context {
 public:
  // Used by make_context. Errors context.unknown_target, context.portable_needs_fma,
  // executor.width.
  Context(const ContextOptions& options, TargetList list);
  // Joins the default pool's threads.
  ~Context();
  // Neither copied nor moved: tensors and tapes keep its address.
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Kernels& kernels() const { return *target_->kernels; }
  const Target& target() const { return *target_; }
  TargetList targets() const { return list_; }
  Math math() const { return math_; }
  Bf16Choice bf16() const;
  Fp32Products fp32_products() const;
  // The function that measures the rate of `products` in registers, which is the upper limit of a
  // matrix product that uses them.
  auto rate(Bf16Products products) const {
    switch (products) {
      case Bf16Products::dot_instruction:
        return target_->bf16_dot_rate;
      case Bf16Products::tiles:
        return target_->bf16_tile_rate;
      case Bf16Products::widened:
        break;
    }
    return target_->multiply_add_rate;
  }

  // The host's executor, or the default pool. The pool starts its threads with the first parallel
  // work. Thread-safe.
  const Executor& executor();

  // True if executor() is soma's own pool, and not the host's.
  bool executor_is_default() const { return pool_.end != nullptr; }

  // The host's memory resource, with counters.
  CountingResource& memory() { return memory_; }
  MemoryUse memory_use() const;
  // A heap that reuses this memory: tensors, tapes and workspaces live here.
  Heap& heap() { return heap_; }

  // A number that this context has not given out before, from 1.
  std::uint64_t next_id();

  const BuiltInOperators& built_in() const { return *list_.operators; }
  // The registry of operators: the built-in ones and the host's own. Defined in ops/registry.hpp.
  OperatorRegistry& operators();
  // The device that runs operators; nullptr: the host's kernels. The device must outlive its use
  // here.
  Device* device() const { return device_; }
  void set_device(Device* device) { device_ = device; }
  // Kernels and operators of sparse training; nullptr if add_sparse() (soma/sparse.hpp) was not
  // called. The table is static and outlives all contexts.
  const SparseTable* sparse() const { return sparse_; }
  void set_sparse(const SparseTable* table) { sparse_ = table; }

  void log(LogLevel level, std::string_view message) const;

 private:
  // An exception that leaves a destructor ends the program and prints its message.
  void complain() noexcept;
  static const Target* choose(std::string_view wanted, std::span<const Target> targets);

  Executor executor_;
  int threads_;
  CountingResource memory_;
  Heap heap_{&memory_};
  LogSink log_;
  Math math_;
  Outlived outlived_;
  TargetList list_;
  const Target* target_;
  Mutex made_on_first_use_;
  std::atomic<bool> executor_ready_{false}, operators_ready_{false};
  OwnedExecutor pool_{};
  OperatorRegistry* operators_ = nullptr;
  void (*end_operators_)(OperatorRegistry*) = nullptr;
  Device* device_ = nullptr;
  const SparseTable* sparse_ = nullptr;
  std::atomic<std::uint64_t> last_id_{0};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/context.ipp>
#endif

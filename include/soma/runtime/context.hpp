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
#include <soma/runtime/mutex.hpp>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace soma {

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
  Context(const ContextOptions& options, TargetList list)
      : executor_(options.executor),
        threads_(options.threads),
        memory_(options.memory),
        log_(options.log),
        math_(options.math),
        outlived_(options.outlived),
        list_(list),
        target_(choose(options.target, list.targets)) {
    if (math_ == Math::portable && !target_->fused_multiply_add)
      fail(error_id::math_needs_fma, "make_context", "target", std::string(target_->name),
           "a target with fused multiply-add for Math::portable (compile with -march=native, or "
           "link "
           "soma::dispatch)");
    if (threads_ < 0 || threads_ > max_threads)
      fail(error_id::executor_width, "make_context", "threads", std::to_string(threads_),
           "0 (automatic) to " + std::to_string(max_threads));
    if (executor_.run != nullptr && executor_.width < 1)
      fail(error_id::executor_width, "make_context", "executor.width",
           std::to_string(executor_.width), "at least 1");
  }
  // Joins the default pool's threads.
  ~Context() {
    if (end_operators_ != nullptr) end_operators_(operators_);
    if (pool_.end != nullptr) pool_.end(pool_.executor.self);
    if (heap_.blocks_in_use() != 0) complain();
  }
  // Neither copied nor moved: tensors and tapes keep its address.
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Kernels& kernels() const { return *target_->kernels; }
  const Target& target() const { return *target_; }
  TargetList targets() const { return list_; }
  Math math() const { return math_; }
  Bf16Choice bf16() const {
    return math_ == Math::fast ? target_->bf16
                               : Bf16Choice{Bf16Products::widened, "Math::portable"};
  }
  Fp32Products fp32_products() const { return soma::fp32_products(bf16().products); }
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
  const Executor& executor() {
    if (!executor_ready_.load(std::memory_order_acquire)) {
      const Mutex::Lock lock(made_on_first_use_);
      if (executor_.run == nullptr) {
        pool_ = list_.make_pool(threads_);
        executor_ = pool_.executor;
      }
      executor_ready_.store(true, std::memory_order_release);
    }
    return executor_;
  }

  // True if executor() is soma's own pool, and not the host's.
  bool executor_is_default() const { return pool_.end != nullptr; }

  // The host's memory resource, with counters.
  CountingResource& memory() { return memory_; }
  MemoryUse memory_use() const { return memory_.use(); }
  // A heap that reuses this memory: tensors, tapes and workspaces live here.
  Heap& heap() { return heap_; }

  // A number that this context has not given out before, from 1.
  std::uint64_t next_id() { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }

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

  void log(LogLevel level, std::string_view message) const { log_(level, message); }

 private:
  // An exception that leaves a destructor ends the program and prints its message.
  void complain() noexcept {
    const std::string given = std::to_string(heap_.blocks_in_use()) +
                              " tensors, variables or parts of tapes with " +
                              std::to_string(heap_.bytes_in_use()) + " bytes are still there";
    log(LogLevel::error, "Context: at its end " + given + "; a context outlives its tensors");
    if (outlived_ == Outlived::terminate)
      fail(error_id::context_outlived, "Context", "end", given,
           "none: a context outlives its tensors (declare it before them)");
  }
  static const Target* choose(std::string_view wanted, std::span<const Target> targets) {
    for (const Target& target : targets)
      if (wanted.empty() || target.name == wanted) return &target;
    std::string present;
    for (const Target& target : targets)
      present.append(present.empty() ? "one of " : ", ").append(target.name);
    fail(error_id::unknown_target, "make_context", "target", quoted(wanted),
         present.empty() ? "a CPU that the program was compiled for" : present);
  }

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

}  // namespace soma

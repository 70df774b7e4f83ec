#pragma once
// The functions of context.hpp.

#include <soma/runtime/context.hpp>

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

SOMA_INLINE Context::Context(const ContextOptions& options, TargetList list)
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

SOMA_INLINE Context::~Context() {
  if (end_operators_ != nullptr) end_operators_(operators_);
  if (pool_.end != nullptr) pool_.end(pool_.executor.self);
  if (heap_.blocks_in_use() != 0) complain();
}

SOMA_INLINE Bf16Choice Context::bf16() const {
  return math_ == Math::fast ? target_->bf16 : Bf16Choice{Bf16Products::widened, "Math::portable"};
}

SOMA_INLINE Fp32Products Context::fp32_products() const {
  return soma::fp32_products(bf16().products);
}

SOMA_INLINE const Executor& Context::executor() {
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

SOMA_INLINE MemoryUse Context::memory_use() const { return memory_.use(); }

SOMA_INLINE std::uint64_t Context::next_id() {
  return last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
}

SOMA_INLINE void Context::log(LogLevel level, std::string_view message) const {
  log_(level, message);
}

SOMA_INLINE void Context::complain() noexcept {
  const std::string given = std::to_string(heap_.blocks_in_use()) +
                            " tensors, variables or parts of tapes with " +
                            std::to_string(heap_.bytes_in_use()) + " bytes are still there";
  log(LogLevel::error, "Context: at its end " + given + "; a context outlives its tensors");
  if (outlived_ == Outlived::terminate)
    fail(error_id::context_outlived, "Context", "end", given,
         "none: a context outlives its tensors (declare it before them)");
}

SOMA_INLINE const Target* Context::choose(std::string_view wanted,
                                          std::span<const Target> targets) {
  for (const Target& target : targets)
    if (wanted.empty() || target.name == wanted) return &target;
  std::string present;
  for (const Target& target : targets)
    present.append(present.empty() ? "one of " : ", ").append(target.name);
  fail(error_id::unknown_target, "make_context", "target", quoted(wanted),
       present.empty() ? "a CPU that the program was compiled for" : present);
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The functions of tape_guards.hpp.

#include <soma/autograd/tape_guards.hpp>

#include <soma/base/error.hpp>

#include <atomic>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE ExclusiveUse::ExclusiveUse(std::atomic<bool>& in_use) : in_use_(in_use) {
  if (in_use.exchange(true, std::memory_order_acquire))
    fail(error_id::tape_threads, "Tape", "tape", "in use by another thread",
         "a tape for each thread");
}

SOMA_INLINE ExclusiveUse::~ExclusiveUse() { in_use_.store(false, std::memory_order_release); }

}  // namespace SOMA_NAMESPACE::detail

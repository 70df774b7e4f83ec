#pragma once
// The machine: processors, their answers to cpuid, memory and its pages.

#include <soma/base/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// The memory of the machine, in bytes; 0 if the system does not report it.
std::uint64_t physical_memory_bytes();

namespace system {

// Logical processors that this process may use; 1 where there are no threads.
int processors();

// The four registers that x86's cpuid gives; false if the CPU has no such leaf, or is another one.
bool cpuid(unsigned leaf, unsigned subleaf, std::array<unsigned, 4>& registers);

// Linux gives tile registers (AMX) to a process that asks for them. A thread that uses tiles has 8
// KiB more state at each switch and interrupt, and an alternate signal stack must have room for it;
// other threads pay nothing. False elsewhere.
bool ask_for_tiles();

// Asks for large pages for whole 2 MiB of a block, which the system grants if it has any.
void prefer_large_pages(void* block, std::size_t bytes);

// Tells the core that this thread spins.
void spin_hint();

}  // namespace system
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/system/impl/machine.ipp>
#endif

#pragma once
// CPU identity, caches and usable cores as the operating system reports them. Each call reads
// cpuid, sysfs and procfs again; values that cannot be read are 0 or empty.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

struct CpuIdentity {
  std::string vendor, name;  // "AuthenticAMD", "AMD EPYC ..."
  int family = 0, model = 0;
  // True if the CPU has AVX512_BF16 and AVX512_VBMI: look-ups by AVX512_VBMI feed the dot
  // instruction. Cooper Lake has AVX512_BF16 alone, and counts as false.
  bool bf16_dot = false;
  bool bf16_tiles = false;  // has AMX_BF16 as well, and this process may use it
};

struct CpuCaches {
  std::size_t l1_data = 0, l2 = 0, l3 = 0;  // bytes, as seen by one core
};

struct CpuShare {
  int cores = 1;     // logical processors in this process's affinity mask
  double quota = 0;  // CPU time that its control group may use, in cores; 0: no limit
  int usable() const;
};

namespace detail {

// The content of a small text file; empty if the file cannot be read.
std::string read_text(const std::string& path);

std::int64_t leading_integer(std::string_view text);

// cpu.max of one control group (version 2): "max 100000" or "150000 100000", quota and period in
// microseconds.
double quota_of(std::string_view cpu_max);

// The tightest limit on the path from this process's control group up to the root. `root` is the
// directory where cgroup is mounted.
double control_group_quota(const std::string& root, std::string_view process_groups);

}  // namespace detail

CpuShare cpu_share();

CpuCaches cpu_caches();

// Asks for the tile registers if the CPU has them.
CpuIdentity cpu_identity();

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/cpu.ipp>
#endif

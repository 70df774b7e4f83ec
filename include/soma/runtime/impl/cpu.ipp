#pragma once
// The functions of cpu.hpp.

#include <soma/runtime/cpu.hpp>

#include <soma/base/config.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace SOMA_NAMESPACE {

SOMA_INLINE int CpuShare::usable()
    const {  // the number of threads that can run at once, at least 1
  // Rounded down: a fork-join step waits for its slowest thread, so one throttled thread holds up
  // all others.
  return quota > 0 ? (std::max)(1, (std::min)(cores, static_cast<int>(quota))) : cores;
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string read_text(const std::string& path) {
  std::string text;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    char buffer[1024];
    std::size_t count;
    while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, count);
    std::fclose(file);
  }
  return text;
}

SOMA_INLINE std::int64_t leading_integer(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

SOMA_INLINE double quota_of(std::string_view cpu_max) {
  const auto space = cpu_max.find(' ');
  if (space == std::string_view::npos || cpu_max.substr(0, 3) == "max") return 0;
  const auto period = leading_integer(cpu_max.substr(space + 1));
  return period > 0 ? static_cast<double>(leading_integer(cpu_max)) / static_cast<double>(period)
                    : 0;
}

SOMA_INLINE double control_group_quota(const std::string& root, std::string_view process_groups) {
  double tightest = 0;
  const auto consider = [&tightest](double quota) {
    if (quota > 0 && (tightest == 0 || quota < tightest)) tightest = quota;
  };
  while (!process_groups.empty()) {
    const auto end = (std::min)(process_groups.find('\n'), process_groups.size());
    const std::string_view line = process_groups.substr(0, end);
    process_groups.remove_prefix((std::min)(end + 1, process_groups.size()));
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string group(line.substr(second + 1));
    const bool version_2 = controllers.empty();
    if (!version_2 && controllers.find("cpu") == std::string_view::npos) continue;
    while (true) {
      if (version_2) {
        consider(quota_of(read_text(root + group + "/cpu.max")));
      } else {
        const std::string folder = root + "/cpu" + group;
        const auto quota = leading_integer(read_text(folder + "/cpu.cfs_quota_us"));
        const auto period = leading_integer(read_text(folder + "/cpu.cfs_period_us"));
        if (quota > 0 && period > 0)
          consider(static_cast<double>(quota) / static_cast<double>(period));
      }
      const auto slash = group.rfind('/');
      if (group.empty() || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return tightest;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE CpuShare cpu_share() {
  CpuShare share;
  share.cores = (std::max)(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
#if defined(__linux__)
  // The kernel refuses a mask smaller than its own, so the mask grows until the call succeeds.
  for (std::size_t processors = 1024; processors <= 1u << 20; processors *= 2) {
    std::vector<unsigned long> mask(processors / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) == 0) {
      share.cores = (std::max)(1, CPU_COUNT_S(bytes, set));
      break;
    }
  }
  share.quota =
      detail::control_group_quota("/sys/fs/cgroup", detail::read_text("/proc/self/cgroup"));
#endif
  return share;
}

SOMA_INLINE CpuCaches cpu_caches() {
  CpuCaches caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string size = detail::read_text(folder + "size");  // "48K"
    if (size.empty()) break;
    const auto bytes = static_cast<std::size_t>(detail::leading_integer(size)) *
                       (size.find('M') != std::string::npos ? 1u << 20 : 1u << 10);
    const auto level = detail::leading_integer(detail::read_text(folder + "level"));
    const bool data = detail::read_text(folder + "type").rfind("Instruction", 0) != 0;
    if (level == 1 && data) caches.l1_data = bytes;
    if (level == 2) caches.l2 = bytes;
    if (level == 3) caches.l3 = bytes;
  }
  return caches;
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool ask_for_tiles() {
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE CpuIdentity cpu_identity() {
  CpuIdentity identity;
#if defined(__x86_64__) || defined(__i386__)
  std::array<unsigned, 4> r{};
  const auto text = [](auto... words) {
    std::string bytes;
    (bytes.append(reinterpret_cast<const char*>(&words), sizeof words), ...);
    return bytes;
  };
  if (__get_cpuid(0, &r[0], &r[1], &r[2], &r[3]) != 0) identity.vendor = text(r[1], r[3], r[2]);
  if (__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) != 0) {
    const unsigned base = (r[0] >> 8) & 15;
    identity.family = static_cast<int>(base == 15 ? base + ((r[0] >> 20) & 255) : base);
    identity.model = static_cast<int>(((r[0] >> 4) & 15) | ((r[0] >> 12) & 0xF0));
  }
  if (__get_cpuid_count(7, 1, &r[0], &r[1], &r[2], &r[3]) != 0) {
    identity.bf16_dot = (r[0] >> 5 & 1) != 0;
  }
  if (__get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3]) != 0) {
    constexpr unsigned amx_bf16_and_tile = 1u << 22 | 1u << 24;
    identity.bf16_dot = identity.bf16_dot && (r[2] >> 1 & 1) != 0;
    identity.bf16_tiles = identity.bf16_dot && (r[3] & amx_bf16_and_tile) == amx_bf16_and_tile &&
                          detail::ask_for_tiles();
  }
  for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf)
    if (__get_cpuid(leaf, &r[0], &r[1], &r[2], &r[3]) != 0)
      identity.name += text(r[0], r[1], r[2], r[3]);
  identity.name.resize(std::strlen(identity.name.c_str()));
#else
  // "CPU implementer : 0x41", "CPU part : 0xd0c" of the first processor.
  const std::string info = detail::read_text("/proc/cpuinfo");
  const auto field = [&info](std::string_view key) {
    const auto at = info.find(key);
    const auto hex = at == std::string::npos ? at : info.find("0x", at);
    int value = 0;
    if (hex != std::string::npos)
      std::from_chars(info.data() + hex + 2, info.data() + info.size(), value, 16);
    return value;
  };
  identity.family = field("CPU implementer");
  identity.model = field("CPU part");
  identity.vendor = identity.family == 0 ? "" : "implementer " + std::to_string(identity.family);
#endif
  return identity;
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The functions of cpu.hpp.

#include <soma/runtime/cpu.hpp>

#include <soma/base/config.hpp>
#include <soma/system/files.hpp>
#include <soma/system/machine.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

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
  const int file = system::open_to_read(path);
  if (file < 0) return text;
  char buffer[1024];
  for (std::ptrdiff_t count; (count = system::read_some(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  system::close_file(file);
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
  share.cores = system::processors();
  share.quota =
      detail::control_group_quota("/sys/fs/cgroup", detail::read_text("/proc/self/cgroup"));
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

SOMA_INLINE CpuIdentity cpu_identity() {
  CpuIdentity identity;
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
  std::array<unsigned, 4> r{};
  const auto text = [](auto... words) {
    std::string bytes;
    (bytes.append(reinterpret_cast<const char*>(&words), sizeof words), ...);
    return bytes;
  };
  if (system::cpuid(0, 0, r)) identity.vendor = text(r[1], r[3], r[2]);
  if (system::cpuid(1, 0, r)) {
    const unsigned base = (r[0] >> 8) & 15;
    identity.family = static_cast<int>(base == 15 ? base + ((r[0] >> 20) & 255) : base);
    identity.model = static_cast<int>(((r[0] >> 4) & 15) | ((r[0] >> 12) & 0xF0));
  }
  if (system::cpuid(7, 1, r)) {
    identity.bf16_dot = (r[0] >> 5 & 1) != 0;
  }
  if (system::cpuid(7, 0, r)) {
    constexpr unsigned amx_bf16_and_tile = 1u << 22 | 1u << 24;
    identity.bf16_dot = identity.bf16_dot && (r[2] >> 1 & 1) != 0;
    identity.bf16_tiles = identity.bf16_dot && (r[3] & amx_bf16_and_tile) == amx_bf16_and_tile &&
                          system::ask_for_tiles();
  }
  for (unsigned leaf = 0x80000002u; leaf <= 0x80000004u; ++leaf)
    if (system::cpuid(leaf, 0, r)) identity.name += text(r[0], r[1], r[2], r[3]);
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

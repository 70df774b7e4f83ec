// The library's description of the machine, and the parsers behind it.

#include <soma/runtime/bf16_products.hpp>
#include <soma/runtime/host.hpp>
#include <soma/runtime/thread_pool.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <sched.h>

using namespace soma;

TEST_CASE("a control group's quota is the tightest on the way up", "[unit]") {
  CHECK(detail::quota_of("max 100000\n") == 0);
  CHECK(detail::quota_of("150000 100000\n") == 1.5);
  CHECK(detail::quota_of("") == 0);
  CHECK(detail::quota_of("nonsense") == 0);
  CHECK(detail::quota_of("5 0") == 0);

  const auto root =
      std::filesystem::temp_directory_path() / ("soma_cgroup_" + std::to_string(getpid()));
  std::filesystem::create_directories(root / "a/b");
  std::filesystem::create_directories(root / "cpu/x");
  const auto write = [&](const char* file, const char* text) {
    std::ofstream(root / file) << text;
  };
  write("a/cpu.max", "300000 100000");
  write("a/b/cpu.max", "max 100000");
  write("cpu/x/cpu.cfs_quota_us", "250000");
  write("cpu/x/cpu.cfs_period_us", "100000");
  CHECK(detail::control_group_quota(root.string(), "0::/a/b\n") == 3);
  CHECK(detail::control_group_quota(root.string(), "0::/a/b\n4:cpu,cpuacct:/x\n") == 2.5);
  CHECK(detail::control_group_quota(root.string(), "0::/nothing/here\n") == 0);
  CHECK(detail::control_group_quota(root.string(), "") == 0);
  std::filesystem::remove_all(root);

  CHECK(CpuShare{8, 2.9}.usable() == 2);
  CHECK(CpuShare{8, 0.5}.usable() == 1);
  CHECK(CpuShare{4, 0}.usable() == 4);
  CHECK(CpuShare{4, 16}.usable() == 4);
}

TEST_CASE("the affinity mask is respected", "[unit]") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const int usable = cpu_share().usable();
  const int width = ThreadPool().width();
  sched_setaffinity(0, sizeof before, &before);
  CHECK(usable == 1);
  CHECK(width == 1);
}

TEST_CASE("the environment does not choose the number of threads", "[unit]") {
  const int before = ThreadPool().width();
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("SOMA_NUM_THREADS", "1", 1);
  CHECK(ThreadPool().width() == before);
  unsetenv("OMP_NUM_THREADS");
  unsetenv("SOMA_NUM_THREADS");
}

TEST_CASE("the bf16 loop is chosen by identity", "[unit]") {
  const CpuIdentity emerald_rapids{"GenuineIntel", "", 6, 207, true},
      zen5{"AuthenticAMD", "", 26, 2, true}, hidden{"AuthenticAMD", "", 26, 2, false},
      zen3{"AuthenticAMD", "", 25, 33, false}, other{"X", "", 1, 1, true},
      tiles{"GenuineIntel", "", 6, 207, true, true};
  CHECK(bf16_choice(emerald_rapids, true).products == Bf16Products::widened);
  CHECK(bf16_choice(zen5, true).products == Bf16Products::dot_instruction);
  for (const int model : {17, 97, 116, 160})  // Zen 4
    CHECK(bf16_choice({"AuthenticAMD", "", 25, model, true}, true).products ==
          Bf16Products::dot_instruction);
  CHECK(bf16_choice(zen3, true).products == Bf16Products::widened);
  CHECK(bf16_choice(zen3, true).reason == "this CPU has no bf16 dot instruction");
  CHECK(bf16_choice(zen5, false).products == Bf16Products::widened);
  CHECK(bf16_choice(hidden, true).products == Bf16Products::widened);
  CHECK(bf16_choice(other, true).products == Bf16Products::widened);
  CHECK(bf16_choice(tiles, true).products == Bf16Products::tiles);
  CHECK(bf16_choice(tiles, false).products == Bf16Products::widened);

  const auto portable = make_context({.math = Math::portable});
  CHECK(portable.bf16().products == Bf16Products::widened);
  CHECK(portable.rate(portable.bf16().products) == portable.target().multiply_add_rate);
  const auto context = make_context();
  CHECK(context.bf16().reason == context.target().bf16.reason);

  CHECK(portable.fp32_products() == Fp32Products::multiply_add);
  CHECK(fp32_products(Bf16Products::dot_instruction) == Fp32Products::multiply_add);
  CHECK(fp32_products(Bf16Products::tiles) == Fp32Products::split_tiles);
}

TEST_CASE("the description says what is in use and what would help", "[unit]") {
  auto context = make_context({.threads = 1});
  const HostDescription host = describe_host(context);
  CHECK(host.target == context.target().name);
  CHECK(host.threads == 1);
  CHECK(host.gflops_per_core > 0.1);
  CHECK(host.copy_gb_per_second > 0.1);
  const std::string text = to_string(host);
  for (const char* key : {"cpu", "cores", "caches", "targets", "build", "math", "bf16 products",
                          "fp32 products", "measured"})
    CHECK(text.find(key) != std::string::npos);
  CHECK(text.find("[" + host.target + "]") != std::string::npos);

  const auto targets = context.targets().targets;
  if (targets.size() > 1) {
    auto slow = make_context({.threads = 1, .target = targets.back().name});
    const HostDescription worse = describe_host(slow, Measure::no);
    CHECK(worse.gflops_per_core == 0);
    REQUIRE(!worse.remedies.empty());
    CHECK(worse.remedies[0].find(targets.front().name) != std::string::npos);
  }
  auto crowded = make_context({.threads = cpu_share().usable() + 5});
  CHECK(describe_host(crowded, Measure::no).remedies.back().find("use fewer") != std::string::npos);
}

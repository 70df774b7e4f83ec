// Runs code of a test in a process of its own: to be killed, or to mount a file system.
#pragma once

#include "catch.hpp"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace soma_test {

inline constexpr int mounting_not_allowed = 98;  // for the child to return

// Returns the action's result from a child process; 99 if the action throws.
template <class Action>
int in_child(Action&& action) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = action();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// Runs work(report), which never ends, in a child process that is killed at a random moment, at
// most 12 ms after it reported a first number. Returns the last number that it reported. `random`
// is the state of the generator.
template <class Work>
std::uint64_t last_report_of_killed(std::uint64_t& random, Work&& work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work([&](std::uint64_t number) {
      if (write(ends[1], &number, sizeof number) != sizeof number) _exit(1);
    });
    _exit(2);
  }
  close(ends[1]);
  std::uint64_t reported = 0;
  REQUIRE(read(ends[0], &reported, sizeof reported) == sizeof reported);
  random = random * 6364136223846793005u + 1442695040888963407u;
  usleep(static_cast<useconds_t>((random >> 33) % 12000));
  REQUIRE(kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  std::uint64_t next = 0;
  while (read(ends[0], &next, sizeof next) == sizeof next) reported = next;
  close(ends[0]);
  return reported;
}

// A file system in memory, seen by this process only. False: not allowed here.
inline bool mount_memory(const std::string& folder, const char* options) {
  if (geteuid() == 0 ? unshare(CLONE_NEWNS) != 0 : unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return false;
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return mount("none", folder.c_str(), "tmpfs", 0, options) == 0;
}

}  // namespace soma_test

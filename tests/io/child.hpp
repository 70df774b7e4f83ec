// What a test does in a process of its own: to be killed, or to mount a file system.
#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace soma_test {

inline constexpr int mounting_not_allowed = 98;  // for the child to return

// What the action returns, in a child process; 99 if it throws.
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

// A file system in memory, seen by this process only. False: not allowed here.
inline bool mount_memory(const std::string& folder, const char* options) {
  if (geteuid() == 0 ? unshare(CLONE_NEWNS) != 0 : unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return false;
  mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  return mount("none", folder.c_str(), "tmpfs", 0, options) == 0;
}

}  // namespace soma_test

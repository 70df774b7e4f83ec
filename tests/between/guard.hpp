// What programs of a generator may do to the process that runs them: end it, or hang.
#pragma once

#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace soma_test {

// How many failures are made small and printed: sabotage.sh asks for few.
inline int most_failures() {
  const char* wanted = std::getenv("SOMA_BETWEEN_FAILURES");
  return wanted != nullptr ? std::atoi(wanted) : 20;
}

// The slow suite's seed: that of the day, or SOMA_BETWEEN_SEED, to run another day's programs.
inline std::uint64_t slow_seed() {
  const char* wanted = std::getenv("SOMA_BETWEEN_SEED");
  return wanted != nullptr ? std::strtoull(wanted, nullptr, 10)
                           : static_cast<std::uint64_t>(std::time(nullptr) / 86400);
}
// How many programs of that seed: SOMA_BETWEEN_PROGRAMS, or `usual`.
inline std::uint32_t slow_programs(std::uint32_t usual) {
  const char* wanted = std::getenv("SOMA_BETWEEN_PROGRAMS");
  return wanted != nullptr ? static_cast<std::uint32_t>(std::atol(wanted)) : usual;
}

// Prints the program that runs when the process ends by a signal, or when a program takes longer
// than `seconds`.
class Guard {
 public:
  explicit Guard(unsigned seconds) : seconds_(seconds) {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM}) std::signal(signal, &show);
  }
  ~Guard() {
    alarm(0);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGALRM})
      std::signal(signal, SIG_DFL);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void begins(const std::string& program) {
    text() = program;
    alarm(seconds_);
  }

 private:
  static std::string& text() {
    static std::string program;
    return program;
  }
  static void show(int signal) {
    std::fprintf(stderr, "%s in the program\n%s", signal == SIGALRM ? "hangs" : "a signal",
                 text().c_str());
    std::_Exit(1);
  }
  unsigned seconds_;
};

}  // namespace soma_test

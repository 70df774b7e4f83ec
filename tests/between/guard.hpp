// What programs of a generator may do to the process that runs them: end it, or hang.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace soma_test {

// How many failures are made small and printed: sabotage.sh asks for few.
inline int most_failures() {
  const char* wanted = std::getenv("SOMA_BETWEEN_FAILURES");
  return wanted != nullptr ? std::atoi(wanted) : 20;
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

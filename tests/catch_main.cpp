// The tests' main(). Catch2's own returns the number of failed assertions, which can be the very
// number that means "skipped" to ctest; this one returns 1 for any failure, and 4 only if every
// case was skipped.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

namespace soma_test {

namespace {
constexpr int all_skipped = 4;
std::uint64_t cases_run = 0;
std::uint64_t cases_skipped = 0;
std::uint64_t cases_failed = 0;
bool skipped_now = false;
const std::thread::id main_thread = std::this_thread::get_id();

class Count : public Listener {
 public:
  using Listener::Listener;
  void testCaseStarting(const Catch::TestCaseInfo&) override { skipped_now = false; }
  // Catch2 counts without a lock: two threads at once would end the program in one run of fifty.
  void assertionStarting(const Catch::AssertionInfo& assertion) override {
    if (std::this_thread::get_id() == main_thread) return;
    std::cerr << assertion.lineInfo.file << ':' << assertion.lineInfo.line << ": "
              << assertion.macroName
              << " on a thread of its own; keep what it found and check it after the join\n";
    std::abort();
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool failed = stats.totals.assertions.failed > 0 || stats.totals.testCases.failed > 0;
    ++cases_run;
    cases_failed += failed ? 1 : 0;
    cases_skipped += skipped_now && !failed ? 1 : 0;
  }
};
CATCH_REGISTER_LISTENER(Count)
}  // namespace

// Called through SOMA_TEST_SKIP with Catch2 2.x, which has no SKIP of its own.
void note_skip(const std::string& reason);
void note_skip(const std::string& reason) {
  skipped_now = true;
  std::cout << "SKIPPED: " << reason << std::endl;
}

}  // namespace soma_test

int main(int argc, char* argv[]) {
  using namespace soma_test;
  const int code = Catch::Session().run(argc, argv);
  if (cases_skipped > 0) std::cout << cases_skipped << " of " << cases_run << " skipped\n";
  if (cases_failed > 0) return 1;
  if (cases_skipped > 0 && cases_skipped == cases_run) return all_skipped;
  return code;
}

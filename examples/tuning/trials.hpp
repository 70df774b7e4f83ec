// --tune of the sparse programs: settings are tried one after another, each with an equal share of
// the time, and a table says what each of them reaches. Nothing else is written.
#pragma once

#include <soma/runtime/stop_flag.hpp>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace tuning {

struct Result {
  double quality = 0;       // on held-out rows
  std::uint64_t bytes = 0;  // the model's size
  double microseconds = 0;  // the median of answers
};

struct Trial {
  std::string kind, options;  // as the command line has them
  // Error runtime.stopped as soon as the flag is set.
  std::function<Result(const soma::StopFlag& stop)> run;
};

struct Budget {
  double seconds = 20;       // by the processor's clock, of all threads together
  std::uint64_t passes = 0;  // not 0: trials have so many passes and no limit of time
};

// Tries all and prints a line for each; the first has no limit, so that there is a result. The last
// line is the command line of the best, `command` with its options. A trial that an error ends, or
// that its share of the time does not suffice for, has a line that says so. With a budget of passes
// the lines have no times: the same seed gives the same table. Error runtime.stopped: `stop` is
// set.
void run(const std::vector<Trial>& trials, const Budget& budget, std::string_view quality,
         const std::string& command, const soma::StopFlag& stop, std::ostream& out);

// The processor seconds of all threads of this process.
double cpu_seconds();

}  // namespace tuning

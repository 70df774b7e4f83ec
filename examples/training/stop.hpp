// Signals that end a program.
#pragma once

#include <soma/train/stop_flag.hpp>

#include <stdexcept>

// Set by the program's signal handlers: finish accepted work, then end.
extern soma::train::StopFlag stop_requested;

// A signal has ended a command early. Exit code 1.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

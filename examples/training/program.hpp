// The frame of a training program: standard streams, signals, the command line, and errors as exit
// codes: 0 done, 1 the run failed, 2 it was called wrongly. An error is one line that ends with an
// id.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

class Launch;

// Once, before anything else: streams that the caller closed stay closed, and signals end the
// program in an orderly way (training/stop.hpp).
void prepare_process();

// The file that also gets the reason of an end by a second signal; empty: none.
void report_failures_to(const std::string& path);

// "--name" of the options of a command.
std::vector<std::string> options_of(const CLI::App& app, const std::string& command,
                                    bool flags_only);

// Parses a command line without the program's name. Returns false if only help or the version was
// requested, which is printed. Errors UsageError, CLI::ParseError.
bool parse(CLI::App& app, std::vector<std::string> arguments);

// "--version", and options that are given twice: the last one counts.
void set_up(CLI::App& app, const std::string& program);

// Adds a command, with the option --config.
CLI::App& add_command(CLI::App& app, const char* name, const char* help);

// Runs the program, which returns its exit code, and reports what it throws. The last output is
// written before the ranks part.
int run_program(Launch& launch, const std::function<int()>& program);

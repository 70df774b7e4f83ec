#pragma once
// The frame of a tool's main(): its command line is read, it runs, and what goes wrong is one line
// that ends with an id.

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>

#include <CLI/CLI.hpp>

#include <iostream>
#include <string>

namespace tools {

// The tool was called wrongly.
struct Usage {
  std::string message;
};

// Calls run() once `app` has read the command line. Returns what main() returns: 0 done, 1 it
// failed, 2 the tool was called wrongly, which includes the name of an unknown instance.
template <class Run>
int run_program(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
    run();
    return 0;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    std::cerr << error.what() << " (see " << app.get_name() << " --help) [cli.usage]\n";
    return 2;
  } catch (const Usage& usage) {
    std::cerr << usage.message << " [cli.usage]\n";
    return 2;
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return error.id() == soma::error_id::neuroncore_instance ? 2 : 1;
  }
}

}  // namespace tools

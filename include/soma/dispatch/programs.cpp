// soma::dispatch: the programs of the built-in operators, compiled once.

#include <soma/dispatch/engine.hpp>
#include <soma/programs/all.hpp>

std::span<const soma::OperatorProgram> soma::dispatch::built_in_programs() {
  return programs::detail::program_list;
}

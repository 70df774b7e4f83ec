// The effect of an error: the default; with the argument own_handler a handler that returns, with
// own_end a handler that ends the program.
#include <soma/api.hpp>

#include <cstdio>
#include <cstdlib>
#include <string_view>

void own_end(const soma::Error& error) {
  std::printf("own end: %s\n", error.what());
  std::exit(42);
}
void own_handler(const soma::Error& error) {
  std::printf("own handler: %s\n", error.what());
  std::fflush(stdout);
}

int main(int count, char** arguments) {
  const std::string_view choice = count > 1 ? arguments[1] : "";
  if (choice == "own_end") soma::set_error_handler(own_end);
  if (choice == "own_handler") soma::set_error_handler(own_handler);
  return soma::find_format("fp9").bits();
}

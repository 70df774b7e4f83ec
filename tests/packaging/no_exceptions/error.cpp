// The effect of an error: the default, a handler that returns, or a handler that ends the program.
#include <soma/api.hpp>

#include <cstdio>
#include <cstdlib>

void own_end(const soma::Error& error) {
  std::printf("own end: %s\n", error.what());
  std::exit(42);
}
void own_handler(const soma::Error& error) {
  std::printf("own handler: %s\n", error.what());
  std::fflush(stdout);
}

int main() {
#if defined(USE_OWN_END)
  soma::set_error_handler(own_end);
#elif defined(USE_OWN_HANDLER)
  soma::set_error_handler(own_handler);
#endif
  return soma::find_format("fp9").bits();
}

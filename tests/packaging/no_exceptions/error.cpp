// The effect of an error without exceptions: the default, a handler, or a SOMA_THROW of the host's
// own.
#include <cstdio>
#include <cstdlib>

namespace soma {
class Error;
}
[[noreturn]] void own_throw(const soma::Error& error);
void own_handler(const soma::Error& error);

#if defined(USE_OWN_THROW)
#define SOMA_THROW(error) own_throw(error)
#elif defined(USE_OWN_HANDLER)
#define SOMA_ERROR_HANDLER(error) own_handler(error)
#endif

#include <soma/api.hpp>

void own_throw(const soma::Error& error) {
  std::printf("own throw: %s\n", error.what());
  std::exit(42);
}
void own_handler(const soma::Error& error) {
  std::printf("own handler: %s\n", error.what());
  std::fflush(stdout);
}

int main() { return soma::find_format("fp9").bits(); }

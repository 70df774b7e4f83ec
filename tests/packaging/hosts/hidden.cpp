// Catches an error of the library.
#include <soma/soma.hpp>

#include <cstdio>

int main() {
  try {
    static_cast<void>(soma::find_format("fp9"));
  } catch (const soma::Error& error) {
    if (error.id() != soma::error_id::unknown_format) return 1;
    std::printf("%s\n", error.what());
    return 0;
  }
  return 2;
}

#include <cstdio>

bool baseline();
bool middle();
bool native();

int main() {
  if (!baseline()) return 1;
#ifdef SOMA_RUN_MIDDLE
  if (!middle()) return 2;
#endif
  if (!native()) return 3;
  std::puts("side by side");
  return 0;
}

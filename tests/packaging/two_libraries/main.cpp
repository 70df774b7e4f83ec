// Knows nothing of soma: loads the two libraries, uses both, closes one, uses the other.
#include <dlfcn.h>

#include <cstdio>
#include <thread>

using Train = float(int steps);

int main() {
  for (int round = 0; round < 2; ++round) {
    void* first = dlopen("./first.so", RTLD_NOW | RTLD_LOCAL);
    void* second = dlopen("./second.so", RTLD_NOW | RTLD_LOCAL);
    if (first == nullptr || second == nullptr) {
      std::puts(dlerror());
      return 1;
    }
    auto* train_first = reinterpret_cast<Train*>(dlsym(first, "train"));
    auto* train_second = reinterpret_cast<Train*>(dlsym(second, "train"));
    float loss = 0;
    std::thread beside([&] { loss = train_first(100); });
    const float other = train_second(100);
    beside.join();
    dlclose(first);
    if (loss != other || train_second(100) != other || !(other < 0.1f)) return 2;
    dlclose(second);
  }
  std::puts("both trained");
  return 0;
}

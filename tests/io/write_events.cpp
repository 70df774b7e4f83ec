// Writes an event file for tensorboard.sh: write_events FOLDER

#include <soma/tensorboard.hpp>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    {  // A run that was killed after 50 steps, and began anew.
      soma::EventFile killed(arguments[1], {.suffix = ".train"});
      killed.start(0);
      for (int step = 0; step < 50; ++step) killed.scalar("loss", step * 1000000000LL, -1, 900);
    }
    soma::EventFile events(arguments[1], {.suffix = ".train"});
    events.start(0);
    for (int step = 0; step < 100; ++step) {
      events.scalar("loss", step * 1000000000LL, 1.0 / (1 + step), 1000.5 + step);
      if (step % 10 == 0) events.scalar("caf\u00e9/rate", step, -1e-5 * step);
    }
  } catch (const soma::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

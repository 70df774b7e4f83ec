// The header behind component tensorboard, in a unit of its own.
#include <soma/tensorboard.hpp>

double time_of_events();
double time_of_events() { return soma::EventFile::now(); }

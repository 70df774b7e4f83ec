// Must not compile: fp4 has no infinity to overflow to (only problem() sees it). To be said:
//   impossible FloatFormat record: see FloatFormat::problem() for what it lacks
#include <soma/numeric/minifloat.hpp>

using Impossible = soma::minifloat<soma::formats::fp4_e2m1.with(soma::Overflow::infinity)>;

int main() { return Impossible(1.0f) == Impossible(1.0f) ? 0 : 1; }

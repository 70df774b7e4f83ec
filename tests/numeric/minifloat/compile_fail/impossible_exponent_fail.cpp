// Must not compile: a type of an impossible record. The message has to contain
//   impossible FloatFormat record: see FloatFormat::problem() for what it lacks
#include <soma/numeric/minifloat.hpp>

using Impossible = soma::minifloat<soma::FloatFormat{.exponent_bits = 9, .mantissa_bits = 2}>;

int main() { return static_cast<int>(sizeof(Impossible)); }

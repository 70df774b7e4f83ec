// The headers behind component io, in a unit of their own.
#include <soma/io.hpp>

unsigned long long hash_of_nothing();
unsigned long long hash_of_nothing() { return soma::state_hash({}); }

// A program that makes a context, which has containers in it.
#include <soma/soma.hpp>

int main() { return soma::make_context({.threads = 1}).target().name.empty(); }

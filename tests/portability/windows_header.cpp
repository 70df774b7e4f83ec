// The real <windows.h> before soma and after it: its macros hit no name of soma's, and soma's
// declarations of system calls agree with its own.
#if defined(SOMA_TEST_WINDOWS_FIRST)
#include <windows.h>
#endif

#include <soma/models.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include <windows.h>

#include <psapi.h>

int main() { return soma::models::BertConfig::small_model().layers == 4 ? 0 : 1; }

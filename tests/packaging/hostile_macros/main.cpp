// Names that system headers and old code define as macros. A header that uses one bare does not
// survive. The standard and foreign headers come first: they owe us nothing.
#include <soma_foreign.hpp>

#define min(a, b) soma_was_hit_by_min
#define max(a, b) soma_was_hit_by_max
// As <windows.h> has them: declarations and their uses suffer in different ways, so a name that is
// merely renamed would still compile.
#define near
#define far
#define small char
#define ERROR 0
#define interface struct
#define IN
#define OUT
#define OPTIONAL
#define CONST const
#define VOID void
#define DELETE (0x00010000L)
#define TRUE 1
#define FALSE 0
#define pascal __attribute__((stdcall))
#define cdecl
#define I soma_was_hit_by_I
// Qt's.
#define slots
#define signals public
#define emit
#define foreach soma_was_hit_by_foreach

#include <soma/soma.hpp>

int main() {
  auto context = soma::make_context();
  static_cast<void>(context);
  return 0;
}

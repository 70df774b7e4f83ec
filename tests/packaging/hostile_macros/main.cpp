// Names that system headers and old code define as macros. A header that uses one bare does not
// survive. The standard and foreign headers come first: they owe us nothing.
#include <soma_foreign.hpp>

#define min(a, b) soma_was_hit_by_min
#define max(a, b) soma_was_hit_by_max
#define near soma_was_hit_by_near
#define far soma_was_hit_by_far
#define small soma_was_hit_by_small
#define ERROR soma_was_hit_by_ERROR
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

#include <helper.hpp>

static int helper() { return FACTOR; }  // the other file has one of that name too

torch::Tensor scale(const torch::Tensor& x) {
  static_assert(STACK_SIZE == 20000, "");
  return torch::mul(x, helper());
}

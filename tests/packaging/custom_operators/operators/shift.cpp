#include <helper.hpp>

static double helper(double by) { return by; }

torch::Tensor shift(torch::Tensor& x, const double& by) { return torch::add(x, helper(by)); }

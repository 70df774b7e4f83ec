#include <torch/torch.h>

torch::Tensor scale(const torch::Tensor& x, double) { return x; }
double sum(const torch::Tensor&) { return 0; }

#pragma once
#include <torch/torch.h>
inline torch::Tensor like(const torch::Tensor& x) { return torch::empty(x.sizes(), torch::kFloat); }

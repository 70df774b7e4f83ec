#pragma once
// get_cpu_id(), get_cpu_count() and get_dst_tensor(), which torch/torch.h has as well.

#include <soma/compat/torch/torch.h>

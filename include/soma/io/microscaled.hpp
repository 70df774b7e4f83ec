#pragma once
// Tensors in MXFP4 as public model files hold them: under the names of a tensor with _blocks and
// _scales behind it.
//
//   name_blocks  uint8 [..., groups, 16]  codes of fp4_e2m1, two in a byte, the first in the low
//                                         half; 32 neighbours of the last dimension are a group
//   name_scales  uint8 or e8m0 [..., groups]  the exponent of a group's scale, plus 127; 255 is NaN

#include <soma/numeric/scaling.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/tensor/tensor.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

// The names whose two parts are there, ascending.
std::vector<std::string> microscaled_names(const StateDict& tensors);

// The numbers of `name`, [..., 32 groups], in fp32 or bf16, which is exact, except that magnitudes
// of 2^128 and more become infinity. Takes 16 or 8 times the bytes of the codes. Errors
// state.missing_name, safetensors.dtype and safetensors.size (the parts have other types or shapes
// than above), tensor.dtype (another result), memory.exhausted.
Tensor read_microscaled(Context& context, const StateDict& tensors, std::string_view name,
                        DType dtype = DType::bf16);

// Adds the two parts of a tensor of a floating type [..., 32 groups], rounded to nearest even with
// scales by the rule. Groups with a number that is not finite read NaN. Errors safetensors.size
// (the last dimension is no multiple of 32), tensor.rank, tensor.dtype, state.duplicate_name.
void set_microscaled(Context& context, StateDict& tensors, std::string_view name,
                     const Tensor& tensor, ScaleRule rule = ScaleRule::floor);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/microscaled.ipp>
#endif

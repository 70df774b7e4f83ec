// The kernels of the one target that this unit's flags allow, as a type with static members. They
// have internal linkage and stand in a namespace named after the target.

#pragma once

#include <soma/base/config.hpp>
#include <soma/kernels/attention/attention-inl.hpp>
#include <soma/kernels/convert/convert-inl.hpp>
#include <soma/kernels/element/element-inl.hpp>
#include <soma/kernels/embedding/embedding-inl.hpp>
#include <soma/kernels/gemm/gemm-inl.hpp>
#include <soma/kernels/image/image-inl.hpp>
#include <soma/kernels/loss/loss-inl.hpp>
#include <soma/kernels/norm/norm-inl.hpp>
#include <soma/kernels/optimizer/optimizer-inl.hpp>
#include <soma/kernels/quantize/expand-inl.hpp>
#include <soma/kernels/quantize/quantize-inl.hpp>
#include <soma/kernels/quantize/rotate-inl.hpp>
#include <soma/kernels/random/random-inl.hpp>
#include <soma/kernels/reduce/reduce-inl.hpp>
#include <soma/kernels/sequence/sequence-inl.hpp>

#include <hwy/highway.h>

namespace SOMA_NAMESPACE {

struct Kernels {
  static constexpr auto convert = HWY_NAMESPACE::convert_kernel;
  static constexpr auto random = HWY_NAMESPACE::random_kernel;
  static constexpr const GemmKernels& gemm = HWY_NAMESPACE::gemm_kernels;
  static constexpr const AttentionKernels& attention = HWY_NAMESPACE::attention_kernels;
  static constexpr const ElementKernels& element = HWY_NAMESPACE::element_kernels;
  static constexpr const NormKernels& norm = HWY_NAMESPACE::norm_kernels;
  static constexpr const LossKernels& loss = HWY_NAMESPACE::loss_kernels;
  static constexpr const ReduceKernels& reduce = HWY_NAMESPACE::reduce_kernels;
  static constexpr const EmbeddingKernels& embedding = HWY_NAMESPACE::embedding_kernels;
  static constexpr const ImageKernels& image = HWY_NAMESPACE::image_kernels;
  static constexpr const OptimizerKernels& optimizer = HWY_NAMESPACE::optimizer_kernels;
  static constexpr auto quantize = HWY_NAMESPACE::quantize_kernel;
  static constexpr auto expand = HWY_NAMESPACE::expand_kernel;
  static constexpr auto rotate = HWY_NAMESPACE::rotate_kernel;
  static constexpr const SequenceKernels& sequence = HWY_NAMESPACE::sequence_kernels;
};

}  // namespace SOMA_NAMESPACE

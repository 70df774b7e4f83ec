#pragma once
// The kernel table: all code that soma compiles for an instruction set, behind plain functions.
//
// All code above the table is the same in every unit, whatever the compiler's flags. An entry works
// on one thread and on memory that its caller has checked; the caller holds a FloatEnvironment
// (parallel() does). Entries never allocate or throw.
//
// Where a unit has kernels of its own (base/config.hpp), Kernels is a type of the same form whose
// members are static: a call names its kernel at compile time, and the unit compiles no other.

#include <soma/kernels/attention/args.hpp>
#include <soma/kernels/convert/args.hpp>
#include <soma/kernels/element/args.hpp>
#include <soma/kernels/embedding/args.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/image/args.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/quantize/args.hpp>
#include <soma/kernels/random/args.hpp>
#include <soma/kernels/reduce/args.hpp>
#include <soma/kernels/sequence/args.hpp>

#if SOMA_WHOLE_TABLE

namespace SOMA_NAMESPACE {

struct Kernels {
  void (*convert)(const ConvertArgs&) noexcept;
  void (*random)(const RandomArgs&) noexcept;
  GemmKernels gemm;
  AttentionKernels attention;
  ElementKernels element;
  NormKernels norm;
  LossKernels loss;
  ReduceKernels reduce;
  EmbeddingKernels embedding;
  ImageKernels image;
  OptimizerKernels optimizer;
  void (*quantize)(const QuantizeArgs&) noexcept;
  void (*expand)(const ExpandArgs&) noexcept;
  void (*rotate)(const RotateArgs&) noexcept;
  SequenceKernels sequence;
};

}  // namespace SOMA_NAMESPACE

#else
#include <soma/kernels/own_kernels-inl.hpp>
#endif

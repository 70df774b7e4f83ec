#pragma once
// PackedWeights: the weights of linear layers, packed once for all products that read them. Without
// it each product with more than a few rows packs its weight again, and products of a few rows read
// the weight in an order that is slower. For answers of a trained model; a training changes its
// weights at each step, so that a tape that records refuses them.
//
//   soma::PackedWeights packed(context);
//   soma::Tape tape(context, {.record = false, .training = false, .packed = &packed});

#include <soma/kernels/gemm/args.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/math.hpp>
#include <soma/system/threads.hpp>
#include <soma/tensor/storage.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

class Context;

// A weight is packed at its first use, or by pack(). It is known by its storage and the number of
// writes to it, so a weight that has changed is packed anew at its next use, and a product always
// has the bits of a product without packed weights. The panels cost about the bytes of the weight
// once more, from the context's heap; panels of weights that nobody else holds are freed when the
// next weight is packed. The context outlives the object. Several threads may use it at once, as
// long as nobody changes a weight meanwhile.
class PackedWeights {
 public:
  // A weight's panels, valid as long as `memory` is held. Without panels the product reads the
  // weight itself.
  struct Panels {
    Storage memory{};
    PackedB packed{};
  };

  explicit PackedWeights(Context& context);
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;

  // Packs a weight [N, K] for products with x of that type, unless its panels are there. Errors
  // tensor.rank; tensor.dtype: products cannot read stored numbers of these types in panels.
  void pack(const Tensor& weight, DType x = DType::fp32);
  // The same for the matrices among parameters: each variable once. Tables of embeddings would be
  // packed as well, so pass the parameters of layers.
  template <class Parameters>
  void pack_all(const Parameters& parameters, DType x = DType::fp32) {
    for (const auto& parameter : parameters)
      if (parameter.var.value().rank() == 2) pack(parameter.var.value(), x);
  }
  void clear();

  // True if there are panels of the weight as it is now.
  bool holds(const Tensor& weight) const;
  std::size_t bytes() const;    // the bytes of all panels
  std::size_t weights() const;  // that are packed

  // The panels for the product of `args`, whose b is the transposed weight; none if this product is
  // faster without. Called by the operator linear.
  Panels take(const GemmArgs& args, const Tensor& weight) { return take_(*this, args, weight); }

 private:
  struct Entry {
    TensorIdentity source{};
    Storage weight{};  // held, so that one can tell if somebody else does
    DType x = DType::fp32;
    Bf16Products bf16_products{};
    Fp32Products fp32_products{};
    Panels panels{};
  };

  static Panels find(PackedWeights& self, GemmArgs args, const Tensor& weight);
  // The index of a weight's panels; entries_.size(): it is not packed.
  std::size_t index_of(const GemmArgs& args, const TensorIdentity& source) const;
  Storage packed(GemmArgs args) const;
  // Frees the panels of a former state of the weight, and those of weights that are gone.
  void drop_old(const GemmArgs& args, const TensorIdentity& source);

  Context& context_;
  // Named by the constructor, so that a header-only program without packed weights compiles none of
  // this.
  Panels (*take_)(PackedWeights&, GemmArgs, const Tensor&);
  mutable Mutex mutex_{};
  HeapVector<Entry> entries_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/product/impl/packed_weights.ipp>
#endif

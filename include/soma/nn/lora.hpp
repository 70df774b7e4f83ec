#pragma once
// LoRA ("Low-Rank Adaptation of Large Language Models", Hu et al., arXiv 2106.09685): a model is
// adapted with few trained numbers. A linear layer y = W x + b becomes
//
//   y = W x + b + s B A dropout(x)        A [r, in], B [out, r], s = alpha / r
//
// where W and b are frozen. A starts with random numbers and B with zeros, so the adapted model
// begins as the model was.
//
//   soma::nn::freeze(model);                                // before the trainer is made
//   soma::nn::adapt(model, {context, seed}, {.rank = 8, .targets = {"q_proj", "v_proj"}});
//
// Adapters are parameters of the model, named as their layer with ".lora_A.weight" and
// ".lora_B.weight". They stay fp32 in every precision; their products follow the precision. A
// product of several layers, such as that of queries, keys and values, has adapters for the rows of
// each layer. Dropout acts on the input of A only, and all layers of one product share its draws.
//
// Cost: two products of r columns for a layer. The factor s is the scale of the second product, and
// the result of W is its residual; a layer that has an activation or dropout behind its product
// takes a pass over its result for each.

#include <soma/nn/layers.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

struct LoraOptions {
  std::size_t rank = 8;          // r, at least 1
  float alpha = 16;              // above 0; s = alpha / r
  float dropout = 0;             // probability for the input of A
  bool rank_stabilised = false;  // s = alpha / sqrt(r) (arXiv 2312.03732)
  // Names of layers, whole or from a dot on: "c_attn", "self_attn.q_proj". "all-linear": all linear
  // layers but the last, which has the model's classes.
  std::vector<std::string> targets{"all-linear"};

  float scale() const;
};
void fields(FieldVisitor& visitor, LoraOptions& options);
// Records the settings that change results but no shape.
void describe(Record& record, const LoraOptions& options);

// The adapters of the layers that share a product.
class Lora final : public SiteAdapter {
 public:
  // One layer: rows of the weight, A [r, in] and B [rows, r].
  struct Layer {
    std::string name;
    std::size_t first_row = 0, last_row = to_end;
    Var a, b;
  };

  // `path`: of the site. `rows`: of the weight.
  Lora(Heap& heap, const Scope& path, bool edge, std::size_t rows, std::vector<Layer> layers,
       const LoraOptions& options);

  SOMA_INLINE Var apply(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                        const Var& bias, const LinearSetting& setting,
                        const Var& residual) const override;
  SOMA_INLINE void collect(Collector& collector, const std::string& layer, std::size_t first,
                           std::size_t last) const override;
  std::span<const Layer> layers() const { return layers_; }
  float scale() const { return scale_; }

 private:
  // The matrices of all layers as one: [n r, in], and [out, n r] with a block for each layer.
  Var all_a(Tape& tape) const;
  Var all_b(Tape& tape) const;

  std::vector<Layer> layers_;
  std::size_t rows_;
  float scale_;
  Dropout dropout_;
  ProductSite a_site_, b_site_;
};

namespace detail {

// True if a target names the layer.
bool is_target(std::string_view target, const Product& product);

std::size_t adapt(const Products& products, const Parameters& parameters, const Scope& scope,
                  const LoraOptions& options);

}  // namespace detail

// Gives each linear layer that the targets name an adapter, and returns the number of layers. The
// scope's seed draws the initial values, and its `later` may postpone them. Freezes nothing. Errors
// operator.value, random.probability: a number out of range; operator.value: a target that names no
// linear layer, as an embedding is none; a model that has adapters already.
template <class Model>
std::size_t adapt(const Model& model, const Scope& scope, const LoraOptions& options = {}) {
  return detail::adapt(products(model), parameters(model), scope, options);
}

// True if a layer has an adapter.
bool has_adapters(const Products& products);

// Adds each adapter to the weight of its layer, W + s B A, and removes it. Sums are in fp32 and
// rounded once, to `type` (the type in which the weight will be stored) and then as it is. Returns
// the largest norm of the difference to the exact sum, divided by the norm of the sum, of a layer.
// Errors operator.value: no adapter, or a type of 8 bits.
double merge(Context& context, const Products& products, DType type);

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/lora.ipp>
#endif

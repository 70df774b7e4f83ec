#pragma once
// ProductSite: the position of a linear layer or a convolution in a model, which selects the
// formats of its operands and their history (ops/product_formats.hpp). Copies are the same site.

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/runtime/shared.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {
struct TransposedSetting;  // ops/image/settings.hpp
}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::nn {

class ProductSite;

// Computes a site's product in place of linear_at(): Lora (nn/lora.hpp) adds to it.
class SiteAdapter : public Counted {
 public:
  virtual ~SiteAdapter() = default;
  // The result of linear_at() with these arguments.
  virtual Var apply(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                    const Var& bias, const LinearSetting& setting, const Var& residual) const = 0;
  // Adds the adapter's own parameters for these rows of the weight, under the layer's name.
  virtual void collect(Collector& collector, const std::string& layer, std::size_t first,
                       std::size_t last) const = 0;

 protected:
  explicit SiteAdapter(Heap& heap) : Counted(heap) {}
};

class ProductSite {
 public:
  ProductSite() = default;  // no site: such a layer reads stored numbers
  // `edge`: true for the first and the last layer of a model, which most recipes do not convert.
  explicit ProductSite(const Scope& scope, bool edge = false)
      : state_(Shared<State>::make(scope.context.heap(), scope.path, edge)) {}

  bool defined() const;
  // Empty: no site.
  std::string_view path() const;
  bool edge() const;
  bool is(const ProductSite& other) const;
  // nullptr: none.
  const SiteAdapter* adapter() const;
  // For all copies of the site. nullptr: removes the adapter.
  void set_adapter(Shared<SiteAdapter> adapter) const;
  // The formats of the site's product in the tape's precision; nullptr: it reads stored numbers.
  LinearFormats* formats(const Tape& tape, const Var& x, const Var& weight, bool convolution) const;

 private:
  struct State : Counted {
    State(Heap& heap, std::string where, bool is_edge)
        : Counted(heap), path(std::move(where)), edge(is_edge) {}
    std::string path;
    bool edge;
    Shared<SiteAdapter> adapter{};
  };
  Shared<State> state_;
};

// A linear layer: its name in files, and its rows of the weight [N, K] that the site multiplies by.
struct Product {
  std::string name;
  Var weight;
  ProductSite site;
  std::size_t first_row = 0, last_row = to_end;
};
using Products = std::vector<Product>;

// The linear layers of a module, in the module's order.
template <class Module>
Products products(const Module& module, std::string_view path = {}) {
  Parameters parameters;
  Products result;
  Collector collector(parameters, std::string(path), &result);
  module.collect(collector);
  return result;
}

// linear() at a site: in the formats of the tape's precision for that site, with the site's
// adapter. Errors those of linear(); autograd.options: packed weights (TapeOptions::packed) and a
// precision that converts operands.
Var linear_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
              const Var& bias = {}, const LinearSetting& setting = {}, const Var& residual = {});

// The same without the adapter.
Var linear_without_adapter(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                           const Var& bias = {}, const LinearSetting& setting = {},
                           const Var& residual = {});

// head_loss() of a model's head, which is an edge. With an adapter, and in a precision that
// converts edges too, it multiplies by linear_at(), whose logits are stored.
Var head_loss_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                 const Var& labels, const CrossEntropySetting& setting = {}, const Var& bias = {});

// conv2d() at a site, likewise. Error train.precision: the precision has scales for parts of a
// tensor, or narrow sums, which convolutions do not have.
Var convolution_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                   const Var& bias, const ConvolutionSetting& setting);

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/product_site.ipp>
#endif

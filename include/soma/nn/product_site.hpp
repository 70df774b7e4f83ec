#pragma once
// ProductSite: where in a model a linear layer is, for what depends on the place: the formats of
// its operands and what is remembered of them (ops/product_formats.hpp). Copies are the same place.

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/runtime/shared.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace soma::nn {

class ProductSite {
 public:
  ProductSite() = default;  // nowhere: such a layer reads what is stored
  // `edge`: the first or the last layer of a model, which recipes leave alone.
  explicit ProductSite(const Scope& scope, bool edge = false)
      : place_(Shared<Place>::make(scope.context.heap(), scope.path, edge)) {}

  bool defined() const { return !(place_ == nullptr); }
  // Empty: nowhere.
  std::string_view path() const { return defined() ? std::string_view(place_->path) : ""; }
  bool edge() const { return place_->edge; }

 private:
  struct Place : Counted {
    Place(Heap& heap, std::string where, bool at_edge)
        : Counted(heap), path(std::move(where)), edge(at_edge) {}
    std::string path;
    bool edge;
  };
  Shared<Place> place_;
};

// linear() at a place: in the formats that the tape's precision has for it.
inline Var linear_at(const ProductSite& place, Tape& tape, const Var& x, const Var& weight,
                     const Var& bias = {}, const LinearSetting& setting = {},
                     const Var& residual = {}) {
  ProductFormats* known = tape.options().precision;
  LinearFormats* formats =
      known == nullptr || !place.defined() ? nullptr : known->formats(place.path(), place.edge());
  if (formats == nullptr) return linear(tape, x, weight, bias, setting, residual);
  return tape.apply(*tape.operators().quantized_linear,
                    QuantizedLinearSetting{.activation = setting.activation,
                                           .dropout = setting.dropout,
                                           .formats = formats,
                                           .step = tape.options().step,
                                           .training = tape.options().training,
                                           .record = tape.recording()},
                    {x, weight, bias, residual});
}

}  // namespace soma::nn

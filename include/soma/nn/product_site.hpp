#pragma once
// ProductSite: where in a model a linear layer is, for what depends on the place: the formats of
// its operands and what is remembered of them (ops/product_formats.hpp). Copies are the same place.

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>

#include <string_view>

namespace soma::nn {

class ProductSite {
 public:
  ProductSite() = default;  // nowhere: such a layer reads what is stored
  // `edge`: the first or the last layer of a model, which recipes leave alone.
  explicit ProductSite(const Scope& scope, bool edge = false) : path_(scope), edge_(edge) {}

  bool defined() const { return path_.defined(); }
  // Empty: nowhere.
  std::string_view path() const { return path_.view(); }
  bool edge() const { return edge_; }

 private:
  LayerPath path_;
  bool edge_ = false;
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

#pragma once
// ProductSite: the place of a linear layer in a model, which selects the formats of its operands
// and their history (ops/product_formats.hpp). Copies are the same place.

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>

#include <string_view>

namespace soma::nn {

class ProductSite {
 public:
  ProductSite() = default;  // no place: such a layer reads stored numbers
  // `edge`: true for the first and the last layer of a model, which most recipes do not convert.
  explicit ProductSite(const Scope& scope, bool edge = false) : path_(scope), edge_(edge) {}

  bool defined() const { return path_.defined(); }
  // Empty: no place.
  std::string_view path() const { return path_.view(); }
  bool edge() const { return edge_; }

 private:
  LayerPath path_;
  bool edge_ = false;
};

// linear() at a place: in the formats of the tape's precision for that place.
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

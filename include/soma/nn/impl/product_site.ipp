#pragma once
// The functions of product_site.hpp.

#include <soma/nn/product_site.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>

#include <string_view>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE bool ProductSite::defined() const { return path_.defined(); }

SOMA_INLINE std::string_view ProductSite::path() const { return path_.view(); }

SOMA_INLINE Var linear_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                          const Var& bias, const LinearSetting& setting, const Var& residual) {
  ProductFormats* known = tape.options().precision;
  LinearFormats* formats = nullptr;
  if (known != nullptr && site.defined())
    formats = known->formats({site.path(), site.edge(), x.value().dtype(), weight.value().dtype()});
  if (formats == nullptr) return linear(tape, x, weight, bias, setting, residual);
  return tape.apply(*formats->product,
                    QuantizedLinearSetting{.activation = setting.activation,
                                           .dropout = setting.dropout,
                                           .formats = formats,
                                           .step = tape.options().step,
                                           .training = tape.options().training,
                                           .record = tape.recording()},
                    {x, weight, bias, residual});
}

}  // namespace SOMA_NAMESPACE::nn

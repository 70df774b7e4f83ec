#pragma once
// The functions of product_site.hpp.

#include <soma/nn/product_site.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE bool ProductSite::defined() const { return !(state_ == nullptr); }

SOMA_INLINE std::string_view ProductSite::path() const {
  return defined() ? std::string_view(state_->path) : std::string_view();
}

SOMA_INLINE bool ProductSite::edge() const { return defined() && state_->edge; }

SOMA_INLINE bool ProductSite::is(const ProductSite& other) const {
  return state_.operator->() == other.state_.operator->();
}

SOMA_INLINE const SiteAdapter* ProductSite::adapter() const {
  return defined() ? state_->adapter.operator->() : nullptr;
}

SOMA_INLINE void ProductSite::set_adapter(Shared<SiteAdapter> adapter) const {
  if (defined()) state_->adapter = std::move(adapter);
}

SOMA_INLINE void Collector::product(std::string_view name, const Var& weight,
                                    const ProductSite& site, std::size_t first, std::size_t last) {
  const std::string layer(name), dot = layer.empty() ? "" : ".";
  add_rows(layer + dot + "weight", weight, first, last, ParameterRole::weight);
  if (!weight.defined()) return;
  if (site.adapter() != nullptr) site.adapter()->collect(*this, layer + dot, first, last);
  if (products_ != nullptr) products_->push_back({joined(name), weight, site, first, last});
}

SOMA_INLINE LinearFormats* ProductSite::formats(const Tape& tape, const Var& x, const Var& weight,
                                                bool convolution) const {
  ProductFormats* known = tape.options().precision;
  if (known == nullptr || !defined()) return nullptr;
  return known->formats({.layer = path(),
                         .edge = edge(),
                         .x = x.value().dtype(),
                         .weight = weight.value().dtype(),
                         .convolution = convolution});
}

SOMA_INLINE Var linear_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                          const Var& bias, const LinearSetting& setting, const Var& residual) {
  if (const SiteAdapter* adapter = site.adapter())
    return adapter->apply(site, tape, x, weight, bias, setting, residual);
  return linear_without_adapter(site, tape, x, weight, bias, setting, residual);
}

SOMA_INLINE Var linear_without_adapter(const ProductSite& site, Tape& tape, const Var& x,
                                       const Var& weight, const Var& bias,
                                       const LinearSetting& setting, const Var& residual) {
  LinearFormats* formats = site.formats(tape, x, weight, false);
  if (formats == nullptr) return linear(tape, x, weight, bias, setting, residual);
  if (tape.options().packed != nullptr)
    fail(error_id::tape_options, "Tape", "options.packed",
         "set with a precision that converts the operands of " + soma::quoted(site.path()),
         "a precision whose products read stored numbers, or no packed weights");
  return tape.apply(*formats->product,
                    QuantizedLinearSetting{.activation = setting.activation,
                                           .dropout = setting.dropout,
                                           .formats = formats,
                                           .step = tape.options().step,
                                           .training = tape.options().training,
                                           .record = tape.recording()},
                    {x, weight, bias, residual});
}

SOMA_INLINE Var head_loss_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                             const Var& labels, const CrossEntropySetting& setting,
                             const Var& bias) {
  if (site.adapter() == nullptr && site.formats(tape, x, weight, false) == nullptr)
    return tape.apply(*tape.operators().head_loss, setting, {x, weight, labels, bias});
  return cross_entropy(tape, linear_at(site, tape, x, weight, bias), labels, setting);
}

SOMA_INLINE Var convolution_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                               const Var& bias, const ConvolutionSetting& setting) {
  LinearFormats* formats = site.formats(tape, x, weight, true);
  if (formats == nullptr) return conv2d(tape, x, weight, bias, setting);
  return tape.apply(*tape.operators().quantized_convolution,
                    QuantizedConvolutionSetting{.steps = {.steps = setting},
                                                .formats = formats,
                                                .step = tape.options().step,
                                                .training = tape.options().training,
                                                .record = tape.recording()},
                    {x, weight, bias});
}

}  // namespace SOMA_NAMESPACE::nn

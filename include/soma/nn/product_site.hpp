#pragma once
// ProductSite: the position of a linear layer or a convolution in a model, which selects the
// formats of its operands and their history (ops/product_formats.hpp). Copies are the same site.

#include <soma/autograd/functions.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/product_formats.hpp>

#include <string_view>

namespace SOMA_NAMESPACE {
struct TransposedSetting;  // ops/image/settings.hpp
}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::nn {

class ProductSite {
 public:
  ProductSite() = default;  // no site: such a layer reads stored numbers
  // `edge`: true for the first and the last layer of a model, which most recipes do not convert.
  explicit ProductSite(const Scope& scope, bool edge = false) : path_(scope), edge_(edge) {}

  bool defined() const;
  // Empty: no site.
  std::string_view path() const;
  bool edge() const { return edge_; }
  // The formats of the site's product in the tape's precision; nullptr: it reads stored numbers.
  LinearFormats* formats(const Tape& tape, const Var& x, const Var& weight, bool convolution) const;

 private:
  LayerPath path_;
  bool edge_ = false;
};

// linear() at a site: in the formats of the tape's precision for that site.
Var linear_at(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
              const Var& bias = {}, const LinearSetting& setting = {}, const Var& residual = {});

// head_loss() of a model's head, which is an edge. A precision that converts edges too multiplies
// by linear_at(), whose logits are stored.
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

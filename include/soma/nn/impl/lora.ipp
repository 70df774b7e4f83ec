#pragma once
// The functions of lora.hpp.

#include <soma/nn/lora.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE float LoraOptions::scale() const {
  const double root = std::sqrt(static_cast<double>(rank));
  return static_cast<float>(static_cast<double>(alpha) /
                            (rank_stabilised ? root : static_cast<double>(rank)));
}

SOMA_INLINE void fields(FieldVisitor& visitor, LoraOptions& options) {
  visitor.option("rank", options.rank, NumberRange::at_least(1));
  visitor.option("alpha", options.alpha, NumberRange::above(0));
  visitor.option("dropout", options.dropout, dropout_range);
}

SOMA_INLINE void describe(Record& record, const LoraOptions& options) {
  record.set("lora.scale", options.scale());
  record.set("lora.dropout", options.dropout);
}

SOMA_INLINE Lora::Lora(Heap& heap, const Scope& path, bool edge, std::size_t rows,
                       std::vector<Layer> layers, const LoraOptions& options)
    : SiteAdapter(heap),
      layers_(std::move(layers)),
      rows_(rows),
      scale_(options.scale()),
      dropout_(path / "lora", options.dropout),
      a_site_(path / "lora_A", edge),
      b_site_(path / "lora_B", edge) {}

SOMA_INLINE Var Lora::all_a(Tape& tape) const {
  if (layers_.size() == 1) return layers_[0].a;
  std::vector<Var> parts;
  for (const Layer& layer : layers_) parts.push_back(layer.a);
  return tape.apply_all(*tape.operators().concatenate, std::size_t{0}, parts)[0];
}

SOMA_INLINE Var Lora::all_b(Tape& tape) const {
  const std::size_t rank = layers_[0].a.shape()[0];
  std::vector<Var> parts;
  std::size_t row = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const std::size_t end = (std::min)(layer.last_row, rows_);
    PadSetting pad;
    constexpr std::size_t along_rows = PadSetting::most - 2, along_columns = PadSetting::most - 1;
    pad.before[along_rows] = layer.first_row - row;
    pad.behind[along_rows] = i + 1 == layers_.size() ? rows_ - end : 0;
    pad.before[along_columns] = i * rank;
    pad.behind[along_columns] = (layers_.size() - 1 - i) * rank;
    const bool whole = layers_.size() == 1 && end - layer.first_row == rows_;
    parts.push_back(whole ? layer.b : tape.apply(*tape.operators().pad, pad, {layer.b}));
    row = end;
  }
  if (parts.size() == 1) return parts[0];
  return tape.apply_all(*tape.operators().concatenate, std::size_t{0}, parts)[0];
}

SOMA_INLINE Var Lora::apply(const ProductSite& site, Tape& tape, const Var& x, const Var& weight,
                            const Var& bias, const LinearSetting& setting,
                            const Var& residual) const {
  // Without anything between product and residual, the first product adds the residual.
  const bool plain = setting.activation == Activation::none && setting.dropout.probability == 0;
  LinearSetting base = setting;
  base.activation = Activation::none;
  base.dropout = {};
  const Var y = linear_without_adapter(site, tape, x, weight, bias, base, plain ? residual : Var());
  const auto product = [&](const ProductSite& own, const Var& in, const Var& matrix,
                           const LinearSetting& how, const Var& addend) {
    // The matrices are small: their panels are not kept (TapeOptions::packed).
    if (own.formats(tape, in, matrix, false) == nullptr)
      return tape.apply(*tape.operators().linear, how, {in, matrix, {}, addend});
    return linear_without_adapter(own, tape, in, matrix, {}, how, addend);
  };
  Var h = product(a_site_, dropout_(tape, x), all_a(tape), {}, {});
  const Var b = all_b(tape);
  LinearSetting second{.x_scale = scale_, .output = setting.output};
  // A product of converted operands has their scales.
  if (b_site_.formats(tape, h, b, false) != nullptr) {
    h = mul(tape, h, tape.constant(Tensor::full(tape.context(), Shape{1}, scale_)));
    second.x_scale = 1;
  }
  Var sum = product(b_site_, h, b, second, y);
  if (plain) return sum;
  if (setting.activation != Activation::none)
    sum = tape.apply(tape.operators().of(unary_of(setting.activation)), {}, {sum});
  if (setting.dropout.probability > 0)
    sum = tape.apply(*tape.operators().dropout, setting.dropout, {sum});
  return residual.defined() ? add(tape, sum, residual) : sum;
}

SOMA_INLINE void Lora::collect(Collector& collector, const std::string& layer, std::size_t first,
                               std::size_t last) const {
  for (const Layer& own : layers_) {
    if (own.first_row != first || own.last_row != last) continue;
    collector.add(layer + "lora_A.weight", own.a, ParameterRole::adapter);
    collector.add(layer + "lora_B.weight", own.b, ParameterRole::adapter);
  }
}

SOMA_INLINE bool has_adapters(const Products& products) {
  return std::any_of(products.begin(), products.end(),
                     [](const Product& each) { return each.site.adapter() != nullptr; });
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE bool is_target(std::string_view target, const Product& product) {
  if (target == "all-linear") return !product.site.edge();
  const std::string_view name = product.name;
  return name == target || (name.size() > target.size() && name.ends_with(target) &&
                            name[name.size() - target.size() - 1] == '.');
}

// Why no linear layer has that name.
[[noreturn]] SOMA_INLINE void refuse_target(const std::string& target, const Products& products,
                                            const Parameters& parameters) {
  std::string given = soma::quoted(target);
  for (const Parameter& parameter : parameters) {
    const std::string_view name = parameter.name;
    constexpr std::string_view end = ".weight";
    if (!name.ends_with(end)) continue;
    const Product layer{std::string(name.substr(0, name.size() - end.size())), {}, {}};
    if (target == "all-linear" || !is_target(target, layer)) continue;
    given += ", which is no linear layer but " + soma::quoted(name) + ", " +
             parameter.value().describe();
    break;
  }
  std::string names;
  for (const Product& product : products) {
    const std::size_t dot = product.name.rfind('.');
    const std::string last = product.name.substr(dot == std::string::npos ? 0 : dot + 1);
    if ((", " + names + ",").find(", " + last + ",") == std::string::npos)
      names.append(names.empty() ? "" : ", ").append(last);
  }
  fail(error_id::operator_value, "adapt", "targets", given,
       "names of linear layers: all-linear, " + names);
}

SOMA_INLINE std::size_t adapt(const Products& products, const Parameters& parameters,
                              const Scope& scope, const LoraOptions& options) {
  check_ranges("adapt", options);
  if (has_adapters(products))
    fail(error_id::operator_value, "adapt", "model", "one that has adapters",
         "one without: a layer has one adapter at a time");
  for (const std::string& target : options.targets)
    if (std::none_of(products.begin(), products.end(),
                     [&](const Product& each) { return is_target(target, each); }))
      refuse_target(target, products, parameters);
  if (options.targets.empty()) refuse_target("", products, parameters);
  struct SharedProduct {
    const Product* first;
    std::vector<Lora::Layer> layers;
  };
  std::vector<SharedProduct> found;
  std::size_t count = 0;
  for (const Product& product : products) {
    if (std::none_of(options.targets.begin(), options.targets.end(),
                     [&](const std::string& target) { return is_target(target, product); }))
      continue;
    const Shape& shape = product.weight.shape();
    const std::size_t in = shape[1], rows = (std::min)(product.last_row, shape[0]);
    const Scope own = scope / product.name;
    const Draw draw = (own / "lora_A").draw("weight");
    Lora::Layer layer{
        product.name, product.first_row, product.last_row,
        initial_parameter(own, Shape{options.rank, in},
                          {Initial::uniform(root_of_ratio(1, in), draw)}),
        initial_parameter(own, Shape{rows - product.first_row, options.rank}, {Initial::full(0)})};
    ++count;
    const auto known = std::find_if(found.begin(), found.end(), [&](const SharedProduct& each) {
      return each.first->site.is(product.site);
    });
    if (known != found.end())
      known->layers.push_back(std::move(layer));
    else
      found.push_back({&product, {std::move(layer)}});
  }
  for (SharedProduct& each : found) {
    const ProductSite& site = each.first->site;
    Heap& heap = scope.context.heap();
    site.set_adapter(Shared<Lora>::make(
        heap, Scope{scope.context, scope.seed, std::string(site.path()), scope.later}, site.edge(),
        each.first->weight.shape()[0], std::move(each.layers), options));
  }
  return count;
}

// W = W + s B A for one layer's rows of W, and the distance to the exact sum.
SOMA_INLINE double merge_one(Context& context, const Tensor& weight, const Lora::Layer& layer,
                             float scale, DType type) {
  const BuiltInOperators& built_in = context.built_in();
  const auto in = [&](const Tensor& from, DType to) {
    return from.dtype() == to ? from
                              : run(context, *built_in.cast, CastSetting{.dtype = to}, {from})[0];
  };
  const Tensor a = layer.a.value(), b = layer.b.value(), before = in(weight, DType::fp32);
  const Tensor own = contiguous(context, before);
  const Tensor delta =
      run(context, *built_in.matmul, MatmulSetting{.a = {.scale = scale}}, {b, a})[0];
  const Tensor sum = run(context, built_in.of(Binary::add), {}, {own, delta})[0];
  const Tensor after = in(in(sum, type), DType::fp32);
  const std::size_t rows = own.size(0), columns = own.size(1), rank = a.size(0);
  std::vector<double> differences(rows), norms(rows);
  soma::detail::for_ranges(
      context, rows, columns * 16 * rank, [&](std::size_t begin, std::size_t end) {
        std::vector<double> exact(columns);
        for (std::size_t row = begin; row < end; ++row) {
          std::fill(exact.begin(), exact.end(), 0.0);
          for (std::size_t k = 0; k < rank; ++k) {
            const double factor =
                static_cast<double>(scale) * static_cast<double>(b.data<float>()[row * rank + k]);
            const float* from = a.data<float>() + k * columns;
            for (std::size_t i = 0; i < columns; ++i)
              exact[i] += factor * static_cast<double>(from[i]);
          }
          const std::size_t first = row * columns;
          for (std::size_t i = 0; i < columns; ++i) {
            const double wanted = exact[i] + static_cast<double>(own.data<float>()[first + i]);
            const double away = wanted - static_cast<double>(after.data<float>()[first + i]);
            differences[row] += away * away;
            norms[row] += wanted * wanted;
          }
        }
      });
  double difference = 0, norm = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    difference += differences[row];
    norm += norms[row];
  }
  copy(in(after, weight.dtype()), weight);
  return norm == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE double merge(Context& context, const Products& products, DType type) {
  if (!has_adapters(products))
    fail(error_id::operator_value, "merge", "model", "one without adapters", "an adapted model");
  if (!is_floating(type) || size_of(type) < 2)
    fail(error_id::operator_value, "merge", "type", to_string(type),
         "fp32, bf16 or fp16: weights of 8 bits would lose the adapter");
  double largest = 0;
  for (const Product& product : products) {
    const auto* lora = static_cast<const Lora*>(product.site.adapter());
    if (lora == nullptr) continue;
    for (const Lora::Layer& layer : lora->layers()) {
      if (layer.first_row != product.first_row || layer.last_row != product.last_row) continue;
      const Tensor& all = product.weight.value();
      const Tensor rows =
          all.slice(0, product.first_row, (std::min)(product.last_row, all.size(0)));
      largest = (std::max)(largest, detail::merge_one(context, rows, layer, lora->scale(), type));
    }
  }
  for (const Product& product : products) product.site.set_adapter(nullptr);
  return largest;
}

}  // namespace SOMA_NAMESPACE::nn

#pragma once
// The functions of precision_state.hpp.

#include <soma/nn/precision_state.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/base/name_pattern.hpp>
#include <soma/base/record.hpp>
#include <soma/numeric/precision_text.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/ops/records.hpp>
#include <soma/state/state_dict.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE PrecisionState::PrecisionState(Context& context, const Precision& precision,
                                           std::uint64_t seed)
    : context_(context), precision_(validate(precision, "PrecisionState")), seed_(seed) {
  const auto as_stored = [&](const Quantizer& read, const Quantizer& stored) {
    return !read.own.defined() && read.rotation.size == 0 &&
           (read.format == formats::fp32 ||
            (read.format == stored.format && read.scaling.policy == ScalePolicy::none));
  };
  plain_ = as_stored(precision_.gemm_activations, precision_.activations) &&
           as_stored(precision_.gemm_weights, precision_.weights) &&
           as_stored(precision_.gemm_gradients, precision_.activation_gradients) &&
           precision_.activation_gradients.format == precision_.activations.format &&
           precision_.accumulation.plain();
  const std::array stored{&precision_.activations, &precision_.weights,
                          &precision_.activation_gradients};
  for_each_product_role(precision_, [&](std::string_view, std::string_view role, const Quantizer&,
                                        const std::optional<Quantizer>& other) {
    const auto at =
        static_cast<std::size_t>(std::find(roles.begin(), roles.end(), role) - roles.begin());
    if (other) plain_ = plain_ && as_stored(*other, *stored[at]);
  });
}

SOMA_INLINE void PrecisionState::use_parts(const GlobalMaximum& maximum) {
  part_ = true;
  set_maximum(maximum);
}

SOMA_INLINE void PrecisionState::describe(Record& record) const {
  // Runs with the first mapping record nothing, as before there was a second one.
  if (mapping_ != DrawMapping::ars) return;
  bool draws = precision_.reduction.rounding.draws_automatically();
  for (std::size_t i = 0; i < roles.size(); ++i)
    draws = draws || quantizer(i).rounding.draws_automatically();
  for_each_product_role(precision_, [&](std::string_view, std::string_view, const Quantizer&,
                                        const std::optional<Quantizer>& other) {
    draws = draws || (other && other->rounding.draws_automatically());
  });
  if (draws) record.set(mapping_entry, to_string(mapping_));
}

SOMA_INLINE void PrecisionState::keep_mapping(const Record& described) {
  mapping_ = described.contains(mapping_entry) ? DrawMapping::ars : DrawMapping::philox;
}

SOMA_INLINE DType PrecisionState::activations() const {
  return find_dtype(precision_.activations.format);
}

SOMA_INLINE LinearFormats* PrecisionState::formats(const ProductPlace& place) {
  if (plain_ && !notes_) return nullptr;
  const auto found = layers_.find(place.layer);
  Layer& layer = found != layers_.end() ? found->second : add(place.layer);
  if (!layer.known) set_formats(layer, place);
  layer.x = place.x;
  layer.weight = place.weight;
  // A convolution without conversions needs no formats: it stays the plain operator.
  if (plain_ || (place.convolution && layer.reason != PrecisionProduct::Reason::converted))
    return nullptr;
  layer.formats.product = context_.built_in().quantized_linear;
  return &layer.formats;
}

SOMA_INLINE std::vector<PrecisionProduct> PrecisionState::products() const {
  std::vector<PrecisionProduct> result;
  for (const auto& [path, layer] : layers_) {
    if (!layer.known) continue;
    PrecisionProduct product{.layer = path, .reason = layer.reason, .formats = {}};
    const std::array stored{layer.x, layer.weight, layer.x};
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const LinearOperand& operand = layer.operand(i);
      const bool read = layer.reason == PrecisionProduct::Reason::converted &&
                        (operand.quantizer.format != formats::fp32 ||
                         operand.quantizer.own.defined() || operand.second);
      product.formats[i] = read ? to_string(operand.quantizer) : std::string(to_string(stored[i]));
      if (read && operand.second) product.formats[i] += " / " + to_string(*operand.second);
    }
    product.stored_fp32 = layer.x == DType::fp32 && layer.weight == DType::fp32;
    result.push_back(std::move(product));
  }
  return result;
}

SOMA_INLINE DType PrecisionState::gradient_type(const Shape& parameter) const {
  if (gathers_ || parameter.rank() < 2) return DType::fp32;
  return find_dtype(precision_.weight_gradients.format);
}

SOMA_INLINE void PrecisionState::round_gradients(const Parameters& parameters) {
  if (!std::exchange(gathers_, false)) return;
  for (const Parameter& parameter : parameters)
    round_gradient(context_, parameter.var, gradient_type(parameter.var.shape()));
}

SOMA_INLINE void PrecisionState::end_step() {
  began_ = true;
  std::vector<float> seen;
  for_each_history([&](LinearOperand& operand, AmaxHistory&) { seen.push_back(operand.amax); });
  if (maximum_.run != nullptr && !seen.empty()) maximum_.run(maximum_.self, seen);
  std::size_t next = 0;
  for_each_history([&](LinearOperand& operand, AmaxHistory& history) {
    history.push(seen[next++]);
    operand.amax = 0;
    operand.scale = scale_of(history);
  });
}

SOMA_INLINE bool PrecisionState::remembers_scales() const {
  bool delayed = false;
  for (std::size_t i = 0; i < roles.size(); ++i)
    delayed = delayed || quantizer(i).scaling.policy == ScalePolicy::delayed;
  return delayed;
}

SOMA_INLINE bool PrecisionState::scales_known() {
  bool known = began_;
  for (auto& [path, layer] : layers_)
    for (std::size_t i = 0; i < roles.size(); ++i)
      if (layer.known && layer.operand(i).quantizer.scaling.policy == ScalePolicy::delayed)
        known = known && layer.operand(i).scale != 0;
      else if (!layer.known && !layer.histories[i].values().empty())
        known = known && layer.histories[i].known();
  return known || !remembers_scales();
}

SOMA_INLINE StateDict PrecisionState::state(bool used) const {
  StateDict result;
  for (const auto& [path, layer] : layers_)
    if (!used || layer.known)
      for (std::size_t i = 0; i < roles.size(); ++i) {
        const std::vector<float> values = layer.histories[i].values();
        if (!values.empty())
          result.set(name_of(path, i),
                     Tensor::from(context_, std::span<const float>(values), Shape{values.size()}));
      }
  return result;
}

SOMA_INLINE void PrecisionState::load_state(const StateDict& state) {
  std::map<std::string, Layer, std::less<>> loaded;
  for (const auto& [name, tensor] : state) {
    std::size_t role = roles.size();
    std::string path;
    for (std::size_t i = 0; i < roles.size(); ++i)
      if (const std::string end = name_of("", i);
          name.size() > end.size() && name.ends_with(end) &&
          quantizer(i).scaling.policy == ScalePolicy::delayed) {
        role = i;
        path = name.substr(0, name.size() - end.size());
      }
    if (role == roles.size())
      fail(error_id::extra_name, "PrecisionState::load_state", "state", soma::quoted(name),
           "amax histories of roles with delayed scales");
    const auto most = static_cast<std::size_t>(quantizer(role).scaling.history);
    if (tensor.rank() != 1 || tensor.size(0) > most)
      fail(error_id::state_shape, "PrecisionState::load_state", soma::quoted(name),
           tensor.describe(), "[up to " + std::to_string(most) + "]");
    if (tensor.dtype() != DType::fp32)
      fail(error_id::state_dtype, "PrecisionState::load_state", soma::quoted(name),
           tensor.describe(), "fp32");
    AmaxHistory& history = loaded.try_emplace(path, precision_).first->second.histories[role];
    for (const float amax : tensor.span<float>()) history.push(amax);
  }
  layers_ = std::move(loaded);
  began_ = true;
}

SOMA_INLINE void PrecisionState::set_maximum(const GlobalMaximum& maximum) {
  maximum_ = maximum;
  for (auto& [path, layer] : layers_) layer.formats.maximum = maximum;
}

SOMA_INLINE void PrecisionState::collect_statistics(bool wanted) {
  collects_ = wanted;
  for (auto& [path, layer] : layers_) point_to_statistics(layer);
}

SOMA_INLINE auto PrecisionState::statistics() const
    -> std::vector<std::pair<std::string, Statistics>> {
  std::vector<std::pair<std::string, Statistics>> result;
  if (plain_) return result;
  for (const auto& [path, layer] : layers_) result.emplace_back(path, layer.statistics);
  return result;
}

SOMA_INLINE PrecisionState::Layer::Layer(const Precision& p)
    : histories{AmaxHistory(p.gemm_activations.scaling, p.gemm_activations.format),
                AmaxHistory(p.gemm_weights.scaling, p.gemm_weights.format),
                AmaxHistory(p.gemm_gradients.scaling, p.gemm_gradients.format)} {}

SOMA_INLINE const Quantizer& PrecisionState::quantizer(std::size_t role) const {
  return role == 0   ? precision_.gemm_activations
         : role == 1 ? precision_.gemm_weights
                     : precision_.gemm_gradients;
}

SOMA_INLINE auto PrecisionState::others_of(std::size_t role) const -> Others {
  const Precision& p = precision_;
  return role == 0   ? Others{p.forward.activations, p.weight_gradient.activations}
         : role == 1 ? Others{p.forward.weights, p.input_gradient.weights}
                     : Others{p.input_gradient.gradients, p.weight_gradient.gradients};
}

SOMA_INLINE float PrecisionState::scale_of(const AmaxHistory& history) {
  return history.known() ? history.scale() : 0;
}

SOMA_INLINE std::string PrecisionState::name_of(std::string_view path, std::size_t role) {
  return std::string(path).append(".").append(roles[role]).append(".amax");
}

SOMA_INLINE auto PrecisionState::add(std::string_view path) -> Layer& {
  return layers_.try_emplace(std::string(path), precision_).first->second;
}

SOMA_INLINE auto PrecisionState::reason_of(const ProductPlace& place) const
    -> PrecisionProduct::Reason {
  if (plain_) return PrecisionProduct::Reason::plain;
  for (const std::string& pattern : precision_.stored)
    if (name_matches(pattern, place.layer)) return PrecisionProduct::Reason::named;
  return place.edge && !precision_.narrow_edges ? PrecisionProduct::Reason::edge
                                                : PrecisionProduct::Reason::converted;
}

SOMA_INLINE void PrecisionState::check_convolution(std::string_view layer) const {
  const auto refuse = [&](std::string_view what, std::string_view given, std::string_view wanted) {
    fail(error_id::train_precision, soma::quoted(layer), what, given,
         std::string(wanted) +
             " for a convolution (Precision::stored names layers that read stored numbers)");
  };
  for_each_product_role(precision_, [&](std::string_view name, std::string_view, const Quantizer&,
                                        const std::optional<Quantizer>& other) {
    if (other) refuse(name, to_string(*other), "no format of its own");
  });
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (quantizer(i).rotation.size != 0)
      refuse(std::string(roles[i]) + ".rotation.size", std::to_string(quantizer(i).rotation.size),
             "none");
    const Scaling& scaling = quantizer(i).scaling;
    if (scaling.policy != ScalePolicy::none && scaling.granularity != Granularity::tensor)
      refuse(std::string(roles[i]) + ".scaling.granularity", to_string(scaling.granularity),
             "tensor");
  }
  if (!precision_.accumulation.plain())
    refuse("accumulation", to_string(precision_.accumulation), "fp32");
}

SOMA_INLINE void PrecisionState::set_formats(Layer& layer, const ProductPlace& place) {
  const std::string_view path = place.layer;
  layer.reason = reason_of(place);
  if (place.convolution && layer.reason == PrecisionProduct::Reason::converted)
    check_convolution(path);
  layer.known = true;
  LinearFormats& formats = layer.formats;
  if (layer.reason == PrecisionProduct::Reason::converted) {
    for (std::size_t i = 0; i < roles.size(); ++i) {
      LinearOperand& operand = layer.operand(i);
      operand.quantizer = quantizer(i);
      const auto& [first, second] = others_of(i);
      if (first || second) operand.second = second.value_or(quantizer(i));
      if (first) operand.quantizer = *first;
      operand.quantizer.rounding = operand.quantizer.rounding.drawn_by(mapping_);
      if (operand.second) operand.second->rounding = operand.second->rounding.drawn_by(mapping_);
      operand.draw = {.seed = seed_, .stream = stream_id(path, roles[i])};
      operand.scale = scale_of(layer.histories[i]);
    }
    constexpr std::array<std::string_view, 3> products{"forward", "input_gradient",
                                                       "weight_gradient"};
    for (std::size_t i = 0; i < products.size(); ++i)
      formats.signs[i] = {.seed = seed_, .stream = stream_id(path, products[i])};
    formats.accumulation = precision_.accumulation;
    formats.input_gradient = find_dtype(precision_.activation_gradients.format);
  }
  formats.part = part_;
  formats.maximum = maximum_;
  point_to_statistics(layer);
}

SOMA_INLINE void PrecisionState::point_to_statistics(Layer& layer) {
  for (std::size_t i = 0; i < roles.size(); ++i)
    layer.operand(i).statistics = collects_ ? &layer.statistics[i] : nullptr;
}

SOMA_INLINE std::string_view to_string(PrecisionProduct::Reason reason) {
  switch (reason) {
    case PrecisionProduct::Reason::converted:
      return "converted";
    case PrecisionProduct::Reason::edge:
      return "edge";
    case PrecisionProduct::Reason::named:
      return "named in `stored`";
    default:
      return "as stored";
  }
}

SOMA_INLINE std::string to_string(const PrecisionState& state) {
  std::string text = to_string(state.precision());
  for (const PrecisionProduct& product : state.products()) {
    text.append("\n  ").append(product.layer).append(": x ").append(product.formats[0]);
    text.append("; weight ").append(product.formats[1]);
    text.append("; gradient ").append(product.formats[2]);
    text.append(" (").append(to_string(product.reason)).append(")");
  }
  return text;
}

SOMA_INLINE PrecisionEffect effect_of(const PrecisionState& state) {
  const Precision& precision = state.precision();
  Precision nothing;
  nothing.name = precision.name;
  if (precision == nothing) return {};
  const std::vector<PrecisionProduct> products = state.products();
  std::size_t converted = 0, edges = 0, named = 0;
  bool fp32 = true;
  for (const PrecisionProduct& product : products) {
    converted += product.reason == PrecisionProduct::Reason::converted ? 1u : 0u;
    edges += product.reason == PrecisionProduct::Reason::edge ? 1u : 0u;
    named += product.reason == PrecisionProduct::Reason::named ? 1u : 0u;
    fp32 = fp32 && product.stored_fp32;
  }
  PrecisionEffect effect;
  const std::string all = std::to_string(products.size()) + " products";
  effect.line = "precision " + precision.name + ": " + std::to_string(converted) + " of " + all +
                " read converted operands, " + std::to_string(edges) + " are edges, " +
                std::to_string(named) + " are named in `stored`";
  const auto warn = [&](const std::string& text) {
    effect.warning.append(effect.warning.empty() ? "" : "; ").append(text);
  };
  for (const std::string& pattern : precision.stored) {
    const bool found = std::any_of(
        products.begin(), products.end(),
        [&](const PrecisionProduct& product) { return name_matches(pattern, product.layer); });
    if (!found)
      warn("precision " + precision.name + ": no product has the name " + soma::quoted(pattern) +
           " of `stored`");
  }
  const auto in_fp32 = [](const Quantizer& role) { return role.format == formats::fp32; };
  if (!products.empty() && converted == 0 && fp32 && in_fp32(precision.weights) &&
      in_fp32(precision.weight_gradients) && in_fp32(precision.moments))
    warn("precision " + precision.name + " has no effect: of " + all + " " + std::to_string(edges) +
         " are edges, none reads converted operands, and all store fp32 "
         "(Precision::narrow_edges converts edges)");
  return effect;
}

}  // namespace SOMA_NAMESPACE

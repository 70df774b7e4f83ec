#pragma once
// The functions of precision_text.hpp.

#include <soma/numeric/precision_text.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/precision.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_string(const Quantizer& quantizer) {
  std::string text = to_string(quantizer.format);
  const Rounding& rounding = quantizer.rounding;
  if (rounding.mode != RoundingMode::nearest_even)
    text.append(" ").append(to_string(rounding.mode));
  if (rounding.random_bits != 0)
    text.append(" ").append(std::to_string(rounding.random_bits)).append(" bits");
  if (rounding.draws != DrawMapping::automatic) text.append(" ").append(to_string(rounding.draws));
  if (quantizer.own.defined()) text.append(" by ").append(soma::quoted(quantizer.own.name));
  if (const Rotation& rotation = quantizer.rotation; rotation.size != 0)
    text.append(" rotated by ")
        .append(std::to_string(rotation.size))
        .append(rotation.signs == Rotation::Signs::drawn ? " with drawn signs" : "");
  const Scaling& scaling = quantizer.scaling;
  if (scaling.policy == ScalePolicy::none) return text;
  text.append(", ").append(to_string(scaling.policy)).append(" ");
  text.append(to_string(scaling.granularity)).append(" ").append(to_string(scaling.format));
  if (scaling.rule != ScaleRule::floor) text.append(" ").append(to_string(scaling.rule));
  text.append(" scale");
  if (scaling.policy == ScalePolicy::delayed)
    text.append(" over ").append(std::to_string(scaling.history)).append(" steps");
  if (scaling.margin != 0) text.append(" margin ").append(std::to_string(scaling.margin));
  return text;
}

SOMA_INLINE std::string to_string(const Accumulation& accumulation) {
  std::string text = to_string(accumulation.format);
  if (accumulation.plain()) return text;
  text.append(" after each ").append(std::to_string(accumulation.chunk));
  if (accumulation.promote != 0)
    text.append(", to fp32 after ").append(std::to_string(accumulation.promote));
  return text;
}

SOMA_INLINE std::string to_string(const Precision& precision) {
  std::string text = precision.name;
  std::string_view separator = ": ";
  const auto add = [&](std::string_view name, std::string_view value) {
    text.append(separator).append(name).append(" ").append(value);
    separator = "; ";
  };
  for_each_role(precision, [&](std::string_view name, const Quantizer& role) {
    if (role != Quantizer{}) add(name, to_string(role));
  });
  for_each_product_role(precision, [&](std::string_view name, std::string_view, const Quantizer&,
                                       const std::optional<Quantizer>& other) {
    if (other) add(name, to_string(*other));
  });
  if (!precision.accumulation.plain()) add("accumulation", to_string(precision.accumulation));
  if (precision.narrow_edges) add("edges", "narrow");
  if (precision.loss_scaling) add("loss", "scaled");
  for (const std::string& layer : precision.stored) add("stored", layer);
  return text;
}

SOMA_INLINE const Precision& validate(const Precision& precision, std::string_view operation) {
  const auto refuse = [&](std::string_view role, std::string_view what, std::string_view given,
                          std::string_view wanted) {
    fail(error_id::train_precision, operation, std::string(role).append(".").append(what), given,
         wanted);
  };
  const auto check_format = [&](std::string_view role, const FloatFormat& format) {
    if (const char* problem = format.problem()) refuse(role, "format", to_string(format), problem);
    if (!format.is_signed || !format.has_zero())
      refuse(role, "format", to_string(format), "a format with a sign and a zero");
  };
  const auto check_role = [&](std::string_view role, const Quantizer& quantizer, bool read) {
    check_format(role, quantizer.format);
    const Rounding& rounding = quantizer.rounding;
    if (rounding.random_bits > 32)
      refuse(role, "rounding.random_bits", std::to_string(rounding.random_bits),
             "0 (automatic) to 32");
    const Scaling& scaling = quantizer.scaling;
    if (scaling.history < 1 || scaling.history > 4096)
      refuse(role, "scaling.history", std::to_string(scaling.history), "1 to 4096");
    if (scaling.margin < 0 || scaling.margin > 64)
      refuse(role, "scaling.margin", std::to_string(scaling.margin), "0 to 64");
    if (scaling.policy == ScalePolicy::delayed && scaling.granularity != Granularity::tensor)
      refuse(role, "scaling.granularity", to_string(scaling.granularity),
             "tensor, where the scale is a delayed one");
    if (scaling.rule != ScaleRule::floor && scaling.format != ScaleFormat::mx)
      refuse(role, "scaling.rule", to_string(scaling.rule),
             "none: rules are for scales of the format e8m0");
    if (scaling.format == ScaleFormat::e4m3 && scaling.granularity == Granularity::tensor)
      refuse(role, "scaling.granularity", "tensor", "parts of a tensor, for scales in e4m3");
    if (const OwnRounding& own = quantizer.own; own != OwnRounding{}) {
      if (!read)
        refuse(role, "own", soma::quoted(own.name),
               "none: a rounding of one's own is for operands of products (the gemm_ roles)");
      if (own.name.empty() || !own.defined())
        refuse(role, "own",
               own.defined() ? "a function without a name" : "a name without a function", "both");
      if (rounding != Rounding{})
        refuse(role, "rounding", to_string(rounding.mode),
               "nearest_even, where the rounding is one's own");
      if (scaling.policy != ScalePolicy::none && scaling.granularity != Granularity::tensor)
        refuse(role, "scaling.granularity", to_string(scaling.granularity),
               "tensor, where the rounding is one's own");
    }
    const int size = quantizer.rotation.size;
    if (size != 0 && (!read || (size != 16 && size != 32 && size != 64 && size != 128)))
      refuse(role, "rotation.size", std::to_string(size),
             read ? "16, 32, 64 or 128" : "none: only operands of products are rotated");
    if (read) return;
    if (!detail::stored_format(quantizer.format))
      refuse(role, "format", to_string(quantizer.format),
             "a format that tensors support: fp32, tf32, fp16, bf16 or an 8-bit format (others are "
             "for the "
             "gemm_ roles)");
    if (scaling.policy != ScalePolicy::none)
      refuse(role, "scaling.policy", to_string(scaling.policy),
             "none: only the operands of products have scales (the gemm_ roles)");
    // Steps round weights and moments, and ranks round sums of gradients, so these roles have a
    // choice.
    if (rounding != Rounding{} && role != "weights" && role != "moments" && role != "reduction")
      refuse(role, "rounding", to_string(rounding.mode),
             "nearest_even (others are for weights, moments, reduction and the gemm_ roles)");
  };
  for_each_role(precision, [&](std::string_view role, const Quantizer& quantizer) {
    check_role(role, quantizer, role.starts_with("gemm_"));
  });
  // The operands of a product follow one another.
  const Quantizer* before = nullptr;
  for_each_product_role(
      precision, [&](std::string_view name, std::string_view role, const Quantizer& quantizer,
                     const std::optional<Quantizer>& other) {
        if (other) {
          check_role(name, *other, true);
          if (other->scaling.policy == ScalePolicy::delayed ||
              quantizer.scaling.policy == ScalePolicy::delayed)
            refuse(name, "scaling.policy", "delayed",
                   "none or current, in " + std::string(role) +
                       " too: what one product reads has no history of its own");
        }
        const Quantizer& read = other ? *other : quantizer;
        if (before != nullptr && read.rotation != before->rotation)
          refuse(other ? name : role, "rotation.size", std::to_string(read.rotation.size),
                 std::to_string(before->rotation.size) +
                     ", and the same signs: both operands of a product are rotated alike");
        before = before == nullptr ? &read : nullptr;
      });
  for (const std::string& layer : precision.stored)
    if (layer.empty())
      refuse("stored", "name", "an empty one", "the path of a layer, or a pattern");
  const Accumulation& accumulation = precision.accumulation;
  check_format("accumulation", accumulation.format);
  constexpr std::uint64_t most = std::uint64_t{1} << 32;
  if (accumulation.chunk < 1 || std::uint64_t{accumulation.chunk} > most)
    refuse("accumulation", "chunk", std::to_string(accumulation.chunk), "1 to 2^32");
  if (std::uint64_t{accumulation.promote} > most)
    refuse("accumulation", "promote", std::to_string(accumulation.promote), "0 to 2^32");
  return precision;
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The functions of precision_text.hpp.

#include <soma/numeric/precision_text.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/precision.hpp>

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
  const Scaling& scaling = quantizer.scaling;
  if (scaling.policy == ScalePolicy::none) return text;
  text.append(", ").append(to_string(scaling.policy)).append(" ");
  text.append(to_string(scaling.granularity)).append(" ").append(to_string(scaling.format));
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
  for_each_role(precision, [&](std::string_view role, const Quantizer& quantizer) {
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
    if (const OwnRounding& own = quantizer.own; own != OwnRounding{}) {
      if (!role.starts_with("gemm_"))
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
    if (role.starts_with("gemm_")) return;
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

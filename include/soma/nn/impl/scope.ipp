#pragma once
// The functions of scope.hpp.

#include <soma/nn/scope.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/runtime/shared.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Scope Scope::operator/(std::string_view part) const {
  Scope child{context, seed, path, later};
  if (!path.empty()) child.path += '.';
  child.path += part;
  return child;
}

SOMA_INLINE std::uint32_t Scope::stream(std::string_view site) const {
  return stream_id(path, site);
}

SOMA_INLINE Draw Scope::draw(std::string_view site) const {
  return {.seed = seed, .stream = stream(site)};
}

SOMA_INLINE bool LayerPath::defined() const { return !(text_ == nullptr); }

SOMA_INLINE std::string_view LayerPath::view() const {
  return text_ == nullptr ? "" : std::string_view(text_->path);
}

SOMA_INLINE void Collector::add(std::string_view name, const Var& var, ParameterRole role) {
  add_rows(name, var, 0, to_end, role);
}

SOMA_INLINE void Collector::add_rows(std::string_view name, const Var& var, std::size_t first,
                                     std::size_t last, ParameterRole role) {
  if (var.defined()) parameters_.push_back({joined(name), var, first, last, role});
}

SOMA_INLINE std::string Collector::joined(std::string_view name) const {
  std::string result = path_;
  if (!result.empty() && !name.empty()) result += '.';
  return result.append(name);
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE void check_parameters(const Parameters& parameters) {
  if (parameters.empty())
    fail(error_id::no_parameters, "nn::parameters", "module", "a module without parameters",
         "a module whose collect() adds its parameters");
  std::vector<std::string_view> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    fail(error_id::duplicate_name, "nn::parameters", "module",
         "a module that registers " + soma::quoted(*twice) + " twice", "a name for each parameter");
}

SOMA_INLINE bool same_random_values(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.rank() < 2 || a.shape() != b.shape() ||
      a.dtype() != b.dtype() || a.bytes() == 0 || !a.contiguous() || !b.contiguous() ||
      std::memcmp(a.raw(), b.raw(), a.bytes()) != 0)
    return false;
  const std::size_t element = size_of(a.dtype());
  return std::memcmp(a.raw(), a.raw() + element, a.bytes() - element) != 0;
}

SOMA_INLINE void warn_of_equal_layers(const Parameters& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!parameters[i].var.is(parameters[j].var) &&
          same_random_values(parameters[i].value(), parameters[j].value()))
        parameters[i].var.context().log(
            LogLevel::warning,
            "nn::parameters: " + soma::quoted(parameters[j].name) + " and " +
                soma::quoted(parameters[i].name) +
                " have equal initial values: each layer needs a scope of its own");
}

}  // namespace SOMA_NAMESPACE::nn::detail

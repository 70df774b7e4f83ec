#pragma once
// ConfigReader: the checked values of a model's config.json by key, with a default for each key.

#include <soma/base/fixed.hpp>
#include <soma/base/model_keys.hpp>
#include <soma/ops/settings.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE::models::detail {

struct ActivationName {
  std::string_view name;
  Activation activation;
};
// All names of the usual library's list except prelu and xielu, which have parameters. Of several
// names for an activation, the first is written.
inline constexpr auto activation_names = std::to_array<ActivationName>({
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"relu", Activation::relu},
    {"tanh", Activation::tanh},
    {"linear", Activation::none},
    {"silu", Activation::silu},
    {"sigmoid", Activation::sigmoid},
    {"quick_gelu", Activation::gelu_sigmoid},
    {"gelu_10", Activation::gelu_clipped},
    {"mish", Activation::mish},
    {"leaky_relu", Activation::leaky_relu},
    {"relu6", Activation::relu6},
    {"relu2", Activation::relu_squared},
    {"laplace", Activation::laplace},
    {"gelu_python", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"swish", Activation::silu},
});

// Errors models.config_type, models.config_value: they name the key, its value and the accepted
// values.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  // `operation` and `name`, of the file, for messages; both outlive the object. Error
  // models.config_json.
  ConfigReader(std::string_view operation, std::string_view text, std::string_view name);

  const Json& root() const { return root_; }
  // Refuses the keys that the file's table refuses (base/model_keys.hpp).
  void check_keys(ModelFile file) const;
  // The value as JSON, or its beginning.
  static std::string shown(const Json& value);

  std::size_t size(const char* key, std::size_t otherwise, std::uint64_t most) const;
  std::uint64_t whole(const char* key, std::uint64_t least, std::uint64_t most) const;
  float number(const char* key, float otherwise) const;
  float probability(const char* key, float otherwise) const;
  float positive(const char* key, float otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  Activation activation(const char* key, Activation otherwise) const;

  // nullptr: missing or null, which mean the same.
  const Json* find(const char* key) const;
  const Json* text(const char* key) const;
  [[noreturn]] void bad_type(std::string_view key, const Json& value,
                             std::string_view wanted) const;
  [[noreturn]] void bad_value(std::string_view key, std::string_view given,
                              std::string_view wanted) const;
  std::string argument(std::string_view key) const;

 protected:
  // The values of an object inside of the file, which is named by its key.
  ConfigReader(const ConfigReader& file, const Json& object, std::string_view name)
      : operation_(file.operation_), name_(name), root_(object) {}

  std::string_view operation_;
  std::string_view name_;
  Json root_;
};

}  // namespace SOMA_NAMESPACE::models::detail

#ifndef SOMA_DISPATCH
#include <soma/models/impl/config_reader.ipp>
#endif

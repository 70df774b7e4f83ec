#pragma once
// Scope: the path of a module in its model. Modules are made from a scope: its path names the
// streams of random numbers that initialise their parameters and drive their dropout, so that
// neither depends on the order in which modules are made.

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

class InitialStore;  // nn/initial.hpp
class ProductSite;   // nn/product_site.hpp
struct Product;

struct Scope {
  Context& context;
  std::uint64_t seed = 0;  // for random initial values
  std::string path{};
  // If not nullptr: parameters have no elements until this object, a Later (nn/later.hpp), makes
  // them. It must outlive the modules.
  InitialStore* later = nullptr;

  // The scope of a part: "encoder" / "layer" is "encoder.layer".
  Scope operator/(std::string_view part) const;
  std::uint32_t stream(std::string_view site) const;
  Draw draw(std::string_view site) const;
};

// The path of a layer in its model, for messages. Copies share the text, so that copying a layer
// needs no memory.
class LayerPath {
 public:
  LayerPath() = default;  // no path
  explicit LayerPath(const Scope& scope)
      : text_(Shared<Text>::make(scope.context.heap(), scope.path)) {}
  bool defined() const;
  std::string_view view() const;

 private:
  struct Text : Counted {
    Text(Heap& heap, std::string where) : Counted(heap), path(std::move(where)) {}
    std::string path;
  };
  Shared<Text> text_;
};

// Gathers the parameters of a module: each module has a member
//     void collect(Collector& collector) const;
// that adds its own parameters and passes the collector on to its parts.
class Collector {
 public:
  // `products`: gets the products of linear layers, if it is given.
  explicit Collector(Parameters& parameters, std::string path = {},
                     std::vector<Product>* products = nullptr)
      : parameters_(parameters), path_(std::move(path)), products_(products) {}

  // `role` decides if weight decay is usual for the parameter.
  void add(std::string_view name, const Var& var, ParameterRole role = ParameterRole::unknown);
  // A parameter that is some rows of a variable.
  void add_rows(std::string_view name, const Var& var, std::size_t first, std::size_t last,
                ParameterRole role = ParameterRole::unknown);
  // The weight of the linear layer `name` (empty: the module itself), whose product is computed at
  // a site: some rows of the variable. Adds the parameters of the layer's adapter, too.
  void product(std::string_view name, const Var& weight, const ProductSite& site,
               std::size_t first = 0, std::size_t last = to_end);
  template <class Module>
  void part(std::string_view name, const Module& module) {
    Collector collector(parameters_, joined(name), products_);
    module.collect(collector);
  }

 private:
  std::string joined(std::string_view name) const;
  Parameters& parameters_;
  std::string path_;
  std::vector<Product>* products_;
};

namespace detail {

// Errors nn.no_parameters, state.duplicate_name.
void check_parameters(const Parameters& parameters);

// True if two matrices hold the same numbers, and the numbers are not all equal.
bool same_random_values(const Tensor& a, const Tensor& b);

void warn_of_equal_layers(const Parameters& parameters);

}  // namespace detail

// All parameters of a module, in the module's order. Errors nn.no_parameters, state.duplicate_name
// (two parameters with one name). Two matrices of equal random values come from two layers that
// were made from one scope and would learn the same: the context's log gets a warning.
template <class Module>
Parameters parameters(const Module& module, std::string_view path = {}) {
  Parameters result;
  Collector collector(result, std::string(path));
  module.collect(collector);
  detail::check_parameters(result);
  detail::warn_of_equal_layers(result);
  return result;
}

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/scope.ipp>
#endif

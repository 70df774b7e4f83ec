#pragma once
// Scope: where in a model something is. Modules are made from one: its path names the streams of
// random numbers that initialise their parameters and drive their dropout, so that neither depends
// on the order in which modules are made.

#include <soma/autograd/parameter.hpp>
#include <soma/numeric/draw.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace soma::nn {

struct Scope {
  Context& context;
  std::uint64_t seed = 0;  // of initial values
  std::string path{};

  // The scope of a part: "encoder" / "layer" is "encoder.layer".
  Scope operator/(std::string_view part) const {
    Scope child{context, seed, path};
    if (!path.empty()) child.path += '.';
    child.path += part;
    return child;
  }
  std::uint32_t stream(std::string_view site) const { return stream_id(path, site); }
  Draw draw(std::string_view site) const { return {.seed = seed, .stream = stream(site)}; }
};

// Gathers the parameters of a module: each module has a member
//     void collect(Collector& collector) const;
// that adds its own and passes parts on.
class Collector {
 public:
  explicit Collector(Parameters& parameters, std::string path = {})
      : parameters_(parameters), path_(std::move(path)) {}

  void add(std::string_view name, const Var& var) { add_rows(name, var, 0, to_end); }
  // A parameter that is some rows of a variable.
  void add_rows(std::string_view name, const Var& var, std::size_t first, std::size_t last) {
    if (var.defined()) parameters_.push_back({joined(name), var, first, last});
  }
  template <class Module>
  void part(std::string_view name, const Module& module) {
    Collector collector(parameters_, joined(name));
    module.collect(collector);
  }

 private:
  std::string joined(std::string_view name) const {
    std::string result = path_;
    if (!result.empty() && !name.empty()) result += '.';
    return result.append(name);
  }
  Parameters& parameters_;
  std::string path_;
};

// All parameters of a module, in the order in which it names them.
template <class Module>
Parameters parameters(const Module& module, std::string_view path = {}) {
  Parameters result;
  Collector collector(result, std::string(path));
  module.collect(collector);
  return result;
}

}  // namespace soma::nn

#pragma once
// ProductSite: where in a model a linear layer is, for what depends on the place: the formats of
// its operands and what is remembered of them. Copies are the same place.

#include <soma/nn/scope.hpp>
#include <soma/runtime/shared.hpp>

#include <string>
#include <utility>

namespace soma::nn {

class ProductSite {
 public:
  ProductSite() = default;  // nowhere: such a layer reads what is stored
  // `edge`: the first or the last layer of a model, which recipes leave alone.
  explicit ProductSite(const Scope& scope, bool edge = false)
      : place_(Shared<Place>::make(scope.context.heap(), scope.path, edge)) {}

  bool defined() const { return !(place_ == nullptr); }
  const std::string& path() const { return place_->path; }
  bool edge() const { return place_->edge; }

 private:
  struct Place : Counted {
    Place(Heap& heap, std::string where, bool at_edge)
        : Counted(heap), path(std::move(where)), edge(at_edge) {}
    std::string path;
    bool edge;
  };
  Shared<Place> place_;
};

}  // namespace soma::nn

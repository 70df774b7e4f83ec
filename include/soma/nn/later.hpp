#pragma once
// Later: initial values that are not made yet. Modules that are built from a Scope with one have
// parameters with a shape and without elements; make() fills those that are wanted, with the bits
// that they would have had at once. So a process may hold some pieces of a model only.

#include <soma/nn/initial.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <vector>

namespace soma::nn {

class Later final : public InitialStore {
 public:
  // Of parameters without elements: makes them, in the type that each has.
  void make(Context& context, const Parameters& parameters) const {
    for (const Parameter& parameter : parameters) {
      const Var& var = parameter.var;
      if (var.value().defined()) continue;
      const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                      [&](const Waiting& each) { return each.var.is(var); });
      if (found == waiting_.end())
        fail(error_id::tensor_undefined, "Later::make", soma::quoted(parameter.name),
             "without elements, and without what they begin as", "one made with this object");
      const DType dtype = var.value().dtype();
      const Initial* first = found->initial.data();
      Tensor made =
          detail::make_initial(context, var.shape(), first, first + found->initial.size());
      if (made.dtype() != dtype)
        made = run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {made})[0];
      var.set_value(made);
    }
  }

  void add(const Var& parameter, const Initial* begin, const Initial* end) override {
    waiting_.push_back({parameter, {begin, end}});
  }

 private:
  struct Waiting {
    Var var;
    std::vector<Initial> initial;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace soma::nn

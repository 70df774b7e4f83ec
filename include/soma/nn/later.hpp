#pragma once
// Later: postpones initial values. Modules that are built from a Scope with a Later have parameters
// with a shape and without elements. make() fills the chosen parameters with the same bits that
// they would have had at once. So a process may hold only some pieces of a model, and read only
// these from a file.

#include <soma/nn/initial.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace soma::nn {

class Later final : public InitialStore {
 public:
  // Makes the elements of parameters without elements, each in its own type.
  void make(Context& context, const Parameters& parameters) const {
    for (const Parameter& parameter : parameters) {
      const Var& var = parameter.var;
      if (var.value().defined()) continue;
      const Waiting& waiting = waiting_[find("Later::make", parameter)];
      const DType dtype = var.value().dtype();
      Tensor made = begin(context, waiting);
      for (const Replacement& each : waiting.replacements)
        each.fill(context, each.from,
                  each.whole() ? made : made.slice(0, each.first_row, each.last_row));
      if (!waiting.places.empty()) {
        const Tensor before = clone(context, made);
        for (std::size_t i = 0; i < waiting.places.size(); ++i)
          copy(before.slice(0, waiting.places[i], waiting.places[i] + 1), made.slice(0, i, i + 1));
      }
      if (made.dtype() != dtype)
        made = run(context, *context.built_in().cast, CastSetting{.dtype = dtype}, {made})[0];
      var.set_value(made);
    }
  }

  void add(const Var& parameter, const Initial* begin, const Initial* end) override {
    waiting_.push_back({parameter, {begin, end}});
  }
  // The last replacement wins. Error tensor.undefined: the parameter was not added.
  void replace(const Parameter& rows, const Tensor& from, Fill fill) override {
    waiting_[find("Later::replace", rows)].replacements.push_back(
        {rows.first_row, rows.last_row, from, fill});
  }
  void order_rows(const Parameter& parameter, const std::vector<std::size_t>& places) override {
    waiting_[find("Later::order_rows", parameter)].places = places;
  }

 private:
  struct Replacement {
    std::size_t first_row, last_row;  // as in Parameter
    Tensor from;
    Fill fill;
    bool whole() const { return first_row == 0 && last_row == to_end; }
  };
  struct Waiting {
    Var var;
    std::vector<Initial> initial;
    std::vector<Replacement> replacements{};
    std::vector<std::size_t> places{};  // new places of rows; empty: unchanged
  };

  std::size_t find(std::string_view operation, const Parameter& parameter) const {
    for (std::size_t i = 0; i < waiting_.size(); ++i)
      if (waiting_[i].var.is(parameter.var)) return i;
    fail(error_id::tensor_undefined, operation, soma::quoted(parameter.name),
         "without elements and without initial values", "a parameter made with this object");
  }
  // Skips random numbers that would all be replaced.
  static Tensor begin(Context& context, const Waiting& waiting) {
    const Shape& shape = waiting.var.shape();
    std::size_t replaced = 0;  // leading rows that are replaced
    for (const Replacement& each : waiting.replacements) {
      if (each.whole()) return Tensor::empty(context, shape);
      if (each.first_row <= replaced) replaced = (std::max)(replaced, each.last_row);
    }
    if (replaced != 0 && replaced >= shape[0]) return Tensor::empty(context, shape);
    const Initial* first = waiting.initial.data();
    return detail::make_initial(context, shape, first, first + waiting.initial.size());
  }

  std::vector<Waiting> waiting_;
};

}  // namespace soma::nn

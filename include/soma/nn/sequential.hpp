#pragma once
// Sequential: modules one after the other. Each is a piece (nn/pieces.hpp), so a model that is a
// Sequential can be cut into the stages of a pipeline between any two of them.
//
//   const soma::nn::Scope root{context};
//   soma::nn::Sequential model;
//   model.add("0", soma::nn::Linear(root / "0", 4, 16));
//   model.add("1", [](soma::Tape& tape, const soma::Var& x) { return soma::relu(tape, x); });
//   model.add("2", soma::nn::Linear(root / "2", 16, 3));

#include <soma/base/record.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/scope.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

namespace detail {

// True if in training a module's result for one row depends on other rows; the module reports it.
template <class Module>
bool mixes(const Module& module) {
  if constexpr (requires { module.mixes_sequences(); })
    return module.mixes_sequences();
  else
    return false;
}

// Adds the entries of a record under "<name>.<entry>".
void describe_under(Record& record, const std::string& name, const Record& own);

}  // namespace detail

// Copies of a Sequential share the modules.
class Sequential {
 public:
  Sequential() = default;

  // Appends a module, or a function of a tape and a variable; the first one may take (tape, batch),
  // for the fields of a batch. Its parameters are named "<name>.<parameter>". Error
  // state.duplicate_name. A call that gives a variable to a module that takes a batch is Error
  // operator.value.
  template <class Module>
  Sequential& add(std::string name, Module module) {
    for (const StepUse& step : steps_)
      if (step->name == name)
        fail(error_id::duplicate_name, "Sequential", "name", soma::quoted(name),
             "a name for each module");
    steps_.push_back(StepUse(new Holder<Module>(std::move(name), std::move(module))));
    return *this;
  }
  std::size_t size() const;

  Var operator()(Tape& tape, const Var& x) const;
  // The first module gets the batch, as call_model() says.
  Var operator()(Tape& tape, const data::Batch& batch) const;
  void collect(Collector& collector) const;
  // The first piece reads the inputs of the batch. `path`: the model's path in its task.
  Pieces pieces(std::string_view path = {}) const;
  // The settings of the modules that describe themselves: a run is resumed with the same settings
  // only.
  void describe(Record& record) const;
  // For a Sequential inside of a Sequential.
  bool mixes_sequences() const;

 private:
  struct Step {
    Step(std::string own_name, bool mixes) : name(std::move(own_name)), mixes_sequences(mixes) {}
    virtual ~Step() = default;
    virtual Var run(Tape& tape, const Var& x) const = 0;
    virtual Var begin(Tape& tape, const data::Batch& batch) const = 0;
    virtual void collect(Collector& collector) const = 0;
    virtual void describe(Record& record) const = 0;
    std::string name;
    bool mixes_sequences;
    mutable std::atomic<std::size_t> uses{1};
  };
  // Replaces std::shared_ptr, whose header is expensive.
  class StepUse {
   public:
    explicit StepUse(const Step* step) : step_(step) {}
    StepUse(const StepUse& other);
    StepUse& operator=(StepUse other) noexcept;
    ~StepUse();
    const Step* operator->() const { return step_; }
    const Step& operator*() const { return *step_; }

   private:
    const Step* step_;
  };
  template <class Module>
  struct Holder final : Step {
    Holder(std::string own_name, Module held)
        : Step(std::move(own_name), detail::mixes(held)), module(std::move(held)) {}
    Var run(Tape& tape, const Var& x) const override {
      if constexpr (requires { module(tape, x); })
        return module(tape, x);
      else
        fail(error_id::operator_value, "Sequential", soma::quoted(name), "called with a variable",
             "the first place: it takes a batch");
    }
    Var begin(Tape& tape, const data::Batch& batch) const override {
      // A function with `auto` would be tried with a batch, too.
      if constexpr (
          requires(Collector & collector) { module.collect(collector); } ||
          !requires(const Var& x) { module(tape, x); })
        return call_model(module, tape, batch);
      else
        return module(tape, tape.constant(batch.inputs));
    }
    void collect(Collector& collector) const override {
      if constexpr (requires { module.collect(collector); }) module.collect(collector);
    }
    void describe(Record& record) const override {
      if constexpr (requires { module.describe(record); }) module.describe(record);
    }
    Module module;
  };
  std::vector<StepUse> steps_;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/sequential.ipp>
#endif

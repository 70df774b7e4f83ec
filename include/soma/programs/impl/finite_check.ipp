#pragma once
// The functions of finite_check.hpp.

#include <soma/programs/finite_check.hpp>

#include <soma/neuroncore/core.hpp>
#include <soma/neuroncore/finite_watch.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/tensor_rows.hpp>
#include <soma/programs/graph/call_graph.hpp>
#include <soma/programs/run_mode.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE std::string find_non_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return {};
  const FloatFormat& format = format_of(tensor.dtype());
  const std::byte* const first = tensor.raw();
  const std::size_t width = size_of(tensor.dtype());
  std::vector<std::size_t> index(tensor.rank());
  for (std::size_t left = tensor.elements(); left != 0; --left) {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * step_of(tensor, d);
    std::uint32_t code = 0;
    std::memcpy(&code, first + offset * width, width);
    const float value = decode(format, code >> format.storage_shift());
    if (!std::isfinite(value)) {
      std::string text = neuroncore::non_finite_text(value) + " at [";
      for (std::size_t d = 0; d < index.size(); ++d)
        text.append(d == 0 ? "" : ", ").append(std::to_string(index[d]));
      return text.append("]");
    }
    for (std::size_t d = index.size(); d-- > 0;) {
      if (++index[d] != tensor.size(d)) break;
      index[d] = 0;
    }
  }
  return {};
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE void check_run_options(const RunOptions& options, bool computes) {
  if (!options.stop_at_non_finite || (options.mode == RunMode::eager && computes)) return;
  fail(error_id::neuroncore_run_options, "NeuronCoreDevice", "stop_at_non_finite",
       computes ? "true, and calls are recorded" : "true, in a dry run",
       "RunMode::eager on a core that computes");
}

SOMA_INLINE FiniteCheck::FiniteCheck(neuroncore::Core& core, const Operator& op,
                                     const OperatorCall& call, bool on)
    : core_(core), op_(op), call_(call), on_(on), before_(on ? call.inputs.size() : 0) {
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (input.defined() && input.storage().writable() && CallGraph::writes(op, i))
      before_[i] = clone(call.context, input);
  }
}

SOMA_INLINE void FiniteCheck::check(const Program* program) const {
  if (!on_) return;
  for (std::size_t i = 0; i < call_.outputs.size(); ++i)
    check_one("output " + std::to_string(i), call_.outputs[i], program);
  for (std::size_t i = 0; i < before_.size(); ++i)
    if (before_[i].defined())
      check_one("input " + std::to_string(i) + ", which it may write,", call_.inputs[i], program);
}

SOMA_INLINE void FiniteCheck::check_one(const std::string& argument, const Tensor& tensor,
                                        const Program* program) const {
  const std::string bad = detail::find_non_finite(tensor);
  if (!bad.empty())
    fail(error_id::neuroncore_not_finite, op_.name, argument, bad,
         "finite numbers: " + cause(program));
}

SOMA_INLINE std::string FiniteCheck::cause(const Program* program) const {
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const Tensor& given = before_[i].defined() ? before_[i] : call_.inputs[i];
    if (const std::string bad = detail::find_non_finite(given); !bad.empty())
      return "input " + std::to_string(i) + " was given with " + bad;
  }
  if (program == nullptr) return "its inputs were, and it is no program of instructions";
  restore();
  neuroncore::FiniteWatch watch;
  run_again(*program, watch);
  if (!watch.found().empty()) return watch.found();
  if (!watch.read_unwritten().empty()) return watch.read_unwritten() + ", which nobody wrote";
  return "no single instruction made it of finite numbers";
}

SOMA_INLINE void FiniteCheck::restore() const {
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (!before_[i].defined()) continue;
    const Storage& storage = call_.inputs[i].storage();
    const std::uint64_t recorded = storage.version();
    copy(before_[i], call_.inputs[i]);
    storage.set_version(recorded);
  }
}

SOMA_INLINE void FiniteCheck::run_again(const Program& program,
                                        neuroncore::FiniteWatch& watch) const {
  struct Running {
    neuroncore::Core& core;
    bool ended = false;
    ~Running() {
      if (!ended) core.abandon();
      core.watch_instructions(nullptr);
    }
  } running{core_};
  core_.watch_instructions(&watch);
  {
    const neuroncore::Core::Scope scope(core_);
    program.run(core_, call_);
  }
  core_.finish();
  running.ended = true;
}

}  // namespace SOMA_NAMESPACE

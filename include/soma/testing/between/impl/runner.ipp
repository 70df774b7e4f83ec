#pragma once
// The functions of runner.hpp.

#include <soma/testing/between/runner.hpp>

#include <soma/autograd/recompute.hpp>
#include <soma/ops/settings.hpp>
#include <soma/testing/between/generate.hpp>
#include <soma/testing/values.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE Bits bits_of(Context& context, const Tensor& tensor) {
  const Tensor plain = contiguous(context, tensor);
  Bits bits{.shape = tensor.shape(), .dtype = tensor.dtype()};
  if (plain.bytes() > 0) bits.bytes.assign(plain.raw(), plain.raw() + plain.bytes());
  return bits;
}

SOMA_INLINE ReferenceTensor values_of(const Bits& bits) {
  ReferenceTensor result{bits.shape, {}};
  for (std::size_t i = 0; i < bits.shape.elements(); ++i)
    result.values.push_back(number_at(bits.bytes.data() + i * size_of(bits.dtype), bits.dtype));
  return result;
}

SOMA_INLINE bool Outcome::same(const Outcome& other) const {
  return results == other.results && gradients == other.gradients && refused == other.refused;
}

SOMA_INLINE std::string Outcome::difference(const Outcome& other) const {
  if (refused != other.refused)
    return "ends in \"" + other.message + "\" instead of \"" + message + "\"";
  const auto differ = [](const Bits& a, const Bits& b) -> std::string {
    if (a == b) return {};
    if (a.shape != b.shape || a.dtype != b.dtype) return "has another shape or type";
    std::size_t at = 0;
    while (a.bytes[at] == b.bytes[at]) ++at;
    at /= size_of(a.dtype);
    return "has other bits at element " + std::to_string(at) + ": " +
           std::to_string(values_of(b).values[at]) + " instead of " +
           std::to_string(values_of(a).values[at]);
  };
  for (std::size_t i = 0; i < results.size() && i < other.results.size(); ++i)
    for (std::size_t j = 0; j < results[i].size(); ++j)
      if (const std::string what = differ(results[i][j], other.results[i][j]); !what.empty())
        return "n" + std::to_string(i) + "." + std::to_string(j) + " " + what;
  for (std::size_t i = 0; i < gradients.size() && i < other.gradients.size(); ++i)
    if (const std::string what = differ(gradients[i], other.gradients[i]); !what.empty())
      return "the gradient of a" + std::to_string(i) + " " + what;
  return {};
}

// The elements beside a leaf's own are NaN, or 1 where there is none: reading them shows.
SOMA_INLINE Tensor leaf_tensor(Context& context, const Leaf& leaf, bool row_major) {
  const ReferenceTensor values = leaf_values(leaf);
  const std::size_t width = size_of(leaf.dtype);
  Tensor base = Tensor::empty(context, row_major ? values.shape : leaf.base, leaf.dtype);
  std::byte* data = base.mutable_raw();
  if (row_major) {
    for (std::size_t i = 0; i < values.values.size(); ++i)
      store(data + i * width, leaf.dtype, values.values[i]);
    return base;
  }
  const double other = is_floating(leaf.dtype) ? std::numeric_limits<double>::quiet_NaN() : 1;
  for (std::size_t i = 0; i < base.elements(); ++i) store(data + i * width, leaf.dtype, other);
  const std::vector<std::size_t> places = places_of(leaf);
  for (std::size_t i = 0; i < places.size(); ++i)
    store(data + places[i] * width, leaf.dtype, values.values[i]);
  for (const ViewStep& step : leaf.views) base = view_of(base, step);
  return base;
}

// True if results follow the rows of the call's batch: random numbers are drawn by them, and the
// scales of scaling blocks lie in their order.
SOMA_INLINE bool follows_rows(const Call& call) {
  return call.name == "dropout" || call.name == "quantize" ||
         (call.name == "linear" && call.attributes.as<LinearSetting>().dropout.probability > 0);
}

struct Running {
  Context& context;
  const OperatorBook& book;
  const Program& program;
  Outcome& outcome;

  // Returns the result that is differentiated.
  Var calls(Tape& tape, std::span<const Var> leaves, bool record) const {
    std::vector<std::vector<Var>> results;
    if (record) {
      outcome.results.clear();
      outcome.lengths.clear();
    }
    const auto var = [&](const Ref& ref) {
      if (ref.kind == Ref::Kind::none) return Var();
      return ref.kind == Ref::Kind::leaf ? leaves[ref.index] : results[ref.index][ref.output];
    };
    for (const Call& call : program.calls) {
      const Entry& entry = book.at(call.name);
      std::vector<Var> inputs;
      std::vector<std::size_t> lengths;
      std::vector<std::pair<Var, Sequences>> hidden;
      for (const Ref& ref : call.inputs) inputs.push_back(var(ref));
      if (!call.lengths.empty()) {  // of the first input that has so many rows
        lengths = call.lengths;
        const std::size_t rows = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
        for (Var& input : inputs)
          if (input.defined() && input.shape().rank() != 0 && input.shape()[0] == rows) {
            input = tape.with_sequences(input, Sequences::from_lengths(context, lengths));
            break;
          }
      }
      for (Var& input : inputs) {
        if (!input.defined() || !input.sequences().defined() || !lengths.empty()) continue;
        const Sequences sequences = input.sequences();
        // References know rows of two dimensions and more, and in the first one alone.
        const bool known = sequences.place().leads() && input.shape().rank() > 1;
        if (!known && follows_rows(call)) {  // for this call alone: copies of a variable share them
          hidden.emplace_back(input, sequences);
          tape.with_sequences(input, {});
        }
        if (!known) continue;
        for (std::size_t i = 0; i < sequences.count(); ++i)
          lengths.push_back(sequences.length(i) * sequences.place().inner);
      }
      std::vector<Var> outputs;
      if (entry.op == nullptr) {
        outputs.push_back(entry.apply(tape, inputs, call.attributes));
      } else {
        const VarOutputs all = tape.apply_all(*entry.op, call.attributes, inputs);
        for (std::size_t i = 0; i < entry.op->outputs; ++i)
          outputs.push_back(is_floating(all[i].value().dtype()) ? all[i] : tape.detach(all[i]));
      }
      for (const auto& [input, sequences] : hidden) tape.with_sequences(input, sequences);
      if (record) {
        outcome.lengths.push_back(std::move(lengths));
        outcome.results.emplace_back();
        for (const Var& output : outputs)
          outcome.results.back().push_back(bits_of(context, output.value()));
      }
      results.push_back(std::move(outputs));
    }
    return var(program.result);
  }
};

SOMA_INLINE void run_parts(Context& context, const OperatorBook& book, const Program& program,
                           const RunChoices& choices, Outcome& outcome) {
  Tape tape(context, {.seed = 5});
  std::vector<Var> leaves;
  std::vector<Sequences> batches;
  for (const Leaf& leaf : program.leaves) {
    const Tensor value = leaf_tensor(context, leaf, choices.row_major);
    batches.push_back(leaf.lengths.empty() ? Sequences()
                                           : Sequences::from_lengths(context, leaf.lengths));
    leaves.push_back(leaf.parameter ? Var::parameter(context, value)
                                    : Var::constant(context, value));
    tape.with_sequences(leaves.back(), batches.back());
  }
  const Running running{context, book, program, outcome};
  Var result;
  if (choices.recompute && program.result.kind != Ref::Kind::none && leaves.size() <= 30) {
    running.calls(tape, leaves, true);
    tape.reset();
    // Calls gave variables sequences, which the second run gives them again.
    for (std::size_t i = 0; i < leaves.size(); ++i) tape.with_sequences(leaves[i], batches[i]);
    result = recompute(tape, leaves, [&running](Tape& inner, std::span<const Var> inputs) {
      return running.calls(inner, inputs, false);
    });
  } else {
    result = running.calls(tape, leaves, true);
  }
  if (!result.requires_gradient() || result.is_leaf()) return;
  outcome.late = true;
  tape.backward(result, leaf_tensor(context, program.given, choices.row_major));
  outcome.late = false;
  for (const Var& leaf : leaves) {
    outcome.gradients.emplace_back();
    if (!leaf.requires_gradient() || !leaf.gradient().defined()) continue;
    outcome.gradients.back() =
        bits_of(context, context.built_in().to_dense(context, leaf.gradient(), leaf.shape()));
  }
}

SOMA_INLINE Outcome run_program(Context& context, const OperatorBook& book, const Program& program,
                                const RunChoices& choices) {
  Outcome outcome;
#if SOMA_HAS_EXCEPTIONS
  try {
    run_parts(context, book, program, choices, outcome);
  } catch (const Error& error) {
    outcome.refused = error.id().name;
    outcome.message = error.what();
  }
#else
  run_parts(context, book, program, choices, outcome);
#endif
  return outcome;
}

}  // namespace SOMA_NAMESPACE::testing::detail

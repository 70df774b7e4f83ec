#pragma once
// The functions of planner.hpp.

#include <soma/train/pipeline/planner.hpp>

#include <soma/data/content_hash.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/nn/later.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/files.hpp>
#include <soma/train/options.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train::detail {

SOMA_INLINE std::string fingerprint_of(const nn::Pieces& pieces, const Parameters& parameters) {
  soma::data::ContentHash hash;
  for (const nn::Piece& piece : pieces) {
    hash.add_text(piece.name);
    hash.add(piece.parameters.size());
  }
  for (const Parameter& parameter : parameters) {
    hash.add_text(parameter.name);
    hash.add_text(to_string(parameter.value().shape()));
  }
  std::string text(16, '0');
  std::uint64_t value = hash.value();
  for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

SOMA_INLINE std::uint64_t handle_bytes(Context& context) {
  const Tensor value = Tensor::zeros(context, Shape{1}, DType::fp32);
  const std::size_t before = context.heap().bytes_in_use();
  const Var handle = Var::constant(context, value);
  return context.heap().bytes_in_use() - before;
}

SOMA_INLINE bool shares_variable(const nn::Piece& a, const nn::Piece& b) {
  for (const Parameter& x : a.parameters)
    for (const Parameter& y : b.parameters)
      if (x.var.is(y.var)) return true;
  return false;
}

}  // namespace SOMA_NAMESPACE::train::detail

namespace SOMA_NAMESPACE::train {

SOMA_INLINE PipelinePlan known_plan(const nn::Pieces& pieces, const Parameters& parameters,
                                    const PipelineOptions& options) {
  PipelinePlan plan{.fingerprint = detail::fingerprint_of(pieces, parameters),
                    .partitions = options.partitions,
                    .microbatches = options.microbatches};
  std::vector<std::string> names, wanted;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    PieceCost cost{.name = pieces[i].name};
    for (const Parameter& parameter : pieces[i].parameters) {
      names.push_back(parameter.name);
      cost.parameter_bytes += parameter.value().bytes();
    }
    plan.pieces.push_back(std::move(cost));
    for (std::size_t j = 0; j < i; ++j)
      if (detail::shares_variable(pieces[j], pieces[i]))
        for (std::size_t k = j + 1; k <= i; ++k) plan.pieces[k].joined = true;
  }
  if (pieces.empty()) {
    PieceCost whole{.name = "task"};
    for (const Parameter& parameter : parameters)
      whole.parameter_bytes += parameter.value().bytes();
    plan.pieces.push_back(std::move(whole));
    return plan;
  }
  for (const Parameter& parameter : parameters) wanted.push_back(parameter.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());  // for shared ones
  std::sort(wanted.begin(), wanted.end());
  if (names != wanted)
    fail(error_id::train_options, "PipelineTrainer", "parameters of the task's pieces",
         std::to_string(names.size()) + " names", "the task's " + std::to_string(wanted.size()));
  return plan;
}

SOMA_INLINE PipelineSchedule schedule_of(const PipelineOptions& options, std::size_t microbatches) {
  if (options.schedule == Pipeline::simple)
    return simple_schedule(options.partitions, microbatches);
  return interleaved_schedule(options.partitions, microbatches,
                              options.optimize == Optimize::speed ? 2 : 0);
}

SOMA_INLINE std::size_t in_flight(const PipelineOptions& options, std::size_t microbatches,
                                  std::size_t stage) {
  if (options.schedule == Pipeline::simple) return microbatches;
  const std::size_t behind = options.partitions - 1 - stage;
  return (std::min)(microbatches,
                    behind + 1 +
                        (options.optimize == Optimize::speed ? (std::min)(behind, std::size_t{2})
                                                             : std::size_t{0}));
}

SOMA_INLINE PieceProfiler::PieceProfiler(Context& context, nn::Task& task, const nn::Pieces& pieces,
                                         const TrainerOptions& options)
    : context_(context),
      task_(task),
      pieces_(pieces),
      later_(options.pipeline.later),
      precision_(context, options.precision, options.seed) {
  precision_.use_parts({});
}

SOMA_INLINE void PieceProfiler::measure(const data::Batch& part, std::vector<PieceCost>& costs) {
  const std::uint64_t handle = detail::handle_bytes(context_);
  Tensor x;
  Sequences sequences;
  check_.profiler = this;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    check_.piece = pieces_.empty() ? nullptr : &pieces_[i];
    Parameters made;
    if (later_ != nullptr && !pieces_.empty()) {
      for (const Parameter& parameter : pieces_[i].parameters)
        if (!parameter.value().defined()) made.push_back(parameter);
      later_->make(context_, made);
    }
    std::vector<Tensor> kept;  // running statistics are among the parameters
    const bool remembers = !pieces_.empty() && pieces_[i].mixes_sequences;
    if (remembers)
      for (const Parameter& parameter : pieces_[i].parameters)
        kept.push_back(clone(context_, parameter.value()));
    std::array<double, repetitions> forward{}, backward{};
    Tensor result;
    Sequences result_sequences;
    // One tape, as in a stage: it grows once.
    Tape tape(
        context_,
        {.activations = precision_.activations(), .precision = &precision_, .receiver = &check_});
    for (std::size_t k = 0; k < repetitions; ++k) {
      tape.reset();
      result = Tensor();  // frees the result of the repetition before
      Var input, output;
      if (i != 0) input = tape.input(x, sequences);
      const std::size_t before = context_.heap().bytes_in_use();
      const std::int64_t start = monotonic_nanoseconds();
      const bool last = i + 1 == costs.size();
      if (pieces_.empty())
        output = task_.forward(tape, part).loss;
      else
        output = pieces_[i].run(tape, input, part);
      result = output.value();
      result_sequences = output.sequences();
      if (last && !pieces_.empty()) output = task_.finish(tape, output, part).loss;
      const std::int64_t middle = monotonic_nanoseconds();
      costs[i].saved_bytes = context_.heap().bytes_in_use() - before - (last ? 0 : handle);
      // A piece that returns its input, or a parameter, has nothing to differentiate.
      if (output.requires_gradient() && !output.is_leaf()) {
        if (last)
          tape.backward(output);
        else
          tape.backward(output, Tensor::zeros(context_, output.shape(), result.dtype()));
      }
      const std::int64_t end = monotonic_nanoseconds();
      forward[k] = static_cast<double>(middle - start) * 1e-9;
      backward[k] = static_cast<double>(end - middle) * 1e-9;
    }
    costs[i].boundary_bytes = i + 1 == costs.size() ? 0 : result.bytes();
    costs[i].forward_seconds = median(forward);
    costs[i].backward_seconds = median(backward);
    x = result;
    sequences = result_sequences;
    for (std::size_t k = 0; k < kept.size(); ++k) copy(kept[k], pieces_[i].parameters[k].value());
    for (const Parameter& parameter : made) parameter.var.drop_value();
  }
  clear_gradients(task_.parameters());
}

SOMA_INLINE void PieceProfiler::Check::receive(const Var& parameter, Gradient) {
  if (piece == nullptr) return;
  const auto is_same = [&](const Parameter& known) { return known.var.is(parameter); };
  if (std::any_of(piece->parameters.begin(), piece->parameters.end(), is_same)) return;
  // One of no piece is the host's own, which no stage drops.
  const Parameters& all = profiler->task_.parameters();
  const auto found = std::find_if(all.begin(), all.end(), is_same);
  if (found == all.end()) return;
  fail(error_id::train_options, "PipelineTrainer", "piece " + soma::quoted(piece->name),
       "one that uses " + soma::quoted(found->name) + ", which is not among its parameters",
       "a piece that lists the variables that it uses (nn::Piece::parameters)");
}

SOMA_INLINE double PieceProfiler::median(std::array<double, repetitions>& times) {
  std::sort(times.begin(), times.end());
  return times[repetitions / 2];
}

SOMA_INLINE std::uint64_t waiting_sums(std::size_t microbatches) {
  std::uint64_t sums = 1;
  for (std::size_t m = 4; m <= microbatches; m *= 2) ++sums;
  return sums;
}

SOMA_INLINE std::uint64_t fixed_bytes(const PieceCost& piece, std::size_t microbatches) {
  return piece.parameter_bytes * (3 + waiting_sums(microbatches));
}

SOMA_INLINE void cut_pieces(PipelinePlan& plan, const PipelineOptions& options) {
  if (!options.cuts.empty()) {
    plan.cuts = cuts_by_name(plan.pieces, options.cuts, options.partitions);
    return;
  }
  PartitionProblem problem{.weights = piece_weights(plan.pieces, options.weight_of_memory()),
                           .partitions = options.partitions,
                           .limit = options.memory_limit};
  for (const PieceCost& piece : plan.pieces) {
    problem.joined.push_back(piece.joined ? 1 : 0);
    problem.fixed_bytes.push_back(fixed_bytes(piece, options.microbatches));
    problem.flying_bytes.push_back(piece.saved_bytes);
  }
  for (std::size_t stage = 0; stage < options.partitions; ++stage)
    problem.in_flight.push_back(in_flight(options, options.microbatches, stage));
  plan.cuts = partition_pieces(problem);
}

SOMA_INLINE bool read_decision(const PipelineOptions& options, Context& context,
                               PipelinePlan& plan) {
  if (options.decision.empty() || !options.cuts.empty() ||
      system::info_of(options.decision).kind == system::FileKind::none)
    return false;
  const auto file = MappedFile::open("PipelineTrainer", options.decision);
  const std::string text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const Record record = record_from_json(text, "decision file " + soma::quoted(options.decision));
  plan = plan_from_record(record, plan);
  if (plan.microbatches != options.microbatches)
    context.log(LogLevel::warning, "PipelineTrainer: " + record.purpose() + " was made for " +
                                       std::to_string(plan.microbatches) +
                                       " micro-batches, used for " +
                                       std::to_string(options.microbatches));
  plan.microbatches = options.microbatches;
  return true;
}

SOMA_INLINE void write_decision(const PipelineOptions& options, const PipelinePlan& plan) {
  if (options.decision.empty()) return;
  AtomicFile file("PipelineTrainer", options.decision);
  file.write(to_json(to_record(plan)) + "\n");
  file.commit();
}

}  // namespace SOMA_NAMESPACE::train

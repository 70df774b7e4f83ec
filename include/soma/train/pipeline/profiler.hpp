#pragma once
// PieceProfiler: measures the pieces of a model, before a run, for the plan of a pipeline.

#include <soma/nn/later.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/nn/task.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/memory/piece_memory.hpp>
#include <soma/train/options.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

// A size of micro-batches to measure.
struct ProfileSize {
  std::size_t parts = 1;    // parts of a batch, a power of two
  data::Batch part{};       // the largest such part of any batch
  std::uint64_t bytes = 0;  // heap of the part beside its batch
  bool timed = false;
};

// Measures each piece: the time of forward and backward (medians of five; the better of two passes
// if a pass takes longer than 20 ms), and what both do with the heap
// (train/memory/piece_memory.hpp). The run's state does not change: the profiler has product
// formats of its own, and restores the state that pieces keep of batches. Pieces with postponed
// parameters get them while they are measured. Resets the peak of the context's heap.
class PieceProfiler {
 public:
  PieceProfiler(Context& context, nn::Task& task, const nn::Pieces& pieces,
                const TrainerOptions& options);

  // One for each piece, or one for the whole task if it has no pieces.
  std::vector<PieceProfile> measure(std::span<const ProfileSize> sizes);

 private:
  static constexpr std::size_t repetitions = 5;
  static constexpr double slow_seconds = 0.02;
  // Keeps no gradient. Error train.options: a piece has used another variable than its parameters.
  struct Receiver final : GradientReceiver {
    SOMA_INLINE void receive(const Var& parameter, Gradient) override;
    SOMA_INLINE void complete(const Var& parameter, DType type) override;
    void check(const Var& parameter) const;
    static bool has(const Parameters& list, const Var& parameter);
    PieceProfiler* profiler = nullptr;
    const nn::Piece* piece = nullptr;  // nullptr: the whole task
    std::size_t base = 0;              // bytes in use before forward
    std::vector<GradientStep> steps{};
    std::vector<Var> parameters{};  // the steps' parameters
  };
  // The result of the piece before, for one size.
  struct Input {
    Tensor values{};
    Sequences sequences{};
  };

  static double median(std::array<double, repetitions>& times);
  std::size_t piece_count() const;
  Var compute(Tape& tape, std::size_t i, const Var& x, const data::Batch& part, Input& result);
  PieceMemory measure(std::size_t i, const ProfileSize& size, Input& x, PieceProfile& profile);
  void repeat(Tape& tape, std::size_t i, const ProfileSize& size, const Input& x, Input& result,
              PieceMemory& memory);
  void evaluate(std::size_t i, const ProfileSize& size, const Input& x, PieceMemory& memory);

  Context& context_;
  nn::Task& task_;
  const nn::Pieces& pieces_;
  const nn::Later* later_;
  PrecisionState precision_;
  Receiver receiver_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/profiler.ipp>
#endif

#pragma once
// PipelineOptions: the cut of a model and its batches for a pipeline (docs/scaling.md).

#include <soma/base/record.hpp>
#include <soma/parallel/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

class FieldVisitor;  // ops/fields.hpp

namespace nn {
class Later;  // nn/later.hpp
}

namespace train {

enum class Pipeline : std::uint8_t {
  simple,       // all forwards of a step, then all backwards
  interleaved,  // forwards and backwards in turns: fewer micro-batches are held at once
};

// The cost that a partition minimises.
enum class Optimize : std::uint8_t {
  speed,   // the predicted time of a step; two more micro-batches are begun ahead
  memory,  // the bytes of the largest rank
};

struct PipelineOptions {
  // The number of stages, one rank each. Further ranks are replicas: there are ranks / partitions
  // of them.
  std::size_t partitions = 1;
  // The number of parts of a batch, a power of two. microbatches times replicas is at most the
  // shards of a batch.
  std::size_t microbatches = 1;
  Pipeline schedule = Pipeline::interleaved;
  Optimize optimize = Optimize::memory;
  Placement placement = Placement::cluster;
  // The most bytes that the process of a rank may need; 0: no limit. Error parallel.plan if the
  // estimate of a stage is larger (train/memory/).
  std::uint64_t memory_limit = 0;
  // Bytes a second from one rank to another, for Optimize::speed; 0: the rate that is measured
  // before the run.
  double network = 0;
  // The file that keeps the decision (JSON). An existing file is used, and nothing is measured, if
  // everything that the decision depends on is the same; otherwise the log says what differs, and
  // rank 0 decides and writes the file. Empty: no file.
  std::string decision{};
  // The text of a decision that was made in this process (choose_plan() sets it): it is used in
  // place of the file's. Rank 0 alone needs it.
  std::string decided{};
  // Explicit cuts: the names of the first pieces of later stages. Nothing is measured.
  std::vector<std::string> cuts{};
  // The initial values of postponed parameters (nn::Scope::later): each rank makes the parameters
  // of its stage.
  nn::Later* later = nullptr;
};
void fields(FieldVisitor& visitor, PipelineOptions& options);

// The options that all ranks must share. (Only the first rank reads the file.)
void describe(const PipelineOptions& options, Record& record);

}  // namespace train
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/train/impl/pipeline_options.ipp>
#endif

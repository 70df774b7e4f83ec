#pragma once
// The cut of a model for a pipeline: the costs of its pieces, the partition with the smallest
// largest stage, the file form of that decision, and the assignment of ranks to stages. All of it
// is arithmetic: train/pipeline/ measures.

#include <soma/base/error.hpp>
#include <soma/base/record.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

// The costs of one piece of a model, computed on one micro-batch.
struct PieceCost {
  std::string name{};
  double forward_seconds = 0, backward_seconds = 0;
  std::uint64_t saved_bytes = 0;      // kept from forward to backward
  std::uint64_t boundary_bytes = 0;   // bytes of its result, which a cut behind it sends
  std::uint64_t parameter_bytes = 0;  // its weights alone, in their types
  // True if the piece shares a variable with an earlier piece: no cut may come before it.
  bool joined = false;
};

struct PartitionProblem {
  std::vector<double> weights{};  // costs of the pieces, from 0
  std::size_t partitions = 1;
  std::vector<char> joined{};  // true: no cut before the piece; empty: all false
};

// The first piece of each stage except the first. The largest stage is as small as possible; among
// several such partitions, the one with the leftmost cuts is chosen. Every stage has a piece. O(n^2
// p). Error parallel.plan: more stages than separable pieces.
std::vector<std::size_t> partition_pieces(const PartitionProblem& problem);

// A decision that is made once and kept.
struct PipelinePlan {
  std::string fingerprint{};  // identifies the model: names and shapes
  std::size_t partitions = 1, microbatches = 1;
  std::vector<std::size_t> cuts{};  // the first piece of each stage but the first
  std::vector<PieceCost> pieces{};  // times are 0 where nobody measured

  std::size_t first_piece(std::size_t stage) const { return stage == 0 ? 0 : cuts[stage - 1]; }
  std::size_t end_piece(std::size_t stage) const;
};

// A flat record, which io/record_json.hpp turns into a JSON file.
Record to_record(const PipelinePlan& plan);

// The indices of pieces by name. Error parallel.plan: no such piece, an ambiguous name, a piece
// that cannot begin a stage (the first one, or one that shares a variable with an earlier one), or
// another number of cuts than `partitions` needs. `pieces`: names and `joined`.
std::vector<std::size_t> cuts_by_name(const std::vector<PieceCost>& pieces,
                                      const std::vector<std::string>& names,
                                      std::size_t partitions);

// Reads the decision in a record, for a model with these pieces (names, `joined`, parameter_bytes).
// Error parallel.plan: the record was made for another model or another number of partitions, or it
// is damaged. record.missing and record.type name the missing entries of a damaged record.
PipelinePlan plan_from_record(const Record& record, const PipelinePlan& wanted);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/plan.ipp>
#endif

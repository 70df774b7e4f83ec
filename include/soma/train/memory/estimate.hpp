#pragma once
// MemoryEstimate: the bytes that one rank of a training run needs, by what they are for.

#include <soma/base/record.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

// Bytes of one process at the moment at which its heap is largest. The parts of heap() are those of
// the context's heap, each with its blocks' headers.
struct MemoryEstimate {
  std::uint64_t weights = 0;      // values of the rank's parameters
  std::uint64_t gradients = 0;    // sums of micro-batches that wait, and buckets of ranks
  std::uint64_t moments = 0;      // states of the optimizer, in their type
  std::uint64_t average = 0;      // averaged weights
  std::uint64_t activations = 0;  // kept from forward to backward, of all micro-batches in flight
  std::uint64_t workspaces = 0;   // memory of the operator that runs
  std::uint64_t messages = 0;     // results and their gradients on their way between stages
  std::uint64_t tables = 0;       // converted weights and other tables of a precision
  // Copies of weights: the best so far, where no store keeps them; those that wait while averages
  // are evaluated; a tensor of another stage that is being saved.
  std::uint64_t saving = 0;
  std::uint64_t data = 0;  // batches, and what was there before the run
  // Beside the heap.
  std::uint64_t slack = 0;    // memory that the heap holds and does not use
  std::uint64_t mapped = 0;   // pages of files: the program's code, files that are read in place
  std::uint64_t program = 0;  // the host's own memory

  std::uint64_t heap() const;
  std::uint64_t process() const;  // heap() and what is beside it
};

// Names and bytes of the parts, in the order of the members.
std::vector<std::pair<std::string_view, std::uint64_t>> parts_of(const MemoryEstimate& estimate);

// Entries `prefix` + name of the part. Errors of from_record(): record.missing, record.type.
void add_to_record(Record& record, std::string_view prefix, const MemoryEstimate& estimate);
MemoryEstimate estimate_from_record(const Record& record, std::string_view prefix);

// "weights 1.20 MiB, gradients 0.40 MiB ...": the parts of the heap that are not zero.
std::string to_string(const MemoryEstimate& estimate);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/memory/impl/estimate.ipp>
#endif

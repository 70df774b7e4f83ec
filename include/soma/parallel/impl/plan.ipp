#pragma once
// The functions of plan.hpp.

#include <soma/parallel/plan.hpp>

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

SOMA_INLINE std::vector<std::size_t> partition_pieces(const PartitionProblem& problem) {
  const std::size_t n = problem.weights.size(), p = problem.partitions;
  constexpr double none = (std::numeric_limits<double>::infinity)();
  std::vector<double> before(n + 1);
  for (std::size_t i = 0; i < n; ++i) before[i + 1] = before[i] + problem.weights[i];
  const auto weight = [&](std::size_t i, std::size_t j) { return before[j] - before[i]; };
  const auto may_begin = [&](std::size_t i) {
    return problem.joined.empty() || i >= n || problem.joined[i] == 0;
  };
  // best[k][i]: the largest stage of pieces i ... n - 1 as stages k ... p - 1.
  std::vector<std::vector<double>> best(p + 1, std::vector<double>(n + 1, none));
  if (p > 0) best[p][n] = 0;
  for (std::size_t k = p; k-- > 0;)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j <= n; ++j)
        if (best[k + 1][j] != none && may_begin(j))
          best[k][i] = (std::min)(best[k][i], (std::max)(weight(i, j), best[k + 1][j]));
  if (p == 0 || n == 0 || best[0][0] == none)
    fail(error_id::parallel_plan, "partition_pieces", "partitions", std::to_string(p),
         "1 to the number of pieces that can be apart, of " + std::to_string(n));
  std::vector<std::size_t> cuts;
  for (std::size_t k = 0, i = 0; k + 1 < p; ++k) {
    std::size_t j = i + 1;
    while (!(may_begin(j) && weight(i, j) <= best[0][0] && best[k + 1][j] <= best[0][0])) ++j;
    cuts.push_back(j);
    i = j;
  }
  return cuts;
}

SOMA_INLINE std::size_t PipelinePlan::end_piece(std::size_t stage) const {
  return stage < cuts.size() ? cuts[stage] : pieces.size();
}

SOMA_INLINE Record to_record(const PipelinePlan& plan) {
  Record record("decision");
  record.set("fingerprint", plan.fingerprint);
  record.set("partitions", std::uint64_t{plan.partitions});
  record.set("microbatches", std::uint64_t{plan.microbatches});
  for (std::size_t i = 0; i < plan.cuts.size(); ++i)
    record.set("cut." + std::to_string(i + 1), plan.pieces[plan.cuts[i]].name);
  for (const PieceCost& piece : plan.pieces) {
    const std::string name = "piece." + piece.name;
    record.set(name + ".forward_seconds", piece.forward_seconds);
    record.set(name + ".backward_seconds", piece.backward_seconds);
    record.set(name + ".saved_bytes", piece.saved_bytes);
    record.set(name + ".boundary_bytes", piece.boundary_bytes);
    record.set(name + ".parameter_bytes", piece.parameter_bytes);
  }
  return record;
}

SOMA_INLINE std::vector<std::size_t> cuts_by_name(const std::vector<PieceCost>& pieces,
                                                  const std::vector<std::string>& names,
                                                  std::size_t partitions) {
  std::vector<std::size_t> cuts;
  for (const std::string& name : names) {
    const auto found = std::find_if(pieces.begin(), pieces.end(),
                                    [&](const PieceCost& piece) { return piece.name == name; });
    if (found == pieces.end() || found == pieces.begin() || found->joined) {
      std::string wanted = "the first piece of a later stage, one of";
      for (std::size_t i = 1; i < pieces.size(); ++i)
        if (!pieces[i].joined) wanted.append(" ").append(soma::quoted(pieces[i].name));
      fail(error_id::parallel_plan, "pipeline", "cut", soma::quoted(name), wanted);
    }
    cuts.push_back(static_cast<std::size_t>(found - pieces.begin()));
  }
  std::sort(cuts.begin(), cuts.end());
  if (cuts.size() + 1 != partitions || std::adjacent_find(cuts.begin(), cuts.end()) != cuts.end())
    fail(error_id::parallel_plan, "pipeline", "cuts", std::to_string(names.size()) + " names",
         std::to_string(partitions - 1) + " different pieces, for " + std::to_string(partitions) +
             " partitions");
  return cuts;
}

SOMA_INLINE PipelinePlan plan_from_record(const Record& record, const PipelinePlan& wanted) {
  const auto refuse = [&](std::string_view name, const std::string& given,
                          const std::string& expected) {
    fail(error_id::parallel_plan, record.purpose(), name, given, expected);
  };
  PipelinePlan plan = wanted;
  if (record.text("fingerprint") != wanted.fingerprint)
    refuse("fingerprint", record.text("fingerprint"), wanted.fingerprint + ", of this model");
  if (const std::uint64_t partitions = record.count("partitions"); partitions != wanted.partitions)
    refuse("partitions", std::to_string(partitions), std::to_string(wanted.partitions));
  const std::uint64_t microbatches = record.count("microbatches");
  if (microbatches == 0 || microbatches > (std::uint64_t{1} << 32))
    refuse("microbatches", std::to_string(microbatches), "1 to 2^32");
  plan.microbatches = static_cast<std::size_t>(microbatches);
  std::vector<std::string> names;
  for (std::size_t i = 1; i < wanted.partitions; ++i)
    names.push_back(record.text("cut." + std::to_string(i)));
  plan.cuts = cuts_by_name(wanted.pieces, names, wanted.partitions);
  for (PieceCost& piece : plan.pieces) {
    const std::string name = "piece." + piece.name;
    const auto seconds = [&](const char* end) {
      const double value = record.number(name + end);
      if (!(value >= 0 && value <= 1e9)) refuse(name + end, to_text(value), "0 to 1e9 seconds");
      return value;
    };
    piece.forward_seconds = seconds(".forward_seconds");
    piece.backward_seconds = seconds(".backward_seconds");
    piece.saved_bytes = record.count(name + ".saved_bytes");
    piece.boundary_bytes = record.count(name + ".boundary_bytes");
    if (record.count(name + ".parameter_bytes") != piece.parameter_bytes)
      refuse(name + ".parameter_bytes", std::to_string(record.count(name + ".parameter_bytes")),
             std::to_string(piece.parameter_bytes));
  }
  return plan;
}

}  // namespace SOMA_NAMESPACE

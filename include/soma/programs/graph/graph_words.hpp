#pragma once
// The calls of a graph in words, for ranks that compare them (ops/graph_log.hpp).

#include <soma/data/content_hash.hpp>
#include <soma/ops/graph_log.hpp>
#include <soma/programs/graph/graph_key.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

// Each call as "relu [4, 8] fp32 -> [4, 8] fp32 (settings 1234)": the operator, its inputs and
// outputs, and a hash of their strides, its sequences and its settings. Where in a storage tensors
// begin is left out: parts of one batch begin at different positions.
void log_graph(GraphLog& log, std::span<const RecordedCall> calls);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/graph/impl/graph_words.ipp>
#endif

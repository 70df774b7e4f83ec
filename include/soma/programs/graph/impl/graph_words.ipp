#pragma once
// The functions of graph_words.hpp.

#include <soma/programs/graph/graph_words.hpp>

#include <soma/data/content_hash.hpp>
#include <soma/ops/graph_log.hpp>
#include <soma/programs/graph/graph_key.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE void log_graph(GraphLog& log, std::span<const RecordedCall> calls) {
  log.begin_graph();
  for (const RecordedCall& call : calls) {
    std::string words(call.op->name);
    const auto add = [&words](const char* before, const std::vector<Tensor>& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i)
        words.append(i == 0 ? before : ", ").append(tensors[i].describe());
    };
    add(" ", call.inputs);
    add(" -> ", call.outputs);
    GraphKey key;
    for (const std::vector<Tensor>* tensors : {&call.inputs, &call.outputs})
      for (const Tensor& tensor : *tensors)
        for (std::size_t i = 0; i < tensor.rank(); ++i) key.number({}, tensor.strides()[i]);
    detail::add_sequences(key, call.sequences);
    Attributes attributes = call.attributes;
    detail::KeyFields fields(key);
    attributes.visit(fields);
    data::ContentHash hash;
    hash.add_text(key.bytes());
    log.add(words.append(" (settings ").append(std::to_string(hash.value())).append(")"));
  }
}

}  // namespace SOMA_NAMESPACE

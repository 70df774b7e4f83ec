#pragma once
// part_of(): one rank's part of a batch that all ranks read.

#include <soma/data/batch.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::data {

// `count` shards from `first` on, with their rows, types, labels and fields: views, nothing is
// copied. Sequences keep their ordinals in the batch. A part without sequences has tensors without
// rows. Error ragged.shards.
Batch part_of(Context& context, const Batch& batch, std::size_t first, std::size_t count);

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/part.ipp>
#endif

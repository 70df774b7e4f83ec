#pragma once
// The functions of batch.hpp.

#include <soma/data/batch.hpp>

#include <soma/base/record.hpp>
#include <soma/data/labels.hpp>
#include <soma/tensor/ragged.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE void BatchSource::describe(Record& record) const { record.set("data.content", hash()); }

}  // namespace SOMA_NAMESPACE::data

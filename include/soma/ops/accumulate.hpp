#pragma once
// Adding gradients up: dense and sparse, in the order in which they come.

#include <soma/ops/binary.hpp>
#include <soma/ops/embedding.hpp>
#include <soma/ops/operator.hpp>

#include <utility>

namespace soma::detail {

// total += more. Adds in place only where nobody else can see the total.
inline void accumulate(Context& context, Gradient& total, Gradient more) {
  if (!more.defined()) return;
  if (!total.defined()) {
    total = std::move(more);
    return;
  }
  if (total.sparse() && more.sparse()) {
    total = merge_sparse(context, total, more);
    return;
  }
  if (total.sparse()) std::swap(total, more);  // a sum of two numbers has no order
  if (!total.values.storage().unique() || !total.values.contiguous())
    total.values = clone(context, total.values);
  if (more.sparse())
    add_sparse_rows(context, total.values, more);
  else
    add_into(context, total.values, more.values);
}

}  // namespace soma::detail

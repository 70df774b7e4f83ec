#pragma once
// The functions of packed_weights.hpp.

#include <soma/ops/product/packed_weights.hpp>

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/base/sizes.hpp>
#include <soma/kernels/gemm/multiply.hpp>
#include <soma/kernels/table.hpp>
#include <soma/ops/checks.hpp>
#include <soma/ops/support.hpp>
#include <soma/ops/tensor_rows.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE PackedWeights::PackedWeights(Context& context)
    : context_(context), take_(&PackedWeights::find), entries_(context.heap()) {}

SOMA_INLINE void PackedWeights::pack(const Tensor& weight, DType x) {
  detail::check_rank("PackedWeights::pack", "weight", weight, 2);
  detail::check_floating("PackedWeights::pack", "weight", weight);
  if (!is_floating(x))
    fail(error_id::tensor_dtype, "PackedWeights::pack", "x", to_string(x),
         "a floating type, whose products read panels");
  const detail::TensorRows rows = detail::rows_of(context_, weight);
  GemmArgs args{.m = 1, .n = rows.rows(), .k = rows.columns()};
  args.a.dtype = x;
  args.a.row_stride = args.k;
  args.b = detail::transposed(detail::operand(rows));
  find(*this, args, weight);
}

SOMA_INLINE void PackedWeights::clear() {
  const Mutex::Lock lock(mutex_);
  entries_.clear();
}

SOMA_INLINE bool PackedWeights::holds(const Tensor& weight) const {
  const Mutex::Lock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& entry) { return entry.source == weight.identity(); });
}

SOMA_INLINE std::size_t PackedWeights::bytes() const {
  const Mutex::Lock lock(mutex_);
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.panels.memory.bytes();
  return bytes;
}

SOMA_INLINE std::size_t PackedWeights::weights() const {
  const Mutex::Lock lock(mutex_);
  return entries_.size();
}

SOMA_INLINE std::size_t PackedWeights::index_of(const GemmArgs& args,
                                                const TensorIdentity& source) const {
  std::size_t i = 0;
  for (; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.source == source && entry.x == args.a.dtype &&
        entry.bf16_products == args.bf16_products && entry.fp32_products == args.fp32_products)
      break;
  }
  return i;
}

SOMA_INLINE void PackedWeights::drop_old(const GemmArgs& args, const TensorIdentity& source) {
  HeapVector<Entry> kept(context_.heap());
  for (Entry& entry : entries_) {
    TensorIdentity now = entry.source;
    now.version = source.version;
    if (entry.weight.handles() != 1 && (now != source || entry.x != args.a.dtype))
      kept.push_back(std::move(entry));
  }
  entries_ = std::move(kept);
}

SOMA_INLINE Storage PackedWeights::packed(GemmArgs args) const {
  const GemmKernels& gemm = context_.kernels().gemm;
  const Storage panels = Storage::allocate(context_.heap(), gemm.packed_bytes(args));
  args.packed_b.data = reinterpret_cast<float*>(panels.data());
  const std::size_t tiles = detail::parts_of(args.n, gemm.tile_columns);
  const std::size_t tasks = (std::min)(tiles, static_cast<std::size_t>(context_.executor().width));
  GemmArgs largest = args;
  largest.m = 1;
  largest.n = (std::min)(args.n, detail::parts_of(tiles, tasks) * gemm.tile_columns);
  const std::size_t workspace =
      detail::parts_of(gemm.workspace_bytes(largest), memory_alignment) * memory_alignment;
  const Storage memory =
      Storage::allocate(context_.heap(), checked_multiply(workspace, tasks, "PackedWeights"));
  parallel(context_, static_cast<int>(tasks), [&](int task) {
    const auto index = static_cast<std::size_t>(task);
    const std::size_t first = detail::border(args.n, gemm.tile_columns, index, tasks);
    const std::size_t last = detail::border(args.n, gemm.tile_columns, index + 1, tasks);
    GemmArgs own = detail::part(args, 0, 1, first, last - first);
    own.workspace = memory.data() + index * workspace;
    gemm.pack_b(own);
  });
  return panels;
}

SOMA_INLINE PackedWeights::Panels PackedWeights::find(PackedWeights& self, GemmArgs args,
                                                      const Tensor& weight) {
  if (args.m == 0 || args.n == 0) return {};
  const GemmKernels& gemm = self.context_.kernels().gemm;
  args.bf16_products = self.context_.bf16().products;
  args.fp32_products = self.context_.fp32_products();
  args.packed_b = {nullptr, 0, args.n, true};
  if (gemm.packed_bytes(args) == 0 || !gemm.reads_packed(args)) return {};
  const TensorIdentity source = weight.identity();
  const Mutex::Lock lock(self.mutex_);
  const std::size_t i = self.index_of(args, source);
  if (i == self.entries_.size()) {
    self.drop_old(args, source);
    Storage panels = self.packed(args);
    const PackedB packed{reinterpret_cast<float*>(panels.data()), 0, args.n, true};
    self.entries_.push_back({source, weight.storage(), args.a.dtype, args.bf16_products,
                             args.fp32_products, Panels{std::move(panels), packed}});
    return self.entries_.back().panels;
  }
  return self.entries_[i].panels;
}

}  // namespace SOMA_NAMESPACE

#pragma once
// The functions of key_value_cache.hpp.

#include <soma/nn/key_value_cache.hpp>

#include <soma/base/error.hpp>
#include <soma/base/sizes.hpp>
#include <soma/ops/checks.hpp>
#include <soma/runtime/context.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE::nn {

namespace detail {

inline std::size_t whole_blocks(std::size_t rows) {
  constexpr std::size_t block = KeyValueCache::block_rows;
  return (rows + block - 1) / block * block;
}

// Half a block ahead, so that sequences whose rooms end one after the other do not all copy all.
inline std::size_t room_ahead(std::size_t rows) {
  return whole_blocks(rows + KeyValueCache::block_rows / 2);
}

}  // namespace detail

SOMA_INLINE KeyValueCache::KeyValueCache(Context& context, std::size_t layers, std::size_t columns,
                                         DType type)
    : context_(context),
      columns_(2 * columns),
      type_(type),
      layers_(layers, context.heap()),
      rows_(context.heap()),
      room_(context.heap()),
      begins_(context.heap()),
      new_rows_(context.heap()) {
  for (Tensor& layer : layers_) layer = Tensor::empty(context, Shape{0, columns_}, type);
}

SOMA_INLINE std::size_t KeyValueCache::most_bytes(std::size_t layers, std::size_t columns,
                                                  DType type, std::span<const std::size_t> rows) {
  constexpr std::string_view operation = "KeyValueCache";
  std::size_t room = 0;
  for (const std::size_t each : rows) room = checked_add(room, detail::room_ahead(each), operation);
  return checked_multiply(
      room, checked_multiply(2 * columns * size_of(type), layers + 1, operation), operation);
}

SOMA_INLINE std::size_t KeyValueCache::bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& layer : layers_) bytes += layer.bytes();
  return bytes;
}

SOMA_INLINE std::size_t KeyValueCache::count() const { return rows_.size(); }

SOMA_INLINE std::size_t KeyValueCache::layers() const { return layers_.size(); }

SOMA_INLINE void KeyValueCache::add() {
  begins_.push_back(count() == 0 ? 0 : begins_.back() + room_.back());
  rows_.push_back(0);
  room_.push_back(0);
}

SOMA_INLINE void KeyValueCache::remove(std::size_t sequence) {
  HeapVector<std::size_t> wanted(context_.heap());
  for (std::size_t i = 0; i < count(); ++i) wanted.push_back(i == sequence ? 0 : rows_[i]);
  rows_[sequence] = 0;
  make_room({wanted.data(), wanted.size()});
  for (std::size_t i = sequence; i + 1 < count(); ++i)
    rows_[i] = rows_[i + 1], room_[i] = room_[i + 1], begins_[i] = begins_[i + 1];
  rows_.pop_back();
  room_.pop_back();
  begins_.pop_back();
}

SOMA_INLINE void KeyValueCache::make_room(std::span<const std::size_t> wanted) {
  HeapVector<std::size_t> begins(context_.heap());
  std::size_t total = 0;
  for (std::size_t i = 0; i < count(); ++i) {
    begins.push_back(total);
    room_[i] = wanted[i] == 0 ? 0 : detail::room_ahead(wanted[i]);
    total += room_[i];
  }
  const std::size_t row_bytes = columns_ * size_of(type_);
  for (Tensor& layer : layers_) {
    const Tensor wider = Tensor::empty(context_, Shape{total, columns_}, type_);
    for (std::size_t i = 0; i < count(); ++i)
      if (rows_[i] != 0)
        std::memcpy(static_cast<std::byte*>(wider.mutable_raw()) + begins[i] * row_bytes,
                    static_cast<const std::byte*>(layer.raw()) + begins_[i] * row_bytes,
                    rows_[i] * row_bytes);
    layer = wider;
  }
  begins_ = std::move(begins);
}

SOMA_INLINE void KeyValueCache::begin(std::span<const std::size_t> new_rows) {
  if (new_rows.size() != count())
    fail(error_id::tensor_shape, "KeyValueCache", "new_rows", std::to_string(new_rows.size()),
         "a number for each of " + std::to_string(count()) + " sequences");
  new_rows_.assign(new_rows);
  HeapVector<std::size_t> used(context_.heap());
  bool fits = true;
  for (std::size_t i = 0; i < count(); ++i) {
    used.push_back(checked_add(rows_[i], new_rows[i], "KeyValueCache"));
    fits = fits && used[i] <= room_[i];
  }
  if (!fits) make_room({used.data(), used.size()});
  step_ = Sequences::from_lengths(context_, new_rows);
  all_ = Sequences::from_lengths(context_, {room_.data(), room_.size()},
                                 {.used = {used.data(), used.size()}});
  first_positions_ = Tensor::empty(context_, Shape{count()}, DType::int64);
  query_begins_ = Tensor::empty(context_, Shape{count() + 1}, DType::int64);
  for (std::size_t i = 0; i < count(); ++i)
    first_positions_.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(rows_[i]);
  for (std::size_t i = 0; i <= count(); ++i)
    query_begins_.mutable_data<std::int64_t>()[i] = static_cast<std::int64_t>(step_.offsets()[i]);
}

SOMA_INLINE Tensor KeyValueCache::append(std::size_t layer, const Tensor& qkv) {
  constexpr std::string_view operation = "KeyValueCache";
  soma::detail::check_rank(operation, "qkv", qkv, 2);
  if (qkv.size(0) != step_.rows() || qkv.size(1) < columns_)
    fail(error_id::tensor_shape, operation, "qkv", qkv.describe(),
         "[" + std::to_string(step_.rows()) + ", at least " + std::to_string(columns_) + "]");
  if (qkv.dtype() != type_)
    fail(error_id::tensor_dtype, operation, "qkv", qkv.describe(), to_string(type_));
  const Tensor given = contiguous(context_, qkv);
  const Tensor& kept = layers_[layer];
  const std::size_t bytes = size_of(type_), from_row = given.size(1) * bytes,
                    to_row = columns_ * bytes;
  const auto* const from = static_cast<const std::byte*>(given.raw()) + from_row - to_row;
  auto* const to = static_cast<std::byte*>(kept.mutable_raw());
  for (std::size_t i = 0; i < count(); ++i)
    for (std::size_t row = 0; row < new_rows_[i]; ++row)
      std::memcpy(to + (begins_[i] + rows_[i] + row) * to_row,
                  from + (step_.begin(i) + row) * from_row, to_row);
  return kept;
}

SOMA_INLINE void KeyValueCache::end() {
  for (std::size_t i = 0; i < count(); ++i) rows_[i] += new_rows_[i];
}

}  // namespace SOMA_NAMESPACE::nn

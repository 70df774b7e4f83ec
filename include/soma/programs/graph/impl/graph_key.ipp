#pragma once
// The functions of graph_key.hpp.

#include <soma/programs/graph/graph_key.hpp>

#include <soma/ops/fields.hpp>
#include <soma/programs/graph/call_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE void GraphKey::number(std::string_view name, std::uint64_t value) {
  if (names_ != nullptr) names_->emplace_back(bytes_.size(), place_ + std::string(name));
  for (int i = 0; i < 64; i += 8) bytes_.push_back(static_cast<char>(value >> i & 255));
}

SOMA_INLINE void GraphKey::text(std::string_view name, std::string_view value) {
  number(name, value.size());
  bytes_.append(value);
  bytes_.resize((bytes_.size() + 7) / 8 * 8, '\0');  // numbers keep to multiples of 8
}

SOMA_INLINE void GraphKey::set_place(std::string place) { place_ = std::move(place); }

SOMA_INLINE std::uint64_t GraphKey::number_around(std::size_t at) const {
  std::uint64_t number = 0;
  for (std::size_t i = at / 8 * 8 + 8; i-- > at / 8 * 8;)
    number = number << 8 | (i < bytes_.size() ? static_cast<unsigned char>(bytes_[i]) : 0);
  return number;
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void KeyFields::found(const Field& field) {
  if (field.use == FieldUse::run_time) return;
  if (field.use == FieldUse::factor) {
    const bool one = field.bytes == sizeof(float) ? *static_cast<const float*>(field.value) == 1
                                                  : *static_cast<const double*>(field.value) == 1;
    return key_.number(field.name, one ? 1 : 0);
  }
  std::uint64_t bits = 0;  // for a floating-point number: the bits of its code
  std::memcpy(&bits, field.value, field.bytes);
  key_.number(field.name, bits);
}

SOMA_INLINE void KeyFields::found_pointer(std::string_view name, const void* address) {
  key_.number(name, address != nullptr ? 1 : 0);
}

SOMA_INLINE bool FindPointer::in(Attributes attributes) {
  FindPointer visitor;
  attributes.visit(visitor);
  return visitor.found_;
}

SOMA_INLINE std::size_t StorageNumbers::of(const Storage& storage) {
  for (std::size_t i = known_.size(); i-- > 0;)  // the latest first: most are named again soon
    if (known_[i] == storage.identity()) return i;
  known_.push_back(storage.identity());
  return known_.size() - 1;
}

SOMA_INLINE void add_tensor(GraphKey& key, const Tensor& tensor, StorageNumbers& numbers) {
  key.number("defined", tensor.defined() ? 1 : 0);
  if (!tensor.defined()) return;
  key.number("storage", numbers.of(tensor.storage()));
  key.number("offset", static_cast<std::uint64_t>(tensor.address() - tensor.storage().data()));
  key.number("dtype", static_cast<std::uint64_t>(tensor.dtype()));
  key.number("rank", tensor.rank());
  for (std::size_t i = 0; i < tensor.rank(); ++i) key.number("size", tensor.size(i));
  for (std::size_t i = 0; i < tensor.rank(); ++i) key.number("stride", tensor.strides()[i]);
}

SOMA_INLINE void add_sequences(GraphKey& key, const Sequences& sequences) {
  key.number("sequences", sequences.defined() ? 1 : 0);
  if (!sequences.defined()) return;
  key.number("dimension of the batch", sequences.place().dimension);
  key.number("times all rows", sequences.place().outer);
  key.number("inner rows", sequences.place().inner);
  key.number("number of sequences", sequences.count());
  for (std::size_t i = 0; i < sequences.count(); ++i) key.number("length", sequences.length(i));
  key.number("padded", sequences.padded() ? 1 : 0);  // how much of it is data
  key.number("shards", sequences.shards());
  for (const std::size_t bound : sequences.sequence_bounds()) key.number("shard's border", bound);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE bool has_key(const Operator& op, const Attributes& attributes) {
  return op.state == nullptr && attributes.lists_fields();
}

SOMA_INLINE GraphKey graph_key(std::string_view machine, std::span<const RecordedCall> calls,
                               GraphKey::Names* names) {
  GraphKey key;
  key.keep_names(names);
  key.text("machine", machine);
  detail::StorageNumbers storages;
  key.number("calls", calls.size());
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const RecordedCall& call = calls[c];
    const auto place = [&](const std::string& what) {
      if (key.names_wanted())
        key.set_place("call " + std::to_string(c + 1) + " (" + std::string(call.op->name) + ") " +
                      what);
    };
    const auto add_tensors = [&](const char* what, const std::vector<Tensor>& tensors) {
      place("");
      key.number(what, tensors.size());
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        place(std::string(what) + " " + std::to_string(i + 1) + " ");
        detail::add_tensor(key, tensors[i], storages);
      }
    };
    place("");
    key.text("operator", call.op->name);
    add_tensors("input", call.inputs);
    add_tensors("output", call.outputs);
    place("");
    detail::add_sequences(key, call.sequences);
    Attributes attributes = call.attributes;
    detail::KeyFields fields(key);
    attributes.visit(fields);
  }
  key.keep_names(nullptr);
  return key;
}

SOMA_INLINE std::string first_difference(const GraphKey& key, const GraphKey::Names& names,
                                         const GraphKey& other, std::size_t& at) {
  const std::string &a = key.bytes(), &b = other.bytes();
  for (at = 0; at < a.size() && at < b.size() && a[at] == b[at];) ++at;
  if (at == a.size() && at == b.size()) return "";
  std::string name = "the end";
  for (const auto& [begin, entry] : names) {
    if (begin > at) break;
    name = entry;
  }
  return name;
}

}  // namespace SOMA_NAMESPACE

#pragma once
// GraphKey: all that the instruction stream of some calls depends on, as bytes: two graphs of one
// key run the same instructions. Fields that are run-time scalars (ops/fields.hpp) are left out,
// so that steps of a training run share a key; numbers in tensors never matter.

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

// A list of named numbers and texts. Names are kept only where somebody asked for them: to say in
// which field two keys differ.
class GraphKey {
 public:
  // Where the entry of a name begins in bytes().
  using Names = std::vector<std::pair<std::size_t, std::string>>;

  GraphKey() = default;
  explicit GraphKey(std::string bytes) : bytes_(std::move(bytes)) {}

  void number(std::string_view name, std::uint64_t value);
  void text(std::string_view name, std::string_view value);
  // Names of what follows begin with this.
  void set_place(std::string place);
  bool names_wanted() const { return names_ != nullptr; }
  void keep_names(Names* names) { names_ = names; }

  const std::string& bytes() const { return bytes_; }
  // The number whose bytes hold byte `at` where all before are numbers or texts of whole eights; 0
  // beyond the end. For messages.
  std::uint64_t number_around(std::size_t at) const;
  friend bool operator==(const GraphKey& a, const GraphKey& b) { return a.bytes_ == b.bytes_; }

 private:
  std::string bytes_, place_;
  Names* names_ = nullptr;
};

namespace detail {

// Writes the fields of settings that belong into a key.
class KeyFields final : public FieldVisitor {
 public:
  explicit KeyFields(GraphKey& key) : key_(key) {}

 protected:
  SOMA_INLINE void found(const Field& field) override;
  SOMA_INLINE void found_pointer(std::string_view name, const void* address) override;

 private:
  GraphKey& key_;
};

// Finds out if settings hold a pointer, which is valid during the call only.
class FindPointer final : public FieldVisitor {
 public:
  static bool in(Attributes attributes);

 protected:
  void found(const Field&) override {}
  void found_pointer(std::string_view, const void* address) override {
    found_ = found_ || address != nullptr;
  }

 private:
  bool found_ = false;
};

// Numbers the storages of a graph in the order in which its calls name them.
class StorageNumbers {
 public:
  std::size_t of(const Storage& storage);

 private:
  std::vector<std::uintptr_t> known_;
};

void add_tensor(GraphKey& key, const Tensor& tensor, StorageNumbers& numbers);

void add_sequences(GraphKey& key, const Sequences& sequences);

}  // namespace detail

// True if a call can be part of a graph: its settings list their fields, and its operator keeps no
// state.
bool has_key(const Operator& op, const Attributes& attributes);

// The key of calls on a machine of that name. With `names`, where each of its entries begins.
GraphKey graph_key(std::string_view machine, std::span<const RecordedCall> calls,
                   GraphKey::Names* names = nullptr);

// The name of the first entry of a key, whose names are given, in which it differs from another;
// `at` is the byte. Empty: it does not.
std::string first_difference(const GraphKey& key, const GraphKey::Names& names,
                             const GraphKey& other, std::size_t& at);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/programs/graph/impl/graph_key.ipp>
#endif

#pragma once
// The functions of safetensors.hpp.

#include <soma/io/safetensors.hpp>

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/payload.hpp>
#include <soma/io/safetensors_dtype.hpp>
#include <soma/io/safetensors_header.hpp>
#include <soma/state/state_dict.hpp>
#include <soma/state/tensor_source.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE const Tensor& SafetensorsFile::at(std::string_view name) const {
  for (const SkippedTensor& tensor : skipped)
    if (tensor.name == name)
      fail(error_id::safetensors_dtype, "SafetensorsFile::at", soma::quoted(name), tensor.reason,
           "a dtype and rank that tensors have");
  return tensors.at(name);
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE SafetensorsFile SafetensorsReader::read() {
  read_header();
  check_offsets();
  SafetensorsFile result{.tensors = {}, .metadata = std::move(header_.metadata), .skipped = {}};
  std::sort(header_.entries.begin(), header_.entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (SafetensorsEntry& entry : header_.entries) add(entry, result);
  return result;
}

SOMA_INLINE void SafetensorsReader::read_header() {
  std::uint64_t length = 0;
  if (file_.size() < sizeof length) failed("is shorter than the 8 bytes of a length");
  std::memcpy(&length, file_.data(), sizeof length);
  if (length > safetensors_header_limit)
    failed("says that its header has " + std::to_string(length) +
           " bytes, more than the limit of 100000000");
  if (length > file_.size() - sizeof length)
    failed("says that its header has " + std::to_string(length) + " bytes, more than follow");
  const std::string_view text(reinterpret_cast<const char*>(file_.data()) + sizeof length,
                              static_cast<std::size_t>(length));
  if (!text.starts_with('{')) failed("has a header that does not begin with '{'");
  if (!header_.read(text)) failed("has a header that " + header_.problem);
  data_ = file_.subspan(sizeof length + text.size());
}

SOMA_INLINE void SafetensorsReader::check_offsets() {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& entry : header_.entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::size_t end = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin != end || entry->end < entry->begin || entry->end > data_.size())
      bad_size(*entry,
               "data from " + std::to_string(entry->begin) + " to " + std::to_string(entry->end),
               "from " + std::to_string(end) + ", where the one before ends, to at most " +
                   std::to_string(data_.size()));
    end = entry->end;
  }
  if (end != data_.size())
    fail(error_id::safetensors_size, operation, "data of " + soma::quoted(source_),
         std::to_string(data_.size()) + " bytes",
         std::to_string(end) + ", where its last tensor ends");
}

SOMA_INLINE void SafetensorsReader::add(SafetensorsEntry& entry, SafetensorsFile& result) {
  const SafetensorsType* type = find_safetensors_type(entry.dtype);
  if (type == nullptr) return skip(entry, "unknown dtype " + soma::quoted(entry.dtype), result);
  const std::optional<std::size_t> bits = payload_bytes(entry.sizes, type->bits);
  if (bits != checked_multiply(entry.end - entry.begin, 8, operation))
    bad_size(entry, std::to_string(entry.end - entry.begin) + " bytes of data",
             bits ? std::to_string(*bits) + " bits, as its shape says"
                  : std::string("a shape of less than 2^64 bits"));
  if (!type->known) return skip(entry, entry.dtype, result);
  if (entry.sizes.size() > max_rank)
    return skip(entry, "rank " + std::to_string(entry.sizes.size()), result);

  const std::span<const std::byte> bytes = data_.subspan(entry.begin, entry.end - entry.begin);
  if (type->dtype == DType::boolean && !are_booleans(bytes))
    fail(error_id::safetensors_value, operation,
         soma::quoted(entry.name) + " in " + soma::quoted(source_), "a byte above 1",
         "bools, 0 or 1");
  const Shape shape{std::span<const std::size_t>(entry.sizes)};
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % size_of(type->dtype) == 0;
  auto* data = const_cast<std::byte*>(bytes.data());
  if (aligned) {
    result.tensors.set(std::move(entry.name),
                       Tensor::adopt_bytes(context_, data, shape, type->dtype, owner_, false));
  } else {
    const Tensor copy = Tensor::empty(context_, shape, type->dtype);
    if (!bytes.empty()) std::memcpy(copy.mutable_raw(), bytes.data(), bytes.size());
    result.tensors.set(std::move(entry.name), copy);
  }
}

SOMA_INLINE void SafetensorsReader::skip(SafetensorsEntry& entry, std::string reason,
                                         SafetensorsFile& result) {
  result.skipped.push_back({std::move(entry.name), std::move(reason), entry.end - entry.begin});
}

SOMA_INLINE void SafetensorsReader::failed(std::string_view problem) const {
  std::string given = soma::quoted(source_);
  given.append(", which ").append(problem);
  fail(error_id::safetensors_header, operation, "file", given, "a safetensors file");
}

SOMA_INLINE void SafetensorsReader::bad_size(const SafetensorsEntry& entry, std::string_view given,
                                             std::string_view wanted) const {
  fail(error_id::safetensors_size, operation,
       soma::quoted(entry.name) + " in " + soma::quoted(source_), given, wanted);
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE SafetensorsFile load_safetensors(Context& context, std::string_view path) {
  const auto file = MappedFile::open("load_safetensors", path);
  return detail::SafetensorsReader(context, path, file->bytes(), file).read();
}

SOMA_INLINE SafetensorsFile load_safetensors(Context& context, std::span<const std::byte> content,
                                             std::shared_ptr<const void> owner) {
  return detail::SafetensorsReader(context, "memory", content, std::move(owner)).read();
}

SOMA_INLINE void save_safetensors(std::string_view path, TensorSource& tensors,
                                  const SafetensorsMetadata& metadata) {
  constexpr std::string_view operation = "save_safetensors";
  using Type = detail::SafetensorsType;
  const std::span<const StateDict::Entry> given = tensors.entries();
  std::vector<std::pair<const Type*, std::size_t>> order;
  for (std::size_t i = 0; i < given.size(); ++i)
    order.emplace_back(&detail::safetensors_type(operation, given[i].first, given[i].second), i);
  // Wide elements come first, so that all are aligned; names already ascend.
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });

  for (std::size_t i = 0; i < metadata.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (metadata[i].first == metadata[j].first)
        fail(error_id::safetensors_name, operation, "key of the metadata",
             soma::quoted(metadata[i].first), "a new key");

  std::vector<detail::SafetensorsEntry> entries;
  std::size_t end = 0;
  for (const auto& [type, i] : order) {
    const auto& [name, tensor] = given[i];
    if (name == "__metadata__")
      fail(error_id::safetensors_name, operation, "name", "\"__metadata__\"",
           "a name that the format does not reserve");
    const std::size_t begin = end;
    end = checked_add(begin, tensor.bytes(), operation);
    entries.push_back({name,
                       std::string(type->name),
                       {tensor.shape().begin(), tensor.shape().end()},
                       begin,
                       end});
  }
  const std::string header = detail::safetensors_header(operation, entries, metadata);
  if (header.size() > detail::safetensors_header_limit)
    fail(error_id::safetensors_header, operation, "header",
         std::to_string(header.size()) + " bytes", "at most 100000000");

  AtomicFile file(operation, path);
  const std::uint64_t length = header.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const auto& [type, i] : order) {
    const auto& [name, outline] = given[i];
    const Tensor tensor = tensors.fetch(i);
    if (!tensor.defined() || tensor.shape() != outline.shape() || tensor.dtype() != outline.dtype())
      fail(error_id::safetensors_size, operation, soma::quoted(name), tensor.describe(),
           outline.describe() + ", as its source said");
    detail::check_numbers(operation, tensor);
    detail::write_elements(file, tensor);
  }
  file.commit();
}

SOMA_INLINE void save_safetensors(std::string_view path, const StateDict& tensors,
                                  const SafetensorsMetadata& metadata) {
  StateSource source(tensors);
  save_safetensors(path, source, metadata);
}

}  // namespace SOMA_NAMESPACE

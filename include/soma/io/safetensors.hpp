#pragma once
// safetensors: many named tensors in one file, exactly by the format's specification:
//   8 bytes  the header's length, little-endian
//   header   JSON: for each name its dtype, shape, and where its data lies; perhaps __metadata__
//   data     row-major, little-endian, without holes
// Reading maps the file: a checkpoint costs nothing until its tensors are read.

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

namespace soma {

// A tensor in a file whose type or rank soma does not have.
struct SkippedTensor {
  std::string name;
  std::string reason;     // "F64"
  std::size_t bytes = 0;  // in the file
};

struct SafetensorsFile {
  StateDict tensors;                   // read-only
  SafetensorsMetadata metadata;        // ascending
  std::vector<SkippedTensor> skipped;  // ascending; a file is loaded without them

  // The tensor of that name. Errors safetensors.dtype (skipped), state.missing_name.
  const Tensor& at(std::string_view name) const {
    for (const SkippedTensor& tensor : skipped)
      if (tensor.name == name)
        fail(error_id::safetensors_dtype, "SafetensorsFile::at", soma::quoted(name), tensor.reason,
             "a dtype and rank that tensors have");
    return tensors.at(name);
  }
};

namespace detail {

// The reference implementation's limit.
inline constexpr std::size_t safetensors_header_limit = 100'000'000;

class SafetensorsReader {
 public:
  SafetensorsReader(Context& context, std::string_view source, std::span<const std::byte> file,
                    std::shared_ptr<const void> owner)
      : context_(context), source_(source), file_(file), owner_(std::move(owner)) {}

  SafetensorsFile read() {
    read_header();
    check_offsets();
    SafetensorsFile result{.tensors = {}, .metadata = std::move(header_.metadata), .skipped = {}};
    std::sort(header_.entries.begin(), header_.entries.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (SafetensorsEntry& entry : header_.entries) add(entry, result);
    return result;
  }

 private:
  void read_header() {
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

  // The tensors' data lie one behind the other and fill the file.
  void check_offsets() {
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

  void add(SafetensorsEntry& entry, SafetensorsFile& result) {
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
  void skip(SafetensorsEntry& entry, std::string reason, SafetensorsFile& result) {
    result.skipped.push_back({std::move(entry.name), std::move(reason), entry.end - entry.begin});
  }

  [[noreturn]] void failed(std::string_view problem) const {
    std::string given = soma::quoted(source_);
    given.append(", which ").append(problem);
    fail(error_id::safetensors_header, operation, "file", given, "a safetensors file");
  }
  [[noreturn]] void bad_size(const SafetensorsEntry& entry, std::string_view given,
                             std::string_view wanted) const {
    fail(error_id::safetensors_size, operation,
         soma::quoted(entry.name) + " in " + soma::quoted(source_), given, wanted);
  }

  static constexpr std::string_view operation = "load_safetensors";
  Context& context_;
  std::string_view source_;
  std::span<const std::byte> file_, data_;
  std::shared_ptr<const void> owner_;
  SafetensorsHeaderReader header_;
};

}  // namespace detail

// The tensors of a file, read-only, in the mapped file, which stays mapped as long as one of them
// is held. (Data that are not aligned to their elements are copied, and are writable: soma::clone
// makes a writable copy of any other.) Tensors with a dtype or rank that soma does not have are
// listed as skipped. Errors file.read, safetensors.header, safetensors.size (offsets that overlap,
// leave holes, lie outside, or do not match shape and dtype), safetensors.value (a bool other than
// 0 and 1), memory.exhausted.
inline SafetensorsFile load_safetensors(Context& context, std::string_view path) {
  const auto file = MappedFile::open("load_safetensors", path);
  return detail::SafetensorsReader(context, path, file->bytes(), file).read();
}

// The same for a file's content in memory, which is valid as long as `owner` is held.
inline SafetensorsFile load_safetensors(Context& context, std::span<const std::byte> content,
                                        std::shared_ptr<const void> owner) {
  return detail::SafetensorsReader(context, "memory", content, std::move(owner)).read();
}

// Writes the same bytes as the reference implementation; the file is complete or absent; metadata
// keep their order. Only one tensor at a time is held in memory. Types: fp32 fp16 bf16 fp8_e4m3fn
// fp8_e5m2 e8m0 int8 uint8 int16 int32 int64 bool. Errors safetensors.dtype (other types have no
// name in the format), safetensors.name (not UTF-8, "__metadata__", a repeated key of the
// metadata), safetensors.header (larger than a reader accepts), safetensors.size (a tensor has
// another shape or type than its source announced), neuroncore.dry_run, file.write, and those of
// the source.
inline void save_safetensors(std::string_view path, TensorSource& tensors,
                             const SafetensorsMetadata& metadata = {}) {
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

inline void save_safetensors(std::string_view path, const StateDict& tensors,
                             const SafetensorsMetadata& metadata = {}) {
  StateSource source(tensors);
  save_safetensors(path, source, metadata);
}

}  // namespace soma

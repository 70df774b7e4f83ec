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

namespace SOMA_NAMESPACE {

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
  const Tensor& at(std::string_view name) const;
};

namespace detail {

// The reference implementation's limit.
inline constexpr std::size_t safetensors_header_limit = 100'000'000;

class SafetensorsReader {
 public:
  SafetensorsReader(Context& context, std::string_view source, std::span<const std::byte> file,
                    std::shared_ptr<const void> owner)
      : context_(context), source_(source), file_(file), owner_(std::move(owner)) {}

  SafetensorsFile read();

 private:
  void read_header();

  // The tensors' data lie one behind the other and fill the file.
  void check_offsets();

  void add(SafetensorsEntry& entry, SafetensorsFile& result);
  void skip(SafetensorsEntry& entry, std::string reason, SafetensorsFile& result);

  [[noreturn]] void failed(std::string_view problem) const;
  [[noreturn]] void bad_size(const SafetensorsEntry& entry, std::string_view given,
                             std::string_view wanted) const;

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
SafetensorsFile load_safetensors(Context& context, std::string_view path);

// The same for a file's content in memory, which is valid as long as `owner` is held.
SafetensorsFile load_safetensors(Context& context, std::span<const std::byte> content,
                                 std::shared_ptr<const void> owner);

// Writes the same bytes as the reference implementation; the file is complete or absent; metadata
// keep their order. Only one tensor at a time is held in memory. Types: fp32 fp16 bf16 fp8_e4m3fn
// fp8_e5m2 e8m0 int8 uint8 int16 uint16 int32 uint32 int64 bool. Errors safetensors.dtype (other
// types have no name in the format), safetensors.name (not UTF-8, "__metadata__", a repeated key of
// the metadata), safetensors.header (larger than a reader accepts), safetensors.size (a tensor has
// another shape or type than its source announced), neuroncore.dry_run, file.write, and those of
// the source.
void save_safetensors(std::string_view path, TensorSource& tensors,
                      const SafetensorsMetadata& metadata = {});

void save_safetensors(std::string_view path, const StateDict& tensors,
                      const SafetensorsMetadata& metadata = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/safetensors.ipp>
#endif

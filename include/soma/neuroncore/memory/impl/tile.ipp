#pragma once
// The functions of tile.hpp.

#include <soma/neuroncore/memory/tile.hpp>

#include <soma/neuroncore/faults.hpp>
#include <soma/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Tile::Tile(Memory memory, DType dtype, bool wide, std::size_t partitions,
                       std::size_t offset, std::size_t address, std::size_t elements,
                       std::uint64_t allocation, SourceLine made)
    : memory_(memory),
      dtype_(dtype),
      wide_(wide),
      partitions_(partitions),
      offset_(offset),
      address_(address),
      begin_(offset),
      end_(offset + elements * size_of(dtype)),
      allocation_(allocation),
      made_(made) {
  dimensions_[0] = {elements, 1};
}

SOMA_INLINE DType Tile::held() const { return wide_ && is_floating(dtype_) ? DType::fp32 : dtype_; }

SOMA_INLINE std::size_t Tile::width() const { return size_of(held()); }

SOMA_INLINE std::size_t Tile::free_size() const {
  std::size_t size = 1;
  for (std::size_t i = 0; i < rank_; ++i) size *= dimensions_[i].size;
  return size;
}

SOMA_INLINE bool Tile::adjacent() const { return run() == free_size(); }

SOMA_INLINE std::size_t Tile::run() const {
  std::size_t run = 1;
  for (std::size_t i = rank_; i-- > 0;) {
    if (dimensions_[i].size == 1) continue;
    if (dimensions_[i].stride != static_cast<std::ptrdiff_t>(run)) break;
    run *= dimensions_[i].size;
  }
  return run;
}

SOMA_INLINE Tile Tile::named(const char* name) const {
  Tile result = *this;
  result.name_ = name;
  return result;
}

SOMA_INLINE std::string Tile::label() const {
  if (name_[0] != '\0') return "tile " + std::string(name_);
  if (made_.line == 0) return "a tile";
  return "tile of " + std::string(without_folders(made_.file)) + ":" + std::to_string(made_.line);
}

SOMA_INLINE Tile Tile::rows(std::size_t begin, std::size_t end, SourceLine source) const {
  if (begin > end || end > partitions_)
    rule_broken({"Tile::rows", source}, "range", range(begin, end),
                "within the " + std::to_string(partitions_) + " partitions of " + label());
  Tile part = *this;
  part.first_partition_ += begin;
  part.partitions_ = end - begin;
  return part;
}

SOMA_INLINE Tile Tile::columns(std::size_t begin, std::size_t end, std::size_t step,
                               SourceLine source) const {
  return slice(rank_ - 1, begin, end, step, source);
}

SOMA_INLINE Tile Tile::slice(std::size_t dimension, std::size_t begin, std::size_t end,
                             std::size_t step, SourceLine source) const {
  if (dimension >= rank_ || begin > end || end > dimensions_[dimension].size || step == 0)
    rule_broken({"Tile::slice", source}, "range", range(begin, end),
                "within " + describe() + ", step at least 1");
  Tile part = *this;
  FreeDimension& cut = part.dimensions_[dimension];
  part.offset_ = moved(offset_, begin * size_of(dtype_), cut.stride);
  part.address_ = moved(address_, begin * width(), cut.stride);
  cut.size = (end - begin + step - 1) / step;
  cut.stride *= static_cast<std::ptrdiff_t>(step);
  return part;
}

SOMA_INLINE Tile Tile::reshape(std::initializer_list<std::size_t> sizes, SourceLine source) const {
  std::size_t elements = 1;
  for (const std::size_t size : sizes) elements *= size;
  if (sizes.size() == 0 || sizes.size() > max_dimensions || !adjacent() || elements != free_size())
    rule_broken({"Tile::reshape", source}, "sizes", std::to_string(elements) + " elements",
                "1 to 4 free dimensions of the adjacent elements of " + describe());
  Tile result = *this;
  result.rank_ = sizes.size();
  std::size_t i = sizes.size();
  std::ptrdiff_t step = 1;
  for (const std::size_t* size = sizes.end(); size != sizes.begin();) {
    --size;
    result.dimensions_[--i] = {*size, step};
    step *= static_cast<std::ptrdiff_t>(*size);
  }
  return result;
}

SOMA_INLINE Tile Tile::packed4(SourceLine source) const {
  if (!is_floating(dtype_) || size_of(dtype_) != 1 || !adjacent() || free_size() % 4 != 0)
    rule_broken({"Tile::packed4", source}, "tile", describe(),
                "adjacent numbers of 8 bits, a multiple of four in each partition");
  return reshape({free_size() / 4, 4}, source);
}

SOMA_INLINE Tile Tile::pattern(std::span<const PatternStep> steps, std::size_t offset,
                               SourceLine source) const {
  const CallSite call{"Tile::pattern", source};
  const Operand operand{"tile", *this};
  if (steps.empty() || steps.size() > max_dimensions)
    rule_broken(call, operand, "a pattern of " + std::to_string(steps.size()) + " dimensions",
                "1 to 4");
  const std::size_t width = size_of(dtype_);
  // Strides and counts may be anything, so no product of them is trusted before it is compared.
  const auto behind = static_cast<std::ptrdiff_t>((end_ - offset_) / width);
  const auto before = static_cast<std::ptrdiff_t>((offset_ - begin_) / width);
  std::ptrdiff_t low = before, high = behind - 1;  // elements left on either side
  bool inside = offset < static_cast<std::size_t>(behind), any = true;
  if (inside) {
    high -= static_cast<std::ptrdiff_t>(offset);
    low += static_cast<std::ptrdiff_t>(offset);
  }
  Tile result = *this;
  result.rank_ = steps.size();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    result.dimensions_[i] = {steps[i].count, steps[i].stride};
    any = any && steps[i].count != 0;
  }
  for (std::size_t i = 0; inside && any && i < steps.size(); ++i) {
    const auto [stride, count] = steps[i];
    if (stride == 0 || count == 1) continue;
    std::ptrdiff_t& left = stride > 0 ? high : low;
    // No negation of a stride, because the smallest has none.
    const std::ptrdiff_t most = stride > 0 ? left / stride : -left / stride;
    inside = count - 1 <= static_cast<std::size_t>(most);
    if (inside) left -= static_cast<std::ptrdiff_t>(count - 1) * (stride > 0 ? stride : -stride);
  }
  if (!inside) {
    std::string text = "a pattern of ";
    for (std::size_t i = 0; i < steps.size(); ++i)
      text.append(i == 0 ? "" : ", ").append(steps[i].text());
    rule_broken(call, operand, text + " from element " + std::to_string(offset) + " on",
                "within the elements " + std::to_string(-before) + " to " + std::to_string(behind) +
                    " of " + describe());
  }
  result.offset_ += offset * width;
  result.address_ += offset * this->width();
  return result;
}

SOMA_INLINE Tile Tile::pattern(std::initializer_list<PatternStep> steps, std::size_t offset,
                               SourceLine source) const {
  return pattern({steps.begin(), steps.size()}, offset, source);
}

SOMA_INLINE Tile Tile::broadcast(std::size_t dimension, std::size_t size, SourceLine source) const {
  if (dimension >= rank_ || dimensions_[dimension].size != 1)
    rule_broken({"Tile::broadcast", source}, "dimension", std::to_string(dimension),
                "a free dimension of size 1 of " + describe());
  Tile result = *this;
  result.dimensions_[dimension] = {size, 0};
  return result;
}

SOMA_INLINE Tile Tile::swap(std::size_t a, std::size_t b, SourceLine source) const {
  if (a >= rank_ || b >= rank_)
    rule_broken({"Tile::swap", source}, "dimensions", range(a, b),
                "free dimensions of " + describe());
  Tile result = *this;
  std::swap(result.dimensions_[a], result.dimensions_[b]);
  return result;
}

SOMA_INLINE Tile Tile::as(DType dtype, SourceLine source) const {
  if (size_of(dtype) != size_of(dtype_))
    rule_broken({"Tile::as", source}, "dtype", std::string(to_string(dtype)),
                "a type of " + std::to_string(size_of(dtype_)) + " bytes");
  if (wide_ && dtype != dtype_ && size_of(dtype) < 4 && (is_floating(dtype) || is_floating(dtype_)))
    not_implemented({"Tile::as", source}, "dtype",
                    std::string(to_string(dtype)) + " for " + describe(),
                    "narrow numbers with bits of their own: without everything_fp32");
  Tile result = *this;
  result.dtype_ = dtype;
  result.bias_offset_ = 0;
  return result;
}

SOMA_INLINE Tile Tile::with_bias(int bias, SourceLine source) const {
  if (!is_floating(dtype_) || size_of(dtype_) != 1 || bias < -64 || bias > 64)
    rule_broken({"Tile::with_bias", source}, "bias", std::to_string(bias) + " of " + describe(),
                "-64 to 64, of an 8-bit floating type");
  Tile result = *this;
  result.bias_offset_ = bias - format_of(dtype_).bias;
  return result;
}

SOMA_INLINE FloatFormat Tile::format() const {
  FloatFormat format = format_of(dtype_);
  format.bias += bias_offset_;
  return format;
}

SOMA_INLINE std::string Tile::describe() const {
  if (!defined()) return "no tile";
  std::string text(to_string(dtype_));
  if (bias_offset_ != 0) text.append(" with bias ").append(std::to_string(format().bias));
  text.append(" ").append(to_string(memory_)).append(" [").append(std::to_string(partitions_));
  text.append(", ");
  for (std::size_t i = 0; i < rank_; ++i)
    text.append(i == 0 ? "" : " x ").append(std::to_string(dimensions_[i].size));
  return text.append("]");
}

SOMA_INLINE std::string Tile::range(std::size_t begin, std::size_t end) {
  return std::to_string(begin) + " to " + std::to_string(end);
}

SOMA_INLINE std::size_t Tile::moved(std::size_t from, std::size_t bytes, std::ptrdiff_t stride) {
  return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(from) +
                                  static_cast<std::ptrdiff_t>(bytes) * stride);
}

SOMA_INLINE std::string Operand::text() const {
  return tile.defined() ? std::string(name) + " (" + tile.label() + ")" : std::string(name);
}

SOMA_INLINE void rule_broken(const CallSite& call, const Operand& operand, const std::string& value,
                             std::string_view limit) {
  rule_broken(call, operand.text(), value, limit);
}

SOMA_INLINE void undefined(const CallSite& call, const Operand& operand, const std::string& value,
                           std::string_view limit) {
  undefined(call, operand.text(), value, limit);
}

SOMA_INLINE void not_implemented(const CallSite& call, const Operand& operand,
                                 const std::string& value, std::string_view limit) {
  not_implemented(call, operand.text(), value, limit);
}

SOMA_INLINE void at_most(const CallSite& call, const Operand& operand, std::size_t value,
                         std::size_t limit, std::string_view what) {
  if (value > limit) at_most(call, operand.text(), value, limit, what);
}

}  // namespace SOMA_NAMESPACE::neuroncore

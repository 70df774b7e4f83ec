#pragma once
// LaneEngine: the common base of the Vector, Scalar and GpSimd engines. Their operands are checked
// alike; each partition is widened to fp32, computed, and rounded into dst.

#include <soma/neuroncore/engines/alu.hpp>
#include <soma/neuroncore/engines/sequencer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

template <class Self, Engine engine>
class LaneEngine : public Sequencer<Self, engine> {
  using Base = Sequencer<Self, engine>;

 public:
  using Base::Base;

 protected:
  using Base::core_;

  static std::size_t padded(std::size_t count) { return (count + 31) / 16 * 16; }

  // ---- checks

  void check_same(const CallSite& call, const Tile& dst, const Tile& src) {
    core_.check_free(call, {"src", src});
    core_.check_free(call, {"dst", dst});
    CoreState::check_same_size(call, {"src", src}, {"dst", dst});
  }
  void check_pair(const CallSite& call, const Operand& a, const Operand& b, const Tile& dst) {
    core_.check_free(call, a);
    core_.check_free(call, b);
    core_.check_free(call, {"dst", dst});
    CoreState::check_same_size(call, a, b);
    CoreState::check_same_size(call, a, {"dst", dst});
    CoreState::check_not_both_psum(call, a, b);
  }
  void check_column(const CallSite& call, const Operand& operand, const Tile& data) {
    check_columns(call, operand, data, 1);
  }
  // Checks for `count` elements in each partition of data.
  void check_columns(const CallSite& call, const Operand& operand, const Tile& data,
                     std::size_t count) {
    core_.check(call, operand);
    CoreState::check_same_partitions(call, {"data", data}, operand);
    if (operand.tile.free_size() != count)
      rule_broken(
          call, operand, operand.tile.describe(),
          (count == 1 ? "one element" : std::to_string(count) + " elements") + " a partition");
  }
  static void check_type(const CallSite& call, const Operand& operand, DType dtype) {
    if (operand.tile.dtype() != dtype)
      rule_broken(call, operand, operand.tile.describe(), std::string(to_string(dtype)));
  }
  // Checks for one of the integer types that an operand of indices or a predicate may have.
  static void check_types(const CallSite& call, const Operand& operand,
                          std::initializer_list<DType> dtypes) {
    if (std::find(dtypes.begin(), dtypes.end(), operand.tile.dtype()) != dtypes.end()) return;
    std::string wanted = "one of";
    for (const DType dtype : dtypes) wanted.append(" ").append(to_string(dtype));
    rule_broken(call, operand, operand.tile.describe(), wanted);
  }
  // Bits are moved, so the types must be equal.
  static void check_same_type(const CallSite& call, const Tile& dst, const Tile& src) {
    if (dst.dtype() != src.dtype() || dst.bias_offset() != src.bias_offset())
      rule_broken(call, {"dst", dst}, dst.describe(), "the type of src, " + src.describe());
  }

  // Checks a constant of an instruction that computes in fp32.
  static void check_constant(const CallSite& call, std::string_view operand,
                             const Constant& constant) {
    if (constant.integer && static_cast<std::int64_t>(constant.value) != *constant.integer)
      rule_broken(call, operand, std::to_string(*constant.integer),
                  "a number that is exact in fp32");
  }

  // ---- elements

  // run(p, buffer, count) leaves partition p's results in one of the `rows` rows of buffer, and
  // returns the place; they are then rounded into dst.
  template <class Run>
  void map(const Tile& dst, const Rounded& rounded, std::size_t rows, const Run& run) {
    const std::size_t count = dst.free_size();
    const PartitionWriter writer(core_.kernels, core_.memory_of(dst), dst, rounded,
                                 core_.options.overflow);
    core_.for_partitions(dst.partitions(), (rows + 1) * padded(count), count * 4,
                         [&](std::size_t p, float* buffer) {
                           const float* out = run(p, buffer, count);
                           writer.write(p, out, buffer + rows * padded(count));
                         });
  }
  void fill(const Tile& dst, float value, const Rounded& rounded) {
    map(dst, rounded, 1, [value](std::size_t, float* buffer, std::size_t count) {
      std::fill_n(buffer, count, value);
      return buffer;
    });
  }
  // Bit for bit if the types are equal, else through fp32.
  void copy_elements(const Tile& dst, const Tile& src, const Rounded& rounded) {
    if (src.dtype() == dst.dtype() && src.bias_offset() == dst.bias_offset()) {
      core_.for_partitions(dst.partitions(), dst.free_size(), dst.free_size(),
                           [&](std::size_t p, float* buffer) {
                             read_codes(core_.memory_of(src), src, p, buffer);
                             write_codes(core_.memory_of(dst), dst, p, buffer);
                           });
      return;
    }
    const PartitionReader reader(core_.kernels, core_.memory_of(src), src);
    map(dst, rounded, 1,
        [&](std::size_t p, float* buffer, std::size_t) { return reader.read(p, buffer); });
  }
  // One float for each partition.
  std::vector<float> column(const ScalarOperand& operand, const Tile& data) {
    if (!operand.tile.defined()) return std::vector<float>(data.partitions(), operand.value);
    return column(operand.tile);
  }
  std::vector<float> column(const Tile& tile) {
    std::vector<float> values(tile.partitions());
    const PartitionReader reader(core_.kernels, core_.memory_of(tile), tile);
    for (std::size_t p = 0; p < values.size(); ++p) reader.copy(p, &values[p]);
    return values;
  }
  void write_column(const Tile& tile, const std::vector<float>& values) {
    static constexpr Rounded nearest{};
    const PartitionWriter writer(core_.kernels, core_.memory_of(tile), tile, nearest,
                                 core_.options.overflow);
    for (std::size_t p = 0; p < values.size(); ++p) {
      float value[32] = {values[p]};
      writer.write(p, value, value + 16);
    }
    core_.end(tile);
  }
};

}  // namespace SOMA_NAMESPACE::neuroncore

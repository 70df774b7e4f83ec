#pragma once
// ScalarEngine: one function of one tensor at a time, out = f(data * scale + bias), everything in
// fp32.

#include <soma/neuroncore/engines/lane_engine.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

struct FunctionInfo {
  std::string_view name;
  // The valid range of the function (in magnitude for even or odd functions). The hardware's result
  // is invalid outside.
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

constexpr FunctionInfo info(Function function) {
  constexpr float pi = 3.14159274f;
  constexpr std::array<FunctionInfo, 25> infos{{
      {"copy"},
      {"square"},
      {"relu"},
      {"sign"},
      {"absolute"},
      {"sigmoid"},
      {"tanh"},
      {"softplus"},
      {"mish"},
      {"silu"},
      {"silu_dx"},
      {"gelu"},
      {"gelu_dx"},
      {"gelu_apprx_tanh"},
      {"gelu_apprx_sigmoid"},
      {"gelu_apprx_sigmoid_dx"},
      {"erf"},
      {"erf_dx"},
      {"exp"},
      {"log", 0x1p-64f, 0x1p64f},
      {"sin", -pi, pi},
      {"arctan", -pi / 2, pi / 2},
      {"sqrt", 0x1p-116f, 0x1p118f},
      {"rsqrt", 0x1p-87f, 0x1p97f},
      {"reciprocal", 0x1p-42f, 0x1p42f},  // limits for the magnitude
  }};
  return infos[static_cast<std::size_t>(function)];
}

// The use of the accumulators of an activation: there is one for each of the 128 lanes; an
// instruction uses the lanes of data's partitions.
enum class Reduce : std::uint8_t {
  idle,          // leave them alone
  reset,         // zero
  reduce,        // add the results to them
  reset_reduce,  // zero, then add
};

struct ActivationOptions {
  float scale = 1;
  const Tile* scale_tile = nullptr;  // [P, 1] fp32, instead of scale
  const Tile* bias = nullptr;        // [P, 1], any type but tf32; none: the number
  float bias_number = 0;             // other than 0 from NeuronCore-v3 on
  Reduce reduce = Reduce::idle;
  const Tile* reduce_result = nullptr;  // [P, 1]: the accumulators, after this instruction
  Rounded rounded{};
};

// How activate2 folds its results into the accumulators.
enum class Fold : std::uint8_t { add, maximum, minimum, absolute_maximum, absolute_minimum };

struct Activate2Options {
  // data op0 operand0, then op1 operand1: multiply with add, subtract or none, add with none,
  // subtract with none, or none with none. Reversed, the operand stands in front.
  Alu op0 = Alu::none, op1 = Alu::none;
  ScalarOperand operand0{}, operand1{};
  bool reverse0 = false, reverse1 = false;
  Fold fold = Fold::add;
  Reduce reduce = Reduce::idle;  // reset: to what `fold` begins with
  const Tile* reduce_result = nullptr;
  Rounded rounded{};
};

class ScalarEngine : public LaneEngine<ScalarEngine, Engine::scalar> {
 public:
  explicit ScalarEngine(CoreState& core)
      : LaneEngine(core), accumulators_(core.machine.partitions) {}

  // dst = f(data * scale + bias), each step rounded to fp32 (it is undisclosed if the hardware
  // fuses the first two). reduce adds the results before they are rounded to dst's type.
  ScalarEngine& activation(const Tile& dst, const Tile& data, Function function,
                           const ActivationOptions& options = {},
                           SourceLine source = calling_line());
  // The same with a sum of its own: reduce_result = the sum over the free dimensions of dst, before
  // rounding.
  ScalarEngine& activation_reduce(const Tile& dst, const Tile& data, Function function,
                                  const Tile& reduce_result, ActivationOptions options = {},
                                  SourceLine source = calling_line());
  // From NeuronCore-v4 on: dst = f((data op0 operand0) op1 operand1), and a reduction of the
  // results before they are rounded. Error neuroncore.generation.
  ScalarEngine& activate2(const Tile& dst, const Tile& data, Function function,
                          const Activate2Options& options = {}, SourceLine source = calling_line());
  // dst = src, on trn1 through fp32 for every type: int32 loses bits above 2^24 on this engine.
  // Where the machine's rules say exact_scalar_copies, bit for bit if the types are equal.
  ScalarEngine& copy(const Tile& dst, const Tile& src, const Rounded& rounded = {},
                     SourceLine source = calling_line());

 private:
  void check(const CallSite& call, const Tile& dst, const Tile& data, Function function,
             const ActivationOptions& options);

  void compute(const CallSite& call, const Tile& dst, const Tile& data, Function function,
               const ActivationOptions& options);

  // Counts the arguments outside the function's range; their results follow the policy.
  std::uint64_t check_range(Function function, const FunctionInfo& range, const float* arguments,
                            float* results, std::size_t count) const;

  float sum(const float* x, std::size_t count) const;

  void check2(const CallSite& call, const Tile& dst, const Tile& data, Function function,
              const Activate2Options& options);
  void compute2(const CallSite& call, const Tile& dst, const Tile& data, Function function,
                const Activate2Options& options);
  float fold(Fold fold, float start, float* x, std::size_t count) const;
  // After all partitions are computed: counts arguments out of range, error neuroncore.undefined.
  void report_range(const CallSite& call, const Tile& data, const FunctionInfo& range,
                    const std::vector<std::uint64_t>& flagged);
  void read_accumulators(const Tile& result, const Tile& data);

  std::vector<float> column_or_none(const Tile* tile);

  std::vector<float> accumulators_;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/activate2.ipp>
#include <soma/neuroncore/engines/impl/scalar_engine.ipp>
#endif

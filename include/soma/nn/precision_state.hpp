#pragma once
// PrecisionState: a Precision applied to a model. For each linear layer it holds the formats of the
// operands, the amax history of delayed scales, and statistics on demand. A tape that has one
// (TapeOptions::precision) multiplies in these formats.

#include <soma/numeric/precision_text.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/state/state_dict.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma {

class PrecisionState final : public ProductFormats {
 public:
  // The roles of a product's operands, as precisions and states name them.
  static constexpr std::array<std::string_view, 3> roles{"gemm_activations", "gemm_weights",
                                                         "gemm_gradients"};

  // Statistics of the conversions of one layer's operands, in the order of `roles`.
  using Statistics = std::array<numeric::Inspection, 3>;

  // `seed`: of stochastic rounding. Error train.precision.
  PrecisionState(Context& context, const Precision& precision, std::uint64_t seed)
      : context_(context), precision_(validate(precision, "PrecisionState")), seed_(seed) {
    const auto as_stored = [&](const Quantizer& read, const Quantizer& stored) {
      return read.format == formats::fp32 ||
             (read.format == stored.format && read.scaling.policy == ScalePolicy::none);
    };
    plain_ = as_stored(precision_.gemm_activations, precision_.activations) &&
             as_stored(precision_.gemm_weights, precision_.weights) &&
             as_stored(precision_.gemm_gradients, precision_.activation_gradients) &&
             precision_.activation_gradients.format == precision_.activations.format &&
             precision_.weight_gradients.format == precision_.activation_gradients.format &&
             precision_.accumulation.plain();
  }
  PrecisionState(const PrecisionState&) = delete;
  PrecisionState& operator=(const PrecisionState&) = delete;

  // Every batch is a part of a batch that several ranks share: gradients of weights stay fp32 until
  // the ranks have added them (LinearFormats::part), and maxima are over all ranks. Call it before
  // the first use.
  void use_parts(const GlobalMaximum& maximum) {
    part_ = true;
    // Then even a layer that reads stored numbers needs formats, which name the remaining steps of
    // its gradient.
    plain_everywhere_ = plain_;
    plain_ = plain_ && activations() == DType::fp32;
    set_maximum(maximum);
  }

  // The storage type of hidden states: TapeOptions::activations.
  DType activations() const { return find_dtype(precision_.activations.format); }

  // A layer's formats are made on first use.
  LinearFormats* formats(std::string_view path, bool edge) override {
    if (plain_) return nullptr;
    const auto found = layers_.find(path);
    Layer& layer = found != layers_.end() ? found->second : add(path);
    if (!layer.known) set_formats(layer, path, edge);
    return &layer.formats;
  }

  // Call it after each step of the optimizer: adds the step's maxima to the history of delayed
  // scales.
  void end_step() {
    began_ = true;
    std::vector<float> seen;
    for_each_history([&](LinearOperand& operand, AmaxHistory&) { seen.push_back(operand.amax); });
    if (maximum_.run != nullptr && !seen.empty()) maximum_.run(maximum_.self, seen);
    std::size_t next = 0;
    for_each_history([&](LinearOperand& operand, AmaxHistory& history) {
      history.push(seen[next++]);
      operand.amax = 0;
      operand.scale = scale_of(history);
    });
  }

  // True if any role has a delayed scale.
  bool remembers_scales() const {
    bool delayed = false;
    for (std::size_t i = 0; i < roles.size(); ++i)
      delayed = delayed || quantizer(i).scaling.policy == ScalePolicy::delayed;
    return delayed;
  }
  // True if every delayed scale is known. An operand whose amax was always 0 takes its own amax,
  // and then a step cannot be computed in parts that do not know each other.
  bool scales_known() {
    bool known = began_;
    for (auto& [path, layer] : layers_)
      for (std::size_t i = 0; i < roles.size(); ++i)
        if (layer.known && layer.operand(i).quantizer.scaling.policy == ScalePolicy::delayed)
          known = known && layer.operand(i).scale != 0;
        else if (!layer.known && !layer.histories[i].values().empty())
          known = known && layer.histories[i].known();
    return known || !remembers_scales();
  }

  // The amax history of operands with delayed scales: "<layer>.<role>.amax" [steps remembered],
  // fp32, oldest first. `used`: only layers that were computed here.
  StateDict state(bool used = false) const {
    StateDict result;
    for (const auto& [path, layer] : layers_)
      if (!used || layer.known)
        for (std::size_t i = 0; i < roles.size(); ++i) {
          const std::vector<float> values = layer.histories[i].values();
          if (!values.empty())
            result.set(name_of(path, i), Tensor::from(context_, std::span<const float>(values),
                                                      Shape{values.size()}));
        }
    return result;
  }
  // Errors state.extra_name, state.shape, state.dtype; nothing changes then.
  void load_state(const StateDict& state) {
    std::map<std::string, Layer, std::less<>> loaded;
    for (const auto& [name, tensor] : state) {
      std::size_t role = roles.size();
      std::string path;
      for (std::size_t i = 0; i < roles.size(); ++i)
        if (const std::string end = name_of("", i);
            name.size() > end.size() && name.ends_with(end) &&
            quantizer(i).scaling.policy == ScalePolicy::delayed) {
          role = i;
          path = name.substr(0, name.size() - end.size());
        }
      if (role == roles.size())
        fail(error_id::extra_name, "PrecisionState::load_state", "state", soma::quoted(name),
             "amax histories of roles with delayed scales");
      const auto most = static_cast<std::size_t>(quantizer(role).scaling.history);
      if (tensor.rank() != 1 || tensor.size(0) > most)
        fail(error_id::state_shape, "PrecisionState::load_state", soma::quoted(name),
             tensor.describe(), "[up to " + std::to_string(most) + "]");
      if (tensor.dtype() != DType::fp32)
        fail(error_id::state_dtype, "PrecisionState::load_state", soma::quoted(name),
             tensor.describe(), "fp32");
      AmaxHistory& history = loaded.try_emplace(path, precision_).first->second.histories[role];
      for (const float amax : tensor.span<float>()) history.push(amax);
    }
    layers_ = std::move(loaded);
    began_ = true;
  }

  // Maxima over all ranks, for current and delayed scales of whole tensors.
  void set_maximum(const GlobalMaximum& maximum) {
    maximum_ = maximum;
    for (auto& [path, layer] : layers_) layer.formats.maximum = maximum;
  }

  // Starts or stops collecting statistics, which cost a plain pass over each operand.
  void collect_statistics(bool wanted) {
    collects_ = wanted;
    for (auto& [path, layer] : layers_) point_to_statistics(layer);
  }
  // The statistics of each layer since collection started.
  std::vector<std::pair<std::string, Statistics>> statistics() const {
    std::vector<std::pair<std::string, Statistics>> result;
    for (const auto& [path, layer] : layers_) result.emplace_back(path, layer.statistics);
    return result;
  }

 private:
  struct Layer {
    explicit Layer(const Precision& p)
        : histories{AmaxHistory(p.gemm_activations.scaling, p.gemm_activations.format),
                    AmaxHistory(p.gemm_weights.scaling, p.gemm_weights.format),
                    AmaxHistory(p.gemm_gradients.scaling, p.gemm_gradients.format)} {}
    LinearOperand& operand(std::size_t role) {
      return role == 0 ? formats.x : role == 1 ? formats.weight : formats.gradient;
    }
    bool known = false;  // true: formats are set; a loaded layer waits for its first use
    LinearFormats formats{};
    std::array<AmaxHistory, 3> histories;
    Statistics statistics{};
  };

  const Quantizer& quantizer(std::size_t role) const {
    return role == 0   ? precision_.gemm_activations
           : role == 1 ? precision_.gemm_weights
                       : precision_.gemm_gradients;
  }
  // 0 (unknown) until a number other than 0 was seen: a gradient that was always 0, as behind a
  // weight that begins at 0, may have any magnitude next.
  static float scale_of(const AmaxHistory& history) {
    return history.known() ? history.scale() : 0;
  }
  static std::string name_of(std::string_view path, std::size_t role) {
    return std::string(path).append(".").append(roles[role]).append(".amax");
  }
  Layer& add(std::string_view path) {
    return layers_.try_emplace(std::string(path), precision_).first->second;
  }

  void set_formats(Layer& layer, std::string_view path, bool edge) {
    layer.known = true;
    LinearFormats& formats = layer.formats;
    if (!plain_everywhere_ && (!edge || precision_.narrow_edges)) {
      for (std::size_t i = 0; i < roles.size(); ++i) {
        LinearOperand& operand = layer.operand(i);
        operand.quantizer = quantizer(i);
        operand.draw = {.seed = seed_, .stream = stream_id(path, roles[i])};
        operand.scale = scale_of(layer.histories[i]);
      }
      formats.accumulation = precision_.accumulation;
      formats.input_gradient = find_dtype(precision_.activation_gradients.format);
    }
    if (plain_everywhere_)
      formats.weight_gradient.reset();  // as in a layer without formats
    else
      formats.weight_gradient = find_dtype(precision_.weight_gradients.format);
    formats.part = part_;
    formats.maximum = maximum_;
    point_to_statistics(layer);
  }
  void point_to_statistics(Layer& layer) {
    for (std::size_t i = 0; i < roles.size(); ++i)
      layer.operand(i).statistics = collects_ ? &layer.statistics[i] : nullptr;
  }
  template <class Each>
  void for_each_history(const Each& each) {
    for (auto& [path, layer] : layers_)
      for (std::size_t i = 0; i < roles.size(); ++i)
        if (layer.operand(i).quantizer.scaling.policy == ScalePolicy::delayed)
          each(layer.operand(i), layer.histories[i]);
  }

  Context& context_;
  Precision precision_;
  std::uint64_t seed_;
  bool plain_ = true, collects_ = false;
  bool part_ = false, plain_everywhere_ = false;
  bool began_ = false;  // true: all layers of a step are known, or come with a loaded state
  GlobalMaximum maximum_{};
  std::map<std::string, Layer, std::less<>> layers_{};
};

}  // namespace soma

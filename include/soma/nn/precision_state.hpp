#pragma once
// PrecisionState: a Precision applied to a model. For each linear layer and each convolution it
// holds the formats of the operands, the amax history of delayed scales, and statistics on demand.
// A tape that has one (TapeOptions::precision) multiplies in these formats.

#include <soma/autograd/parameter.hpp>
#include <soma/base/record.hpp>
#include <soma/numeric/precision_text.hpp>
#include <soma/ops/product_formats.hpp>
#include <soma/state/state_dict.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

// A product of a model, and what its precision does with it.
struct PrecisionProduct {
  enum class Reason {
    converted,  // operands are read in the formats of the gemm_ roles
    edge,       // the first or last layer reads stored numbers (Precision::narrow_edges)
    named,      // a name in Precision::stored
    plain,      // the precision converts no operand of any product
  };
  std::string layer;
  Reason reason = Reason::plain;
  std::array<std::string, 3> formats;  // in which x, weight and gradient are read
  bool stored_fp32 = true;             // x and weight
};
std::string_view to_string(PrecisionProduct::Reason reason);

class PrecisionState final : public ProductFormats {
 public:
  // The roles of a product's operands, as precisions and states name them.
  static constexpr std::array<std::string_view, 3> roles{"gemm_activations", "gemm_weights",
                                                         "gemm_gradients"};

  // Statistics of the conversions of one layer's operands, in the order of `roles`.
  using Statistics = std::array<numeric::Inspection, 3>;

  // `seed`: of stochastic rounding. Error train.precision.
  PrecisionState(Context& context, const Precision& precision, std::uint64_t seed);
  PrecisionState(const PrecisionState&) = delete;
  PrecisionState& operator=(const PrecisionState&) = delete;

  // Every batch is a part of a batch that several ranks share: gradients of weights are multiplied
  // by scales when the ranks have added them (LinearFormats::part), and maxima are over all ranks.
  // Call it before the first use.
  void use_parts(const GlobalMaximum& maximum);

  // Operands of products and sums of gradients in transit whose draws are automatic
  // (Rounding::draws) draw by the second mapping, except in a run that goes on from a checkpoint of
  // the first. describe() records the mapping where there are such draws; for a resumed run,
  // `described` is that record in its checkpoint: call keep_mapping() before the first use.
  void describe(Record& record) const;
  void keep_mapping(const Record& described);
  DrawMapping mapping() const { return mapping_; }

  // The storage type of hidden states: TapeOptions::activations.
  DType activations() const;

  // A layer's formats are made on first use. Error train.precision: a convolution is to read
  // operands with scales for parts of a tensor, or to add up in another format than fp32.
  SOMA_INLINE LinearFormats* formats(const ProductPlace& place) override;

  const Precision& precision() const { return precision_; }
  // Notes products also where the precision converts none, which costs a look-up for each product.
  void note_products(bool wanted) { notes_ = wanted; }
  // The products that were multiplied so far, by the names of their layers.
  std::vector<PrecisionProduct> products() const;

  // The role weight_gradients for matrices, else fp32. While a step gathers several backward
  // passes, their sums stay fp32.
  SOMA_INLINE DType gradient_type(const Shape& parameter) const override;
  // True: backward passes that follow are added to one another, until round_gradients() rounds
  // their sums.
  void gather_gradients(bool several) { gathers_ = several; }
  // Rounds the sums of a step that has gathered several backward passes.
  void round_gradients(const Parameters& parameters);

  // Call it after each step of the optimizer: adds the step's maxima to the history of delayed
  // scales.
  void end_step();

  // True if any role has a delayed scale.
  bool remembers_scales() const;
  // True if every delayed scale is known. An operand whose amax was always 0 takes its own amax,
  // and then a step cannot be computed in parts that do not know each other.
  bool scales_known();

  // The amax history of operands with delayed scales: "<layer>.<role>.amax" [steps remembered],
  // fp32, oldest first. `used`: only layers that were computed here.
  StateDict state(bool used = false) const;
  // Errors state.extra_name, state.shape, state.dtype; nothing changes then.
  void load_state(const StateDict& state);

  // Maxima over all ranks, for current and delayed scales of whole tensors.
  void set_maximum(const GlobalMaximum& maximum);

  // Starts or stops collecting statistics, which cost a plain pass over each operand.
  void collect_statistics(bool wanted);
  // The statistics of each layer since collection started.
  std::vector<std::pair<std::string, Statistics>> statistics() const;

 private:
  struct Layer {
    explicit Layer(const Precision& p);
    LinearOperand& operand(std::size_t role) {
      return role == 0 ? formats.x : role == 1 ? formats.weight : formats.gradient;
    }
    const LinearOperand& operand(std::size_t role) const {
      return role == 0 ? formats.x : role == 1 ? formats.weight : formats.gradient;
    }
    bool known = false;  // true: formats are set; a loaded layer waits for its first use
    PrecisionProduct::Reason reason = PrecisionProduct::Reason::converted;
    DType x = DType::fp32, weight = DType::fp32;  // as they are stored
    LinearFormats formats{};
    std::array<AmaxHistory, 3> histories;
    Statistics statistics{};
  };

  const Quantizer& quantizer(std::size_t role) const;
  // The formats that the two products of an operand read instead of the role.
  struct Others {
    const std::optional<Quantizer>&first, &second;
  };
  Others others_of(std::size_t role) const;
  // 0 (unknown) until a number other than 0 was seen: a gradient that was always 0, as behind a
  // weight that begins at 0, may have any magnitude next.
  static float scale_of(const AmaxHistory& history);
  static std::string name_of(std::string_view path, std::size_t role);
  Layer& add(std::string_view path);

  void set_formats(Layer& layer, const ProductPlace& place);
  PrecisionProduct::Reason reason_of(const ProductPlace& place) const;
  void check_convolution(std::string_view layer) const;
  void point_to_statistics(Layer& layer);
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
  static constexpr std::string_view mapping_entry = "precision.draws";
  DrawMapping mapping_ = DrawMapping::ars;  // for draws that are automatic
  bool plain_ = true, collects_ = false, notes_ = false;
  bool part_ = false, gathers_ = false;
  bool began_ = false;  // true: all layers of a step are known, or come with a loaded state
  GlobalMaximum maximum_{};
  std::map<std::string, Layer, std::less<>> layers_{};
};

// The precision in one line, and a line for each product: the formats of its operands, and why.
std::string to_string(const PrecisionState& state);

// A line for the log after a step, and a warning if something does not work as it was asked for.
// Both are empty if everything is fp32.
struct PrecisionEffect {
  std::string line, warning;
};
PrecisionEffect effect_of(const PrecisionState& state);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/precision_state.ipp>
#endif

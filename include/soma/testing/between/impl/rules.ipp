#pragma once
// The rules of generate.hpp: how a call of each operator is completed.

#include <soma/testing/between/generate.hpp>

#include <soma/kernels/element/args.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/numeric/scaling.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/element/settings.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/rows/settings.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE bool unary_rule(Maker& maker, const Known& x, Call& call) {
  for (const UnaryFunction& function : unary_functions)
    if (function.name == call.name) {
      const double low = static_cast<double>(function.least_sample);
      if (low > 0 && maker.least(x) < low / 2) return false;
      // Beyond, a function or its slope is too steep, or 0 in 32 bits.
      return maker.greatest(x) < 30;
    }
  return false;
}

SOMA_INLINE bool parametric_rule(Maker& maker, const Known& x, Call& call) {
  const auto place = [&] { return static_cast<float>(maker.choice().below(9)) * 0.25f - 1; };
  if (call.name == "clamp") {
    const float low = place();
    call.attributes = ClampSetting{low, low + 0.53f};
  } else if (call.name == "power") {
    if (maker.least(x) < 0.05) return false;
    call.attributes = PowerSetting{maker.choice().of({3.0f, -0.5f, 1.7f, 2.0f})};
  } else {
    call.attributes = LeakySetting{place()};
  }
  return true;
}

// A shape that broadcasts against another one.
SOMA_INLINE Shape narrower(Maker& maker, const Shape& shape) {
  const std::size_t first = maker.choice().chance(40) ? maker.choice().below(shape.rank() + 1) : 0;
  std::vector<std::size_t> sizes;
  for (std::size_t d = first; d < shape.rank(); ++d)
    sizes.push_back(maker.choice().chance(30) ? 1 : shape[d]);
  return Shape(sizes);
}

SOMA_INLINE bool binary_rule(Maker& maker, const Known& x, Call& call) {
  const bool division = call.name == "divide";
  const Shape shape = maker.choice().chance(50) ? x.shape() : narrower(maker, x.shape());
  const Ref other =
      division || maker.choice().chance(40) ? maker.leaf(shape, 0.5, 2) : maker.like(shape);
  const bool turned = !division && maker.choice().chance(40);
  call.inputs = turned ? std::vector{other, call.inputs[0]} : std::vector{call.inputs[0], other};
  return true;
}

SOMA_INLINE bool softmax_rule(Maker& maker, const Known&, Call& call) {
  call.attributes = SoftmaxSetting{maker.choice().chance(40)};
  return true;
}

SOMA_INLINE bool reduce_rule(Maker& maker, const Known& x, Call& call) {
  ReduceSetting setting{.mean = maker.choice().chance(50)};
  if (maker.choice().chance(85))
    setting.dimensions = static_cast<std::uint32_t>(maker.choice().below(1u << x.shape().rank()));
  call.attributes = setting;
  return !setting.mean || x.shape().elements() > 0;
}

SOMA_INLINE bool transpose_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t rank = x.shape().rank();
  call.attributes = TransposeSetting{maker.choice().below(rank), maker.choice().below(rank)};
  return true;
}

// Another shape of the same number of elements.
SOMA_INLINE Shape rearranged(Maker& maker, const Shape& shape) {
  std::vector<std::size_t> sizes(shape.begin(), shape.end());
  for (std::size_t changes = 1 + maker.choice().below(2); changes-- > 0;) {
    const std::size_t at = maker.choice().below(sizes.size() + 1);
    if (maker.choice().chance(35) && sizes.size() > 1) {  // two become one
      const std::size_t d = maker.choice().below(sizes.size() - 1);
      sizes[d] *= sizes[d + 1];
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    } else if (maker.choice().chance(50) && sizes.size() < 5) {
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), 1);
    } else if (at < sizes.size() && sizes.size() < 5) {  // one becomes two
      for (const std::size_t factor : {2u, 3u, 5u, 7u})
        if (sizes[at] != 0 && sizes[at] % factor == 0) {
          sizes[at] /= factor;
          sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at), factor);
          break;
        }
    }
  }
  return Shape(sizes);
}

SOMA_INLINE bool reshape_rule(Maker& maker, const Known& x, Call& call) {
  call.attributes = ReshapeSetting{rearranged(maker, x.shape())};
  return true;
}

SOMA_INLINE bool slice_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank()), size = x.shape()[d];
  const std::size_t begin = maker.choice().below(size == 0 ? 1 : size);
  const std::size_t end = begin + maker.choice().below(size - begin + 1);
  call.attributes =
      SliceSetting{d, begin, maker.choice().chance(40) ? to_end : end, 1 + maker.choice().below(3)};
  return true;
}

SOMA_INLINE bool concatenate_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank());
  const Ref other = maker.choice().chance(40) ? maker.like(x.shape())
                                              : maker.leaf(x.shape().with(d, maker.size()));
  call.attributes = d;
  const Ref own = call.inputs[0];
  if (maker.choice().chance(50))
    call.inputs = {own, other};
  else if (maker.choice().chance(50))
    call.inputs = {other, own};
  else
    call.inputs = {own, other, own};
  return true;
}

SOMA_INLINE bool stack_rule(Maker& maker, const Known& x, Call& call) {
  call.attributes = DimensionSetting{maker.choice().below(x.shape().rank() + 1)};
  call.inputs.push_back(maker.like(x.shape()));
  if (maker.choice().chance(30)) call.inputs.push_back(call.inputs[0]);
  return true;
}

SOMA_INLINE bool pad_rule(Maker& maker, const Known& x, Call& call) {
  PadSetting setting{.value = maker.choice().chance(50) ? 0.0f : -0.75f};
  for (std::size_t i = 0; i < (std::min)(x.shape().rank(), PadSetting::most); ++i) {
    setting.before[PadSetting::most - 1 - i] = maker.choice().below(3);
    setting.behind[PadSetting::most - 1 - i] = maker.choice().below(3);
  }
  call.attributes = setting;
  return true;
}

SOMA_INLINE bool gather_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank());
  if (x.shape()[d] == 0) return false;
  std::vector<std::size_t> sizes(x.shape().begin(), x.shape().end());
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (i == d)
      sizes[i] = maker.size();
    else if (maker.choice().chance(30))
      sizes[i] = (sizes[i] + 1) / 2;
  call.attributes = DimensionSetting{d};
  call.inputs.push_back(maker.whole_numbers(Shape(sizes),
                                            maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(x.shape()[d]) - 1));
  return true;
}

SOMA_INLINE bool index_select_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank());
  if (x.shape()[d] == 0) return false;
  call.attributes = DimensionSetting{d};
  call.inputs.push_back(maker.whole_numbers(Shape{maker.size()},
                                            maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(x.shape()[d]) - 1));
  return true;
}

SOMA_INLINE bool over_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank());
  call.attributes = DimensionSetting{d};
  return x.shape()[d] > 0;
}

SOMA_INLINE bool scatter_add_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank());
  if (x.shape()[d] == 0) return false;
  std::vector<std::size_t> sizes(x.shape().begin(), x.shape().end());
  sizes[d] = maker.size();
  const Ref values = maker.leaf(Shape(sizes));
  for (std::size_t& size : sizes)
    if (maker.choice().chance(20)) size = (size + 1) / 2;
  call.attributes = DimensionSetting{d};
  call.inputs.push_back(values);
  call.inputs.push_back(maker.whole_numbers(Shape(sizes),
                                            maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(x.shape()[d]) - 1));
  return true;
}

// Elements that change places have no derivative; nearly equal ones have other places on a core,
// whose functions are less exact.
SOMA_INLINE bool apart(const Known& x, std::size_t dimension) {
  const std::size_t size = x.shape()[dimension];
  std::size_t inner = 1;
  for (std::size_t i = dimension + 1; i < x.shape().rank(); ++i) inner *= x.shape()[i];
  const std::vector<double>& values = x.value.values;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i + inner; j < values.size() && j / (inner * size) == i / (inner * size);
         j += inner)
      if (std::fabs(values[i] - values[j]) < 1e-6) return false;
  return true;
}

SOMA_INLINE bool top_k_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t d = maker.choice().below(x.shape().rank()), size = x.shape()[d];
  call.attributes =
      TopKSetting{d, size == 0 ? 0 : 1 + maker.choice().below(size), maker.choice().chance(50)};
  return size > 0 && apart(x, d);
}

SOMA_INLINE bool where_rule(Maker& maker, const Known& x, Call& call) {
  const Ref condition =
      maker.whole_numbers(maker.choice().chance(50) ? x.shape() : narrower(maker, x.shape()),
                          maker.choice().of({DType::uint8, DType::boolean, DType::int8}), 0, 1);
  const Ref other =
      maker.choice().chance(50) ? maker.like(x.shape()) : maker.leaf(narrower(maker, x.shape()));
  const bool turned = maker.choice().chance(50);
  call.inputs = {condition, turned ? other : call.inputs[0], turned ? call.inputs[0] : other};
  return true;
}

SOMA_INLINE bool norm_rule(Maker& maker, const Known& x, Call& call) {
  const NormSetting setting{maker.choice().of({1e-3f, 1e-1f}), maker.choice().chance(40)};
  const Shape columns{x.shape().columns()};
  if (columns[0] == 0) return false;
  call.attributes = setting;
  call.inputs.push_back(maker.leaf(columns, 0.5, 1.5));
  if (!setting.rms) call.inputs.push_back(maker.leaf(columns));
  return true;
}

SOMA_INLINE bool batch_norm_rule(Maker& maker, const Known& x, Call& call) {
  const Shape channels{x.shape()[1]};
  const bool given = maker.choice().chance(30);
  if (!given && x.shape().elements() / (std::max)(channels[0], std::size_t{1}) < 2) return false;
  call.attributes = BatchNormSetting{1e-2f, given, nullptr};
  call.inputs.push_back(maker.leaf(channels, 0.5, 2));
  call.inputs.push_back(maker.leaf(channels));
  if (given) {
    call.inputs.push_back(maker.leaf(channels, -1, 1, true));
    call.inputs.push_back(maker.leaf(channels, 0.5, 2, true));
  }
  return true;
}

SOMA_INLINE DropoutSetting dropout_in(Maker& maker) {
  return {.probability = maker.choice().of({0.25f, 0.5f}),
          .draw = {.seed = 5, .stream = static_cast<std::uint32_t>(maker.choice().below(100))}};
}

SOMA_INLINE bool dropout_rule(Maker& maker, const Known&, Call& call) {
  call.attributes = dropout_in(maker);
  return true;
}

SOMA_INLINE bool linear_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t k = x.shape().columns(), n = maker.size();
  if (n * k > most_elements || x.shape().rows() * n > most_elements) return false;
  LinearSetting setting;
  setting.activation =
      maker.choice().of({Activation::none, Activation::none, Activation::gelu, Activation::relu,
                         Activation::tanh, Activation::gelu_tanh});
  if (maker.choice().chance(15)) setting.dropout = dropout_in(maker);
  call.attributes = setting;
  const Shape y = x.shape().with(x.shape().rank() - 1, n);
  call.inputs.push_back(maker.leaf(Shape{n, k}));
  call.inputs.push_back(maker.choice().chance(60) ? maker.leaf(Shape{n}) : Ref{});
  call.inputs.push_back(maker.choice().chance(30) ? maker.like(y) : Ref{});
  return true;
}

SOMA_INLINE bool matmul_rule(Maker& maker, const Known& x, Call& call) {
  const Shape& a = x.shape();
  const std::size_t rank = a.rank(), n = maker.size();
  const bool stack = rank > 2 && maker.choice().chance(60);
  MatmulSetting setting;
  setting.transpose_a = (stack || rank == 2) && maker.choice().chance(30);
  setting.transpose_b = maker.choice().chance(40);
  const std::size_t k = setting.transpose_a ? a[rank - 2] : a.columns();
  Shape b = setting.transpose_b ? Shape{n, k} : Shape{k, n};
  if (stack) b = a.with(rank - 2, b[0]).with(rank - 1, b[1]);
  if (b.elements() > most_elements || a.elements() * n > 20 * most_elements) return false;
  call.attributes = setting;
  call.inputs.push_back(maker.choice().chance(30) ? maker.like(b) : maker.leaf(b));
  return true;
}

SOMA_INLINE bool embedding_rule(Maker& maker, const Known& x, Call& call) {
  if (x.shape()[0] == 0) return false;
  const Shape ids = maker.shape(maker.choice().below(3));
  if (ids.elements() * x.shape()[1] > most_elements) return false;
  call.attributes = EmbeddingSetting{maker.choice().chance(50)};
  call.inputs.push_back(maker.whole_numbers(ids, maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(x.shape()[0]) - 1));
  return true;
}

SOMA_INLINE bool label_loss_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t columns = x.shape().columns();
  if (x.shape().rank() == 0 || columns == 0 || x.shape().rows() == 0) return false;
  if (maker.greatest(x) > 30) return false;
  CrossEntropySetting setting;
  setting.reduction =
      maker.choice().of({LossReduction::mean, LossReduction::sum, LossReduction::none});
  if (call.name == "cross_entropy" && maker.choice().chance(40)) setting.label_smoothing = 0.25f;
  call.attributes = setting;
  std::vector<std::size_t> sizes(x.shape().begin(), x.shape().end() - 1);
  call.inputs.push_back(maker.whole_numbers(Shape(sizes),
                                            maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(columns) - 1));
  return true;
}

SOMA_INLINE bool head_loss_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t rows = x.shape()[0], width = x.shape()[1], classes = maker.size();
  if (rows == 0 || classes == 0 || classes * width > most_elements || maker.greatest(x) > 8)
    return false;
  CrossEntropySetting setting;
  setting.reduction =
      maker.choice().of({LossReduction::mean, LossReduction::sum, LossReduction::none});
  if (maker.choice().chance(30)) setting.label_smoothing = 0.25f;
  if (maker.choice().chance(30)) setting.ignore_index = 0;
  setting.denominator = static_cast<double>(rows);  // no row may have a label: 0 / 0
  call.attributes = setting;
  call.inputs.push_back(maker.leaf(Shape{classes, width}));
  call.inputs.push_back(maker.whole_numbers(Shape{rows},
                                            maker.choice().of({DType::int32, DType::int64}), 0,
                                            static_cast<double>(classes) - 1));
  call.inputs.push_back(maker.choice().chance(30) ? maker.leaf(Shape{classes}) : Ref{});
  return true;
}

SOMA_INLINE bool element_loss_rule(Maker& maker, const Known& x, Call& call) {
  if (x.shape().elements() == 0 || maker.greatest(x) > 100) return false;
  ElementLossSetting setting;
  setting.loss = maker.choice().of(
      {ElementLoss::squared_error, ElementLoss::binary_cross_entropy_logits,
       ElementLoss::absolute_error, ElementLoss::huber, ElementLoss::smooth_absolute,
       ElementLoss::hinge, ElementLoss::divergence});
  setting.reduction =
      maker.choice().of({LossReduction::mean, LossReduction::sum, LossReduction::none});
  setting.parameter = maker.choice().of({0.5f, 1.0f});
  call.attributes = setting;
  call.inputs.push_back(maker.leaf(x.shape(), 0.125, 1, true));
  return true;
}

SOMA_INLINE bool cosine_rule(Maker& maker, const Known& x, Call& call) {
  if (x.shape().elements() == 0) return false;
  const std::size_t columns = x.shape().columns();
  for (std::size_t row = 0; row < x.shape().rows(); ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      const double value = x.value.values[row * columns + i];
      squares += value * value;
    }
    if (squares < 1e-4) return false;  // gradients of rows near 0 are greater than fp16 holds
  }
  call.attributes = CosineLossSetting{
      maker.choice().of({0.0f, -0.5f, 0.25f}),
      maker.choice().of({LossReduction::mean, LossReduction::sum, LossReduction::none}), 0};
  std::vector<double> marks;
  for (std::size_t i = 0; i < x.shape()[0]; ++i)
    marks.push_back(maker.choice().chance(50) ? 1 : -1);
  call.inputs.push_back(maker.leaf(x.shape(), 0.25, 1));
  call.inputs.push_back(maker.listed(Shape{x.shape()[0]}, DType::fp32, marks));
  return true;
}

SOMA_INLINE bool batch_mean_rule(Maker& maker, const Known& x, Call& call) {
  if (x.shape().elements() == 0) return false;
  call.inputs.push_back(maker.leaf(x.shape(), 0.125, 1, true));
  return true;
}

SOMA_INLINE bool attention_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t columns = x.shape()[1];
  const bool apart = columns % 3 != 0 || maker.choice().chance(20);
  const std::size_t channels = columns / (apart ? 2 : 3);
  if (channels == 0 || columns % (apart ? 2 : 3) != 0 || maker.greatest(x) > 8) return false;
  AttentionSetting setting;
  setting.heads = maker.choice().of({std::size_t{1}, std::size_t{2}, channels});
  if (channels % setting.heads != 0) setting.heads = 1;
  setting.causal = maker.choice().chance(40);
  if (maker.choice().chance(15)) setting.dropout = dropout_in(maker);
  call.attributes = setting;
  if (apart) call.inputs.push_back(maker.leaf(Shape{x.shape()[0], channels}));
  return maker.sequences(x, call);
}

SOMA_INLINE bool recurrent_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t gates = call.name == "lstm" ? 4 : 3, columns = x.shape()[1];
  const std::size_t hidden = columns / gates;
  if (hidden == 0 || columns % gates != 0 || hidden > 8 || !maker.sequences(x, call)) return false;
  const std::size_t count = call.lengths.empty() ? x.lengths.size() : call.lengths.size();
  call.attributes = RecurrentSetting{maker.choice().chance(40)};
  call.inputs.push_back(maker.leaf(Shape{columns, hidden}, -0.5, 0.5));
  call.inputs.push_back(maker.choice().chance(50) ? maker.leaf(Shape{columns}) : Ref{});
  const bool state = maker.choice().chance(40);
  call.inputs.push_back(state ? maker.leaf(Shape{count, hidden}) : Ref{});
  if (gates == 4) call.inputs.push_back(state ? maker.leaf(Shape{count, hidden}) : Ref{});
  return true;
}

SOMA_INLINE bool gated_rule(Maker& maker, const Known& x, Call&) {
  return x.shape().columns() % 2 == 0 && maker.greatest(x) < 30;
}

SOMA_INLINE bool rotary_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t columns = x.shape().columns();
  if (columns == 0 || columns % 2 != 0) return false;
  call.attributes = RotarySetting{.heads = columns % 4 == 0 ? maker.choice().of({1u, 2u}) : 1u,
                                  .base = 100,
                                  .first_position = maker.choice().below(5)};
  return x.shape().rank() != 2 || maker.sequences(x, call);
}

SOMA_INLINE bool sequence_first_rule(Maker& maker, const Known& x, Call& call) {
  if (!maker.sequences(x, call)) return false;
  for (const std::size_t length : call.lengths.empty() ? x.lengths : call.lengths)
    if (length == 0) return false;
  return true;
}

SOMA_INLINE bool rnn_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t hidden = x.shape()[1];
  if (hidden == 0 || hidden > 8 || !maker.sequences(x, call)) return false;
  const std::size_t count = call.lengths.empty() ? x.lengths.size() : call.lengths.size();
  call.attributes = RnnSetting{maker.choice().chance(40), maker.choice().chance(40)};
  call.inputs.push_back(maker.leaf(Shape{hidden, hidden}, -0.5, 0.5));
  call.inputs.push_back(maker.choice().chance(50) ? maker.leaf(Shape{hidden}) : Ref{});
  call.inputs.push_back(maker.choice().chance(40) ? maker.leaf(Shape{count, hidden}) : Ref{});
  return true;
}

// The reference goes through all ways to spread labels over a sequence.
SOMA_INLINE bool ctc_rule(Maker& maker, const Known& x, Call& call) {
  const std::size_t classes = x.shape()[1];
  if (classes < 2 || classes > 5 || maker.greatest(x) > 30 || !maker.sequences(x, call))
    return false;
  const std::vector<std::size_t>& lengths = call.lengths.empty() ? x.lengths : call.lengths;
  const std::size_t blank = maker.choice().below(classes);
  std::vector<double> labels, begins{0};
  for (const std::size_t length : lengths) {
    if (length > 5) return false;
    for (std::size_t left = maker.choice().below(length / 2 + 1); left > 0; --left)
      labels.push_back(
          static_cast<double>((blank + 1 + maker.choice().below(classes - 1)) % classes));
    begins.push_back(static_cast<double>(labels.size()));
  }
  call.attributes = CtcSetting{.blank = blank};
  const Shape all{labels.size()}, borders{begins.size()};
  call.inputs.push_back(
      maker.listed(all, maker.choice().of({DType::int32, DType::int64}), std::move(labels)));
  call.inputs.push_back(maker.listed(borders, DType::int64, std::move(begins)));
  return true;
}

SOMA_INLINE bool sequence_pool_rule(Maker& maker, const Known& x, Call& call) {
  const bool largest = maker.choice().chance(50);
  call.attributes = SequencePoolSetting{largest};
  return sequence_first_rule(maker, x, call) && (!largest || apart(x, 0));
}

SOMA_INLINE bool cast_rule(Maker& maker, const Known& x, Call& call) {
  DType to = maker.choice().of({DType::fp32, DType::bf16, DType::fp16, DType::bf16, DType::fp32});
  if (!x.gradient && maker.choice().chance(30) && maker.greatest(x) < 100)
    to = maker.choice().of({DType::fp8_e4m3, DType::fp8_e5m2, DType::fp8_e4m3fn});
  call.attributes = CastSetting{to, {}, {}};
  return true;
}

SOMA_INLINE bool quantize_rule(Maker& maker, const Known& x, Call& call) {
  QuantizeSetting setting;
  setting.quantizer.format =
      maker.choice().of({formats::fp8_e4m3fn, formats::fp8_e5m2, formats::fp8_e4m3});
  if (maker.choice().chance(60))
    setting.quantizer.scaling = {
        .policy = ScalePolicy::current,
        .granularity = maker.choice().of({Granularity::tensor, Granularity::row}),
        .format = ScaleFormat::power_of_two};
  call.attributes = setting;
  for (const double value : x.value.values)  // the scale of what is nearly 0 is anything
    if (!(std::fabs(value) > 1e-3)) return false;
  return x.shape().elements() > 0 && maker.greatest(x) < 15;
}

SOMA_INLINE bool plain_rule(Maker&, const Known&, Call&) { return true; }

struct NamedRule {
  std::string_view name;
  Rule rule;
  std::uint32_t ranks;  // bit r: x may have rank r
};
inline constexpr std::uint32_t any_rank = 0b111111, images = 0b10000, matrices = 0b100;
inline constexpr NamedRule named_rules[] = {
    {"attention", &attention_rule, matrices},
    {"average_pool", &pool_rule, images},
    {"batch_norm", &batch_norm_rule, 0b111100},
    {"cast", &cast_rule, any_rank},
    {"concatenate", &concatenate_rule, 0b111110},
    {"convolution", &convolution_rule, images},
    {"convolution_transpose", &convolution_transpose_rule, images},
    {"cosine_loss", &cosine_rule, matrices},
    {"cross_entropy", &label_loss_rule, 0b111110},
    {"cumsum", &over_rule, 0b111110},
    {"dropout", &dropout_rule, any_rank},
    {"element_loss", &element_loss_rule, any_rank},
    {"embedding", &embedding_rule, matrices},
    {"gated", &gated_rule, 0b111110},
    {"gather", &gather_rule, 0b111110},
    {"gru", &recurrent_rule, matrices},
    {"rnn", &rnn_rule, matrices},
    {"ctc_loss", &ctc_rule, matrices},
    {"head_loss", &head_loss_rule, matrices},
    {"linear", &linear_rule, 0b111110},
    {"lstm", &recurrent_rule, matrices},
    {"matmul", &matmul_rule, 0b111100},
    {"max_pool", &pool_rule, images},
    {"nll_loss", &label_loss_rule, 0b111110},
    {"norm", &norm_rule, 0b111110},
    {"pad", &pad_rule, 0b111110},
    {"quantize", &quantize_rule, 0b111110},
    {"reduce", &reduce_rule, any_rank},
    {"reshape", &reshape_rule, any_rank},
    {"resize", &resize_rule, images},
    {"rotary", &rotary_rule, 0b111100},
    {"scatter_add", &scatter_add_rule, 0b111110},
    {"sequence_first", &sequence_first_rule, matrices},
    {"sequence_pool", &sequence_pool_rule, matrices},
    {"slice", &slice_rule, 0b111110},
    {"softmax", &softmax_rule, 0b111110},
    {"top_k", &top_k_rule, 0b111110},
    {"transpose", &transpose_rule, 0b111100},
    {"where", &where_rule, any_rank},
    {"clamp", &parametric_rule, any_rank},
    {"power", &parametric_rule, any_rank},
    {"leaky_relu_with_slope", &parametric_rule, any_rank},
    {"add", &binary_rule, any_rank},
    {"subtract", &binary_rule, any_rank},
    {"multiply", &binary_rule, any_rank},
    {"divide", &binary_rule, any_rank},
    {"maximum", &binary_rule, any_rank},
    {"minimum", &binary_rule, any_rank},
    {"tape::detach", &plain_rule, any_rank},
    {"tape::softmax", &over_rule, 0b111110},
    {"tape::log_softmax", &over_rule, 0b111110},
    {"tape::index_select", &index_select_rule, 0b111110},
    {"tape::max", &over_rule, 0b111110},
    {"tape::min", &over_rule, 0b111110},
    {"tape::stack", &stack_rule, 0b011111},
    {"tape::kl_div_batch_mean", &batch_mean_rule, 0b111110},
};

SOMA_INLINE Rule rule_of(std::string_view name) {
  for (const NamedRule& rule : named_rules)
    if (rule.name == name) return rule.rule;
  for (const UnaryFunction& function : unary_functions)
    if (function.name == name) return &unary_rule;
  return nullptr;
}

SOMA_INLINE std::uint32_t ranks_of(std::string_view name) {
  for (const NamedRule& rule : named_rules)
    if (rule.name == name) return rule.ranks;
  return any_rank;
}

}  // namespace SOMA_NAMESPACE::testing::detail

#pragma once
// Element-wise functions with a setting: y = clamp(x, low, high), x^exponent, and leaky ReLU with
// any slope. y has x's type; computed in fp32 (powers in double), rounded once.

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/element/settings.hpp>
#include <soma/ops/elementwise.hpp>
#include <soma/ops/run.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// x, limited to low .. high; NaN stays.
struct Clamp {
  static constexpr std::string_view name = "clamp", backward_name = "clamp backward";
  using Setting = ClampSetting;
  static void check(const Setting& setting) {
    if (!(setting.low <= setting.high))
      fail(error_id::operator_value, name, "low",
           std::to_string(setting.low) + ", above high, " + std::to_string(setting.high),
           "at most high");
  }
  template <class T>
  static T value(const Setting& setting, T x) {
    const T low = static_cast<T>(setting.low), high = static_cast<T>(setting.high);
    return x < low ? low : x > high ? high : x;
  }
  // At the bounds the gradient passes.
  static float gradient(const Setting& setting, float x, float dy) {
    return x < setting.low || x > setting.high ? 0 : dy;
  }
};

// x^exponent, and dy exponent x^(exponent - 1), which is 0 if the exponent is 0. Infinities and NaN
// as in IEEE 754's pow, a zero counts as +0; NaN for x below zero, unless the exponent is whole.
struct Power {
  static constexpr std::string_view name = "power", backward_name = "power backward";
  using Setting = PowerSetting;
  static double power(double x, double exponent) {
    const double size = std::fabs(exponent);
    if (!(size < 0x1p40) || size != std::floor(size)) return portable_pow(x, exponent);
    const double whole = portable_power(x, static_cast<std::uint64_t>(size));
    return exponent < 0 ? 1 / whole : whole;
  }
  template <class T>
  static T value(const Setting& setting, T x) {
    return static_cast<T>(power(static_cast<double>(x), static_cast<double>(setting.exponent)));
  }
  static float gradient(const Setting& setting, float x, float dy) {
    const auto exponent = static_cast<double>(setting.exponent);
    if (exponent == 0) return 0;
    const double slope = exponent * power(static_cast<double>(x), exponent - 1);
    return static_cast<float>(static_cast<double>(dy) * slope);
  }
};

// x for x >= 0, else slope x. At zero the gradient is that of the negative side.
struct Leaky {
  static constexpr std::string_view name = "leaky_relu with slope",
                                    backward_name = "leaky_relu with slope backward";
  using Setting = LeakySetting;
  template <class T>
  static T value(const Setting& setting, T x) {
    return x < 0 ? x * static_cast<T>(setting.slope) : x;
  }
  static float gradient(const Setting& setting, float x, float dy) {
    return x > 0 ? dy : dy * setting.slope;
  }
};

template <class Function>
void parametric_shape(const ShapeCall& call) {
  check_floating(Function::name, "x", call.inputs[0]);
  if constexpr (requires { &Function::check; })
    Function::check(call.attributes.as<typename Function::Setting>());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
template <class Function>
void parametric_host(const OperatorCall& call) {
  run_chunks(call, [](const Chunk& chunk) {
    const auto setting = chunk.attributes.as<typename Function::Setting>();
    for (std::size_t i = 0; i < chunk.count; ++i)
      chunk.output[i] = Function::value(setting, chunk.inputs[0][i]);
  });
}
template <class Function>
void parametric_backward_shape(const ShapeCall& call) {
  check_shape(Function::backward_name, "dy", call.inputs[1], call.inputs[0].shape());
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
template <class Function>
void parametric_backward_host(const OperatorCall& call) {
  run_chunks(call, [](const Chunk& chunk) {
    const auto setting = chunk.attributes.as<typename Function::Setting>();
    for (std::size_t i = 0; i < chunk.count; ++i)
      chunk.output[i] = Function::gradient(setting, chunk.inputs[0][i], chunk.inputs[1][i]);
  });
}
template <class Function>
void parametric_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

// Inputs x, dy; output dx.
template <class Function>
inline constexpr Operator parametric_backward{.name = Function::backward_name,
                                              .min_inputs = 2,
                                              .max_inputs = 2,
                                              .shape = &detail::parametric_backward_shape<Function>,
                                              .host = &detail::parametric_backward_host<Function>};

template <class Function>
constexpr Operator Parametric<Function>::record{.name = Function::name,
                                                .keeps_inputs = 1,
                                                .shape = &detail::parametric_shape<Function>,
                                                .host = &detail::parametric_host<Function>,
                                                .gradient = &detail::parametric_gradient<Function>,
                                                .wide_gradients = true,
                                                .built_in_samples = true};
template <class Function>
inline constexpr const Operator& parametric = Parametric<Function>::record;

}  // namespace ops

template <class Function>
void detail::parametric_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::parametric_backward<Function>, call.attributes,
          {call.inputs[0], call.output_gradients[0]})[0];
}

}  // namespace SOMA_NAMESPACE

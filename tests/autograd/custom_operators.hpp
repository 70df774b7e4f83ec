// Operators of one's own that several tests register, and a context to register them in.
#pragma once

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"

#include <cmath>
#include <cstddef>

namespace soma_test {

struct Slope {
  float value = 0.25f;
};

struct Fixture {
  soma::Context context{{.threads = 2}, soma::make_context().targets()};
  soma::OperatorRegistry& operators = context.operators();
  soma::Tape tape{context};
};

// Rows divided by their length; the lengths are a second output, kept for the gradient.
inline soma::CustomOperator<> unit_rows() {
  return {.inputs = 1,
          .outputs = 2,
          .shape =
              [](const soma::ShapeCall& call) {
                soma::detail::check_rank("test::unit_rows", "x", call.inputs[0], 2);
                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
                call.outputs[1] = {soma::Shape{call.inputs[0].size(0)}, soma::DType::fp32};
              },
          .host =
              [](const soma::OperatorCall& call) {
                const soma::View<const float> x = call.inputs[0].view<float>();
                const soma::View<float> y = call.outputs[0].mutable_view<float>();
                const soma::View<float> length = call.outputs[1].mutable_view<float>();
                for (std::size_t r = 0; r < x.shape[0]; ++r) {
                  float sum = 0;
                  for (std::size_t c = 0; c < x.shape[1]; ++c) sum += x(r, c) * x(r, c);
                  length(r) = std::sqrt(sum);
                  for (std::size_t c = 0; c < x.shape[1]; ++c) y(r, c) = x(r, c) / length(r);
                }
              },
          // dx = (dy - y (dy . y)) / length
          .gradient =
              [](const soma::GradientCall& call) {
                const soma::View<const float> y = call.outputs[0].view<float>();
                const soma::View<const float> length = call.outputs[1].view<float>();
                const soma::View<const float> dy = call.output_gradients[0].view<float>();
                const soma::Tensor& x = call.inputs[0];  // its elements were not kept
                const soma::Tensor gradient =
                    soma::Tensor::empty(call.context, x.shape(), x.dtype());
                const soma::View<float> dx = gradient.mutable_view<float>();
                for (std::size_t r = 0; r < y.shape[0]; ++r) {
                  float dot = 0;
                  for (std::size_t c = 0; c < y.shape[1]; ++c) dot += dy(r, c) * y(r, c);
                  for (std::size_t c = 0; c < y.shape[1]; ++c)
                    dx(r, c) = (dy(r, c) - y(r, c) * dot) / length(r);
                }
                call.input_gradients[0].values = gradient;
              },
          .samples =
              [] {
                soma::OperatorSamples samples;
                samples.samples = {{.name = "[3, 5]", .inputs = {{.shape = {3, 5}}}},
                                   {.name = "[0, 2]", .inputs = {{.shape = {0, 2}}}}};
                return samples;
              },
          .keeps_inputs = 0};
}

inline void expect_passed(const soma::testing::Report& report) {
  INFO(to_string(report));
  CHECK(report.passed());
  CHECK(report.checks > 20);
}

}  // namespace soma_test
